"""The connected client: its traits, the output to it, and the formatting of contents."""

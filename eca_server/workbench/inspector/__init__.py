"""The inspector: a page with the messages of a recorded conversation, and its protocol errors.

`eca-server inspect` serves the page on this machine or writes it as one file. It reads the
transcript of `tap`, even while `tap` writes it, so that the page never delays the conversation.
"""

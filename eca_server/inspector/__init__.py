"""The inspector: a page that shows a recorded conversation, message by message, and its faults.

`eca-server inspect` serves it on this machine or writes it as one file. It reads the transcript
that `tap` writes, also while `tap` still writes it, so that no conversation is ever held up by
whoever looks at it.
"""

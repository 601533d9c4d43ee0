"""Edits of the user's document by a model: rewrites of a selection, and completions.

The rule of this package: it is independent of chats. Its requests are in no chat's history, usage
or title, and no chat's history is sent to the model.
"""

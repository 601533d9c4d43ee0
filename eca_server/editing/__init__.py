"""What a model writes into the user's own document: a selection made anew, a line completed.

The rule it keeps: neither knows of chats. What is asked and answered here is in no chat's history,
usage or title, and nothing of a chat is told to the model.
"""

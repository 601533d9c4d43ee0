"""The handlers of the protocol, a module per chapter: translate, call the feature, answer.

`composition` makes the parts of a connection, `handlers` the chapters, each with its first message.
"""

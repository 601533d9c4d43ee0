"""The configuration: typed, merged from several sources, its references resolved.

`loading.load` is the entry point: a pure function of its arguments and of the files they lead to.
"""

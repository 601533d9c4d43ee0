"""The ECA protocol for Python: framing, JSON-RPC, typed messages, an async peer and a client.

Nothing is imported until it is used: `import eca_protocol` loads no async library and no HTTP.
"""

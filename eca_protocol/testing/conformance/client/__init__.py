"""The conformance suite for clients: scripted servers for a client under test.

A client does what its user does, so no case can control it. Each scenario therefore starts the
client anew, lets it do the same each time, and deviates in one point from a plain server. A
conformant client gets as far as with the plain server.
"""

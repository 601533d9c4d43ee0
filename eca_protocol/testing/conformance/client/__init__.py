"""The other half of the conformance suite: it plays the server for a client under test.

A client does what its user does, so no case can tell it what to do. Each play therefore starts the
client anew, lets it do what it does every time, and is one odd thing beside an otherwise plain
server; a client that keeps to the protocol gets as far as it gets with the plain one.
"""

"""Complete sessions with an ECA server: random tests of a live server, and strategies.

`python -m eca_protocol.testing.sessions -- COMMAND...` and `check.check_sessions` test a server;
`strategies` generates sessions without one. The modules that replay a failure (`wire`, `model`,
`signatures`, `state`, `session`) do not need hypothesis.
"""

"""Random sessions with a live ECA server.

`python -m eca_protocol.testing.sessions -- COMMAND...` and `check.check_sessions` test a server.
The modules that replay a failure (`wire`, `model`, `signatures`, `state`, `session`) do not need
hypothesis.
"""

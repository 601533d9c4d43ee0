"""Whole sessions with an ECA server: as strategies, and as a stateful model of a live one.

`python -m eca_protocol.testing.sessions -- COMMAND...` and `check.check_sessions` run the model,
`strategies` has the sessions that need no server. Nothing here is loaded before it is asked for:
what plays the steps of a failure (`wire`, `model`, `rules`, `session`) needs no hypothesis.
"""

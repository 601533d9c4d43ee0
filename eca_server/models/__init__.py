"""Models: one `Backend` for each wire API, and the layers above the backends.

From the ground up: `backend` (the protocol), `events`, `history` (with its repair), `errors`,
`answer` (events to a message), a package for each API, `simulator`, `retry`, `provider` (its
settings, key and listed models), `backends` (one for each model), `models`.
"""

"""Models: one `Backend` for each wire API, and what stands above them all.

From the ground up: `backend` (events, history, the protocol), `errors`, `history` (repair),
`answer` (events -> a message), one or two files for each API, `simulator`, `retry`, `providers`.
"""

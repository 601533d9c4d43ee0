"""Commands in a sandbox: bubblewrap on Linux, `sandbox-exec` on macOS.

The order of the work: `detect` (the abilities of this machine), `survey` (guarded paths on the
disk), `plan` (the paths that a command may read and write; pure), `bubblewrap` and `seatbelt` (the
plan as a command line or a profile; pure), `sandbox` (all of it around one command), `hints` (signs
that the sandbox caused a failure).
"""

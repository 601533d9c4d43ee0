"""Commands in a sandbox: bubblewrap on Linux, `sandbox-exec` on macOS.

The order of the work: `detect` (can this machine do it), `survey` (what is on the disk), `plan`
(what a command may read and write; pure), `bubblewrap` and `seatbelt` (the plan as a command line
or a profile; pure), `sandbox` (all of it around one command), `signs` (whether a failure looks like
the sandbox's doing).
"""

from eca_server.sandbox.detect import Capability, capability
from eca_server.sandbox.sandbox import Sandbox, Visit, sandbox_for
from eca_server.sandbox.signs import is_setup_failure, sandbox_hint
from eca_server.sandbox.survey import TooLarge

__all__ = [
    "Capability",
    "Sandbox",
    "TooLarge",
    "Visit",
    "capability",
    "is_setup_failure",
    "sandbox_for",
    "sandbox_hint",
]

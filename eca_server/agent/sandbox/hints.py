"""Hints for the model that the sandbox may have stopped a command, from its output. Pure.

The user is not asked because of a hint: an output can contain anything, and most failures have
other causes. A wrong hint costs one sentence; a missing one costs nothing, since the model may ask
to run outside at any time. The exit code is ignored: a pipeline can succeed although the sandbox
stopped its first command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_WRITES = re.compile(
    r"read-only file ?system|\bEROFS\b|operation not permitted|\bEPERM\b"
    r"|permission denied|\bEACCES\b|device or resource busy|\bEBUSY\b|cross-device link|\bEXDEV\b",
    re.IGNORECASE,
)
_NETWORK = re.compile(
    r"network is unreachable|\bENETUNREACH\b|could not resolve|\bEAI_AGAIN\b|\bENOTFOUND\b"
    r"|temporary failure in name resolution|name or service not known|no route to host"
    r"|connection refused|\bECONNREFUSED\b|nodename nor servname|failed to lookup address"
    r"|dial tcp|dns error",
    re.IGNORECASE,
)
_SETUP = re.compile(r"\A\s*(?:bwrap|sandbox-exec): ")


def sandbox_hint(stderr: str, stdout: str, *, network: bool, may_leave: bool) -> str:
    """Return a sentence for the model if an output has a sign of the sandbox, or an empty text.

    `may_leave`: whether the model may ask to run the command outside.
    """
    if _SETUP.search(stderr):
        why = "The sandbox could not be set up for this command."
    elif _WRITES.search(stderr) or _WRITES.search(stdout):
        why = (
            "The command ran in a sandbox, which may have caused the failure: it can write only in "
            "the workspace and in /tmp, not to guarded paths such as `.git`, and it cannot read "
            "credentials."
        )
    elif not network and (_NETWORK.search(stderr) or _NETWORK.search(stdout)):
        why = "The command ran in a sandbox without network, which may have caused the failure."
    else:
        return ""
    if not may_leave:
        return f"{why} Do not retry: commands cannot run outside the sandbox here."
    return f"{why} If so, call again with `outside_sandbox: true`; the user must approve it."


def is_setup_failure(texts: Sequence[str]) -> bool:
    """Return whether bubblewrap failed before the command ran: stderr is one line of bubblewrap.

    A command that writes such a line itself only runs in the sandbox once more.
    """
    return len(texts) >= 2 and _FAILED.fullmatch(texts[1]) is not None


_FAILED = re.compile(r"Stderr:\nbwrap: Can't [^\n]*\n?")

"""Signs in the output of a command that the sandbox stopped it. Pure.

The answer is a hint for the model, and no question to the user: an output can say anything, and
most failures have other causes. So a wrong hint costs one sentence, and a missing one costs
nothing, since the model may ask to run outside at any time. The exit code is not asked: the last
command of a pipeline ends well where the first was stopped.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["is_setup_failure", "sandbox_hint"]

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

    Args:
        stderr: what the command wrote there.
        stdout: the same.
        network: whether the sandbox lets the network through.
        may_leave: whether the model may ask to run the command outside.
    """
    if _SETUP.search(stderr):
        why = "The sandbox could not be set up for this command."
    elif _WRITES.search(stderr) or _WRITES.search(stdout):
        why = (
            "The command ran in a sandbox, which may be the reason: it can write only in the "
            "workspace and in /tmp, not to guarded paths such as `.git`, and it cannot read keys."
        )
    elif not network and (_NETWORK.search(stderr) or _NETWORK.search(stdout)):
        why = "The command ran in a sandbox without a network, which may be the reason."
    else:
        return ""
    if not may_leave:
        return f"{why} Commands never run outside of it here."
    return f"{why} If so, call again with `outside_sandbox: true`: the user is asked."


def is_setup_failure(texts: Sequence[str]) -> bool:
    """Return whether bubblewrap, not the command, has failed: it says one line, and nothing ran.

    A command that only looks like that runs in the sandbox once more, and that is all.

    Args:
        texts: what the model would be told of the end of the command.
    """
    return len(texts) >= 2 and _FAILED.fullmatch(texts[1]) is not None


_FAILED = re.compile(r"Stderr:\nbwrap: Can't [^\n]*\n?")

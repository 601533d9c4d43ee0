"""The ability of this machine to run a command in a sandbox: found out once, by doing it.

The rule of this module: nothing is tried before a command needs it, and the answer is one for the
process. A program that is there proves nothing: a kernel, a container or AppArmor may forbid what
the program needs.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

import attrs

from eca_server.sandbox import bubblewrap, seatbelt

__all__ = ["Capability", "capability", "forget", "try_sandbox"]

Kind: TypeAlias = Literal["bubblewrap", "sandbox-exec"]

_SECONDS = 10.0
_SHOWN = 300
_SEATBELT = "/usr/bin/sandbox-exec"
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin"


@attrs.frozen(kw_only=True)
class Capability:
    """The sandbox that this machine can make, or the reason why it cannot.

    Attributes:
        kind: the program; None: no command can run in a sandbox.
        program: its path.
        can_close: whether bubblewrap can forbid further namespaces in the sandbox.
        why_not: the reason, and what to do, if there is no program that works.
    """

    kind: Kind | None = None
    program: str = ""
    can_close: bool = False
    why_not: str = ""

    @property
    def state(self) -> str:
        """Return what `/doctor` says of it."""
        return f"{self.kind} ({self.program})" if self.kind else f"not usable: {self.why_not}"


_known: list[Capability] = []


def capability() -> Capability:
    """Return what this machine can do; the first call tries it, and takes some milliseconds."""
    if not _known:
        _known.append(try_sandbox())
    return _known[0]


def forget() -> None:
    """Forget what was found: the next question tries again."""
    _known.clear()


def try_sandbox(
    *,
    platform: str = sys.platform,
    find: Callable[[str], str | None] = lambda name: shutil.which(name, path=_SYSTEM_PATH),
) -> Capability:
    """Try to run a command in a sandbox.

    Args:
        platform: as `sys.platform`.
        find: returns the path of a program; only the system's own directories are looked in.
    """
    if platform == "darwin":
        return _try_seatbelt()
    if platform != "linux":
        return Capability(why_not="there is no sandbox for this system (Linux and macOS have one)")
    program = find("bwrap")
    if program is None:
        return Capability(why_not="bubblewrap is missing: install the package `bubblewrap`")
    for can_close in (True, False):
        said = _complaint(bubblewrap.trial(program, can_close=can_close))
        if said is None:
            return Capability(kind="bubblewrap", program=program, can_close=can_close)
    return Capability(
        why_not=f"{program} cannot make a sandbox here ({said}). The kernel, or the container, may "
        "forbid user namespaces"
    )


def _try_seatbelt() -> Capability:
    if not Path(_SEATBELT).exists():
        return Capability(why_not=f"{_SEATBELT} is missing")
    said = _complaint((_SEATBELT, "-p", seatbelt.TRIAL, "/usr/bin/true"))
    if said is None:
        return Capability(kind="sandbox-exec", program=_SEATBELT)
    return Capability(why_not=f"{_SEATBELT} cannot make a sandbox here ({said})")


def _complaint(command: tuple[str, ...]) -> str | None:
    """Run a command; return None if it ends well, else what it says of itself."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=_SECONDS,
            cwd="/",
            env={},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as fault:
        return str(fault)[:_SHOWN]
    if done.returncode == 0:
        return None
    said = " ".join(done.stderr.decode(errors="replace").split())
    return said[:_SHOWN] or f"exit code {done.returncode}"

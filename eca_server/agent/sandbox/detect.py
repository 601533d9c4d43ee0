"""The detection of a working sandbox on this machine: one probe for the process.

Rule: the probe runs when a command first needs it. An installed program proves nothing: a kernel, a
container or AppArmor may forbid it to work.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

import attrs

from eca_server.agent.sandbox import bubblewrap, seatbelt

Kind: TypeAlias = Literal["bubblewrap", "sandbox-exec"]

_SECONDS = 10.0
_SHOWN = 300
_SEATBELT = "/usr/bin/sandbox-exec"
_SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/run/current-system/sw/bin"


@attrs.frozen(kw_only=True)
class Capability:
    """The sandbox that works on this machine, or the reason why none does.

    Attributes:
        kind: the program; None: no command can run in a sandbox.
        can_disable_userns: whether bubblewrap can forbid further namespaces in the sandbox.
        why_not: the reason, and what to do, if no program works.
    """

    kind: Kind | None = None
    program: str = ""
    can_disable_userns: bool = False
    why_not: str = ""

    @property
    def state(self) -> str:
        """A description for `/doctor`."""
        return f"{self.kind} ({self.program})" if self.kind else f"not usable: {self.why_not}"


_known: list[Capability] = []


def capability() -> Capability:
    """Return the sandbox of this machine; the first call probes it, for some milliseconds."""
    if not _known:
        _known.append(probe_sandbox())
    return _known[0]


def probe_sandbox(
    *,
    platform: str = sys.platform,
    find_program: Callable[[str], str | None] = lambda name: shutil.which(name, path=_SYSTEM_PATH),
) -> Capability:
    """Run a command in a sandbox and return the result.

    Args:
        platform: as `sys.platform`.
        find_program: returns the path of a program; searches the system's directories only.
    """
    if platform == "darwin":
        return _probe_seatbelt()
    if platform != "linux":
        return Capability(why_not="sandboxes are available on Linux and macOS only")
    program = find_program("bwrap")
    if program is None:
        return Capability(why_not="bubblewrap is missing: install the package `bubblewrap`")
    for can_disable_userns in (True, False):
        error = _error_of(bubblewrap.probe_command(program, can_disable_userns=can_disable_userns))
        if error is None:
            return Capability(
                kind="bubblewrap", program=program, can_disable_userns=can_disable_userns
            )
    return Capability(
        why_not=f"{program} cannot create a sandbox ({error}). The kernel or the container may "
        "forbid user namespaces"
    )


def _probe_seatbelt() -> Capability:
    if not Path(_SEATBELT).exists():
        return Capability(why_not=f"{_SEATBELT} is missing")
    error = _error_of((_SEATBELT, "-p", seatbelt.PROBE_PROFILE, "/usr/bin/true"))
    if error is None:
        return Capability(kind="sandbox-exec", program=_SEATBELT)
    return Capability(why_not=f"{_SEATBELT} cannot create a sandbox ({error})")


def _error_of(command: tuple[str, ...]) -> str | None:
    """Run a command; return None on success, else its stderr or exit code."""
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
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)[:_SHOWN]
    if done.returncode == 0:
        return None
    stderr = " ".join(done.stderr.decode(errors="replace").split())
    return stderr[:_SHOWN] or f"exit code {done.returncode}"

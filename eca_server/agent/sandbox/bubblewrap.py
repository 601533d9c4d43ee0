"""The command line of bubblewrap (`bwrap`) for a plan. Pure."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from eca_server.agent.sandbox.plan import Plan

_EMPTY = Path(__file__).with_name("empty")
_BASE = (
    "--die-with-parent",
    "--new-session",
    "--unshare-user",
    "--unshare-ipc",
    "--unshare-pid",
    "--unshare-uts",
    "--unshare-cgroup-try",
)
_CLOSED = ("--cap-drop", "ALL")
_NO_NESTING = "--disable-userns"
_FILTER = Path(__file__).with_name("keyrings.bpf")
_HAS_FILTER = sys.byteorder == "little"
_WITH_FILTER = ("/bin/sh", "-c", 'exec "$@" 9<"$0"', str(_FILTER)) if _HAS_FILTER else ()
"""A command that starts bubblewrap with `keyrings.bpf` as descriptor 9, which bubblewrap closes.

In every namespace children inherit the keyring of a session: the three calls that reach it fail."""


def arguments(
    program: str, plan: Plan, directory: Path, *, can_disable_userns: bool
) -> tuple[str, ...]:
    """Return everything before the command itself."""
    return (
        *_WITH_FILTER,
        program,
        *_start(can_disable_userns=can_disable_userns, network=plan.network),
        *_mounts(plan),
        "--chdir",
        str(directory),
        "--",
    )


def probe_command(program: str, *, can_disable_userns: bool) -> tuple[str, ...]:
    """Return a whole command that exits with 0 where sandboxes work."""
    start = _start(can_disable_userns=can_disable_userns, network=False)
    return *_WITH_FILTER, program, *start, "--", "/bin/sh", "-c", ":"


def _start(*, can_disable_userns: bool, network: bool) -> Iterator[str]:
    yield from _BASE
    if not network:
        yield "--unshare-net"
    if can_disable_userns:
        yield _NO_NESTING
    yield from _CLOSED
    if _HAS_FILTER:
        yield from ("--seccomp", "9")
    yield from ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
    yield from ("--remount-ro", "/proc")  # root may write kernel settings without capabilities


def _mounts(plan: Plan) -> Iterator[str]:
    closing: list[str] = []
    for path, access in plan.mounts.items():
        match access:
            case "write":
                yield from ("--bind", str(path), str(path))
            case "read":
                yield from ("--ro-bind", str(path), str(path))
            case "hidden-file":
                yield from ("--ro-bind", str(_EMPTY), str(path))
            case "private" | "hidden":
                if str(path) != "/dev/shm":  # noqa: S108 (`--dev` has made one)
                    yield from ("--tmpfs", str(path))
                if access == "hidden":
                    closing += ["--remount-ro", str(path)]
    yield from closing

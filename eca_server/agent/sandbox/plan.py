"""The plan of a sandbox: the paths that a command may read and write. Pure, made from surveys.

Rule: a plan maps real paths to mounts, and the deepest path wins. Other paths have the access of
their parent; `/` is read-only.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import attrs

from eca_server.agent.sandbox.survey import Survey

Access: TypeAlias = Literal["write", "read", "hidden", "hidden-file", "private"]
"""`write` and `read`: the real path; `hidden`: an empty read-only directory; `hidden-file`: an
empty file; `private`: an empty writable directory for this command alone."""

_PRIVATE = ("/tmp", "/var/tmp", "/run", "/dev/shm")  # noqa: S108 (their content is hidden)
_OF_RUN = ("/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/wrappers")
_RESOLVER = ("/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf", "/run/connman")

SYSTEM = tuple(map(Path, (*_PRIVATE, *_OF_RUN, *_RESOLVER)))
"""System paths that a plan mounts separately, where they exist."""


@attrs.frozen(kw_only=True)
class Plan:
    """The files and the network that a command in a sandbox finds.

    Attributes:
        mounts: accesses by real path, parents first.
        guarded: the guarded paths in these roots, links included.
        network: whether the network of the machine can be reached.
    """

    mounts: Mapping[Path, Access]
    roots: tuple[Path, ...]
    guarded: tuple[Path, ...] = ()
    directories: frozenset[Path] = frozenset()
    network: bool = False


def writable_roots(roots: Iterable[Path], home: Path) -> tuple[Path, ...]:
    """Return the roots that a command may change: none that is, or contains, the home directory.

    Programs obey many files of a home directory, and no table names them all.
    """
    return tuple(root for root in roots if not home.is_relative_to(root))


def make_plan(
    surveys: Sequence[Survey],
    *,
    hidden: Mapping[Path, bool],
    visible: Mapping[Path, bool],
    writable: Iterable[Path] = (),
    reserved: Iterable[Path] = (),
    network: bool = False,
) -> Plan:
    """Return the plan for a command in a workspace.

    Args:
        surveys: the surveys of the writable roots.
        hidden: the existing credential paths and sockets; true for a directory.
        visible: the existing paths of `SYSTEM`; true for a directory.
        writable: further writable directories.
        reserved: missing guarded paths, now reserved by empty directories.
        network: whether the network is allowed.
    """
    mounts: dict[Path, Access] = {}
    for name in _PRIVATE:
        if visible.get(Path(name)):
            mounts[Path(name)] = "private"
    run_paths = _OF_RUN + (_RESOLVER if network else ())
    mounts |= {Path(name): "read" for name in run_paths if Path(name) in visible}
    roots = tuple(each.root for each in surveys)
    mounts |= dict.fromkeys(writable, "write")
    mounts |= dict.fromkeys(roots, "write")
    writable_places = {path for path, access in mounts.items() if access == "write"}
    for path, is_directory in hidden.items():
        if path not in writable_places:
            mounts[path] = "hidden" if is_directory else "hidden-file"
    for each in surveys:
        for path in (*each.guarded, *each.links):
            mounts |= {above: "write" for above in _between(each.root, path) if above not in mounts}
        mounts |= {path: "read" for path in each.guarded if mounts.get(path, "write") == "write"}
    mounts |= dict.fromkeys(reserved, "hidden")
    ordered = sorted(mounts.items(), key=lambda each: (len(each[0].parts), each[0]))
    return Plan(
        mounts=dict(_effective(dict(ordered))),
        roots=roots,
        guarded=tuple(path for each in surveys for path in (*each.guarded, *each.links)),
        directories=frozenset(
            path
            for each in surveys
            for path, (_, _, kind) in each.guarded.items()
            if stat.S_ISDIR(kind)
        ),
        network=network,
    )


def _between(root: Path, path: Path) -> Iterator[Path]:
    """Yield the directories between a root and a path: once mounted, none can be renamed."""
    for above in path.parents:
        if above == root:
            return
        yield above


def _effective(mounts: Mapping[Path, Access]) -> Iterator[tuple[Path, Access]]:
    """Yield the mounts that have an effect: an empty directory needs no hidden paths in it."""
    for path, access in mounts.items():
        above = next((mounts[each] for each in path.parents if each in mounts), "read")
        if access in {"hidden", "hidden-file"} and above in {"hidden", "private", "hidden-file"}:
            continue
        yield path, access

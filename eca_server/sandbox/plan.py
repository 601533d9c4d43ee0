"""The plan of a sandbox: what a command may read and write. Pure, from a look at the disk.

The rule of this module: a plan is a map from real paths to what is mounted there, and the deepest
path wins. What is not in the map is as its parent is; the top is readable and nothing else.
"""

from __future__ import annotations

import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import attrs

from eca_server.sandbox.survey import Survey

__all__ = ["SYSTEM", "Access", "Plan", "plan_of", "writable_roots"]

Access: TypeAlias = Literal["write", "read", "hidden", "hidden-file", "private"]
"""`write` and `read`: the real thing; `hidden`: an empty read-only directory; `hidden-file`: an
empty file; `private`: an empty directory of the command's own."""

_PRIVATE = ("/tmp", "/var/tmp", "/run", "/dev/shm")  # noqa: S108 (what is there is hidden)
_OF_RUN = ("/run/current-system", "/run/booted-system", "/run/opengl-driver", "/run/wrappers")
_RESOLVER = ("/run/systemd/resolve", "/run/NetworkManager", "/run/resolvconf", "/run/connman")

SYSTEM = tuple(map(Path, (*_PRIVATE, *_OF_RUN, *_RESOLVER)))
"""The paths of the system that a plan treats in a way of their own, where they exist."""


@attrs.frozen(kw_only=True)
class Plan:
    """The files and the network that a command in a sandbox finds.

    Attributes:
        mounts: by real path, parents before what is in them.
        roots: the roots that are writable.
        guarded: the guarded paths in these roots, links included.
        directories: those of the guarded paths that are directories.
        network: whether the network of the machine can be reached.
    """

    mounts: Mapping[Path, Access]
    roots: tuple[Path, ...]
    guarded: tuple[Path, ...] = ()
    directories: frozenset[Path] = frozenset()
    network: bool = False


def writable_roots(roots: Iterable[Path], home: Path) -> tuple[Path, ...]:
    """Return the roots that a command may change: not one that is, or contains, the home.

    A home is full of files that programs obey, and no table names them all.
    """
    return tuple(root for root in roots if not home.is_relative_to(root))


def plan_of(
    surveys: Sequence[Survey],
    *,
    hidden: Mapping[Path, bool],
    visible: Mapping[Path, bool],
    writable: Iterable[Path] = (),
    held: Iterable[Path] = (),
    network: bool = False,
) -> Plan:
    """Return the plan for a command in a workspace.

    Args:
        surveys: of the roots that may be changed.
        hidden: the places of keys and the sockets that exist; true for a directory.
        visible: what exists of the system's own directories in `/run`, and the private ones; true
            for a directory.
        writable: further directories that may be changed.
        held: guarded paths that were missing and are directories of ours now.
        network: whether the network is allowed.
    """
    mounts: dict[Path, Access] = {}
    for name in _PRIVATE:
        if visible.get(Path(name)):
            mounts[Path(name)] = "private"
    wanted = _OF_RUN + (_RESOLVER if network else ())
    mounts |= {Path(name): "read" for name in wanted if Path(name) in visible}
    roots = tuple(each.root for each in surveys)
    mounts |= dict.fromkeys(writable, "write")
    mounts |= dict.fromkeys(roots, "write")
    open_places = {path for path, access in mounts.items() if access == "write"}
    for path, is_directory in hidden.items():
        if path not in open_places:
            mounts[path] = "hidden" if is_directory else "hidden-file"
    for each in surveys:
        for path in (*each.guarded, *each.links):
            mounts |= {above: "write" for above in _between(each.root, path) if above not in mounts}
        mounts |= {path: "read" for path in each.guarded if mounts.get(path, "write") == "write"}
    mounts |= dict.fromkeys(held, "hidden")
    ordered = sorted(mounts.items(), key=lambda each: (len(each[0].parts), each[0]))
    return Plan(
        mounts=dict(_needed(dict(ordered))),
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
    """Yield the directories below a root in which a path lies: mounted, none can be renamed."""
    for above in path.parents:
        if above == root:
            return
        yield above


def _needed(mounts: Mapping[Path, Access]) -> Iterator[tuple[Path, Access]]:
    """Yield the mounts that change something: nothing need be hidden in an empty directory."""
    for path, access in mounts.items():
        above = next((mounts[each] for each in path.parents if each in mounts), "read")
        if access in {"hidden", "hidden-file"} and above in {"hidden", "private", "hidden-file"}:
            continue
        yield path, access

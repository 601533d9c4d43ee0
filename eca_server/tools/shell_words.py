"""Which paths a command's text names, as far as a text can tell.

A command may reach any file by what its programs do, so this is no fence: it is what makes a
command ask that says `/etc` or `..`, whatever spelling bash offers for that. The rule of this
module: a word whose expansion is not known beforehand, and code that cannot be followed, asks.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import attrs

from eca_server.tools.read_only_commands import why_not_read_only
from eca_server.tools.shell_expansion import Unsure, glob_matches
from eca_server.tools.shell_syntax import Unreadable, cut
from eca_server.tools.shell_variables import all_variables
from eca_server.tools.shell_walk import MOST_PATHS, Walk
from eca_server.workspace import FileError, Place, Workspace
from eca_server.workspace.guarded import may_match_guarded
from eca_server.workspace.repository import makes_bare_repository, unsafe_git_reason

__all__ = ["Named", "Touched", "paths_in", "touched"]

_MOST_FOLDERS = 16
_MOST_REPOSITORIES = 100
_HARMLESS = re.compile(r"/dev/(null|stdin|stdout|stderr|fd/\d+)")
_RUNS_GIT = re.compile(r"(?:.*/)?(?:git|git-[\w-]+|gh|hub|tig|lazygit)", re.DOTALL)
_PRIVATE = frozenset({".eca", ".git"})


@attrs.frozen
class Named:
    """What a command names.

    Attributes:
        paths: absolute, or from `~`; not resolved, each once.
        untold: parts that name a path which only the shell can know.
        globs: those of the paths that are globs.
    """

    paths: tuple[str, ...]
    untold: tuple[str, ...]
    globs: frozenset[str] = frozenset()


def paths_in(command: str, *, folder: str, variables: Mapping[str, str]) -> Named:
    """Return everything in a command that may be a path; pure.

    Args:
        command: for `sh` or `bash`.
        folder: where it starts; relative words are joined to it, and to where `cd` may lead.
        variables: the environment it will see.
    """
    walk = Walk([folder])
    try:
        _follow(walk, command, folder, variables)
    except (Unreadable, Unsure) as fault:
        return Named((), (f"the command, which cannot be read: {fault}",))
    if len(walk.paths) > MOST_PATHS:
        return Named((), (f"a command with more than {MOST_PATHS} words",))
    paths = (path for path in walk.paths if not _HARMLESS.fullmatch(path))
    return Named(tuple(paths), tuple(dict.fromkeys(walk.untold)), frozenset(walk.globs))


def _follow(walk: Walk, command: str, folder: str, variables: Mapping[str, str]) -> None:
    """Follow a command from its folder, and from each folder that a part may run in again.

    Raises:
        Unreadable, Unsure: a part of it cannot be followed.
    """
    rounds = list(all_variables(command, {**variables, "PWD": folder}))
    folders = above = [folder]
    while above:
        if len(folders) > _MOST_FOLDERS:
            raise Unsure("it may change to too many folders")
        for known in rounds:
            walk.restart(folders)
            walk.follow(cut(command, known), known)
        above = walk.folders_above(folders)
        folders = [*folders, *above]


@attrs.frozen(kw_only=True)
class Touched:
    """The paths of a call that ask, whatever is allowed.

    Attributes:
        outside: those outside the workspace, or that may be.
        guarded: those inside it that decide what runs there, unless the call only reads them.
        programs: why Git would run a program that a repository names.
    """

    outside: tuple[str, ...]
    guarded: tuple[str, ...]
    programs: tuple[str, ...] = ()


def touched(
    workspace: Workspace,
    places: Iterable[Place],
    *,
    command: str | None = None,
    folder: str,
    variables: Mapping[str, str],
) -> Touched:
    """Return what a call touches, or may touch, that asks; look at the disk.

    Args:
        workspace: what is inside.
        places: where what the call names itself leads; the call opens nothing else.
        command: the text of a command whose words are looked at as well.
        folder: where the command starts.
        variables: the environment the command will see.
    """
    named = Named((), ())
    if command is not None:
        named = paths_in(command, folder=folder, variables=variables)
    only_reads = command is not None and why_not_read_only(command) is None
    outside: list[str] = []
    guarded: list[str] = []
    judged: list[tuple[str, Place | None]] = [(place.text, place) for place in places]
    judged += [(path, _place(workspace, path)) for path in named.paths]
    for path, place in judged:
        if place is None or not place.is_inside:
            outside.append(path)
        elif _is_guarded(place, only_reads=only_reads):
            guarded.append(path)
    untold = list(named.untold)
    for path in named.paths:
        if path in named.globs and path not in outside:
            asks, guards = _of_glob(workspace, path, only_reads=only_reads)
            untold += asks
            guarded += guards
    return Touched(
        outside=tuple(dict.fromkeys((*outside, *untold))),
        guarded=tuple(dict.fromkeys(guarded)),
        programs=_programs(workspace, named, folder) if command is not None else (),
    )


def _place(workspace: Workspace, path: str) -> Place | None:
    try:
        return workspace.locate(path)
    except FileError:
        return None


def _is_guarded(place: Place, *, only_reads: bool) -> bool:
    """Return whether a path inside of the workspace asks.

    A command that only reads asks for `.eca` and `.git` alone: there may be keys in these files.
    """
    if place.guard is not None:
        return not only_reads or place.guard.path in _PRIVATE
    assert place.root is not None
    return not only_reads and makes_bare_repository(place.root.real_path, place.real_path)


def _of_glob(workspace: Workspace, path: str, *, only_reads: bool) -> tuple[list[str], list[str]]:
    """Return what a glob matches outside of the workspace, and which guarded names it may match."""
    guarded = [
        path
        for part in path.split("/")
        if may_match_guarded(part) and (part.startswith(".") or not only_reads)
    ][:1]
    try:
        matches = glob_matches(path)
    except Unsure as fault:
        return [f"{path}: {fault}"], guarded
    outside: list[str] = []
    for match in matches:
        place = _place(workspace, match)
        if place is None or not place.is_inside:
            outside.append(match)
        elif _is_guarded(place, only_reads=only_reads):
            guarded.append(match)
    return outside, guarded


def _programs(workspace: Workspace, named: Named, folder: str) -> tuple[str, ...]:
    """Return why Git would run programs where the command may run Git."""
    if not any(map(_RUNS_GIT.fullmatch, named.paths)):
        return ()
    places = (_place(workspace, path) for path in (folder, *named.paths))
    folders = dict.fromkeys(
        place.real_path for place in places if place is not None and place.real_path.is_dir()
    )
    reasons = (unsafe_git_reason(each) for each in [*folders][:_MOST_REPOSITORIES])
    return tuple(dict.fromkeys(reason for reason in reasons if reason is not None))

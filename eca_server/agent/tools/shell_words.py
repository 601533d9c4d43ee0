"""The paths that a command's text names.

This is not a security boundary, since the programs of a command may access any file. It detects
commands that name `/etc` or `..` in any spelling of bash, so that they need approval. The rule of
this module: a word with an unknown expansion, and code that cannot be parsed, needs approval.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping

import attrs

from eca_server.agent.tools.read_only_commands import why_not_read_only
from eca_server.agent.tools.shell_expansion import Unsure, glob_matches
from eca_server.agent.tools.shell_paths import Reading
from eca_server.agent.tools.shell_syntax import Unreadable, tokenize
from eca_server.agent.tools.shell_variables import all_variables
from eca_server.agent.tools.shell_walk import MOST_PATHS, Walk
from eca_server.workspace.boundary import Place, Workspace
from eca_server.workspace.errors import FileError
from eca_server.workspace.guarded import may_match_guarded
from eca_server.workspace.repository import (
    git_directories,
    makes_bare_repository,
    unsafe_git_reason,
)

_MOST_FOLDERS = 16
_MOST_REPOSITORIES = 100
_HARMLESS = re.compile(r"/dev/(null|stdin|stdout|stderr|fd/\d+)")
_RUNS_GIT = re.compile(r"(?:.*/)?(?:git|git-[\w-]+|gh|hub|tig|lazygit)", re.DOTALL)
_PRIVATE = frozenset({".eca", ".git"})


@attrs.frozen
class NamedPaths:
    """The paths that a command names.

    Attributes:
        paths: absolute or from `~`, unresolved, each once.
        unknown: descriptions of parts whose paths only the shell knows.
        globs: the paths that contain a glob.
        readings: further paths, which only the disk can confirm.
    """

    paths: tuple[str, ...]
    unknown: tuple[str, ...]
    globs: frozenset[str] = frozenset()
    readings: tuple[Reading, ...] = ()


def paths_in(command: str, *, folder: str, variables: Mapping[str, str]) -> NamedPaths:
    """Return every part of a command that may be a path; pure.

    Args:
        command: the text for `sh` or `bash`.
        folder: the working directory; relative words are joined to it and to the targets of `cd`.
        variables: the environment.
    """
    walk = Walk([folder])
    try:
        _follow(walk, command, folder, variables)
    except (Unreadable, Unsure) as error:
        return NamedPaths((), (f"the command, which cannot be parsed: {error}",))
    if walk.is_full:
        return NamedPaths((), (f"a command with more than {MOST_PATHS} words",))
    paths = (path for path in walk.paths if not _HARMLESS.fullmatch(path))
    unknown = tuple(dict.fromkeys(walk.unknown))
    return NamedPaths(tuple(paths), unknown, frozenset(walk.globs), tuple(walk.readings))


def _follow(walk: Walk, command: str, folder: str, variables: Mapping[str, str]) -> None:
    """Walk a command from its directory, and from each directory that a part may run in again.

    Raises:
        Unreadable, Unsure: a part of it cannot be parsed.
    """
    rounds = list(all_variables(command, {**variables, "PWD": folder}))
    folders = above = [folder]
    while above:
        if len(folders) > _MOST_FOLDERS:
            raise Unsure("it may change to too many folders")
        for known in rounds:
            walk.restart(folders)
            walk.follow(tokenize(command, known), known)
        above = walk.folders_above(folders)
        folders = [*folders, *above]


@attrs.frozen(kw_only=True)
class TouchedPaths:
    """The paths of a call that always need approval.

    Attributes:
        guarded: the guarded paths, unless the call only reads them.
        programs: the reasons why Git would run a program of a repository.
    """

    outside: tuple[str, ...]
    guarded: tuple[str, ...]
    programs: tuple[str, ...] = ()


def touched_paths(
    workspace: Workspace,
    places: Iterable[Place],
    *,
    command: str | None = None,
    folder: str,
    variables: Mapping[str, str],
) -> TouchedPaths:
    """Return the paths of a call that need approval; read the disk.

    Args:
        workspace: the workspace.
        places: the resolved paths of the call; it opens no others.
        command: the text of a command whose words are checked as well.
        folder: the working directory of the command.
        variables: the environment of the command.
    """
    named = NamedPaths((), ())
    if command is not None:
        named = _confirmed(paths_in(command, folder=folder, variables=variables))
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
    unknown = list(named.unknown)
    for path in named.paths:
        if path in named.globs and path not in outside:
            asking, guards = _of_glob(workspace, path, only_reads=only_reads)
            unknown += asking
            guarded += guards
    return TouchedPaths(
        outside=tuple(dict.fromkeys((*outside, *unknown))),
        guarded=tuple(dict.fromkeys(guarded)),
        programs=_programs(workspace, named, folder) if command is not None else (),
    )


def _confirmed(named: NamedPaths) -> NamedPaths:
    """Return the named paths with those that the disk confirms."""
    confirmed = (reading.path for reading in named.readings if reading.is_confirmed())
    return attrs.evolve(named, paths=tuple(dict.fromkeys((*named.paths, *confirmed))), readings=())


def _place(workspace: Workspace, path: str) -> Place | None:
    try:
        return workspace.locate(path)
    except FileError:
        return None


def _is_guarded(place: Place, *, only_reads: bool) -> bool:
    """Return True if a path inside the workspace needs approval.

    A command that only reads needs approval for `.eca` and `.git` only, which may contain keys.
    """
    if place.guard is not None:
        return not only_reads or place.guard.path in _PRIVATE
    assert place.root is not None
    return not only_reads and makes_bare_repository(place.root.real_path, place.real_path)


def _of_glob(workspace: Workspace, path: str, *, only_reads: bool) -> tuple[list[str], list[str]]:
    """Return the matches of a glob outside the workspace, and the guarded names it may match."""
    guarded = [
        path
        for part in path.split("/")
        if may_match_guarded(part) and (part.startswith(".") or not only_reads)
    ][:1]
    try:
        matches = glob_matches(path)
    except Unsure as error:
        return [f"{path}: {error}"], guarded
    outside: list[str] = []
    for match in matches:
        place = _place(workspace, match)
        if place is None or not place.is_inside:
            outside.append(match)
        elif _is_guarded(place, only_reads=only_reads):
            guarded.append(match)
    return outside, guarded


def _programs(workspace: Workspace, named: NamedPaths, folder: str) -> tuple[str, ...]:
    """Return the reasons why Git would run programs in the directories of a command."""
    if not any(map(_RUNS_GIT.fullmatch, named.paths)):
        return ()
    places = (_place(workspace, path) for path in (folder, *_with_matches(named)))
    paths = dict.fromkeys(place.real_path for place in places if place is not None)
    folders = list(dict.fromkeys(each for path in paths for each in git_directories(path)))
    if len(folders) > _MOST_REPOSITORIES:
        return (f"the command names more than {_MOST_REPOSITORIES} folders",)
    reasons = map(unsafe_git_reason, folders)
    return tuple(dict.fromkeys(reason for reason in reasons if reason is not None))


def _with_matches(named: NamedPaths) -> Iterator[str]:
    """Yield the named paths, and the files that the globs among them match."""
    yield from named.paths
    for path in named.globs:
        with contextlib.suppress(Unsure):  # then the glob needs approval anyway
            yield from glob_matches(path)

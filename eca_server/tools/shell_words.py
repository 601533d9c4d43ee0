"""Which paths a command's text names, as far as a text can tell.

A command may find its way to any file: by what a program does, by what it prints, by links that a
glob meets. So this is no fence; it is what makes a command ask that plainly says `/etc` or `..`.
The rule it keeps: what cannot be told asks, too.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

import attrs

from eca_server.tools.shell_syntax import UNKNOWN, Token, Unreadable, Word, cut
from eca_server.workspace import FileFault, Place, Workspace

__all__ = ["Named", "Touched", "paths_in", "touched"]

_MOST_PATHS = 1_000
_MOST_FOLDERS = 16
_URL = re.compile(r"\b(?!file:)[a-zA-Z][a-zA-Z0-9+.-]{0,15}://\S*")
_FILE_URL = re.compile(r"\bfile://(?:localhost)?")
# What follows one of these may be a path: `--file=/x`, `a:/x`, `{/x,/y}`, a program in quotes.
_EDGES = re.compile(r"[\s'\"`=:,;|&()\[\]{}<>@#!]+")
_CHANGES_FOLDER = frozenset({"cd", "pushd", "popd", "chdir"})
_BEGINS_COMMAND = frozenset({"", ";", "\n", "&", "&&", "(", "$(", "`"})
_HARMLESS = re.compile(r"/dev/(null|stdin|stdout|stderr|fd/\d+)")


@attrs.frozen
class Named:
    """What a command names.

    Attributes:
        paths: absolute, or from `~`; not resolved, each once.
        untold: parts that name a path nobody can tell beforehand.
    """

    paths: tuple[str, ...]
    untold: tuple[str, ...]


@attrs.frozen(kw_only=True)
class Touched:
    """The paths of a call that ask, whatever is allowed.

    Attributes:
        outside: those outside the workspace, or that may be.
        guarded: those inside it that decide what runs there.
    """

    outside: tuple[str, ...]
    guarded: tuple[str, ...]


def touched(
    workspace: Workspace,
    places: Iterable[Place],
    *,
    command: str | None = None,
    folder: str,
    variables: Mapping[str, str],
) -> Touched:
    """What a call touches, or may touch, that asks; looks at the disk.

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
    outside: list[str] = []
    guarded: list[str] = []
    judged: list[tuple[str, Place | None]] = [(place.text, place) for place in places]
    judged += [(path, _place(workspace, path)) for path in named.paths]
    for path, place in judged:
        if place is None or not place.inside:
            outside.append(path)
        elif place.guarded:
            guarded.append(path)
    return Touched(
        outside=tuple(dict.fromkeys((*outside, *named.untold))),
        guarded=tuple(dict.fromkeys(guarded)),
    )


def _place(workspace: Workspace, path: str) -> Place | None:
    try:
        return workspace.locate(path)
    except FileFault:
        return None


def paths_in(command: str, *, folder: str, variables: Mapping[str, str]) -> Named:
    """Everything in a command that may be a path; pure.

    Args:
        command: for `sh` or `bash`.
        folder: where it starts; relative words are joined to it, and to where `cd` may lead.
        variables: the environment it will see.
    """
    known = {**variables, "PWD": folder, "OLDPWD": UNKNOWN}
    try:
        tokens = cut(command, known)
    except Unreadable as fault:
        return Named((), (f"the command, which cannot be read: {fault}",))
    walk = _Walk(folder)
    for words, operator in _simple_commands(tokens):
        walk.pass_by(words, operator)
    if len(walk.paths) > _MOST_PATHS:
        return Named((), (f"a command with more than {_MOST_PATHS} words",))
    paths = (path for path in walk.paths if not _HARMLESS.fullmatch(path))
    return Named(tuple(paths), tuple(dict.fromkeys(walk.untold)))


def _simple_commands(tokens: Iterable[Token]) -> Iterator[tuple[list[Word], str]]:
    """Each run of words and the operator behind it; redirections stay inside their run."""
    words: list[Word] = []
    for token in tokens:
        if isinstance(token, Word):
            words.append(token)
        elif token.text[0] not in "<>" and not token.text.startswith("&>"):
            yield words, token.text
            words = []
    yield words, ""


class _Walk:
    """Where the shell may stand, command after command, and what it names on the way."""

    def __init__(self, folder: str) -> None:
        self.paths: dict[str, None] = {}
        self.untold: list[str] = []
        self.here = [folder]
        self.if_it_failed: list[str] = []  # where it stands if a `cd` before this `&&` failed
        self.before = ""  # the operator before this command

    def pass_by(self, words: Sequence[Word], operator: str) -> None:
        """One command, and the operator behind it."""
        for word in words:
            self._name(word)
        for index, word in enumerate(words):
            if word.text in _CHANGES_FOLDER:
                targets = [each.text for each in words[index + 1 :] if not _is_option(each.text)]
                alone = index == 0 and self.before in _BEGINS_COMMAND
                self._change(targets[0] if targets else "~", alone and operator == "&&")
        if operator not in {"&&", "|", "|&"}:
            self.here = _unique(self.here, self.if_it_failed)
            self.if_it_failed = []
        self.before = operator

    def _name(self, word: Word) -> None:
        for text in _candidates(word.text):
            if len(self.paths) > _MOST_PATHS:
                return
            if text.startswith(("/", "~")):
                self.paths[text] = None
            else:
                self.paths.update(dict.fromkeys(f"{folder}/{text}" for folder in self.here))

    def _change(self, target: str, is_certain: bool) -> None:
        if UNKNOWN in target or target == "-" or len(self.here) > _MOST_FOLDERS:
            self.untold.append("cd to an unknown folder")
            return
        absolute = target.startswith(("/", "~"))
        moved = [target] if absolute else [f"{folder}/{target}" for folder in self.here]
        self.paths.update(dict.fromkeys(moved))
        if is_certain:
            self.if_it_failed = _unique(self.if_it_failed, self.here)
            self.here = moved
        else:
            self.here = _unique(self.here, moved)


def _candidates(word: str) -> Iterator[str]:
    """What of a word may be a path; where only the shell knows the rest, the part before it."""
    text = _FILE_URL.sub(" ", _URL.sub(" ", word))
    for piece in (text, *_EDGES.split(text)):
        # `-C/x` and `--x`: what is behind an option's name may be a path as well.
        for part in (piece, piece[2:], piece.lstrip("-+")) if _is_option(piece) else (piece,):
            # A variable at the front may be empty.
            path = part.lstrip(UNKNOWN) if part.lstrip(UNKNOWN).startswith("/") else part
            path = path.partition(UNKNOWN)[0]
            if path:
                yield path
                yield from _leading_up(path)


def _leading_up(path: str) -> Iterator[str]:
    """The path with `..` for each glob that also matches `..`, as `.*` and `.?` do."""
    parts = path.split("/")
    up = [".." if _matches_parent(part) else part for part in parts]
    if up != parts:
        yield "/".join(up)


def _matches_parent(part: str) -> bool:
    return part.startswith(".") and part != ".." and fnmatch.fnmatchcase("..", part)


def _is_option(text: str) -> bool:
    return len(text) > 1 and text[0] in "-+"


def _unique(*groups: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(item for group in groups for item in group))

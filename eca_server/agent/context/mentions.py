"""`@path` in a message: a mention of a file or a directory of the workspace.

The rules of this module: a mention is not consent (ruling W-41), so only paths whose real path is
in a root are read. An `@` that is not a path (an e-mail address, a decorator, a package, code in a
fence) is ignored silently.

    @/home/me/src/a.py   @~/src/a.py   @./a.py   @src/a.py:L3-L9   @a.py   @src/   @"with space.md"

Scripts such as Chinese and Japanese have no blanks: a mention may follow any of their characters,
and end before one (`请看@src/a.py。`).
"""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import attrs

from eca_protocol.messages import LinesRange
from eca_server.agent.tools.files import printable
from eca_server.workspace.boundary import Place, Workspace
from eca_server.workspace.errors import FileError

_FENCED = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_BEFORE = r"""(?<![^\s(\[{<"'`,;:=*>\xab\xbb\xa1\xbf\u0e00-\U0010ffff])"""
_IN_PATH = r"""(?![\u0e00-\U0010ffff]@)[^\s,"'`<>|]"""
_MENTION = re.compile(
    rf"""{_BEFORE}@(?:"(?P<quoted>[^"\n]+)"|(?P<bare>(?:{_IN_PATH})+))"""
    r"""(?P<after_quote>:L[\d\-L]+)?"""
)
_TYPED = re.compile(rf"{_BEFORE}@(?:{_IN_PATH})*\Z")
_LINES = re.compile(r":L(\d{1,9})(?:-L?(\d{1,9}))?\Z")
_PUNCTUATION = ".,;:!?)]}*_"
_END_BEFORE_TEXT = re.compile(r"(?<=[!-.0-~])(?=[\u0e00-\U0010ffff])")
_MOST_ENDS = 4


@attrs.frozen(kw_only=True)
class Target:
    """One interpretation of a mention."""

    path: str
    lines: LinesRange | None = None


@attrs.frozen(kw_only=True)
class Mention:
    """An `@` followed by a possible path.

    Attributes:
        text: as written, with the `@`.
        targets: the interpretations, the most literal first: punctuation at the end, and letters
            of scripts without blanks, may belong to the path or to the sentence.
    """

    text: str
    targets: tuple[Target, ...]


@attrs.frozen(kw_only=True)
class ResolvedMention:
    """The file or directory of a mention."""

    place: Place
    lines: LinesRange | None


def typed_mention(text: str) -> str:
    """Return the mention that is being typed at the end of a text; empty if there is none."""
    match = _TYPED.search(text)
    return match[0] if match else ""


def mention_of(path: str) -> str:
    """Return the mention of a path, with quotation marks if it needs them."""
    text = f"@{path}"
    return text if _MENTION.fullmatch(text) else f'@"{path}"'


def find_mentions(message: str, *, most: int) -> tuple[Mention, ...]:
    """Return the first mentions in a message, each once, in order; read no disk."""
    mentions: dict[str, Mention] = {}
    for match in _MENTION.finditer(_FENCED.sub("\n", message)):
        if match["quoted"]:
            readings = [match["quoted"] + (match["after_quote"] or "")]
        else:
            written = match["bare"]
            ends = islice(_END_BEFORE_TEXT.finditer(written), _MOST_ENDS)
            parts = [written, *(written[: end.start()] for end in reversed(list(ends)))]
            readings = [reading for each in parts for reading in (each, each.rstrip(_PUNCTUATION))]
        targets = tuple(dict.fromkeys(_target(each) for each in readings if each))
        if targets:
            text = match[0].rstrip(_PUNCTUATION) or match[0]
            mentions.setdefault(text, Mention(text=text, targets=targets))
        if len(mentions) >= most:
            break
    return tuple(mentions.values())


def resolve_mention(mention: Mention, workspace: Workspace) -> ResolvedMention | str | None:
    """Return the file or directory of a mention, or a note for the user, or None.

    It accesses the disk: call it in a worker thread.
    """
    notes = []
    shown = printable(mention.text)
    for target, place in _places(mention, workspace):
        if _is_meant(target.path, _mode(place.real_path)):
            if place.is_inside:
                return ResolvedMention(place=place, lines=target.lines)
            notes.append(f"{shown} was not read: it is outside the workspace; add it as a context")
        elif place.is_inside and "/" in target.path and _mode(place.real_path.parent) is not None:
            notes.append(f"{shown} was not read: the file does not exist")
    return notes[0] if notes else None


def _target(text: str) -> Target:
    lines = _LINES.search(text)
    if lines is None or lines.start() == 0:
        return Target(path=text)
    first = int(lines[1])
    last = int(lines[2]) if lines[2] else first
    return Target(path=text[: lines.start()], lines=LinesRange(start=first, end=last))


def _places(mention: Mention, workspace: Workspace) -> Iterator[tuple[Target, Place]]:
    for target in mention.targets:
        bases: list[Path | None] = [root.path for root in workspace.roots]
        for base in bases or [None]:
            with contextlib.suppress(FileError):
                yield target, workspace.locate(target.path, base=base)


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except OSError:
        return None


def _is_meant(written: str, mode: int | None) -> bool:
    """Return True if a path exists; a single word must be a file, since it is often a word."""
    is_path = "/" in written or written in {"~", ".", ".."}
    return mode is not None and (is_path or stat.S_ISREG(mode))

"""`@path` in what the user writes: files and directories of the workspace that are meant.

The rules it keeps: a mention is no consent (ruling W-41), so only what really lies in a root is
read; and an `@` that is no path (an e-mail address, a decorator, a package, code in a fence) is
left alone without a word.

    @/home/me/src/a.py   @~/src/a.py   @./a.py   @src/a.py:L3-L9   @a.py   @src/   @"with space.md"
"""

from __future__ import annotations

import contextlib
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import attrs

from eca_protocol.messages import LinesRange
from eca_server.tools.files import printable
from eca_server.workspace import FileError, Place, Workspace

__all__ = ["Found", "Mention", "Target", "find_mentions", "follow"]

_FENCED = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_MENTION = re.compile(
    r"""(?<![^\s(\[{<"'`,;:=*>])@(?:"(?P<quoted>[^"\n]+)"|(?P<bare>[^\s,"'`<>|]+))"""
    r"""(?P<after_quote>:L[\d\-L]+)?"""
)
_LINES = re.compile(r":L(\d{1,9})(?:-L?(\d{1,9}))?\Z")
_PUNCTUATION = ".,;:!?)]}*_"


@attrs.frozen(kw_only=True)
class Target:
    """One way to read a mention."""

    path: str
    lines: LinesRange | None = None


@attrs.frozen(kw_only=True)
class Mention:
    """An `@` followed by what may be a path.

    Attributes:
        text: as it was written, with the `@`.
        targets: the ways to read it, the most literal first: a sentence's end may be its last
            character, or not.
    """

    text: str
    targets: tuple[Target, ...]


@attrs.frozen(kw_only=True)
class Found:
    """A mention that leads to something in the workspace."""

    place: Place
    lines: LinesRange | None


def find_mentions(message: str, *, most: int) -> tuple[Mention, ...]:
    """The first mentions in a message, each once, in its order; the disk is not asked."""
    found: dict[str, Mention] = {}
    for match in _MENTION.finditer(_FENCED.sub("\n", message)):
        if match["quoted"]:
            readings = [match["quoted"] + (match["after_quote"] or "")]
        else:
            written = match["bare"]
            readings = [written, written.rstrip(_PUNCTUATION)]
        targets = tuple(dict.fromkeys(_target(each) for each in readings if each))
        if targets:
            text = match[0].rstrip(_PUNCTUATION) or match[0]
            found.setdefault(text, Mention(text=text, targets=targets))
        if len(found) >= most:
            break
    return tuple(found.values())


def follow(mention: Mention, workspace: Workspace) -> Found | str | None:
    """Where a mention leads: to something that may be read, to a note for the user, or nowhere.

    It asks the disk: call it in a worker thread.
    """
    notes = []
    shown = printable(mention.text)
    for target, place in _places(mention, workspace):
        if _is_meant(target.path, _mode(place.real_path)):
            if place.is_inside:
                return Found(place=place, lines=target.lines)
            notes.append(
                f"{shown} was not read: it lies outside the workspace; add it as a context"
            )
        elif place.is_inside and "/" in target.path and _mode(place.real_path.parent) is not None:
            notes.append(f"{shown} was not read: there is no such file")
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
    """Whether there is what was written; a word alone is no directory, for it is often a word."""
    is_path = "/" in written or written in {"~", ".", ".."}
    return mode is not None and (is_path or stat.S_ISREG(mode))

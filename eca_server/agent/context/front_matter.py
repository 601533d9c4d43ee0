"""The front matter of a Markdown file: `key: value` between two lines of dashes.

Only a small part of YAML is supported: words, also over several lines, lists in brackets, lists of
lines. Everything else is ignored. A file of 64 KiB takes milliseconds, whatever its content: no
expression here begins or ends with blanks that another part of it may match, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"([A-Za-z][\w-]*):(.*)\Z")
_ITEM = re.compile(r"[ \t]*-[ \t](.*)\Z")
_BLOCK = re.compile(r"[|>][+-]?[0-9]?[+-]?\Z")
_BLANKS = " \t"


def split_front_matter(text: str) -> tuple[Mapping[str, tuple[str, ...]], str]:
    r"""Return the fields of a text with `\n` as line ends, each as words; and the rest."""
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, text
    # By key the lines of a value, or the items of a list where the first line is empty.
    fields: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in match[1].split("\n"):
        if field := _KEY.match(line):
            lines = fields[field[1]] = [field[2].strip(_BLANKS)]
        elif lines and not lines[0] and (item := _ITEM.match(line)):
            lines.append(_plain(item[1].strip(_BLANKS)))
        elif lines and lines[0] and line[:1] in _BLANKS and (more := line.strip(_BLANKS)):
            lines.append(more)
    return {name: tuple(_words(lines)) for name, lines in fields.items()}, text[match.end() :]


def _words(lines: Sequence[str]) -> Sequence[str]:
    first, *more = lines
    if not first:
        return more
    return _values(" ".join(more if _BLOCK.match(first) else lines))


def _values(text: str) -> list[str]:
    if text.startswith("[") and text.endswith("]"):
        return [value for part in text[1:-1].split(",") if (value := _plain(part.strip()))]
    return [_plain(text)] if text else []


def _plain(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if is_quoted else text

"""The front matter of a Markdown file: `key: value` between two lines of dashes.

Only a small part of YAML is supported: words, also over several lines, lists in brackets, lists of
lines, quotes, comments. Everything else is ignored. A file of 64 KiB takes milliseconds, whatever
its content: no expression here begins or ends with blanks that another part of it may match, too.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"([A-Za-z][\w-]*):(.*)\Z")
_MEMBER = re.compile(r"[ \t]*(-[ \t]+)?([A-Za-z][\w-]*):(.*)\Z")
_ITEM = re.compile(r"[ \t]*-[ \t](.*)\Z")
_BLOCK = re.compile(r"[|>][+-]?[0-9]?[+-]?\Z")
_BLANKS = " \t"
_QUOTES = "\"'"


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
            lines = fields[field[1]] = [_value_in(field[2])]
        elif lines and not lines[0] and (item := _ITEM.match(line)):
            lines.append(_plain(_value_in(item[1])))
        elif lines and lines[0] and line[:1] in _BLANKS:
            is_text = lines[0][0] in _QUOTES or _BLOCK.match(lines[0])
            more = line.strip(_BLANKS) if is_text else _value_in(line)
            lines += [more] if more else []
    return {name: tuple(_words(lines)) for name, lines in fields.items()}, text[match.end() :]


def mappings_in(text: str, key: str) -> Sequence[Mapping[str, str]]:
    r"""Return the items `- name: value` of one field of a text with `\n` as line ends."""
    match = _FRONT_MATTER.match(text)
    items: list[dict[str, str]] = []
    is_inside = False
    for line in match[1].split("\n") if match else ():
        if field := _KEY.match(line):
            is_inside = field[1] == key
        elif is_inside and (member := _MEMBER.match(line)) and (member[1] or items):
            items += [{}] if member[1] else []
            items[-1][member[2]] = _plain(_value_in(member[3]))
    return items


def _words(lines: Sequence[str]) -> Sequence[str]:
    first, *more = lines
    if not first:
        return more
    return _values(" ".join(more if _BLOCK.match(first) else lines))


def _values(text: str) -> list[str]:
    if text.startswith("[") and text.endswith("]"):
        return [value for part in _parts(text[1:-1], ",") if (value := _plain(part.strip()))]
    return [_plain(text)] if text else []


def _value_in(line: str) -> str:
    """Return a line without the blanks around it and the comment at its end."""
    return _parts(line, "#")[0].strip(_BLANKS)


def _parts(text: str, separator: str) -> list[str]:
    """Split a text at commas, or at signs of a comment, which follow a blank; not in quotes."""
    parts, start, quote, previous = [], 0, "", " "
    for position, character in enumerate(text):
        if quote:
            quote = "" if character == quote and previous != "\\" else quote
        elif character in _QUOTES and previous in " \t[,":
            quote = character
        elif character == separator and (separator == "," or previous in _BLANKS):
            parts.append(text[start:position])
            start = position + 1
        previous = character
    return [*parts, text[start:]]


def _plain(text: str) -> str:
    if len(text) < 2 or text[0] != text[-1] or text[0] not in _QUOTES:
        return text
    quote, inner = text[0], text[1:-1]
    return inner.replace("''", "'") if quote == "'" else inner.replace('\\"', '"')

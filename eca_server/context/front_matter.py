"""What may stand above the text of a Markdown file: `key: value` between two lines of dashes.

It is the small part of YAML that such files use: words, also over several lines, lists in brackets,
lists of lines. What is more than that is passed over.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["split_front_matter"]

_FRONT_MATTER = re.compile(r"---[ \t]*\n(.*?)^---[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"([A-Za-z][\w-]*):[ \t]*(.*?)[ \t]*\Z")
_ITEM = re.compile(r"[ \t]*-[ \t]+(.*?)[ \t]*\Z")
_BLOCK = re.compile(r"[|>][+-]?[0-9]?[+-]?\Z")
_MORE = re.compile(r"[ \t]+(\S.*?)[ \t]*\Z")


def split_front_matter(text: str) -> tuple[Mapping[str, tuple[str, ...]], str]:
    r"""The fields above a text whose line ends are `\n`, each as a list of words; and the rest."""
    found = _FRONT_MATTER.match(text)
    if found is None:
        return {}, text
    fields: dict[str, list[str]] = {}
    key, value = None, ""
    for line in found[1].split("\n"):
        if field := _KEY.match(line):
            key, value = field.groups()
            fields[key] = [] if _BLOCK.match(value) else _values(value)
        elif key is not None and not value and (item := _ITEM.match(line)):
            fields[key].append(_plain(item[1]))
        elif key is not None and value and (more := _MORE.match(line)):
            value = more[1] if _BLOCK.match(value) else f"{value} {more[1]}"
            fields[key] = _values(value)
    return {name: tuple(values) for name, values in fields.items()}, text[found.end() :]


def _values(text: str) -> list[str]:
    if text.startswith("[") and text.endswith("]"):
        return [value for part in text[1:-1].split(",") if (value := _plain(part.strip()))]
    return [_plain(text)] if text else []


def _plain(text: str) -> str:
    is_quoted = len(text) > 1 and text[0] == text[-1] and text[0] in "\"'"
    return text[1:-1] if is_quoted else text

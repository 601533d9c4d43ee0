"""Our docstrings, which mark code as Markdown does, as Sphinx reads them."""

from __future__ import annotations

import re

_CODE = re.compile(r"`+([^`]+)`+(\w?)")
_NAME = re.compile(r"[A-Za-z_][\w.]*(?:\(\))?")


def as_restructured_text(lines: list[str]) -> list[str]:
    """Return the lines of a docstring with indented blocks and code spans marked as such."""
    written: list[str] = []
    in_block = False
    for index, line in enumerate(lines):
        if in_block and line and not line.startswith(" "):
            in_block = False
        if not in_block and _begins_a_block(lines, index):
            in_block = True
            written += ["::", ""]
        written.append(line if in_block else _CODE.sub(_span, line))
    return written


def _begins_a_block(lines: list[str], index: int) -> bool:
    """Tell whether an indented line begins a block; one of a section like `Args:` does not."""
    if not lines[index].startswith(" ") or index < 2 or lines[index - 1]:
        return False
    before = next((line for line in reversed(lines[:index]) if line), "")
    return not before.startswith(" ")


def _span(match: re.Match[str]) -> str:
    """Return a link for a name that Sphinx knows; a letter right behind it needs a mark between."""
    mark = f"\\ {match[2]}" if match[2] else ""
    if _NAME.fullmatch(match[1]):
        return f"`{match[1]}`{mark}"
    return f"``{match[1].strip()}``{mark}"

"""Escape sequences of terminals taken out of what a command writes.

Commands colour their output and move a cursor even where no terminal is. Editors show such bytes
as they are, and to a model they are noise. The rule this module keeps: however output is cut into
pieces, the same text is left, and an unended sequence never takes more than its own line.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["EscapeFilter"]

_ESCAPE: Final = b"\x1b"
_SEQUENCE: Final = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]?"  # colours, cursor
    rb"|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links; up to BEL or ESC \
    rb"|[ -/]+[0-~]?|[0-~])?"
)
_UNENDED: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\n]*\x1b?|[ -/]*)\Z")
_LONGEST: Final = 4096
"""Bytes of an unended sequence that wait for their end."""


class EscapeFilter:
    """Takes escape sequences out of one stream of bytes."""

    def __init__(self) -> None:
        self._unended = b""

    def feed(self, data: bytes) -> bytes:
        """Return the text of the next bytes; an unended sequence waits for what follows."""
        data = self._unended + data
        self._unended = b""
        if _ESCAPE not in data:
            return data
        unended = _UNENDED.search(data, max(0, len(data) - _LONGEST))
        if unended is not None:
            data, self._unended = data[: unended.start()], unended[0]
        return _SEQUENCE.sub(b"", data)

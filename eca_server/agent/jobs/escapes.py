"""A filter that removes terminal escape sequences from a command's output.

Commands colour their output and move a cursor even without a terminal. Editors show such bytes as
they are, and to a model they are noise. Rules: the filtered text does not depend on the chunks of
the output; an incomplete sequence removes no more than its own line.
"""

from __future__ import annotations

import re
from typing import Final

_ESCAPE: Final = b"\x1b"
_SEQUENCE: Final = re.compile(
    rb"\x1b(?:\[[0-?]*[ -/]*[@-~]?"  # colours, cursor
    rb"|[\]PX^_][^\x07\x1b\n]*(?:\x07|\x1b\\)?"  # titles, links; up to BEL or ESC \
    rb"|[ -/]+[0-~]?|[0-~])?"
)
_INCOMPLETE: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b\n]*\x1b?|[ -/]*)\Z")
_MAX_PENDING: Final = 4096
"""Maximum number of bytes of an incomplete sequence that wait for their end."""


class EscapeFilter:
    """Removes escape sequences from one stream of bytes."""

    def __init__(self) -> None:
        self._pending = b""

    def feed(self, data: bytes) -> bytes:
        """Return the text of the next bytes; an incomplete sequence waits for more."""
        data = self._pending + data
        self._pending = b""
        if _ESCAPE not in data:
            return data
        pending = _INCOMPLETE.search(data, max(0, len(data) - _MAX_PENDING))
        if pending is not None:
            data, self._pending = data[: pending.start()], pending[0]
        return _SEQUENCE.sub(b"", data)

"""The blocks of reasoning of one turn: each that was shown to start is shown to end (W-26)."""

from __future__ import annotations

import uuid
from collections.abc import Callable

import anyio

from eca_protocol import messages as m
from eca_protocol.server.calls import milliseconds_since

__all__ = ["Reasonings"]


class Reasonings:
    """The blocks of one turn, by a key that is unique in it.

    Attributes:
        finished: id and milliseconds of each finished block, by its key.

    Args:
        emit: writes a content.
    """

    def __init__(self, emit: Callable[[m.ChatContent], None]) -> None:
        self.finished: dict[str, tuple[str, int]] = {}
        self._emit = emit
        self._open: dict[str, tuple[str, float]] = {}

    def start(self, key: str) -> None:
        """Start a block."""
        reason_id = str(uuid.uuid4())
        self._open[key] = reason_id, anyio.current_time()
        self._emit(m.ChatReasonStartedContent(id=reason_id))

    def write(self, key: str, text: str) -> None:
        """Write a piece of reasoning; drop it if the block is closed."""
        if key in self._open:
            self._emit(m.ChatReasonTextContent(id=self._open[key][0], text=text))

    def finish(self, key: str) -> None:
        """Close a block, once, with its duration."""
        if key in self._open:
            reason_id, started = self._open.pop(key)
            spent = milliseconds_since(started)
            self.finished[key] = reason_id, spent
            self._emit(m.ChatReasonFinishedContent(id=reason_id, total_time_ms=spent))

    def finish_all(self) -> None:
        """Close the open blocks."""
        for key in tuple(self._open):
            self.finish(key)

"""A chat's reasonings: each has one start, texts, and one end, and shares one id."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from eca_protocol.testing.watching.observation import Notes

__all__ = ["Thoughts"]


class Thoughts:
    """Judges the reasonings of one turn."""

    def __init__(self, notes: Notes, chat_id: str) -> None:
        self._notes = notes
        self._chat_id = chat_id
        self._open: dict[str, bool] = {}  # by id; False: it was finished
        self._strange: set[str] = set()

    def take(self, kind: str, content: Mapping[str, Any]) -> None:
        """A content of a reasoning."""
        thought = content.get("id")
        if not isinstance(thought, str) or thought in self._strange:
            return
        is_start, is_open = kind == "reasonStarted", self._open.get(thought)
        if is_start:
            if is_open is not None:
                self._tell("CHAT-15", "one start of a reasoning", f"a second one of {thought!r}")
            self._open[thought] = True
        elif is_open is None:
            self._strange.add(thought)
            self._tell("CHAT-15", f"the start of the reasoning {thought!r}", kind)
        elif not is_open:
            self._strange.add(thought)
            self._tell("CHAT-15", f"nothing of {thought!r} after its end", kind)
        elif kind == "reasonFinished":
            self._open[thought] = False
            spent = content.get("totalTimeMs")
            if isinstance(spent, int | float) and spent < 0:
                self._tell("CHAT-16", "a time in milliseconds", repr(spent))

    def close(self) -> None:
        """The turn ends."""
        still = [thought for thought, is_open in self._open.items() if is_open]
        if still and not self._strange:
            self._tell("W-26b", f"reasonFinished of {still[0]!r}", "the end of the turn")

    def _tell(self, row: str, expected: str, got: str) -> None:
        self._notes.tell(row, expected=expected, got=got, chat_id=self._chat_id, harms=False)

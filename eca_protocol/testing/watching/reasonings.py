"""Reasonings: each has one start, texts and one end, which share an id."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from eca_protocol.testing.watching.observation import ObservationLog


class Reasonings:
    """Checks the reasonings of one turn."""

    def __init__(self, log: ObservationLog, chat_id: str) -> None:
        self._note = functools.partial(log.note, chat_id=chat_id)
        self._open: dict[str, bool] = {}  # by id; False: finished
        self._ignored_ids: set[str] = set()

    def check(self, kind: str, content: Mapping[str, Any]) -> None:
        """Check a content of a reasoning."""
        reasoning_id = content.get("id")
        if not isinstance(reasoning_id, str) or reasoning_id in self._ignored_ids:
            return
        is_start, is_open = kind == "reasonStarted", self._open.get(reasoning_id)
        if is_start:
            if is_open is not None:
                expected = "exactly one `reasonStarted` for a reasoning"
                self._note("CHAT-15", expected, f"a second one for {reasoning_id!r}")
            self._open[reasoning_id] = True
        elif is_open is None:
            self._ignored_ids.add(reasoning_id)
            self._note("CHAT-15", f"`reasonStarted` for {reasoning_id!r} first", f"`{kind}`")
        elif not is_open:
            self._ignored_ids.add(reasoning_id)
            self._note(
                "CHAT-15", f"no content of {reasoning_id!r} after `reasonFinished`", f"`{kind}`"
            )
        elif kind == "reasonFinished":
            self._open[reasoning_id] = False
            spent = content.get("totalTimeMs")
            if isinstance(spent, int | float) and spent < 0:
                self._note("CHAT-16", "a non-negative `totalTimeMs`", repr(spent))

    def close(self) -> None:
        """Check the end of the turn."""
        still = [reasoning_id for reasoning_id, is_open in self._open.items() if is_open]
        if still and not self._ignored_ids:
            self._note("W-26b", f"`reasonFinished` for {still[0]!r}", "the end of the turn")

"""A transcript as the page is told of it: its rows, and what in it breaks the requirements.

What looks like a secret is masked here once more, so that a page shows none whoever wrote the
transcript; also in findings, which join what messages say in pieces. A part is a JSON object in a
line of its own. Each adds to those before it, and behind the first it needs none of them.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeAlias

from eca_protocol import json
from eca_protocol.framing import encode_frame
from eca_protocol.testing.requirements import REQUIREMENTS
from eca_protocol.testing.watching import Observation, Watcher
from eca_protocol.transcript import (
    Ended,
    Entry,
    Exited,
    Mask,
    Passed,
    Side,
    TranscriptReader,
    without_secrets,
)
from eca_server.inspector.rows import Rows
from eca_server.inspector.shapes import shapes

__all__ = ["Inspection"]

_Part: TypeAlias = dict[str, Any]

_LONGEST: Final = 2000  # characters of what a finding got


class Inspection:
    """Takes the bytes of a transcript as they come.

    Attributes:
        has_begun: the first line is there.
        is_over: the server's process has ended, or the rest cannot be read.
        fault: why it cannot be read, if so, and where; or that its end is missing.

    Args:
        name: what the page calls the transcript.
        mask: takes secrets out of messages.
    """

    def __init__(self, name: str, mask: Mask) -> None:
        self.is_over = False
        self.fault: str | None = None
        self._name = name
        self._mask = mask
        self._reader = TranscriptReader(name)
        self.has_begun = False
        self._speaking: set[Side] = {"client", "server"}  # those who may still say something
        self._says_exit = False
        self._rows = Rows()
        self._watcher = Watcher()
        self._watched: list[int] = []  # the row of each message that the watcher was given

    def feed(self, data: bytes) -> bytes | None:
        """Take the next bytes; the next part, once the first line is there."""
        part: _Part = {"first": self._rows.count, "rows": [], "findings": []}
        try:
            for entry in self._reader.feed(data):
                self._take(entry, part)
        except ValueError as fault:
            self.is_over = True
            self.fault = part["fault"] = self._masked(str(fault))
        return self._told(part)

    def end(self, *, may_go_on: bool = False) -> bytes | None:
        """Take the end: what is still open now will never be closed, as far as it was kept.

        Args:
            may_go_on: somebody may still write more of it.
        """
        part: _Part = {"findings": []}
        has_end = not self._speaking or (self._says_exit and not may_go_on)
        if self.fault is None and has_end:
            self._note(self._watcher.finish(), part)
        elif self.fault is None:
            missing = "breaks off before the end of the conversation"
            why = "has no end yet; more may be written" if may_go_on else missing
            self.fault = part["fault"] = self._masked(f"{self._name}: the record {why}")
        return self._told(part)

    def _take(self, entry: Entry, part: _Part) -> None:
        kept = without_secrets(entry, self._mask) if isinstance(entry, Passed) else entry
        message = kept.message if isinstance(kept, Passed) else None
        self._note(self._watch(kept, message), part)
        part["rows"].append(self._rows.row(kept, message).packed())
        self.is_over = isinstance(kept, Exited)
        self._says_exit |= message is not None and message.get("method") == "exit"
        if isinstance(kept, Exited):
            self._speaking.clear()
        elif isinstance(kept, Ended):
            self._speaking.discard(kept.side)

    def _told(self, part: _Part) -> bytes | None:
        started = self._reader.started
        if started is None:
            return None
        if not self.has_begun:
            self.has_begun = True
            part["name"] = self._name
            part["started"] = started.isoformat()
            part["command"] = self._masked(shlex.join(self._reader.command))
            part["shapes"] = shapes()
        part["edition"] = self._watcher.revision.value
        return json.dumps(part) + b"\n"

    def _masked(self, text: str) -> str:
        return self._mask(text.encode("utf-8", "backslashreplace")).decode("utf-8", "replace")

    def _watch(self, entry: Entry, message: Mapping[str, Any] | None) -> Iterable[Observation]:
        if isinstance(entry, Exited):
            return ()
        if isinstance(entry, Ended):
            return self._watcher.feed_end(entry.side)
        self._watched.append(self._rows.count)
        if message is None or entry.body is None or entry.data != encode_frame(entry.body):
            return self._watcher.feed_raw(entry.side, entry.data, at=entry.at)
        return self._watcher.feed(entry.side, message, at=entry.at)

    def _note(self, observations: Iterable[Observation], part: _Part) -> None:
        for each in observations:
            words = [self._masked(text)[:_LONGEST] for text in (each.expected, each.got)]
            part["findings"].append([self._watched[each.index], each.requirement, *words])
            row = REQUIREMENTS[each.requirement]
            requirements = part.setdefault("requirements", {})
            requirements[row.id] = [row.statement, row.section, row.level, row.side]

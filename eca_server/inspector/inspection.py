"""A transcript as the page is told of it: its rows, and what in it breaks the requirements.

What looks like a secret is masked here once more, so that a page shows none whoever wrote the
transcript. A part is a JSON object in a line of its own; each adds to those before it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

from eca_protocol import json
from eca_protocol.framing import encode_frame
from eca_protocol.revisions import Revision
from eca_protocol.testing.requirements import REQUIREMENTS
from eca_protocol.testing.watching import Observation, Watcher
from eca_protocol.transcript import (
    Ended,
    Entry,
    Exited,
    Mask,
    Passed,
    TranscriptReader,
    without_secrets,
)
from eca_server.inspector.rows import Rows
from eca_server.inspector.shapes import shapes

__all__ = ["Inspection"]

_LONGEST: Final = 2000  # characters of what a finding got


class Inspection:
    """Takes the bytes of a transcript as they come.

    Attributes:
        is_over: the server's process has ended; no more is expected.

    Args:
        name: what the page calls the transcript.
        mask: takes secrets out of messages.
    """

    def __init__(self, name: str, mask: Mask) -> None:
        self.is_over = False
        self._name = name
        self._mask = mask
        self._reader = TranscriptReader(name)
        self._has_begun = False
        self._rows = Rows()
        self._told_edition: Revision | None = None
        self._watcher = Watcher()
        self._watched: list[int] = []  # the row of each message that the watcher was given
        self._named: set[str] = set()

    def feed(self, data: bytes) -> bytes | None:
        """Take the next bytes; what is new, if anything is.

        Raises:
            ValueError: it is no transcript; the text says where.
        """
        entries = self._reader.feed(data)
        return self._part(entries) if self._reader.started else None

    def end(self) -> bytes:
        """Take the end: what is still open now will never be closed."""
        return self._part((), self._watcher.finish())

    def fault(self, words: str) -> bytes:
        """Tell that the rest of the transcript cannot be read."""
        return _part({"fault": self._masked(words)})

    def _part(self, entries: Iterable[Entry], late: Iterable[Observation] = ()) -> bytes:
        part: dict[str, Any] = {"first": self._rows.count, "rows": [], "findings": []}
        if not self._has_begun:
            self._has_begun = True
            part |= self._beginning()
        for entry in entries:
            kept = without_secrets(entry, self._mask) if isinstance(entry, Passed) else entry
            message = kept.message if isinstance(kept, Passed) else None
            part["findings"] += self._findings(self._watch(kept, message))
            part["rows"].append(self._rows.row(kept, message).packed())
            self.is_over = self.is_over or isinstance(kept, Exited)
        part["findings"] += self._findings(late)
        if self._watcher.revision != self._told_edition:
            self._told_edition = self._watcher.revision
            part["edition"] = self._watcher.revision.value
        if named := {finding[1] for finding in part["findings"]} - self._named:
            self._named |= named
            part["requirements"] = {name: _requirement(name) for name in named}
        return _part(part)

    def _beginning(self) -> dict[str, Any]:
        started = self._reader.started
        return {
            "name": self._name,
            "started": "" if started is None else started.isoformat(),
            "command": self._masked(" ".join(self._reader.command)),
            "shapes": shapes(),
        }

    def _masked(self, text: str) -> str:
        return os.fsdecode(self._mask(text.encode("utf-8", "backslashreplace")))

    def _watch(self, entry: Entry, message: Mapping[str, Any] | None) -> Iterable[Observation]:
        if isinstance(entry, Exited):
            return ()
        if isinstance(entry, Ended):
            return self._watcher.feed_end(entry.side)
        self._watched.append(self._rows.count)
        if message is None or entry.body is None or entry.data != encode_frame(entry.body):
            return self._watcher.feed_raw(entry.side, entry.data, at=entry.at)
        return self._watcher.feed(entry.side, message, at=entry.at)

    def _findings(self, observations: Iterable[Observation]) -> list[list[Any]]:
        return [
            [
                self._watched[each.index],
                each.requirement,
                each.expected[:_LONGEST],
                each.got[:_LONGEST],
            ]
            for each in observations
        ]


def _requirement(name: str) -> list[str]:
    row = REQUIREMENTS.get(name)
    return [row.duty, row.section, row.level, row.side] if row else ["", "", "must", "both"]


def _part(told: Mapping[str, Any]) -> bytes:
    return json.dumps(dict(told)) + b"\n"

"""The inspection of a transcript: the parts of the page, with rows and findings.

Texts that look like secrets are masked here again, whichever program wrote the transcript; in
findings, too, which join the pieces of several messages. A part is a JSON object in one line. The
page can start with the first part and any later one.
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
    DataEntry,
    EndEntry,
    Entry,
    ExitEntry,
    Mask,
    Side,
    TranscriptReader,
    mask_entry,
)
from eca_server.workbench.inspector.rows import Rows
from eca_server.workbench.inspector.shapes import make_shapes

_Part: TypeAlias = dict[str, Any]

_LONGEST: Final = 2000  # characters of a finding's text


class Inspection:
    """A converter from the bytes of a transcript to the parts of the page.

    Attributes:
        has_started: True once the first line was read.
        is_over: the server's process has ended, or the rest cannot be read.
        fault: the reason why the transcript cannot be read, with the line; or a missing end.
    """

    def __init__(self, name: str, mask: Mask) -> None:
        self.is_over = False
        self.fault: str | None = None
        self._name = name
        self._mask = mask
        self._reader = TranscriptReader(name)
        self.has_started = False
        self._open_sides: set[Side] = {"client", "server"}  # sides that may still send
        self._has_exit = False
        self._rows = Rows()
        self._watcher = Watcher()
        self._watched_rows: list[int] = []  # the row of each message of the watcher

    def feed(self, data: bytes) -> bytes | None:
        """Add the next bytes; return the next part, or None before the first line is complete."""
        part: _Part = {"first": self._rows.count, "rows": [], "findings": []}
        try:
            for entry in self._reader.feed(data):
                self._add(entry, part)
        except ValueError as fault:
            self.is_over = True
            self.fault = part["fault"] = self._masked(str(fault))
        return self._encode(part)

    def end(self, *, may_continue: bool = False) -> bytes | None:
        """End the transcript; return the last part, with findings on unfinished exchanges.

        Args:
            may_continue: the transcript is still being written.
        """
        part: _Part = {"findings": []}
        has_end = not self._open_sides or (self._has_exit and not may_continue)
        if self.fault is None and has_end:
            self._note(self._watcher.finish(), part)
        elif self.fault is None:
            missing = "ends before the end of the conversation"
            why = "has no end yet; it is still being written" if may_continue else missing
            self.fault = part["fault"] = self._masked(f"{self._name}: the record {why}")
        return self._encode(part)

    def _add(self, entry: Entry, part: _Part) -> None:
        masked = mask_entry(entry, self._mask) if isinstance(entry, DataEntry) else entry
        message = masked.message if isinstance(masked, DataEntry) else None
        self._note(self._watch(masked, message), part)
        part["rows"].append(self._rows.row(masked, message).packed())
        self.is_over = isinstance(masked, ExitEntry)
        self._has_exit |= message is not None and message.get("method") == "exit"
        if isinstance(masked, ExitEntry):
            self._open_sides.clear()
        elif isinstance(masked, EndEntry):
            self._open_sides.discard(masked.side)

    def _encode(self, part: _Part) -> bytes | None:
        started = self._reader.started
        if started is None:
            return None
        if not self.has_started:
            self.has_started = True
            part["name"] = self._name
            part["started"] = started.isoformat()
            part["command"] = self._masked(shlex.join(self._reader.command))
            part["shapes"] = make_shapes()
        part["edition"] = self._watcher.revision.value
        return json.dumps(part) + b"\n"

    def _masked(self, text: str) -> str:
        return self._mask(text.encode("utf-8", "backslashreplace")).decode("utf-8", "replace")

    def _watch(self, entry: Entry, message: Mapping[str, Any] | None) -> Iterable[Observation]:
        if isinstance(entry, ExitEntry):
            return ()
        if isinstance(entry, EndEntry):
            return self._watcher.feed_end(entry.side)
        self._watched_rows.append(self._rows.count)
        if message is None or entry.body is None or entry.data != encode_frame(entry.body):
            return self._watcher.feed_raw(entry.side, entry.data, at=entry.at)
        return self._watcher.feed(entry.side, message, at=entry.at)

    def _note(self, observations: Iterable[Observation], part: _Part) -> None:
        for each in observations:
            texts = [self._masked(text)[:_LONGEST] for text in (each.expected, each.got)]
            part["findings"].append([self._watched_rows[each.index], each.requirement, *texts])
            row = REQUIREMENTS[each.requirement]
            requirements = part.setdefault("requirements", {})
            requirements[row.id] = [row.statement, row.section, row.level, row.side]

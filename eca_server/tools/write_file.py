"""`write_file`: a file with a whole new content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from eca_protocol.messages import FileChangeDetails
from eca_server.llm.history import TextPart
from eca_server.tools.diff import file_change
from eca_server.tools.editing import with_newline
from eca_server.tools.files import Files, checkpoint, in_thread, naming, printable
from eca_server.tools.output import counted
from eca_server.tools.tool import Effect, FileChange, PreparedCall, ToolFault, ToolOutput
from eca_server.workspace import (
    Fingerprint,
    NotText,
    Place,
    Text,
    decode,
    replace_file,
)

__all__ = ["WriteFile"]


@attrs.frozen(kw_only=True)
class _Writing:
    """A new content that has been looked at.

    Attributes:
        place: where it goes.
        expected: the content there now; None for a new file.
        data: the new content.
        details: what changes, for people.
        change: what changes, for whoever undoes it.
    """

    place: Place
    expected: Fingerprint | None
    data: bytes = attrs.field(repr=False)
    details: FileChangeDetails
    change: FileChange


@attrs.frozen(kw_only=True)
class WriteFile:
    """The tool `write_file`; a file that is there keeps its encoding and its line ends."""

    files: Files

    name: ClassVar = "write_file"
    effect: ClassVar[Effect] = "write"
    description: ClassVar = (
        "Create a file, with the directories it needs, or give a file a whole new content. To "
        "change a part of a file use edit_file."
    )
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "description": "The file: absolute, or relative to the first workspace root.",
            },
            "content": {"type": "string", "description": "The whole content of the file."},
        },
        "required": ["path", "content"],
    }

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """`Creating file NAME`."""
        return naming("Creating file", arguments)

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Look at what is there, and at what would change.

        Raises:
            ToolFault: it cannot be written, or has changed since the model read it.
        """
        path: str = arguments["path"]
        writing = await in_thread(lambda: self._look(path, arguments["content"]))

        async def run() -> ToolOutput:
            return await in_thread(lambda: self._write(writing))

        return PreparedCall(
            run=run,
            summary=self.summary(arguments),
            places=(writing.place,),
            details=writing.details,
            changes=(writing.change,),
        )

    def _look(self, path: str, content: str) -> _Writing:
        place = self.files.workspace.locate(path)
        snapshot = self.files.read(place)
        before = ""
        if snapshot is None:
            data = _encoded(content)
        else:
            try:
                old = decode(snapshot.data)
            except NotText as fault:
                raise ToolFault(
                    f"Expected a text file, {fault}: {str(place.path)!r}. To replace it, "
                    "move it away first."
                ) from fault
            before = old.text
            content, data = _like(old, content)
        details = file_change(
            printable(place.path), before, content, cap=self.files.cap, checkpoint=checkpoint
        )
        change = FileChange(path=place.real_path, before=snapshot, after=Fingerprint.of(data))
        return _Writing(
            place=place,
            expected=None if snapshot is None else snapshot.fingerprint,
            data=data,
            details=details,
            change=change,
        )

    def _write(self, writing: _Writing) -> ToolOutput:
        place = writing.place
        after = replace_file(place, writing.data, expected=writing.expected, checkpoint=checkpoint)
        self.files.ledger.saw(place.real_path, after)
        details = writing.details
        words = (
            f"Created {details.path}: {counted(details.lines_added, 'line')}."
            if writing.expected is None
            else f"Wrote {details.path}: {counted(details.lines_added, 'line')} added, "
            f"{details.lines_removed} removed."
        )
        return ToolOutput(parts=(TextPart(words),), details=details)


def _like(old: Text, content: str) -> tuple[str, bytes]:
    """A content with the line ends and the encoding of the one before; UTF-8 where it must."""
    if "\r" not in content:
        content = with_newline(content, old.newline)
    try:
        return content, old.encode(content)
    except NotText:
        return content, _encoded(content)


def _encoded(content: str) -> bytes:
    try:
        return content.encode()
    except UnicodeEncodeError:
        raise ToolFault("content: expected text, got half a surrogate pair.") from None

"""`read_file`: a text file's lines, a picture, or a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs

from eca_server.llm.attachments import SIGNATURE_BYTES, make_attachment, max_bytes_of, media_type_of
from eca_server.llm.history import TextPart
from eca_server.tools.diff import split_lines
from eca_server.tools.files import LARGEST, Files, checkpoint, in_thread, naming, printable
from eca_server.tools.output import Cap, cut_mark
from eca_server.tools.tool import Effect, PreparedCall, ToolFault, ToolOutput
from eca_server.workspace import NotAFile, NotText, Place, TooLarge, decode, read_file

__all__ = ["ReadFile", "shown_as_it_is"]


@attrs.frozen(kw_only=True)
class ReadFile:
    """The tool `read_file`; what it reads, the model knows from then on."""

    files: Files

    name: ClassVar = "read_file"
    effect: ClassVar[Effect] = "read"
    description: ClassVar = (
        "Read a text file, a picture (PNG, JPEG, GIF, WebP) or a PDF. Text comes as it is, "
        "without line numbers. What does not fit one answer is cut at a line's end, and the last "
        "line says which lines were shown and with which line_offset to go on."
    )
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "description": "The file: absolute, or relative to the first workspace root.",
            },
            "line_offset": {
                "type": "integer",
                "minimum": 0,
                "description": "How many lines to skip. Default: 0.",
            },
            "limit": {
                "type": "integer",
                "minimum": 1,
                "description": "How many lines to read at most.",
            },
        },
        "required": ["path"],
    }

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """`Reading file NAME`."""
        return naming("Reading file", arguments)

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Find out where the path leads.

        Raises:
            ToolFault: it is no path.
        """
        path: str = arguments["path"]
        place = await in_thread(lambda: self.files.workspace.locate(path))
        offset: int = arguments.get("line_offset", 0)
        limit: int = min(arguments.get("limit", self.files.max_lines), self.files.max_lines)

        async def run() -> ToolOutput:
            return await in_thread(lambda: self._read(place, offset, limit))

        return PreparedCall(run=run, summary=self.summary(arguments), places=(place,))

    def _read(self, place: Place, offset: int, limit: int) -> ToolOutput:
        try:
            snapshot = read_file(place, limit=LARGEST, checkpoint=checkpoint)
        except FileNotFoundError:
            self.files.ledger.forget(place.real_path)
            raise
        except TooLarge as fault:
            raise ToolFault(f"{fault}. Use grep to find lines in it.") from fault
        except NotAFile as fault:
            raise ToolFault(f"{fault}. directory_tree lists a directory.") from fault
        if media_type := media_type_of(snapshot.data[:SIGNATURE_BYTES]):
            return shown_as_it_is(place, media_type, snapshot.data)
        try:
            text = decode(snapshot.data).text
        except NotText as fault:
            raise ToolFault(f"Expected a text file, {fault}: {str(place.path)!r}.") from fault
        cap = attrs.evolve(self.files.cap, lines=min(limit, self.files.cap.lines))
        shown = _shown(split_lines(text), offset, cap)
        self.files.ledger.saw(place.real_path, snapshot.fingerprint)
        return ToolOutput(parts=(TextPart(shown),))


def shown_as_it_is(place: Place, media_type: str, data: bytes) -> ToolOutput:
    """Return a picture or a document for the model.

    Raises:
        ToolFault: it is too large.
    """
    most = max_bytes_of(media_type)
    if len(data) > most:
        raise ToolFault(
            f"Expected a file of type {media_type} of at most {most:,} bytes, got {len(data):,}: "
            f"{str(place.path)!r}."
        )
    words = f"{printable(place.path)}: {media_type}, {len(data):,} bytes"
    return ToolOutput(parts=(TextPart(words), make_attachment(media_type, place.path.name, data)))


def _shown(lines: Sequence[str], offset: int, cap: Cap) -> str:
    r"""The lines from an offset on that fit the cap, ends as `\n`; then what was cut."""
    total = len(lines)
    if offset and offset >= total:
        raise ToolFault(f"line_offset: expected less than {total}, the file's lines, got {offset}.")
    if not lines:
        return "(the file is empty)"
    kept: list[str] = []
    size = 0
    for line in lines[offset : offset + cap.lines]:
        bare = line.rstrip("\r\n")
        size += len(bare.encode()) + 1
        if size > cap.size:
            break
        kept.append(bare)
    end = offset + len(kept)
    rest = len("".join(lines[end:]).encode())
    if not kept:
        beginning = lines[offset].encode()[: cap.size].decode(errors="ignore").rstrip("\r\n")
        kept.append(beginning)
        end += 1
        rest -= len(beginning.encode())
    if rest:
        reached = f"lines {offset + 1} to {end} of {total} are shown"
        further = f"go on with line_offset={end}" if end < total else "the last line is cut"
        kept.append(cut_mark(rest, f"{reached}; {further}"))
    return "\n".join(kept)

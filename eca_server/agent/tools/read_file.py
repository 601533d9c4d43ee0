"""`read_file` and `view_image`: read the lines of a text file, a picture, or a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import attrs

from eca_server.agent.tools.diff import split_lines
from eca_server.agent.tools.files import (
    LARGEST,
    ReadingTool,
    checkpoint,
    printable,
    sentence,
    text_in,
)
from eca_server.agent.tools.output import Cap, cut_mark
from eca_server.agent.tools.schemas import integer, object_schema, required, string
from eca_server.agent.tools.tool import ToolError, ToolOutput
from eca_server.models.attachments import (
    IMAGE_TYPES,
    MAX_IMAGE_BYTES,
    SIGNATURE_BYTES,
    make_attachment,
    max_bytes_of,
    media_type_of,
)
from eca_server.models.history import TextPart
from eca_server.workspace.boundary import Place
from eca_server.workspace.errors import NotRegularFile, TooLarge
from eca_server.workspace.reading import read_file

_GUESSED = (
    "\n(The file is not UTF-8. It is read and edited as Latin-1: if it has a different encoding, "
    "characters beyond ASCII are wrong, so do not change them.)"
)


@attrs.frozen(kw_only=True)
class ReadFile(ReadingTool):
    """The tool `read_file`; the ledger records each content that it reads."""

    name: ClassVar = "read_file"
    action: ClassVar = "Reading file"
    description: ClassVar = (
        "Read a text file, a picture (PNG, JPEG, GIF, WebP) or a PDF. Text is returned without "
        "line numbers. A long file is cut at a line end; the last line of the output then states "
        "which lines were shown and the line_offset to continue with."
    )
    parameters: ClassVar[Mapping[str, Any]] = object_schema(
        path=required(string("The file: absolute, or relative to the first workspace root.")),
        line_offset=integer("Number of lines to skip. Default: 0.", minimum=0),
        limit=integer("Maximum number of lines to read.", minimum=1),
    )

    def read(self, place: Place, arguments: Mapping[str, Any]) -> ToolOutput:
        """Return the lines of a text, or a picture or document."""
        try:
            snapshot = read_file(place, limit=LARGEST, checkpoint=checkpoint)
        except FileNotFoundError:
            self.files.ledger.forget(place.real_path)
            raise
        except TooLarge as error:
            raise ToolError(f"{sentence(str(error))}. Use grep to search it.") from error
        except NotRegularFile as error:
            hint = "To list a directory, use directory_tree."
            raise ToolError(f"{sentence(str(error))}. {hint}") from error
        if media_type := media_type_of(snapshot.data[:SIGNATURE_BYTES]):
            return attachment_output(place, media_type, snapshot.data)
        text = text_in(place, snapshot)
        most = min(self.files.max_lines, self.files.cap.lines)
        cap = attrs.evolve(self.files.cap, lines=min(arguments.get("limit", most), most))
        shown = _shown(split_lines(text.text), arguments.get("line_offset", 0), cap)
        if text.encoding == "latin-1":
            shown += _GUESSED
        self.files.ledger.record(place.real_path, snapshot.fingerprint)
        return ToolOutput.of(shown)


def attachment_output(place: Place, media_type: str, data: bytes) -> ToolOutput:
    """Return a picture or a document as output for the model.

    Raises:
        ToolError: it is too large.
    """
    most = max_bytes_of(media_type)
    if len(data) > most:
        raise ToolError(
            f"Expected a file of type {media_type} of at most {most:,} bytes, got {len(data):,}: "
            f"{str(place.path)!r}."
        )
    caption = f"{printable(place.path)}: {media_type}, {len(data):,} bytes"
    return ToolOutput(parts=(TextPart(caption), make_attachment(media_type, place.path.name, data)))


def _shown(lines: Sequence[str], offset: int, cap: Cap) -> str:
    r"""Return the lines from an offset that fit the cap, with `\n` as line ends, then the mark."""
    total = len(lines)
    if offset and offset >= total:
        raise ToolError(
            f"line_offset: expected less than {total}, the number of lines, got {offset}."
        )
    if not lines:
        return "(the file is empty)"
    shown: list[str] = []
    size = 0
    for line in lines[offset : offset + cap.lines]:
        bare = line.rstrip("\r\n")
        size += len(bare.encode()) + 1
        if size > cap.size:
            break
        shown.append(bare)
    end = offset + len(shown)
    rest = len("".join(lines[end:]).encode())
    range_shown = f"lines {offset + 1} to {end} of {total} are shown"
    if not shown:
        beginning = lines[offset].encode()[: cap.size].decode(errors="ignore").rstrip("\r\n")
        shown.append(beginning)
        end += 1
        rest -= len(beginning.encode())
        range_shown = f"only the beginning of line {end} of {total} is shown"
    if rest:
        further = f"; continue with line_offset={end}" if end < total else ""
        shown.append(cut_mark(rest, f"{range_shown}{further}"))
    return "\n".join(shown)


@attrs.frozen(kw_only=True)
class ViewImage(ReadingTool):
    """The tool `view_image`; it opens the same paths as `read_file`."""

    name: ClassVar = "view_image"
    action: ClassVar = "Viewing image"
    description: ClassVar = "View a picture file (PNG, JPEG, GIF or WebP)."
    parameters: ClassVar[Mapping[str, Any]] = object_schema(
        path=required(string("The picture: absolute, or relative to the first workspace root."))
    )

    def read(self, place: Place, arguments: Mapping[str, Any]) -> ToolOutput:
        """Return the picture."""
        try:
            data = read_file(place, limit=MAX_IMAGE_BYTES, checkpoint=checkpoint).data
        except TooLarge as error:
            raise ToolError(
                f"{error}. Create a smaller copy of the picture and view that."
            ) from error
        except NotRegularFile as error:
            raise ToolError(f"{error}. To list a directory, use directory_tree.") from error
        media_type = media_type_of(data[:SIGNATURE_BYTES])
        if media_type not in IMAGE_TYPES:
            kind = media_type or "a different type"
            raise ToolError(
                f"Expected a PNG, JPEG, GIF or WebP picture, got {kind}: {str(place.path)!r}. "
                "Read other files with read_file."
            )
        return attachment_output(place, media_type, data)

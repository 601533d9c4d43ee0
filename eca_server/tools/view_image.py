"""`view_image`: a picture, for models with image input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import attrs

from eca_server.llm.attachments import IMAGE_TYPES, MAX_IMAGE_BYTES, SIGNATURE_BYTES, media_type_of
from eca_server.tools.files import Files, checkpoint, in_thread, naming
from eca_server.tools.read_file import shown_as_it_is
from eca_server.tools.tool import Effect, PreparedCall, ToolFault, ToolOutput
from eca_server.workspace import NotAFile, Place, TooLarge, read_file

__all__ = ["ViewImage"]


@attrs.frozen(kw_only=True)
class ViewImage:
    """The tool `view_image`; it opens the same places as `read_file`."""

    files: Files

    name: ClassVar = "view_image"
    effect: ClassVar[Effect] = "read"
    description: ClassVar = "View a picture file (PNG, JPEG, GIF or WebP)."
    parameters: ClassVar[Mapping[str, Any]] = {
        "type": "object",
        "properties": {
            "path": {
                "type": "string",
                "description": "The picture: absolute, or relative to the first workspace root.",
            },
        },
        "required": ["path"],
    }

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """`Viewing image NAME`."""
        return naming("Viewing image", arguments)

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Find out where the path leads.

        Raises:
            ToolFault: it is no path.
        """
        path: str = arguments["path"]
        place = await in_thread(lambda: self.files.workspace.locate(path))

        async def run() -> ToolOutput:
            return await in_thread(lambda: _picture(place))

        return PreparedCall(run=run, summary=self.summary(arguments), places=(place,))


def _picture(place: Place) -> ToolOutput:
    try:
        data = read_file(place, limit=MAX_IMAGE_BYTES, checkpoint=checkpoint).data
    except TooLarge as fault:
        raise ToolFault(f"{fault}. Have a smaller copy made of the picture.") from fault
    except NotAFile as fault:
        raise ToolFault(f"{fault}. directory_tree lists a directory.") from fault
    media_type = media_type_of(data[:SIGNATURE_BYTES])
    if media_type not in IMAGE_TYPES:
        kind = media_type or "none of these"
        raise ToolFault(
            f"Expected a PNG, JPEG, GIF or WebP picture, got {kind}: {str(place.path)!r}. "
            "read_file reads other files."
        )
    return shown_as_it_is(place, media_type, data)

"""`view_image`: view a picture, for models with image input."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import attrs

from eca_server.agent.tools.files import Files, action_summary, checkpoint, in_thread
from eca_server.agent.tools.read_file import attachment_output
from eca_server.agent.tools.schemas import object_schema, string
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput
from eca_server.models.attachments import (
    IMAGE_TYPES,
    MAX_IMAGE_BYTES,
    SIGNATURE_BYTES,
    media_type_of,
)
from eca_server.workspace.boundary import Place
from eca_server.workspace.errors import NotRegularFile, TooLarge
from eca_server.workspace.reading import read_file


@attrs.frozen(kw_only=True)
class ViewImage:
    """The tool `view_image`; it opens the same paths as `read_file`."""

    files: Files

    name: ClassVar = "view_image"
    effect: ClassVar[Effect] = "read"
    description: ClassVar = "View a picture file (PNG, JPEG, GIF or WebP)."
    parameters: ClassVar[Mapping[str, Any]] = object_schema(
        "path", path=string("The picture: absolute, or relative to the first workspace root.")
    )

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `Viewing image NAME`."""
        return action_summary("Viewing image", arguments)

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Resolve the path.

        Raises:
            ToolError: it is not a valid path.
        """
        place = await in_thread(self.files.workspace.locate, arguments["path"])

        return PreparedCall(
            run=partial(in_thread, _picture, place),
            summary=self.summary(arguments),
            places=(place,),
        )


def _picture(place: Place) -> ToolOutput:
    try:
        data = read_file(place, limit=MAX_IMAGE_BYTES, checkpoint=checkpoint).data
    except TooLarge as error:
        raise ToolError(f"{error}. Create a smaller copy of the picture and view that.") from error
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

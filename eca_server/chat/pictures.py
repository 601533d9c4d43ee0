"""Pictures that a model made or a tool gave, as the contents that show them.

The rule it keeps: what a picture is its bytes say, whatever it was called where it came from.
"""

from __future__ import annotations

import base64

from eca_protocol.messages import ChatImageContent
from eca_server.llm.attachments import SIGNATURE_BYTES, media_type_of
from eca_server.llm.events import Block, Event, Image

__all__ = ["MOST_PICTURES", "FirstPictures", "picture_content"]

MOST_PICTURES = 20
"""Pictures of one answer that are taken; more of them are dropped, and the user is told."""

_UNKNOWN = "application/octet-stream"


def picture_content(data: bytes) -> ChatImageContent:
    """The content that shows a picture; of a kind that nobody knows its type is no picture's."""
    return ChatImageContent(
        media_type=media_type_of(data[:SIGNATURE_BYTES]) or _UNKNOWN,
        base64=base64.b64encode(data).decode("ascii"),
    )


class FirstPictures:
    """Drops the pictures of one answer that are too many.

    Attributes:
        came: how many there were in all.
    """

    def __init__(self) -> None:
        self.came = 0
        self._dropped = False

    def drops(self, event: Event) -> bool:
        """Whether an event is one picture too many, or the block that belongs to that."""
        if isinstance(event, Image):
            self.came += 1
            self._dropped = self.came > MOST_PICTURES
            return self._dropped
        belongs = self._dropped and isinstance(event, Block)
        self._dropped = False
        return belongs

"""Pictures from models and tools, as contents.

Rule: a picture's type is read from its bytes, not from its source's claim.
"""

from __future__ import annotations

import base64

from eca_protocol.messages import ChatImageContent
from eca_server.models.attachments import SIGNATURE_BYTES, media_type_of
from eca_server.models.events import Block, Event, Image

MOST_PICTURES = 20
"""Pictures of one answer that are shown; further ones are dropped, and the user is notified."""

_UNKNOWN = "application/octet-stream"


def picture_content(data: bytes) -> ChatImageContent:
    """Return the content that shows a picture; an unknown type becomes `_UNKNOWN`."""
    return ChatImageContent(
        media_type=media_type_of(data[:SIGNATURE_BYTES]) or _UNKNOWN,
        base64=base64.b64encode(data).decode("ascii"),
    )


class FirstPictures:
    """Drops the pictures of one answer beyond `MOST_PICTURES`."""

    def __init__(self) -> None:
        self.count = 0
        self._dropped = False

    def drops(self, event: Event) -> bool:
        """Return whether an event is a picture beyond the limit, or such a picture's block."""
        if isinstance(event, Image):
            self.count += 1
            self._dropped = self.count > MOST_PICTURES
            return self._dropped
        belongs = self._dropped and isinstance(event, Block)
        self._dropped = False
        return belongs

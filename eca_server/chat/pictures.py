"""Pictures that a model made or a tool gave, as the contents that show them.

The rule it keeps: what a picture is its bytes say, whatever it was called where it came from.
"""

from __future__ import annotations

import base64

from eca_protocol.messages import ChatImageContent
from eca_server.llm.attachments import SIGNATURE, media_type_of

__all__ = ["picture_content"]

_UNKNOWN = "application/octet-stream"


def picture_content(data: bytes) -> ChatImageContent:
    """The content that shows a picture; of a kind that nobody knows its type is no picture's."""
    return ChatImageContent(
        media_type=media_type_of(data[:SIGNATURE]) or _UNKNOWN,
        base64=base64.b64encode(data).decode("ascii"),
    )

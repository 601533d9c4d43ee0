"""Pictures pasted into the prompt.

The rule of this module: the media type is detected from the bytes, not taken from the client.
"""

from __future__ import annotations

import binascii

from eca_protocol.messages import ImageContext
from eca_server.agent.context.limits import Limits
from eca_server.models.attachments import (
    SIGNATURE_BYTES,
    Attachment,
    make_attachment,
    media_type_of,
)
from eca_server.workspace.errors import NotText, TooLarge

_HEAD = SIGNATURE_BYTES * 4


def pasted_attachment(context: ImageContext, limits: Limits) -> Attachment:
    """Return the attachment of a pasted picture or document (PDF).

    Raises:
        FileError: its type is not supported, or it is too large.
    """
    text = context.base64
    text = text.partition(",")[2] if text.startswith("data:") else text
    most = max(limits.picture, limits.document)
    if len(text) > most * 2:
        raise TooLarge(f"expected at most {most} bytes, got about {len(text) * 3 // 4}")
    try:
        data = binascii.a2b_base64(text)
    except ValueError as error:  # also for non-ASCII characters
        raise NotText(f"expected base64: {error}") from error
    media_type = media_type_of(data[:_HEAD])
    if media_type is None:
        raise NotText("expected PNG, JPEG, GIF, WebP or PDF, got something else")
    most = limits.document if media_type == "application/pdf" else limits.picture
    if len(data) > most:
        raise TooLarge(f"expected at most {most} bytes, got {len(data)}")
    return make_attachment(media_type, "pasted", data)

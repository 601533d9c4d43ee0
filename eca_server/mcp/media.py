"""Bytes inside JSON, as servers really write them: Base64 of any accent, labels that are wrong."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

__all__ = ["blob_of", "image_type"]

_DATA_URL = re.compile(r"data:[^,]{0,200},")
_BLANK = re.compile(r"\s+")


def blob_of(raw: Any) -> bytes:
    """The bytes of a Base64 text: also URL-safe, unpadded, folded, or behind `data:...,`.

    `b""` where it is none.
    """
    if not isinstance(raw, str):
        return b""
    start = _DATA_URL.match(raw)
    text = _BLANK.sub("", raw[start.end() :] if start else raw)
    text = text.rstrip("=").replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        return b""


def image_type(data: bytes) -> str | None:
    """The media type that a picture's first bytes tell, or None."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if data.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return None

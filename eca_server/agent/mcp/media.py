"""Bytes inside JSON, as servers write them: variants of Base64, and wrong media types."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

_DATA_URL = re.compile(r"data:[^,]{0,200},")
_BLANK = re.compile(r"\s+")


def decode_base64(raw: Any) -> bytes:
    """Decode Base64: also URL-safe, unpadded, folded, or behind `data:...,`.

    Return `b""` for another value.
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

"""Rows that say what another row says: that one is judged, and these get its verdict.

Of several the one stays that says it best: a server with one fault has one row that fails.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["SAME"]

_BASE: Final = {
    "BASE-3": "W-1",
    "BASE-4": "W-1",
    "W-4d": "BASE-25",
    "W-3d": "BASE-26",
    "CLIENT-4": "W-1",
    "CLIENT-6": "W-2a",
    "CLIENT-7": "W-2d",
    "CLIENT-8": "W-2b",
    "CLIENT-9": "W-3a",
    "CLIENT-10": "W-3e",
    "CLIENT-13": "BASE-17",
    "CLIENT-30": "BASE-2",
}

_LIFECYCLE: Final = {
    "LIFE-6": "W-14a",
    "LIFE-13": "W-10e",
    "LIFE-15": "W-11c",
    "LIFE-19": "W-13a",
    "LIFE-25": "W-13l",
    "ARROW:initialization-2": "LIFE-3",
    "ARROW:initialization-4": "LIFE-14",
    "ARROW:initialization-5": "W-11c",
    "ARROW:shutdown-2": "LIFE-18",
    "CLIENT-1": "W-10a",
    "CLIENT-24": "LIFE-18",
    "CLIENT-29": "W-11e",
}

_CONFIGURATION: Final = {
    "CONF-1": "W-11a",
    "CONF-2": "W-11b",
    "CONF-7": "W-11c",
    "CLIENT-2": "W-11b",
    "CLIENT-3": "W-28c",
    "CLIENT-23": "W-11g",
    "CHAT-38": "W-28a",
}

_EDITOR: Final = {
    "CLIENT-26": "W-42d",
    "EDIT-5": "W-42c",
    "LIFE-9": "W-42d",
}

SAME: Final[Mapping[str, str]] = MappingProxyType(
    {**_BASE, **_LIFECYCLE, **_CONFIGURATION, **_EDITOR}
)
"""A row -> the row that is judged in its place."""

"""Rows that bind a server and that nobody outside of it can judge, and why."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["UNSEEN"]

_READS: Final = "A pipe joins writes, so how the bytes were written cannot be told from reading."

_BASE: Final = {
    "BASE-27": "No fault of a server's own can be brought about from outside.",
    "W-5f": "It binds who reads the Evaluation Context Protocol.",
    "W-5h": "A server shows one JSON engine only.",
    "W-6d": _READS,
    "W-6e": _READS,
    "CLIENT-5": _READS,
    "CLIENT-20": "It sums up what other rows say of single messages.",
    "CLIENT-28": "The suite is given the command, and cannot know what else starts the server.",
}

_LIFECYCLE: Final = {
    "LIFE-21": "A shutdown cannot be made to fail from outside.",
    "W-13c": "A shutdown cannot be made to fail from outside.",
}

_CHATS: Final = {
    "W-44a": "The model of a stored chat cannot be taken away from outside.",
}

UNSEEN: Final[Mapping[str, str]] = MappingProxyType({**_BASE, **_LIFECYCLE, **_CHATS})
"""A row -> why it is untestable, in a sentence."""

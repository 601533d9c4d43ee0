"""Rows that bind a server and that no test from outside can judge, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

__all__ = ["UNTESTABLE"]

_READS: Final = "A pipe joins writes, so a reader cannot see how the bytes were written."

_BASE: Final = {
    "BASE-27": "An internal error of a server cannot be caused from outside.",
    "W-5f": "It binds readers of the Evaluation Context Protocol.",
    "W-5h": "A server uses one JSON engine only.",
    "W-6d": _READS,
    "W-6e": _READS,
    "CLIENT-5": _READS,
    "CLIENT-20": "It summarizes other rows, which concern single messages.",
    "CLIENT-28": "The suite has one command, and cannot know other ones that start the server.",
}

_LIFECYCLE: Final = {
    "LIFE-21": "A failure of the shutdown cannot be caused from outside.",
    "W-13c": "A failure of the shutdown cannot be caused from outside.",
}

_CHATS: Final = {
    "W-44a": "The model of a stored chat cannot be removed from outside.",
}

UNTESTABLE: Final[Mapping[str, str]] = MappingProxyType({**_BASE, **_LIFECYCLE, **_CHATS})
"""A row -> the reason why it is untestable, in a sentence."""

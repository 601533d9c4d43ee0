"""Rows that no test from outside can judge, and errors that no row forbids, with the reasons."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

_READS: Final = "A pipe joins writes, so a reader cannot see how the bytes were written."

UNTESTABLE: Final[Mapping[str, str]] = MappingProxyType(
    {
        "BASE-27": "An internal error of a server cannot be caused from outside.",
        "W-5f": "It binds readers of the Evaluation Context Protocol.",
        "W-5h": "A server uses one JSON engine only.",
        "W-6d": _READS,
        "W-6e": _READS,
        "CLIENT-5": _READS,
        "CLIENT-20": "It summarizes other rows, which concern single messages.",
        "CLIENT-28": "The suite has one command, and cannot know other ones that start the server.",
        "LIFE-21": "A failure of the shutdown cannot be caused from outside.",
        "W-13c": "A failure of the shutdown cannot be caused from outside.",
        "W-44a": "The model of a stored chat cannot be removed from outside.",
    }
)
"""A row -> the reason why it is untestable, in a sentence."""

_NO_BOUNDARY: Final = (
    "The protocol has no boundary of a workspace for tools: the rules of the server decide which "
    "calls need approval, and TOOL-4 judges only that the announcement is true."
)

UNBOUND: Final[Mapping[str, str]] = MappingProxyType(
    {
        "A broken configuration file is not reported.": (
            "No rule says whether and how. CONF-3 and LIFE-3 judge that the server runs."
        ),
        "An allowed tool changes files outside the workspace.": _NO_BOUNDARY,
        "A path with `..` leads outside the workspace without an approval.": _NO_BOUNDARY,
        "An edit of a text with several matches changes the first one.": (
            "The original server does so. W-38b judges the reason of an edit that is refused, "
            "TOOL-13 the announced change."
        ),
        "Commands and MCP servers get the keys in the server's environment.": (
            "No rule is about the environment of child processes."
        ),
        "A deleted chat leaves text in the bytes of the store.": (
            "The form of the store belongs to the server. W-24f judges that neither this server "
            "nor the next one in the same home has a history of the chat."
        ),
        "A killed chat is lost by a server that stores no chats.": (
            "No rule asks for a store. CHAT-2 judges the kill if chats continue after a shutdown."
        ),
    }
)
"""An error that a user may notice -> the reason why the suite does not judge it."""

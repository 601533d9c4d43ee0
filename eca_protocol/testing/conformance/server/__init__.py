"""The cases for servers, one module a chapter; a new chapter is named here, in both orders."""

from typing import Final

__all__ = ["BY_WEIGHT", "CHAPTERS"]

CHAPTERS: Final = (
    "lifecycle",
    "editions",
    "roots",
    "framing",
    "bodies",
    "jsonrpc",
    "ends",
    "children",
    "robustness",
    "configuration",
    "behaviors",
    "editor",
    "turns",
    "stops",
    "deletion",
    "tools",
    "approvals",
    "faults",
    "usage",
    "titles",
    "links",
    "queries",
    "contexts",
    "mcp",
    "today",
    "jobs",
    "draft",
)
"""As they are listed."""

BY_WEIGHT: Final = (
    "lifecycle",
    "turns",
    "stops",
    "approvals",
    "framing",
    "jsonrpc",
    "tools",
    "configuration",
    "deletion",
    "bodies",
    "faults",
    "usage",
    "queries",
    "contexts",
    "titles",
    "behaviors",
    "draft",
    "today",
    "jobs",
    "links",
    "editor",
    "roots",
    "ends",
    "children",
    "robustness",
    "mcp",
    "editions",
)
"""As they are run: first what every client needs of a server, last what needs most time.

What a slow server has no time for is the least that can be missed.
"""

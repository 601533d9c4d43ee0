"""The cases for servers, one module a chapter; a new chapter is named here."""

from typing import Final

__all__ = ["CHAPTERS"]

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
    "draft",
)

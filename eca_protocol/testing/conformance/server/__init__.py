"""The cases for servers, one module a chapter; a new chapter is named here.

A function that waits, for an answer or for a state, raises `Unmet` if it does not come in time.
"""

from typing import Final

CHAPTERS: Final = (
    "lifecycle", "editions", "roots", "framing", "bodies", "jsonrpc", "ends", "children",
    "robustness", "homes", "configuration", "behaviors", "editor", "turns", "stops", "deletion",
    "tools", "approvals", "faults", "usage", "titles", "links", "queries", "contexts", "mcp",
    "today", "jobs", "draft",
)  # fmt: skip
"""The chapters in the order of lists."""

RUN_ORDER: Final = (
    "lifecycle", "turns", "stops", "approvals", "framing", "jsonrpc", "tools", "configuration",
    "deletion", "bodies", "faults", "usage", "queries", "contexts", "titles", "behaviors", "draft",
    "today", "jobs", "links", "editor", "roots", "ends", "children", "robustness", "homes", "mcp",
    "editions",
)  # fmt: skip
"""The chapters in the order of runs: essentials first, slow ones last.

If a slow server runs out of time, the least important chapters are missing.
"""

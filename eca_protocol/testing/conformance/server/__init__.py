"""The cases for servers, one module a chapter; a new chapter is named here.

A function that waits, for an answer or for a state, raises `Unmet` if it does not come in time.
"""

from collections.abc import Mapping
from typing import Final

CHAPTERS: Final[Mapping[str, int]] = {
    "lifecycle": 1,
    "editions": 28,
    "roots": 22,
    "framing": 5,
    "bodies": 10,
    "jsonrpc": 6,
    "ends": 23,
    "children": 24,
    "robustness": 25,
    "homes": 26,
    "configuration": 8,
    "behaviors": 16,
    "editor": 21,
    "turns": 2,
    "stops": 3,
    "deletion": 9,
    "tools": 7,
    "approvals": 4,
    "faults": 11,
    "usage": 12,
    "titles": 15,
    "links": 20,
    "queries": 13,
    "contexts": 14,
    "mcp": 27,
    "today": 18,
    "jobs": 19,
    "draft": 17,
}
"""The chapters in the order of lists, each with its place in runs."""

RUN_ORDER: Final = tuple(sorted(CHAPTERS, key=CHAPTERS.__getitem__))
"""The chapters in the order of runs: essentials first, slow ones last.

If a slow server runs out of time, the least important chapters are missing.
"""

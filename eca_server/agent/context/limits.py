"""The limits of a prompt's contexts.

Sizes are in bytes, of text as UTF-8; a longer text is cut with a mark (ruling W-38).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

CONTEXTS: Final = 100
"""Number of contexts and mentions of one prompt."""

TOTAL: Final = 400 * 1024
"""Size of all texts of one prompt."""

FILE: Final = 200 * 1024
"""Size of one file."""

DIRECTORY: Final = 200 * 1024
"""Size of the texts of one directory."""

PAGE: Final = 100 * 1024
"""Size of the text of one web page."""

PAGES: Final = 10
"""Number of web pages of one prompt."""

RESOURCE: Final = 200 * 1024
"""Size of the text of one piece of a resource."""

RESOURCES: Final = 20
"""Number of resources of one prompt."""

PIECES: Final = 50
"""Number of pieces of one resource."""

TREE: Final = 800
"""Number of entries of one tree."""

ATTACHMENTS: Final = 5
"""Number of pictures and documents."""

_MOST_NOTES = 20


def limit_notes(notes: Sequence[str]) -> tuple[str, ...]:
    """Return the first notes, and the number of the others."""
    more = len(notes) - _MOST_NOTES
    if more <= 0:
        return tuple(notes)
    return (*notes[:_MOST_NOTES], f"And {more} more like these.")

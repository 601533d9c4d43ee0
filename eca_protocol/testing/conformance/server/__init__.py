"""The cases for servers, one module a chapter; a new chapter is named here."""

from typing import Final

__all__ = ["CHAPTERS"]

CHAPTERS: Final = (
    "turns",
    "stops",
    "deletion",
    "tools",
)

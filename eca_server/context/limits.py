"""How much a prompt's contexts may be, all of them together and each."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from eca_server.llm.attachments import MAX_DOCUMENT_BYTES, MAX_IMAGE_BYTES

__all__ = ["Limits", "readable"]

_MOST_NOTES = 20


@attrs.frozen(kw_only=True)
class Limits:
    """Sizes are bytes, of text as UTF-8; what is over them is cut with a mark (ruling W-38).

    Attributes:
        contexts: how many contexts and mentions of one prompt are looked at.
        total: all texts of one prompt.
        file: one file.
        directory: the texts of one directory.
        page: the text of one web page.
        pages: how many web pages are fetched for one prompt.
        resource: the text of one piece of a resource.
        resources: how many resources are read for one prompt.
        pieces: how many pieces of one resource are taken.
        tree: entries of one tree.
        picture: one picture.
        document: one document (PDF).
        attachments: how many pictures and documents.
    """

    contexts: int = 100
    total: int = 400 * 1024
    file: int = 200 * 1024
    directory: int = 200 * 1024
    page: int = 100 * 1024
    pages: int = 10
    resource: int = 200 * 1024
    resources: int = 20
    pieces: int = 50
    tree: int = 800
    picture: int = MAX_IMAGE_BYTES
    document: int = MAX_DOCUMENT_BYTES
    attachments: int = 5


def readable(notes: Sequence[str]) -> tuple[str, ...]:
    """As many notes as somebody reads, and how many there are beyond."""
    more = len(notes) - _MOST_NOTES
    if more <= 0:
        return tuple(notes)
    return (*notes[:_MOST_NOTES], f"And {more} more like these.")

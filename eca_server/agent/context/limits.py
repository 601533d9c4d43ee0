"""The limits of a prompt's contexts."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from eca_server.models.attachments import MAX_DOCUMENT_BYTES, MAX_IMAGE_BYTES

_MOST_NOTES = 20


@attrs.frozen(kw_only=True)
class Limits:
    """Limits of sizes and numbers.

    Sizes are in bytes, of text as UTF-8; a longer text is cut with a mark (ruling W-38).

    Attributes:
        contexts: number of contexts and mentions of one prompt.
        total: size of all texts of one prompt.
        file: size of one file.
        directory: size of the texts of one directory.
        page: size of the text of one web page.
        pages: number of web pages of one prompt.
        resource: size of the text of one piece of a resource.
        resources: number of resources of one prompt.
        pieces: number of pieces of one resource.
        tree: number of entries of one tree.
        picture: size of one picture.
        document: size of one document (PDF).
        attachments: number of pictures and documents.
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


def limit_notes(notes: Sequence[str]) -> tuple[str, ...]:
    """Return the first notes, and the number of the others."""
    more = len(notes) - _MOST_NOTES
    if more <= 0:
        return tuple(notes)
    return (*notes[:_MOST_NOTES], f"And {more} more like these.")

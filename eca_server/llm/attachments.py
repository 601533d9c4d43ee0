"""Pictures and documents that a model is shown: what they are, and histories without some of them.

The rule it keeps: what something is, its content says, never its name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias, TypeVar

import attrs

from eca_server.llm.history import FilePart, ImagePart, Message, Part, TextPart, ToolResultPart

__all__ = [
    "LARGEST_DOCUMENT",
    "LARGEST_PICTURE",
    "SIGNATURE",
    "Attachment",
    "attachment",
    "attachments_in",
    "largest",
    "media_type_of",
    "without",
]

Attachment: TypeAlias = ImagePart | FilePart

LARGEST_PICTURE = 3_700_000
"""Bytes; in base64 it is 5 MB, which the strictest providers take."""

LARGEST_DOCUMENT = 5_000_000
"""Bytes; it goes along with every request, which some providers take up to 20 MB of."""

SIGNATURE = 16
"""So many bytes tell what something is."""

_PDF = "application/pdf"
_SIGNATURES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"%PDF-"), _PDF),
)

_REFUSED = TextPart("[left out: the provider did not take it]")

_AnyPart = TypeVar("_AnyPart", bound=Part)


def media_type_of(head: bytes) -> str | None:
    """What a file is that models can be shown, by its first bytes; None: something else."""
    return next((kind for signature, kind in _SIGNATURES if signature.match(head)), None)


def largest(media_type: str) -> int:
    """How many bytes of such a file are shown at most."""
    return LARGEST_DOCUMENT if media_type == _PDF else LARGEST_PICTURE


def attachment(media_type: str, name: str, data: bytes) -> Attachment:
    """A file as a model is shown it."""
    if media_type == _PDF:
        return FilePart(name=name, media_type=media_type, data=data)
    return ImagePart(media_type=media_type, data=data)


def attachments_in(messages: Iterable[Message]) -> Iterator[Attachment]:
    """All that was shown to a model, by the user or by tools."""
    for message in messages:
        if message.role != "assistant":
            for part in message.parts:
                parts = part.parts if isinstance(part, ToolResultPart) else (part,)
                yield from (each for each in parts if isinstance(each, Attachment))


def without(messages: Sequence[Message], left_out: AbstractSet[Attachment]) -> list[Message]:
    """The history with a note in place of each of these."""
    return [_without(message, left_out) for message in messages]


def _without(message: Message, left_out: AbstractSet[Attachment]) -> Message:
    if message.role == "assistant" or left_out.isdisjoint(attachments_in([message])):
        return message
    return attrs.evolve(message, parts=tuple(_noted(message.parts, left_out)))


def _noted(
    parts: Iterable[_AnyPart], left_out: AbstractSet[Attachment]
) -> Iterator[_AnyPart | TextPart | ToolResultPart]:
    for part in parts:
        if isinstance(part, Attachment) and part in left_out:
            yield _REFUSED
        elif isinstance(part, ToolResultPart):
            kept = tuple(
                _REFUSED if isinstance(each, Attachment) and each in left_out else each
                for each in part.parts
            )
            yield attrs.evolve(part, parts=kept)
        else:
            yield part

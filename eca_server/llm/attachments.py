"""Pictures and documents that a model is shown: what they are, and histories without some of them.

The rules it keeps: what something is, its content says, never its name; what a provider does not
take costs one refused request and not the chat.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias, TypeVar

import attrs

from eca_server.llm.backend import BackendError
from eca_server.llm.history import (
    FilePart,
    ImagePart,
    Message,
    Origin,
    Part,
    TextPart,
    ToolResultPart,
)

__all__ = [
    "LARGEST_DOCUMENT",
    "LARGEST_PICTURE",
    "PICTURES",
    "SIGNATURE",
    "Attachment",
    "attachment",
    "attachments_in",
    "largest",
    "media_type_of",
    "suspects",
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

PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The kinds of pictures that models are shown."""

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


def suspects(
    messages: Sequence[Message], error: BackendError, origin: Origin
) -> AbstractSet[Attachment]:
    """What may be to blame for a refusal of this history, if anything.

    What stands before an answer of the same model was taken; of that only the sum can be too much.
    """
    too_much = error.kind in ("invalid_image", "request_too_large")
    if not too_much and error.status not in (400, 415, 422):
        return frozenset()
    answers = (n for n in range(len(messages) - 1, -1, -1) if messages[n].origin == origin)
    new = frozenset(attachments_in(messages[next(answers, 0) :]))
    return new or (frozenset(attachments_in(messages)) if too_much else new)


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
    if left_out.isdisjoint(attachments_in([message])):
        return message
    parts: list[Part] = []
    for part in message.parts:
        if isinstance(part, ToolResultPart):
            parts.append(attrs.evolve(part, parts=tuple(_noted(part.parts, left_out))))
        else:
            parts += _noted((part,), left_out)
    return attrs.evolve(message, parts=tuple(parts))


def _noted(
    parts: Iterable[_AnyPart], left_out: AbstractSet[Attachment]
) -> Iterator[_AnyPart | TextPart]:
    for part in parts:
        refused = isinstance(part, Attachment) and part in left_out
        yield _REFUSED if refused else part

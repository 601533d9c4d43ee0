"""Images and documents for models: their types, and histories without refused ones.

The content decides the type, not the file's name. An attachment that a provider does not accept
costs one refused request, not the chat.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import TypeAlias, TypeVar

import attrs

from eca_server.models import history
from eca_server.models.backend import BackendError

Attachment: TypeAlias = history.ImagePart | history.FilePart

MAX_IMAGE_BYTES = 3_700_000
"""The largest image in bytes: in base64 5 MB, the limit of the strictest providers."""

MAX_DOCUMENT_BYTES = 5_000_000
"""The largest document in bytes: each request contains it, and some providers allow 20 MB."""

SIGNATURE_BYTES = 16
"""The number of bytes that determine a file's type."""

_PDF = "application/pdf"
_SIGNATURES = (
    (re.compile(rb"\x89PNG\r\n\x1a\n"), "image/png"),
    (re.compile(rb"\xff\xd8\xff"), "image/jpeg"),
    (re.compile(rb"GIF8[79]a"), "image/gif"),
    (re.compile(rb"RIFF....WEBP", re.DOTALL), "image/webp"),
    (re.compile(rb"%PDF-"), _PDF),
)

IMAGE_TYPES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
"""The image types that models accept."""

_REFUSED = history.TextPart("[omitted: the provider did not accept it]")

_INPUT = re.compile(r"\b(image|file) input\b|\bimage: unknown format", re.IGNORECASE)
"""The cause in refusals of any status: llama.cpp's and Ollama's is 500, OpenRouter's is 404."""

_NAMED = re.compile(r"image|pdf|\bdocuments?\b|multimodal|mime|media.type", re.IGNORECASE)
"""A text on attachments, in a refusal as a bad request."""

_AnyPart = TypeVar("_AnyPart", bound=history.Part)


def media_type_of(head: bytes) -> str | None:
    """Return the type of an image or document by its first bytes; None: any other file."""
    return next((kind for signature, kind in _SIGNATURES if signature.match(head)), None)


def max_bytes_of(media_type: str) -> int:
    """Return the largest size of such a file, in bytes."""
    return MAX_DOCUMENT_BYTES if media_type == _PDF else MAX_IMAGE_BYTES


def make_attachment(media_type: str, name: str, data: bytes) -> Attachment:
    """Make the message part of a file."""
    if media_type == _PDF:
        return history.FilePart(name=name, media_type=media_type, data=data)
    return history.ImagePart(media_type=media_type, data=data)


def data_url(part: Attachment) -> str:
    """Return a `data:` URL with the content of a file."""
    return f"data:{part.media_type};base64,{base64.b64encode(part.data).decode('ascii')}"


def suspected_attachments(
    messages: Sequence[history.Message], error: BackendError, origin: history.Origin
) -> AbstractSet[Attachment]:
    """Return the attachments that may have caused a refusal: first the new ones, then all.

    Those before an answer of the same model were probably accepted. But their total can be too
    large, or an earlier server has left them out.
    """
    is_bad_request = error.status in (400, 415, 422)
    is_about_attachments = (
        error.kind in ("invalid_image", "request_too_large")
        or _INPUT.search(error.message) is not None
        or (is_bad_request and _NAMED.search(error.message) is not None)
    )
    if not (is_about_attachments or is_bad_request):
        return frozenset()
    answers = (n for n in range(len(messages) - 1, -1, -1) if messages[n].origin == origin)
    new = frozenset(attachments_in(messages[next(answers, 0) :]))
    return new or frozenset(attachments_in(messages) if is_about_attachments else ())


def attachments_in(messages: Iterable[history.Message]) -> Iterator[Attachment]:
    """Yield all attachments of the user and of tools."""
    for message in messages:
        if message.role != "assistant":
            for part in message.parts:
                parts = part.parts if isinstance(part, history.ToolResultPart) else (part,)
                yield from (each for each in parts if isinstance(each, Attachment))


def without_attachments(
    messages: Sequence[history.Message], left_out: AbstractSet[Attachment]
) -> list[history.Message]:
    """Return the history with a note in place of each of these attachments."""
    return [_without_in_message(message, left_out) for message in messages]


def _without_in_message(
    message: history.Message, left_out: AbstractSet[Attachment]
) -> history.Message:
    if left_out.isdisjoint(attachments_in([message])):
        return message
    parts: list[history.Part] = []
    for part in message.parts:
        if isinstance(part, history.ToolResultPart):
            parts.append(attrs.evolve(part, parts=tuple(_noted(part.parts, left_out))))
        else:
            parts += _noted((part,), left_out)
    return attrs.evolve(message, parts=tuple(parts))


def _noted(
    parts: Iterable[_AnyPart], left_out: AbstractSet[Attachment]
) -> Iterator[_AnyPart | history.TextPart]:
    for part in parts:
        refused = isinstance(part, Attachment) and part in left_out
        yield _REFUSED if refused else part

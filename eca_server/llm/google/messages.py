"""Histories in the words of Gemini. No I/O.

The rules it keeps: what a model signed goes back to that model only, in its place and in its own
bounds; the first call of a step that is not signed says so in the documented way; the results of
calls made together stand together, in the order of the calls.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from eca_server.llm.google.generations import Generation
from eca_server.llm.history import (
    BlockPart,
    FilePart,
    ImagePart,
    Message,
    Origin,
    Part,
    ReasoningPart,
    ServerToolPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from eca_server.llm.written import Waiting

__all__ = ["ContentWriter", "legal_name"]

UNSIGNED = "skip_thought_signature_validator"
"""In place of the signature that a call has which another model made."""

_SIGNATURE = "thoughtSignature"
_READ_AS_FILES = ("application/pdf", "audio/", "image/", "video/")

_Part = dict[str, Any]


def legal_name(name: str) -> str:
    """A tool's name as this API takes it: it begins with a letter."""
    return name if re.match("[A-Za-z_]", name) else f"_{name}"[:64]


@attrs.frozen(kw_only=True)
class _Carried:
    """What a message needs of those before it.

    Attributes:
        said: parts of the user, to which the next message may add.
        calls: of the last answer: by our id, the tool's name and the provider's id of the call.
    """

    said: tuple[_Part, ...] = ()
    calls: Mapping[str, tuple[str, str | None]] = attrs.field(factory=dict)


class ContentWriter:
    """As `written.Writer`.

    Args:
        origin: whose opaque parts are given back.
        known: what the model takes.
        images: whether the model reads pictures.
    """

    def __init__(self, origin: Origin, known: Generation, *, images: bool = True) -> None:
        self._origin = origin
        self._known = known
        self._images = images

    def write(self, messages: Iterable[Message], waiting: Waiting) -> tuple[list[_Part], Waiting]:
        """As `written.Writer.write`."""
        [carried] = waiting or [_Carried()]
        said, calls = list(carried.said), carried.calls
        written: list[_Part] = []
        for message in messages:
            if message.role == "assistant":
                written += _content("user", said)
                said, calls = [], self._call_ids(message)
                written += _content("model", self._answer(message, calls))
            elif message.role == "tool":
                said += self._results(message, calls)
            else:
                said += self._shown(message.parts)
        return written, [_Carried(said=tuple(said), calls=calls)]

    def end(self, waiting: Waiting) -> list[_Part]:
        """As `written.Writer.end`."""
        return [each for carried in waiting for each in _content("user", carried.said)]

    def _shown(self, parts: Iterable[Part]) -> Iterator[_Part]:
        for part in parts:
            match part:
                case TextPart(text):
                    yield {"text": text}
                case ImagePart() if self._images:
                    yield _inline(part)
                case ImagePart():
                    yield {"text": "[an image was left out: this model reads none]"}
                case FilePart():
                    yield from _file(part)

    def _call_ids(self, message: Message) -> dict[str, tuple[str, str | None]]:
        taken: set[str] = set()
        calls: dict[str, tuple[str, str | None]] = {}
        for part in message.parts:
            if isinstance(part, ToolCallPart):
                theirs = part.provider_id if message.origin == self._origin else None
                theirs = None if theirs in taken else theirs
                taken |= {theirs} if theirs else set()
                calls[part.id] = legal_name(part.name), theirs
        return calls

    def _answer(self, message: Message, calls: Mapping[str, tuple[str, str | None]]) -> list[_Part]:
        ours = message.origin == self._origin
        parts = self._verbatim(message, calls) if ours else []
        parts = parts or self._retold(message, calls)
        first = next((part for part in parts if "functionCall" in part), None)
        if first is not None and self._known.signs:
            first.setdefault(_SIGNATURE, UNSIGNED)
        return parts

    def _retold(self, message: Message, calls: Mapping[str, tuple[str, str | None]]) -> list[_Part]:
        """An answer of another model."""
        parts: list[_Part] = []
        for part in message.parts:
            match part:
                case TextPart(text):
                    parts.append({"text": text})
                case ServerToolPart():
                    parts.append({"text": f"[used {part.kind}]"})
                case ImagePart():
                    parts.append({"text": "[an image that you made]"})
                case ToolCallPart():
                    parts.append(_call(part, calls[part.id]))
        return parts

    def _verbatim(
        self, message: Message, calls: Mapping[str, tuple[str, str | None]]
    ) -> list[_Part]:
        """An answer of this very model, as it came."""
        parts: list[_Part] = []
        for part in message.parts:
            match part:
                case TextPart(text):
                    parts.append({"text": text})
                case ReasoningPart() if part.text or part.opaque:
                    parts.append({"text": part.text, "thought": True, **_signed(part)})
                case ImagePart():
                    parts.append(_inline(part))
                case ToolCallPart():
                    parts.append({**_call(part, calls[part.id]), **_signed(part)})
                case BlockPart(raw={"part": dict(raw)}):
                    _take_back(parts, raw.get("text"))
                    parts.append(dict(raw))
                case BlockPart(raw={"picture": dict(raw)}) if parts and "inlineData" in parts[-1]:
                    parts[-1].update(raw)
        return parts

    def _results(
        self, message: Message, calls: Mapping[str, tuple[str, str | None]]
    ) -> list[_Part]:
        parts: list[_Part] = []
        behind: list[_Part] = []
        for result in message.parts:
            assert isinstance(result, ToolResultPart)
            name, theirs = calls[result.call_id]
            shown = list(self._shown(result.parts))
            texts = [part["text"] for part in shown if "text" in part]
            pictures = [part for part in shown if "text" not in part]
            if pictures and not self._known.pictures_in_results:
                texts.append("[shown behind the results]")
                behind += pictures
                pictures = []
            told = {"error" if result.is_error else "output": "\n".join(texts)}
            response: _Part = {"name": name, "response": told}
            response |= {"id": theirs} if theirs else {}
            response |= {"parts": pictures} if pictures else {}
            parts.append({"functionResponse": response})
        return [*parts, *behind]


def _content(role: str, parts: Iterable[_Part]) -> list[_Part]:
    listed = list(parts)
    return [{"role": role, "parts": listed}] if listed else []


def _call(part: ToolCallPart, known: tuple[str, str | None]) -> _Part:
    name, theirs = known
    call: _Part = {"name": name, "args": dict(part.arguments or {})}
    return {"functionCall": {**call, "id": theirs} if theirs else call}


def _signed(part: ReasoningPart | ToolCallPart) -> Mapping[str, Any]:
    """What a part has beside what we tell in our own words."""
    match part.opaque:
        case {"part": dict(signed)}:
            return signed
    return {}


def _take_back(parts: list[_Part], text: Any) -> None:
    """Removes from the end what comes again, signed."""
    if text and parts and parts[-1].keys() == {"text"} and parts[-1]["text"].endswith(text):
        before = parts.pop()["text"].removesuffix(text)
        parts += [{"text": before}] if before else []


def _file(part: FilePart) -> Iterator[_Part]:
    if part.media_type.startswith(_READ_AS_FILES):
        yield {"text": f"The file {part.name}:"}
        yield _inline(part)
    elif part.media_type.startswith("text/"):
        yield {"text": f"The file {part.name}:\n\n{part.data.decode('utf-8', 'replace')}"}
    else:
        yield {"text": f"[the file {part.name} was left out: it cannot be read]"}


def _inline(part: ImagePart | FilePart) -> _Part:
    data = base64.b64encode(part.data).decode("ascii")
    return {"inlineData": {"mimeType": part.media_type, "data": data}}

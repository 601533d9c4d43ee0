"""Histories in the format of Gemini. No I/O.

Signed parts go back to the same model only, at their position and with their boundaries. The first
call of a step without a signature gets the documented placeholder. The results of calls made
together are in one message, in the order of the calls.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import attrs

from eca_server.models import history
from eca_server.models.encoding import Writer
from eca_server.models.google.generations import Generation

UNSIGNED = "skip_thought_signature_validator"
"""The placeholder for the signature of a call that a different model made."""

_SIGNATURE = "thoughtSignature"
_READ_AS_FILES = ("application/pdf", "audio/", "image/", "video/")

_Part = dict[str, Any]


def legal_name(name: str) -> str:
    """Return a tool's name as this API accepts it: it begins with a letter."""
    return name if re.match("[A-Za-z_]", name) else f"_{name}"[:64]


@attrs.define(eq=False)
class ContentWriter(Writer):
    """A writer for Gemini; user parts wait for the next message, which may add to them.

    Args:
        generation: the model's options.
    """

    _generation: Generation
    _images: bool = attrs.field(default=True, kw_only=True)
    _user_parts: list[_Part] = attrs.field(factory=list, init=False)
    # the calls of the last answer: tool's name and provider's id, by our id
    _calls: Mapping[str, tuple[str, str | None]] = attrs.field(factory=dict, init=False)

    def write(self, messages: Iterable[history.Message]) -> list[_Part]:
        """Write messages."""
        written: list[_Part] = []
        for message in messages:
            if message.role == "assistant":
                written += self.end()
                self._user_parts, self._calls = [], self._call_ids(message)
                written += _content("model", self._answer(message))
            elif message.role == "tool":
                self._user_parts += self._results(message)
            else:
                self._user_parts += self._user_content(message.parts)
        return written

    def end(self) -> list[_Part]:
        """Write the waiting user parts as a message."""
        return _content("user", self._user_parts)

    def _user_content(self, parts: Iterable[history.Part]) -> Iterator[_Part]:
        for part in parts:
            match part:
                case history.TextPart(text):
                    yield {"text": text}
                case history.ImagePart() if self._images:
                    yield _inline(part)
                case history.ImagePart():
                    yield {"text": "[image omitted: this model does not accept images]"}
                case history.FilePart():
                    yield from _file(part)

    def _call_ids(self, message: history.Message) -> dict[str, tuple[str, str | None]]:
        used_ids: set[str] = set()
        calls: dict[str, tuple[str, str | None]] = {}
        for part in message.parts:
            if isinstance(part, history.ToolCallPart):
                provider_id = None if part.provider_id in used_ids else part.provider_id
                used_ids |= {provider_id} if provider_id else set()
                calls[part.id] = legal_name(part.name), provider_id
        return calls

    def _answer(self, message: history.Message) -> list[_Part]:
        parts = self._verbatim(message) or self._verbatim(history.neutral_answer(message))
        first = next((part for part in parts if "functionCall" in part), None)
        if first is not None and self._generation.signs:
            first[_SIGNATURE] = first.get(_SIGNATURE) or UNSIGNED
        return parts

    def _verbatim(self, message: history.Message) -> list[_Part]:
        parts: list[_Part] = []
        for part in message.parts:
            match part:
                case history.TextPart(text):
                    parts.append({"text": text})
                case history.ReasoningPart() if part.text or part.opaque:
                    parts.append({"text": part.text, "thought": True, **_signed(part)})
                case history.ImagePart():
                    parts.append(_inline(part))
                case history.ToolCallPart():
                    parts.append({**_call(part, self._calls[part.id]), **_signed(part)})
                case history.BlockPart(raw={"part": dict(raw)}):
                    _remove_text(parts, raw.get("text"))
                    parts.append(dict(raw))
                case history.BlockPart(raw={"picture": dict(raw)}) if (
                    parts and "inlineData" in parts[-1]
                ):
                    parts[-1].update(raw)
        return parts

    def _results(self, message: history.Message) -> list[_Part]:
        parts: list[_Part] = []
        trailing: list[_Part] = []
        for result in message.parts:
            assert isinstance(result, history.ToolResultPart)
            name, provider_id = self._calls[result.call_id]
            shown = list(self._user_content(result.parts))
            texts = [part["text"] for part in shown if "text" in part]
            images = [part for part in shown if "text" not in part]
            if images and not self._generation.images_in_results:
                texts.append("[shown after the results]")
                trailing += images
                images = []
            output = {"error" if result.is_error else "output": "\n".join(texts)}
            response: _Part = {"name": name, "response": output}
            response |= {"id": provider_id} if provider_id else {}
            response |= {"parts": images} if images else {}
            parts.append({"functionResponse": response})
        return [*parts, *trailing]


def _content(role: str, parts: Iterable[_Part]) -> list[_Part]:
    listed = list(parts)
    return [{"role": role, "parts": listed}] if listed else []


def _call(part: history.ToolCallPart, identity: tuple[str, str | None]) -> _Part:
    name, provider_id = identity
    call: _Part = {"name": name, "args": dict(part.arguments or {})}
    return {"functionCall": {**call, "id": provider_id} if provider_id else call}


def _signed(part: history.ReasoningPart | history.ToolCallPart) -> Mapping[str, Any]:
    """Return the fields that a part has besides those of our own format."""
    match part.opaque:
        case {"part": dict(signed)}:
            return signed
    return {}


def _remove_text(parts: list[_Part], text: Any) -> None:
    """Remove a text from the end that is written again with its signature."""
    if text and parts and parts[-1].keys() == {"text"} and parts[-1]["text"].endswith(text):
        before = parts.pop()["text"].removesuffix(text)
        parts += [{"text": before}] if before else []


def _file(part: history.FilePart) -> Iterator[_Part]:
    if part.media_type.startswith(_READ_AS_FILES):
        yield {"text": f"The file {part.name}:"}
        yield _inline(part)
    elif part.media_type.startswith("text/"):
        yield {"text": f"The file {part.name}:\n\n{part.data.decode('utf-8', 'replace')}"}
    else:
        yield {"text": f"[file {part.name} omitted: its type cannot be read]"}


def _inline(part: history.ImagePart | history.FilePart) -> _Part:
    data = base64.b64encode(part.data).decode("ascii")
    return {"inlineData": {"mimeType": part.media_type, "data": data}}

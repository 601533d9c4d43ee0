"""A history's messages in the words of Chat Completions. No I/O.

The rules it keeps: what a provider wants back goes only to that provider and model; every call is
answered by a `tool` message before anything else is said, and a picture from a tool follows behind
all of them, since tool messages hold text only.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from eca_server.llm.history import (
    BlockPart,
    FilePart,
    ImagePart,
    Message,
    Origin,
    ReasoningPart,
    ServerToolPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from eca_server.llm.openai_chat.profiles import Profile
from eca_server.llm.written import Waiting

__all__ = ["ChatWriter"]

_LEGAL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


class ChatWriter:
    """Messages as Chat Completions has them; what waits are pictures that tools made.

    Args:
        origin: whose opaque parts are given back.
        profile: what the server takes.
        images: whether the model reads pictures.
    """

    def __init__(self, origin: Origin, profile: Profile, *, images: bool = True) -> None:
        self._origin = origin
        self._profile = profile
        self._images = images

    def write(
        self, messages: Iterable[Message], waiting: Waiting
    ) -> tuple[list[dict[str, Any]], Waiting]:
        """As `Writer.write`."""
        pictures = waiting
        written: list[dict[str, Any]] = []
        for message in messages:
            if message.role == "user":
                content = [*pictures, *self._user_parts(message)]
                written.append({"role": "user", "content": _plain(content)})
                pictures = []
                continue
            if pictures:
                written.append({"role": "user", "content": pictures})
                pictures = []
            if message.role == "assistant":
                written.append(self._assistant(message))
            else:
                for result in message.parts:
                    assert isinstance(result, ToolResultPart)
                    written.append(self._tool(result))
                    shown = self._shown_of(result)
                    pictures = [*pictures, *(each for each in shown if each["type"] != "text")]
        return written, pictures

    def end(self, waiting: Waiting) -> list[dict[str, Any]]:
        """As `Writer.end`."""
        return [{"role": "user", "content": waiting}] if waiting else []

    def _user_parts(self, message: Message) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for part in message.parts:
            match part:
                case TextPart(text):
                    parts.append({"type": "text", "text": text})
                case ImagePart() | FilePart():
                    parts.append(self._shown(part))
        return parts

    def _assistant(self, message: Message) -> dict[str, Any]:
        ours = message.origin == self._origin
        texts: list[str] = []
        calls: list[dict[str, Any]] = []
        extra: dict[str, Any] = {}
        thoughts: list[ReasoningPart] = []
        for part in message.parts:
            match part:
                case TextPart(text):
                    texts.append(text)
                case ServerToolPart():
                    texts.append(f"[used {part.kind}]")
                case ImagePart():
                    texts.append("[an image that you made]")
                case ToolCallPart():
                    calls.append(self._call(part, ours=ours))
                case BlockPart() if ours and isinstance(part.raw, dict):
                    extra |= part.raw
                case ReasoningPart() if ours and self._profile.reasoning_back:
                    thoughts.append(part)
        content: Any = "".join(texts)
        for field, value in _thought_fields(thoughts).items():
            if field == "content":
                content = [value, *([{"type": "text", "text": content}] if content else [])]
            else:
                extra[field] = value
        if not content and self._profile.null_content:
            content = None
        return {
            "role": "assistant",
            "content": content,
            **({"tool_calls": calls} if calls else {}),
            **extra,
        }

    def _call(self, part: ToolCallPart, *, ours: bool) -> dict[str, Any]:
        call = {
            "id": self._call_id(part.id),
            "type": "function",
            "function": {"name": part.name, "arguments": part.raw},
        }
        return {**call, **part.opaque} if ours and isinstance(part.opaque, dict) else call

    def _tool(self, result: ToolResultPart) -> dict[str, Any]:
        texts = [part.text for part in result.parts if isinstance(part, TextPart)]
        shown = list(self._shown_of(result))
        texts += [part["text"] for part in shown if part["type"] == "text"]
        if any(part["type"] != "text" for part in shown):
            texts.append("[shown in the next message]")
        content = "\n".join(texts)
        return {
            "role": "tool",
            "tool_call_id": self._call_id(result.call_id),
            "content": f"Error: {content}" if result.is_error else content,
        }

    def _shown_of(self, result: ToolResultPart) -> Iterator[dict[str, Any]]:
        return (self._shown(part) for part in result.parts if not isinstance(part, TextPart))

    def _shown(self, part: ImagePart | FilePart) -> dict[str, Any]:
        """A picture, a file, or why it is not there."""
        if isinstance(part, FilePart):
            return self._file(part)
        if not self._images:
            return {"type": "text", "text": "[an image was left out: this model reads none]"}
        return {"type": "image_url", "image_url": {"url": _data_url(part)}}

    def _file(self, part: FilePart) -> dict[str, Any]:
        if part.media_type.startswith("text/"):
            text = part.data.decode("utf-8", "replace")
            return {"type": "text", "text": f"{part.name}:\n\n{text}"}
        if not self._profile.files:
            words = f"[the file {part.name} was left out: it cannot be read ({part.media_type})]"
            return {"type": "text", "text": words}
        return {"type": "file", "file": {"filename": part.name, "file_data": _data_url(part)}}

    def _call_id(self, call_id: str) -> str:
        """The same id for a call and its result; a hash where ours is not legal."""
        if not self._profile.short_call_ids and _LEGAL_ID.fullmatch(call_id):
            return call_id
        number = int.from_bytes(hashlib.sha256(call_id.encode("utf-8", "replace")).digest())
        return "".join(_DIGITS[number // 62**place % 62] for place in range(9))


def _thought_fields(thoughts: list[ReasoningPart]) -> dict[str, Any]:
    """The reasoning in the fields it came in; tags are not repeated."""
    fields: dict[str, Any] = {}
    for thought in thoughts:
        opaque = thought.opaque if isinstance(thought.opaque, dict) else {}
        if sealed := opaque.get("reasoning_opaque"):
            fields["reasoning_opaque"] = sealed
        if details := opaque.get("details"):
            fields.setdefault("reasoning_details", []).extend(details)
        elif (field := opaque.get("field")) in ("reasoning_content", "reasoning", "reasoning_text"):
            fields[field] = fields.get(field, "") + thought.text
        elif field == "content":
            pieces = fields.setdefault("content", {"type": "thinking", "thinking": []})
            pieces["thinking"].append({"type": "text", "text": thought.text})
    return fields


def _plain(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """A string when there is only text, for the servers that take nothing else."""
    if all(part["type"] == "text" for part in parts):
        return "\n\n".join(part["text"] for part in parts)
    return parts


def _data_url(part: ImagePart | FilePart) -> str:
    return f"data:{part.media_type};base64,{base64.b64encode(part.data).decode('ascii')}"

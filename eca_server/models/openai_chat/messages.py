"""A history in the format of Chat Completions. No I/O.

Content that a provider wants back goes only to the same provider and model. Each call is answered
by a `tool` message before any other message. Images from tools follow after all results, since
tool messages hold text only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from eca_server.models import history
from eca_server.models.attachments import data_url
from eca_server.models.calls import LEGAL_ID
from eca_server.models.encoding import Writer
from eca_server.models.openai_chat.profiles import Profile
from eca_server.models.reasoning import BLANK

_RESULTS_READ = "I have the results."
_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


@attrs.define(eq=False)
class ChatWriter(Writer):
    """A writer for Chat Completions; images from tools wait for the next user message."""

    _profile: Profile
    _images: bool = attrs.field(default=True, kw_only=True)
    _tool_images: list[dict[str, Any]] = attrs.field(factory=list, init=False)
    _is_after_results: bool = attrs.field(default=False, init=False)

    def write(self, messages: Iterable[history.Message]) -> list[dict[str, Any]]:
        """Write messages."""
        written: list[dict[str, Any]] = []
        for message in messages:
            if message.role == "user":
                written += self._user(self._user_parts(message))
                continue
            written += self.end()
            if message.role == "assistant":
                written.append(self._assistant(message))
                self._is_after_results = False
                continue
            for result in message.parts:
                assert isinstance(result, history.ToolResultPart)
                written.append(self._tool(result))
                shown = self._attachments_of(result)
                self._tool_images += (each for each in shown if each["type"] != "text")
            self._is_after_results = True
        return written

    def end(self) -> list[dict[str, Any]]:
        """Write the waiting images as a message."""
        return [*self._user([])] if self._tool_images else []

    def _user(self, parts: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        if self._is_after_results and self._profile.answered_results:
            yield {"role": "assistant", "content": _RESULTS_READ}
        yield {"role": "user", "content": _plain([*self._tool_images, *parts])}
        self._tool_images, self._is_after_results = [], False

    def _user_parts(self, message: history.Message) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        for part in message.parts:
            match part:
                case history.TextPart(text):
                    parts.append({"type": "text", "text": text})
                case history.ImagePart() | history.FilePart():
                    parts.append(self._attachment(part))
        return parts

    def _assistant(self, message: history.Message) -> dict[str, Any]:
        texts: list[str] = []
        calls: list[dict[str, Any]] = []
        extra: dict[str, Any] = {}
        thoughts: list[history.ReasoningPart] = []
        for part in message.parts:
            match part:
                case history.TextPart() | history.ServerToolPart() | history.ImagePart():
                    texts.append(history.spoken(part))
                case history.ToolCallPart():
                    calls.append(self._call(part))
                case history.BlockPart(raw=dict(raw)):
                    extra |= raw
                case history.ReasoningPart() if self._profile.reasoning_back:
                    thoughts.append(part)
        content: Any = "".join(texts)
        for field, value in _thought_fields(thoughts).items():
            if field == "content":
                content = [value, *([{"type": "text", "text": content}] if content else [])]
            else:
                extra[field] = value
        if self._profile.reasoning_required and not extra.get("reasoning_content"):
            extra["reasoning_content"] = "".join(each.text for each in thoughts) or BLANK
        if calls and not content and self._profile.null_content:
            content = None
        return {
            "role": "assistant",
            "content": content,
            **({"tool_calls": calls} if calls else {}),
            **extra,
        }

    def _call(self, part: history.ToolCallPart) -> dict[str, Any]:
        call = {
            "id": self._call_id(part.id),
            "type": "function",
            "function": {"name": part.name, "arguments": part.raw},
        }
        return {**call, **part.opaque} if isinstance(part.opaque, dict) else call

    def _tool(self, result: history.ToolResultPart) -> dict[str, Any]:
        texts = [part.text for part in result.parts if isinstance(part, history.TextPart)]
        shown = list(self._attachments_of(result))
        texts += [part["text"] for part in shown if part["type"] == "text"]
        if any(part["type"] != "text" for part in shown):
            texts.append("[shown in the next message]")
        content = "\n".join(texts)
        return {
            "role": "tool",
            "tool_call_id": self._call_id(result.call_id),
            "content": f"Error: {content}" if result.is_error else content,
        }

    def _attachments_of(self, result: history.ToolResultPart) -> Iterator[dict[str, Any]]:
        return (
            self._attachment(part)
            for part in result.parts
            if not isinstance(part, history.TextPart)
        )

    def _attachment(self, part: history.ImagePart | history.FilePart) -> dict[str, Any]:
        """Write an image, a file, or the reason why it is omitted."""
        if isinstance(part, history.FilePart):
            return self._file(part)
        if not self._images:
            return {"type": "text", "text": "[image omitted: this model does not accept images]"}
        return {"type": "image_url", "image_url": {"url": data_url(part)}}

    def _file(self, part: history.FilePart) -> dict[str, Any]:
        if part.media_type.startswith("text/"):
            text = part.data.decode("utf-8", "replace")
            return {"type": "text", "text": f"{part.name}:\n\n{text}"}
        if not self._profile.files:
            note = f"[file {part.name} omitted: its type cannot be read ({part.media_type})]"
            return {"type": "text", "text": note}
        return {"type": "file", "file": {"filename": part.name, "file_data": data_url(part)}}

    def _call_id(self, call_id: str) -> str:
        """Return the written id of a call and its result; a hash if ours is not legal."""
        if not self._profile.short_call_ids and LEGAL_ID.fullmatch(call_id):
            return call_id
        number = int.from_bytes(hashlib.sha256(call_id.encode("utf-8", "replace")).digest())
        return "".join(_DIGITS[number // 62**place % 62] for place in range(9))


def _thought_fields(thoughts: list[history.ReasoningPart]) -> dict[str, Any]:
    """Return reasoning in the fields that it came in; reasoning from tags is not repeated."""
    fields: dict[str, Any] = {}
    for thought in thoughts:
        opaque = thought.opaque if isinstance(thought.opaque, dict) else {}
        if sealed := opaque.get("reasoning_opaque"):
            fields["reasoning_opaque"] = sealed
        if details := opaque.get("details"):
            fields.setdefault("reasoning_details", []).extend(details)
        elif (field := opaque.get("field")) in ("reasoning_content", "reasoning", "reasoning_text"):
            fields[field] = fields.get(field, "") + thought.text
        elif field == "content" and thought.text:
            pieces = fields.setdefault("content", {"type": "thinking", "thinking": []})
            pieces["thinking"].append({"type": "text", "text": thought.text})
    return fields


def _plain(parts: list[dict[str, Any]]) -> str | list[dict[str, Any]]:
    """Return a string if there is only text, for servers that accept nothing else."""
    if all(part["type"] == "text" for part in parts):
        return "\n\n".join(part["text"] for part in parts)
    return parts

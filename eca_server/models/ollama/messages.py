"""A history in the format of Ollama's own API. No I/O.

Results have the order and the names of their calls, by which templates pair them. Reasoning is sent
back with each answer of the same model, whose template selects what the model sees. For a model
without tools, calls are written as text.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import attrs

from eca_server.models import history
from eca_server.models.encoding import Writer

_Message = dict[str, Any]


@attrs.define(kw_only=True, eq=False)
class OllamaWriter(Writer):
    """A writer for Ollama, with the names of the last calls by id.

    Args:
        tools: whether the model accepts tools.
        images: whether the model accepts images.
    """

    _tools: bool = True
    _images: bool = True
    _names: Mapping[str, str] = attrs.field(factory=dict, init=False)

    def write(self, messages: Iterable[history.Message]) -> list[_Message]:
        """Write messages."""
        written: list[_Message] = []
        for message in messages:
            if message.role == "user":
                written.append(self._content("user", message.parts))
            elif message.role == "assistant":
                calls = [part for part in message.parts if isinstance(part, history.ToolCallPart)]
                self._names = {call.id: call.name for call in calls}
                written.append(self._answer(message, calls))
            else:
                results = (
                    part for part in message.parts if isinstance(part, history.ToolResultPart)
                )
                written += [self._result(result) for result in results]
        return written

    def _content(self, role: str, parts: Iterable[Any]) -> _Message:
        texts: list[str] = []
        images: list[str] = []
        for part in parts:
            match part:
                case history.TextPart(text):
                    texts.append(text)
                case history.ImagePart() if self._images:
                    images.append(base64.b64encode(part.data).decode("ascii"))
                case history.ImagePart():
                    texts.append("[image omitted: this model does not accept images]")
                case history.FilePart():
                    texts.append(_document(part))
        message = {"role": role, "content": "\n\n".join(texts)}
        return {**message, "images": images} if images else message

    def _answer(self, message: history.Message, calls: list[history.ToolCallPart]) -> _Message:
        texts: list[str] = []
        thoughts: list[str] = []
        for part in message.parts:
            match part:
                case history.TextPart() | history.ServerToolPart() | history.ImagePart():
                    texts.append(history.spoken(part))
                case history.ToolCallPart() if not self._tools:
                    texts.append(f"[called {part.name} with {part.raw}]")
                case history.ReasoningPart(text=text) if text:
                    thoughts.append(text)
        answer: _Message = {"role": "assistant", "content": "".join(texts)}
        if thoughts:
            answer["thinking"] = "\n\n".join(thoughts)
        if calls and self._tools:
            answer["tool_calls"] = [_call(index, call) for index, call in enumerate(calls)]
        return answer

    def _result(self, result: history.ToolResultPart) -> _Message:
        name = self._names[result.call_id]
        parts = [history.TextPart("Error:"), *result.parts] if result.is_error else result.parts
        if not self._tools:
            return self._content("user", [history.TextPart(f"[result of {name}]"), *parts])
        return {**self._content("tool", parts), "tool_name": name, "tool_call_id": result.call_id}


def _call(index: int, call: history.ToolCallPart) -> _Message:
    function = {"index": index, "name": call.name, "arguments": dict(call.arguments or {})}
    return {"id": call.id, "function": function}


def _document(part: history.FilePart) -> str:
    text = part.data.decode("utf-8", "replace")
    if part.media_type.startswith("text/") and text.strip():
        return f"{part.name}:\n\n{text}"
    return f"[file {part.name} omitted: its type cannot be read ({part.media_type})]"

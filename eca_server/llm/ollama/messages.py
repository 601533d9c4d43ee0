"""A history's messages in the words of Ollama's own API. No I/O.

The rules it keeps: results stand in the order of their calls, under the names of these, since
templates pair them by that; what a model thought goes back to it with every answer of its own, for
its template knows which of it the model is to see again; a model that calls no tools reads what
others called as text.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

from eca_server.llm.history import (
    FilePart,
    ImagePart,
    Message,
    Origin,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from eca_server.llm.written import Waiting

__all__ = ["OllamaWriter"]

_Message = dict[str, Any]


class OllamaWriter:
    """As `written.Writer`; what waits are the names of calls, by their ids.

    Args:
        origin: whose thoughts are given back.
        tools: whether the model calls tools.
        images: whether it reads pictures.
    """

    def __init__(self, origin: Origin, *, tools: bool = True, images: bool = True) -> None:
        self._origin = origin
        self._tools = tools
        self._images = images

    def write(
        self, messages: Iterable[Message], waiting: Waiting
    ) -> tuple[list[_Message], Waiting]:
        """As `written.Writer.write`."""
        [names] = waiting or [{}]
        written: list[_Message] = []
        for message in messages:
            if message.role == "user":
                written.append(self._said("user", message.parts))
            elif message.role == "assistant":
                calls = [part for part in message.parts if isinstance(part, ToolCallPart)]
                names = {call.id: call.name for call in calls}
                written.append(self._answer(message, calls))
            else:
                results = (part for part in message.parts if isinstance(part, ToolResultPart))
                written += [self._result(result, names) for result in results]
        return written, [names]

    def end(self, waiting: Waiting) -> list[_Message]:
        """As `written.Writer.end`: every call has had its result."""
        return []

    def _said(self, role: str, parts: Iterable[Any]) -> _Message:
        texts: list[str] = []
        pictures: list[str] = []
        for part in parts:
            match part:
                case TextPart(text):
                    texts.append(text)
                case ImagePart() if self._images:
                    pictures.append(base64.b64encode(part.data).decode("ascii"))
                case ImagePart():
                    texts.append("[an image was left out: this model reads none]")
                case FilePart():
                    texts.append(_document(part))
        said = {"role": role, "content": "\n\n".join(texts)}
        return {**said, "images": pictures} if pictures else said

    def _answer(self, message: Message, calls: list[ToolCallPart]) -> _Message:
        texts: list[str] = []
        thoughts: list[str] = []
        for part in message.parts:
            match part:
                case TextPart(text):
                    texts.append(text)
                case ImagePart():
                    texts.append("[an image that you made]")
                case ToolCallPart() if not self._tools:
                    texts.append(f"[called {part.name} with {part.raw}]")
                case ReasoningPart(text=text) if message.origin == self._origin and text:
                    thoughts.append(text)
        answer: _Message = {"role": "assistant", "content": "".join(texts)}
        if thoughts:
            answer["thinking"] = "\n\n".join(thoughts)
        if calls and self._tools:
            answer["tool_calls"] = [_call(index, call) for index, call in enumerate(calls)]
        return answer

    def _result(self, result: ToolResultPart, names: Mapping[str, str]) -> _Message:
        name = names[result.call_id]
        parts = [TextPart("Error:"), *result.parts] if result.is_error else result.parts
        if not self._tools:
            return self._said("user", [TextPart(f"[what {name} gave]"), *parts])
        return {**self._said("tool", parts), "tool_name": name, "tool_call_id": result.call_id}


def _call(index: int, call: ToolCallPart) -> _Message:
    function = {"index": index, "name": call.name, "arguments": dict(call.arguments or {})}
    return {"id": call.id, "function": function}


def _document(part: FilePart) -> str:
    text = part.data.decode("utf-8", "replace")
    if part.media_type.startswith("text/") and text.strip():
        return f"{part.name}:\n\n{text}"
    return f"[the file {part.name} was left out: it cannot be read ({part.media_type})]"

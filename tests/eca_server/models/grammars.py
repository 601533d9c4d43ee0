"""The strictest servers of the APIs: they read a request back into a history, and check it.

They are independent of the writers. A reader checks the form of its API; the rules that all of
them share are those of a repaired history.
"""

import base64
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from eca_server.models import history as h
from tests.eca_server.models.test_history import check

Parts = Iterator[tuple[str, Any]]
"""Parts in their order, each with the role of its message; results are of the role `tool`."""


def read_history(api: str, payload: Mapping[str, Any], **rules: Any) -> list[h.Message]:
    """Return the history in a request; fail if the API's strictest server would refuse it."""
    messages = [
        h.Message(role=role, parts=tuple(part for _, part in parts))
        for role, parts in itertools.groupby(READERS[api](payload, **rules), lambda each: each[0])
    ]
    check(messages)
    if api in ("anthropic", "openai-responses"):  # Gemini gets its answers as they came
        assert not any(isinstance(message.parts[-1], h.ReasoningPart) for message in messages)
    return messages


def _call(call_id: str, name: str, arguments: Any, longest: int = 64) -> h.ToolCallPart:
    assert isinstance(arguments, dict)
    assert 0 < len(call_id) <= longest
    return h.ToolCallPart(id=call_id, name=name, raw=json.dumps(arguments), arguments=arguments)


def _result(call_id: str, parts: Iterable[Any], mark: str) -> h.ToolResultPart:
    """Return a result whose text begins with a mark if it is an error."""
    first, *others = parts
    words = first.text if isinstance(first, h.TextPart) else ""
    if words.startswith(mark):
        first = h.TextPart(words.removeprefix(mark))
    is_error = words.startswith(mark)
    return h.ToolResultPart(call_id=call_id, parts=(first, *others), is_error=is_error)


def _attachment(media_type: str, data: str, name: str = "") -> h.ImagePart | h.FilePart:
    content = base64.b64decode(data, validate=True)
    if media_type.startswith("image/"):
        return h.ImagePart(media_type=media_type, data=content)
    return h.FilePart(name=name, media_type=media_type, data=content)


def _from_url(url: str, name: str = "") -> h.ImagePart | h.FilePart:
    head, _, data = url.partition(";base64,")
    assert head.startswith("data:")
    return _attachment(head.removeprefix("data:"), data, name)


def _alternate(messages: Sequence[Mapping[str, Any]]) -> None:
    """Check that two messages of one role never follow each other, except results."""
    roles = [message["role"] for message in messages]
    assert not any(a == b != "tool" for a, b in itertools.pairwise(roles))


def _chat_part(part: Mapping[str, Any]) -> Any:
    match part:
        case {"type": "text", "text": words}:
            return h.TextPart(words)
        case {"type": "image_url", "image_url": {"url": url}}:
            return _from_url(url)
        case {"type": "file", "file": {"filename": name, "file_data": url}}:
            return _from_url(url, name)
        case {"type": "thinking", "thinking": pieces}:
            assert all(piece["type"] == "text" and piece["text"] for piece in pieces)
            return h.ReasoningPart(text="".join(piece["text"] for piece in pieces))
    raise AssertionError(part)


def _chat(payload: Mapping[str, Any], *, short_ids: bool = False) -> Parts:
    system, *messages = payload["messages"]
    assert system["role"] in ("system", "developer")
    _alternate(messages)
    for message in messages:
        role, content = message["role"], message["content"]
        if role == "tool":
            yield role, _result(message["tool_call_id"], [h.TextPart(content)], "Error: ")
            continue
        if thought := message.get("reasoning_content"):
            yield role, h.ReasoningPart(text=thought)
        if isinstance(content, str):
            if content or role == "user":
                yield role, h.TextPart(content)
        else:
            yield from ((role, _chat_part(part)) for part in content or ())
        for call in message.get("tool_calls", ()):
            assert not short_ids or (len(call["id"]) == 9 and call["id"].isalnum())
            name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
            yield role, _call(call["id"], name, arguments)


def _input(part: Mapping[str, Any]) -> Any:
    match part:
        case {"type": "input_text", "text": words}:
            return h.TextPart(words)
        case {"type": "input_image", "image_url": url, "detail": "auto"}:
            return _from_url(url)
        case {"type": "input_file", "filename": name, "file_data": url}:
            return _from_url(url, name)
    raise AssertionError(part)


def _inputs(content: str | Sequence[Mapping[str, Any]]) -> list[Any]:
    return [h.TextPart(content)] if isinstance(content, str) else [*map(_input, content)]


def _responses(payload: Mapping[str, Any], typed: bool = False) -> Parts:
    for item in payload["input"]:
        match item:
            case {"type": "function_call"}:
                assert item.keys() == {"type", "call_id", "name", "arguments"}
                arguments = json.loads(item["arguments"])
                yield "assistant", _call(item["call_id"], item["name"], arguments)
            case {"type": "function_call_output", "call_id": call_id, "output": content}:
                yield "tool", _result(call_id, _inputs(content), "Error: ")
            case {"type": "reasoning"}:
                assert item["id"]
                assert item["encrypted_content"] or item["content"]
                yield "assistant", h.ReasoningPart(opaque=item)
            case {"role": "user" | "assistant" as role, "content": content}:
                assert item.keys() <= {"type", "role", "content", "phase"}
                if role == "assistant" and typed:
                    assert [each["type"] for each in content] == ["output_text"]
                    content = content[0]["text"]
                assert role == "user" or isinstance(content, str)
                yield from ((role, part) for part in _inputs(content))
            case _:
                assert item["type"] in ("web_search_call", "program")
                yield "assistant", h.BlockPart(raw=item)


def _block(block: Mapping[str, Any]) -> Any:
    match block:
        case {"type": "text", "text": words}:
            return h.BlockPart(raw=block) if "citations" in block else h.TextPart(words)
        case {"type": "image", "source": {"type": "base64", **source}}:
            return _attachment(source["media_type"], source["data"])
        case {"type": "document", "title": name, "source": {"type": "base64", **source}}:
            return _attachment(source["media_type"], source["data"], name)
        case {"type": "document", "title": name, "source": {"type": "text", **source}}:
            data = source["data"].encode()
            return h.FilePart(name=name, media_type=source["media_type"], data=data)
        case {"type": "tool_use"}:
            return _call(block["id"], block["name"], block["input"])
        case {"type": "tool_result"}:
            parts, is_error = tuple(map(_block, block["content"])), block.get("is_error", False)
            assert not is_error or all(isinstance(part, h.TextPart) for part in parts)
            return h.ToolResultPart(call_id=block["tool_use_id"], parts=parts, is_error=is_error)
        case {"type": "thinking" | "redacted_thinking"}:
            assert "cache_control" not in block
            return h.ReasoningPart(opaque=block)
        case {"type": "server_tool_use" | "web_search_tool_result"}:
            return h.BlockPart(raw=block)
    raise AssertionError(block)


def _anthropic(payload: Mapping[str, Any]) -> Parts:
    assert payload["max_tokens"] > 0
    _alternate(payload["messages"])
    content = [block for message in payload["messages"] for block in message["content"]]
    blocks = [*payload.get("tools", ()), *payload.get("system", ()), *content]
    assert sum("cache_control" in block for block in blocks) <= 4
    if any(block["type"] in ("tool_use", "tool_result") for block in content):
        assert payload["tools"]
    for message in payload["messages"]:
        role, parts = message["role"], [*map(_block, message["content"])]
        own = [part.raw for part in parts if isinstance(part, h.BlockPart)]
        searches = {block["id"] for block in own if "id" in block}
        assert searches == {block["tool_use_id"] for block in own if "tool_use_id" in block}
        for part in parts:
            yield "tool" if isinstance(part, h.ToolResultPart) else role, part


def _google_part(part: Mapping[str, Any]) -> Any:
    [kind] = part.keys() - {"thought", "thoughtSignature"}
    assert part[kind] or "thoughtSignature" in part
    match part:
        case {"text": words}:
            opaque = "thought" in part or not words
            return h.ReasoningPart(text=words, opaque=part) if opaque else h.TextPart(words)
        case {"inlineData": {"mimeType": media_type, "data": data}}:
            return _attachment(media_type, data)
    return h.BlockPart(raw=part)


def _google(payload: Mapping[str, Any], *, signs: bool = True) -> Parts:
    _alternate(payload["contents"])
    due: list[tuple[h.ToolCallPart, str | None]] = []
    number = itertools.count()
    for content in payload["contents"]:
        role = {"model": "assistant"}.get(content["role"], content["role"])
        calls = [part for part in content["parts"] if "functionCall" in part]
        assert not (signs and calls) or calls[0]["thoughtSignature"]
        for part in content["parts"]:
            if call := part.get("functionCall"):
                made = _call(f"call_{next(number)}", call["name"], call["args"])
                due.append((made, call.get("id")))
                yield role, made
            elif response := part.get("functionResponse"):
                made, call_id = due.pop(0)
                assert (response["name"], response.get("id")) == (made.name, call_id)
                [(outcome, words)] = response["response"].items()
                shown = map(_google_part, response.get("parts", ()))
                parts = (h.TextPart(words), *shown)
                yield (
                    "tool",
                    h.ToolResultPart(call_id=made.id, parts=parts, is_error=outcome == "error"),
                )
            else:
                yield role, _google_part(part)
    assert not due


def _ollama(payload: Mapping[str, Any], *, tools: bool = True, images: bool = True) -> Parts:
    system, *messages = payload["messages"]
    assert system["role"] == "system"
    for message in messages:
        role, words = message["role"], message["content"]
        pictures = [_attachment("image/png", data) for data in message.get("images", ())]
        assert images or not pictures
        parts = [*([h.TextPart(words)] if words else []), *pictures]
        if role == "tool":
            yield role, _result(message["tool_call_id"], parts, "Error:\n\n")
            continue
        if thought := message.get("thinking"):
            yield role, h.ReasoningPart(text=thought)
        yield from ((role, part) for part in parts)
        for index, call in enumerate(message.get("tool_calls", ())):
            assert tools
            assert call["function"]["index"] == index
            function = call["function"]
            yield role, _call(call["id"], function["name"], function["arguments"], 10_000)


READERS: Mapping[str, Callable[..., Parts]] = {
    "openai-chat": _chat,
    "openai-responses": _responses,
    "anthropic": _anthropic,
    "google": _google,
    "ollama": _ollama,
}


GRAMMARS = {api: partial(read_history, api) for api in READERS}

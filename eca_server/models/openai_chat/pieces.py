"""The fragments of Chat Completions: tool calls, reasoning details, usage. No I/O.

Every known dialect is accepted; unknown ones are errors, not guesses.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs

from eca_protocol import json
from eca_protocol.errors import InvalidJSON
from eca_server.json_members import object_in
from eca_server.models.backend import BackendError
from eca_server.models.calls import read_arguments
from eca_server.models.events import (
    Event,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
)
from eca_server.models.stream_decoder import cost, count_at

_RETURNED = ("extra_content", "provider_specific_fields", "thoughtSignature")
"""Fields of a call with Gemini's signature, to be sent back: Google's, LiteLLM's, Databricks'."""

MAX_CHECKED = 64 * 2**20
"""The most characters of one answer that are parsed to find out whether a call is complete."""


@attrs.define(kw_only=True)
class _Call:
    key: str
    provider_id: str | None
    name: str | None = None
    pieces: list[str] = attrs.field(factory=list)
    opaque: Any = None

    @property
    def raw(self) -> str:
        return "".join(self.pieces)


class ToolCalls:
    """The tool calls of an answer, joined from their fragments.

    A fragment belongs to the call whose id it repeats; without an id, to the call of its index;
    without either, to the last call. It starts a new call if it has a new id or index, if it names
    a different tool than the call it would belong to, or if that call is complete and it has a name
    and a new object: some servers give every call the index 0, the same id, or neither. A complete
    call that is repeated with its id is still one call.
    """

    def __init__(self, new_key: Callable[[], str]) -> None:
        self._new_key = new_key
        self._calls: list[_Call] = []
        self._by_index: dict[Any, _Call] = {}  # the latest ones
        self._by_id: dict[tuple[str, Any], _Call] = {}  # by id and index, and by the id alone
        self._checkable = MAX_CHECKED

    def __len__(self) -> int:
        return len(self._calls)

    def feed(self, fragment: Any) -> list[Event]:
        """Add an entry of a `tool_calls` list.

        Raises:
            BackendError: it belongs to no call and starts none, or is no entry.
        """
        if not isinstance(fragment, dict):
            raise BackendError("protocol", f"expected a tool call, got {str(fragment)[:60]}")
        function = object_in(fragment, "function")
        name = function.get("name") or None
        if name is not None and not isinstance(name, str):
            raise BackendError("protocol", f"expected a tool's name, got {str(name)[:60]}")
        text = _arguments_text(function.get("arguments"))
        if self._is_repeated(fragment, name, text):
            return []
        call = self._call_for(fragment, name, text)
        begins = call.name is None and name is not None
        if text:
            call.pieces.append(text)
        if returned := {name: fragment[name] for name in _RETURNED if fragment.get(name)}:
            call.opaque = {**(call.opaque or {}), **returned}
        if not begins:
            return [ToolCallArguments(call.key, text)] if text and call.name else []
        call.name = name
        assert name is not None
        started = ToolCallStarted(key=call.key, name=name, provider_id=call.provider_id)
        raw = call.raw  # includes pieces from before the name was known
        return [started, ToolCallArguments(call.key, raw)] if raw else [started]

    def finish(self, *, truncated: bool) -> list[Event]:
        """Finish every call; in a truncated answer, a call with unparsable arguments does not run.

        Raises:
            BackendError: a call has no name.
        """
        events: list[Event] = []
        for call in self._calls:
            if call.name is None:
                raise BackendError("protocol", "a tool call came without a name", raw=call.raw)
            arguments, error = read_arguments(call.raw, truncated=truncated)
            events.append(
                ToolCallFinished(
                    key=call.key,
                    raw=call.raw,
                    arguments=arguments,
                    error=error,
                    opaque=call.opaque,
                )
            )
        return events

    def _call_for(self, fragment: Mapping[str, Any], name: str | None, text: str) -> _Call:
        index, provider_id = _labels(fragment)
        existing = self._known(index, provider_id, name)
        if existing is not None and not self._is_next_call(existing, name, text):
            return existing
        if name is None and provider_id is None:
            raise BackendError(
                "protocol", f"a piece of tool call {index!r} came, which was never opened"
            )
        call = _Call(key=self._new_key(), provider_id=provider_id)
        self._calls.append(call)
        self._by_index[index] = call
        if provider_id is not None:
            self._by_id[provider_id, index] = self._by_id[provider_id, None] = call
        return call

    def _is_repeated(self, fragment: Mapping[str, Any], name: str | None, text: str) -> bool:
        """Return whether a fragment repeats a complete call, as those of some gateways do."""
        index, provider_id = _labels(fragment)
        may_repeat = provider_id and text.startswith(("{", '"'))
        call = self._known(index, provider_id, name) if may_repeat else None
        if call is None or not call.pieces or name not in (None, call.name):
            return False
        if not self._is_complete(call):
            return False
        arguments = read_arguments(call.raw, truncated=True)[0]
        return arguments == read_arguments(_unquoted(text), truncated=True)[0]

    def _known(self, index: Any, provider_id: str | None, name: str | None) -> _Call | None:
        if provider_id is not None:
            if (call := self._by_id.get((provider_id, index))) is not None:
                return call
            if name is not None:
                return None
        if index is not None:
            return self._by_index.get(index)
        return self._calls[-1] if self._calls else None

    def _is_next_call(self, existing: _Call, name: str | None, text: str) -> bool:
        """Return whether a fragment starts a new call, although it has the labels of `existing`."""
        if name is None or existing.name is None:
            return False
        return name != existing.name or (text.startswith("{") and self._is_complete(existing))

    def _is_complete(self, call: _Call) -> bool:
        """Return whether the arguments are an object; False once too much was checked."""
        last = call.pieces[-1].rstrip() if call.pieces else ""
        if (last and not last.endswith("}")) or self._checkable <= 0:
            return False
        raw = call.raw
        self._checkable -= len(raw)
        is_object = raw.rstrip().endswith("}")
        return is_object and read_arguments(raw, truncated=True)[0] is not None


def _labels(fragment: Mapping[str, Any]) -> tuple[Any, str | None]:
    """Return the index and the id of a fragment; None: it has none."""
    index, provider_id = fragment.get("index"), fragment.get("id")
    return (
        index if isinstance(index, int | str) else None,
        str(provider_id) if provider_id else None,
    )


def _arguments_text(arguments: Any) -> str:
    if arguments is None or isinstance(arguments, str):
        return arguments or ""
    return json.dumps(arguments).decode()


def _unquoted(text: str) -> str:
    """Return the text in a JSON string; any other text as it is."""
    try:
        value = json.loads(text)
    except InvalidJSON:
        return text
    return value if isinstance(value, str) else text


class _Pieces(list[str]):
    """The pieces of a text that is still growing; joining them each time would be quadratic."""


class ReasoningDetails:
    """The `reasoning_details` of a block of reasoning, merged from their fragments.

    Fragments of one index and type belong together: their texts are joined, other fields replaced.
    """

    def __init__(self) -> None:
        self._details: dict[Any, dict[str, Any]] = {}

    def __bool__(self) -> bool:
        return bool(self._details)

    def feed(self, fragments: Any) -> str:
        """Add the list of a delta; return the text it added."""
        added = []
        for fragment in fragments if isinstance(fragments, list) else ():
            if not isinstance(fragment, dict):
                continue
            text = fragment.get("text") or fragment.get("summary")
            if isinstance(text, str):
                added.append(text)
            index = fragment.get("index")
            key = object() if index is None else (str(index), str(fragment.get("type")))
            is_new = key not in self._details
            detail = self._details.setdefault(key, {})
            for name, value in fragment.items():
                if name in ("text", "summary", "data") and isinstance(value, str):
                    _grow(detail, name, value)
                elif value is not None or is_new:
                    detail[name] = value
        return "".join(added)

    def take(self) -> list[dict[str, Any]]:
        """Return the details, and forget them."""
        details, self._details = self._details, {}
        return [joined(detail) for detail in details.values()]


def merge_thinking(blocks: list[dict[str, Any]], fragments: Any) -> None:
    """Merge a delta's `thinking_blocks`, which LiteLLM streams for Claude; a signature ends one.

    `joined` returns a merged block.
    """
    for fragment in fragments if isinstance(fragments, list) else ():
        if not isinstance(fragment, dict):
            continue
        last = blocks[-1] if blocks else {}
        if not last or is_sealed(last) or last.get("type") != fragment.get("type"):
            blocks.append(last := dict(fragment))
        else:
            last["signature"] = fragment.get("signature")
        if isinstance(thought := fragment.get("thinking"), str):
            _grow(last, "thinking", thought)


def _grow(block: dict[str, Any], name: str, text: str) -> None:
    pieces = block.get(name)
    if isinstance(pieces, _Pieces):
        pieces.append(text)
    else:
        block[name] = _Pieces([text])


def joined(block: Mapping[str, Any]) -> dict[str, Any]:
    """Return a merged block with its texts."""
    return {
        name: "".join(value) if isinstance(value, _Pieces) else value
        for name, value in block.items()
    }


def is_sealed(block: Mapping[str, Any]) -> bool:
    """Return whether a block of reasoning has what its provider wants back."""
    return bool(block.get("signature") or block.get("data"))


def read_usage(counts: Mapping[str, Any]) -> Usage:
    """Return token counts that do not overlap, from any dialect."""
    number = partial(count_at, counts)
    prompt, output = number("prompt_tokens"), number("completion_tokens")
    read = number("prompt_tokens_details", "cached_tokens")
    if read is None:
        read = number("prompt_cache_hit_tokens")
    written = number("prompt_tokens_details", "cache_write_tokens")
    if written is None:
        written = number("cache_creation_input_tokens")  # of Claude, by LiteLLM and Portkey
    cached = (read or 0) + (written or 0)
    thought, total = number("completion_tokens_details", "reasoning_tokens"), number("total_tokens")
    if None not in (prompt, output, thought, total) and total == prompt + output + thought:  # type: ignore[operator]  # none of them is None
        output += thought  # type: ignore[operator]  # a dialect that counts it apart from the output
    if prompt is not None and cached and total == prompt + cached + (output or 0):
        prompt += cached  # Portkey counts it apart
    return Usage(
        input=None if prompt is None else max(0, prompt - cached),
        cache_read=read,
        cache_write=written,
        output=output,
        reasoning=thought,
        cost=cost(counts.get("cost")),
    )

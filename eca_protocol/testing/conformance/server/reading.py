"""Helpers that read answers and contents, and the requests that reached a chat's model.

The functions read requests of both model APIs.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import anyio

from eca_protocol.testing.conformance.chat_session import ChatSession, Content
from eca_protocol.testing.conformance.model import tools_in
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.members import at, list_at, object_at
from eca_protocol.testing.script import Reply, finish, reply, tool_call, usage

_Value = TypeVar("_Value")

INTRODUCTION_SECONDS: Final = 10.0
"""Seconds for the first `config/updated`; a server may look up its models before."""


def id_of(call: Content) -> str:
    """Return the id of a call."""
    call_id = call.get("id")
    if not isinstance(call_id, str):
        raise Unmet("a call with an id", call)
    return call_id


async def start_call(chat: ChatSession, prompt: str, expected: str = "") -> None:
    """Prompt a chat whose model calls a tool, and approve the call if it waits."""
    await chat.prompt(prompt)
    run = await chat.content("toolCallRun", expected=expected)
    if run.content.get("manualApproval"):
        await chat.approve(id_of(run.content))


def result_of(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the result of an answer, or an empty object."""
    return object_at(answer, "result")


async def poll(
    query: Callable[[], Awaitable[_Value]],
    is_expected: Callable[[_Value], object],
    *,
    seconds: float = 5,
) -> _Value:
    """Repeat a query until its result is expected; return the last result."""
    end = anyio.current_time() + seconds
    while not is_expected(value := await query()) and anyio.current_time() < end:  # noqa: ASYNC110
        await anyio.sleep(0.1)
    return value


def calls(*tools: tuple[str, Any]) -> Reply:
    """Build a reply of tool calls: each a tool and its arguments, as an object or as text."""
    steps = [
        tool_call(
            name,
            arguments if isinstance(arguments, str) else json.dumps(arguments),
            call_id=f"call_{index}",
            index=index,
        )
        for index, (name, arguments) in enumerate(tools)
    ]
    return reply(*steps, finish("tool_calls"), usage(10, len(tools)))


def all_text(value: Any) -> str:
    """Return all texts in a request, or in a part of it, in order."""
    return "\n".join(_texts(value))


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _texts(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(inner)


def conversation(body: Any) -> str:
    """Return the text of a request without its system messages and tools."""
    return all_text([each for each in _messages(body) if each.get("role") not in _SYSTEM])


_SYSTEM = ("system", "developer")


def _messages(body: Any) -> list[Mapping[str, Any]]:
    return [each for each in list_at(body, "messages") if isinstance(each, Mapping)]


def offered_tools(body: Any) -> list[str]:
    """Return the names of the tools that a request offers to the model."""
    return [name for name, _ in tools_in(body)]


def call_results(body: Any) -> list[str]:
    """Return the text of each tool result in a request."""
    return [all_text(each) for each in _results(_messages(body))]


def _results(messages: list[Mapping[str, Any]]) -> Iterator[Any]:
    for message in messages:
        if message.get("role") == "tool":
            yield message.get("content")
            continue
        for block in list_at(message, "content"):
            if at(block, "type") == "tool_result":
                yield block.get("content", "")

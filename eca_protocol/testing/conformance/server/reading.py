"""Helpers that read a chat's contents, and the requests that reached its model.

The functions read requests of both model APIs.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import anyio

from eca_protocol.errors import DeadlineExceeded
from eca_protocol.testing.conformance.chat_session import ChatSession
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.script import Reply, finish, reply, tool_call, usage

Content = Mapping[str, Any]

_Value = TypeVar("_Value")

INTRODUCTION_SECONDS: Final = 10.0
"""Seconds for the first `config/updated`; a server may look up its models before."""

ENDS: Final = ("toolCalled", "toolCallRejected")  # the types of content that close a call


def contents(chat: ChatSession) -> list[Content]:
    """Return all contents of a chat, in order."""
    return [received.content for received in chat.messages]


def kinds(chat: ChatSession) -> list[str]:
    """Return the types of a chat's contents; the end of a turn is `finished`."""
    return [
        "finished" if each.get("state") == "finished" else str(each.get("type"))
        for each in contents(chat)
    ]


def runs(chat: ChatSession) -> list[Content]:
    """Return the first `toolCallRun` of each call, in order."""
    return _first_of_each(chat.of("toolCallRun"))


def ends(chat: ChatSession) -> list[Content]:
    """Return the first content that closes each call, in order."""
    return _first_of_each([each for each in contents(chat) if each.get("type") in ENDS])


def _first_of_each(contents_of_calls: list[Content]) -> list[Content]:
    return list({str(each.get("id")): each for each in reversed(contents_of_calls)}.values())[::-1]


async def next_run(chat: ChatSession, n: int = 1) -> Content:
    """Return the nth call's `toolCallRun`."""
    await chat.session.until_holds(
        lambda: len(runs(chat)) >= n, expected=f"toolCallRun of call {n}"
    )
    return runs(chat)[n - 1]


async def next_end(chat: ChatSession, n: int = 1, *, shows: str | None = None) -> Content:
    """Return the content that closes the nth call."""
    await chat.session.until_holds(
        lambda: len(ends(chat)) >= n, shows=shows, expected=f"the end of call {n}"
    )
    return ends(chat)[n - 1]


def id_of(call: Content) -> str:
    """Return the id of a call."""
    contents_of_calls = call.get("id")
    if not isinstance(contents_of_calls, str):
        raise Unmet("a call with an id", call)
    return contents_of_calls


def text_of_role(chat: ChatSession, role: str) -> str:
    """Return the joined texts of one role."""
    return "".join(
        str(received.content.get("text"))
        for received in chat.messages
        if received.params.get("role") == role and received.content.get("type") == "text"
    )


def system_text(chat: ChatSession) -> str:
    """Return all text that is neither the user's nor the assistant's."""
    return "".join(
        str(received.content.get("text"))
        for received in chat.messages
        if received.content.get("type") == "text"
        and received.params.get("role") not in ("user", "assistant")
    )


def result_of(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the result of an answer, or an empty object."""
    result = answer.get("result")
    return result if isinstance(result, Mapping) else {}


def params_of(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the params of a message, or an empty object."""
    params = message.get("params")
    return params if isinstance(params, Mapping) else {}


async def next_content(chat: ChatSession, kind: str) -> Content:
    """Return the chat's first content of a type."""
    return (await chat.content(kind)).content


async def comes(chat: ChatSession, kind: str, **members: Any) -> bool:
    """Return whether a content of a type with these members comes within two seconds."""
    try:
        await chat.content(kind, seconds=2, **members)
    except Unmet:
        return False
    return True


async def finishes(chat: ChatSession, turns: int = 1, *, seconds: float = 5) -> bool:
    """Return whether that many turns end."""
    try:
        await chat.finished(turns, seconds=seconds)
    except Unmet:
        return False
    return True


async def wait_for_requests(chat: ChatSession, times: int = 1) -> None:
    """Wait until the model has received that many requests."""
    await _until(chat, lambda: len(chat.model.requests) >= times, f"{times} requests to the model")


async def wait_for_gate(chat: ChatSession, gate: str) -> None:
    """Wait until the model reaches that gate."""
    await _until(
        chat,
        lambda: gate in chat.model.reached_gates,
        f"a request to the model, at the step {gate!r}",
    )


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


async def _until(chat: ChatSession, condition: Callable[[], bool], expected: str) -> None:
    try:
        await chat.model.until(condition)
    except DeadlineExceeded as late:
        raise Unmet(expected, str(late)) from late


def calls(*tools: tuple[str, Any], before: str = "") -> Reply:
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
    return reply(*([before] if before else []), *steps, finish("tool_calls"), usage(10, len(tools)))


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
    messages = body.get("messages") if isinstance(body, Mapping) else None
    return [each for each in messages or () if isinstance(each, Mapping)]


def offered_tools(body: Any) -> list[str]:
    """Return the names of the tools that a request offers to the model."""
    tools = body.get("tools") if isinstance(body, Mapping) else None
    functions = [tool.get("function", tool) for tool in tools or ()]
    return [str(each["name"]) for each in functions if "name" in each]


def call_results(body: Any) -> list[str]:
    """Return the text of each tool result in a request."""
    return [all_text(each) for each in _results(_messages(body))]


def _results(messages: list[Mapping[str, Any]]) -> Iterator[Any]:
    for message in messages:
        content = message.get("content")
        if message.get("role") == "tool":
            yield content
        elif isinstance(content, list):
            yield from (
                block.get("content", "")
                for block in content
                if isinstance(block, Mapping) and block.get("type") == "tool_result"
            )

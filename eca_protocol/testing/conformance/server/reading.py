"""What cases read out of a chat's contents and out of the requests that reached its model.

The model is asked over one of two APIs, so a request is read without a view to which: all texts in
it, the names of the tools that it offers, and what it tells of calls.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import anyio

from eca_protocol.errors import DeadlineExceeded
from eca_protocol.testing.conformance.cases import Stuck
from eca_protocol.testing.conformance.chat_seat import ChatSeat
from eca_protocol.testing.script import Reply, finish, reply, tool_call, usage

__all__ = [
    "INTRODUCTION_SECONDS",
    "Content",
    "asked",
    "at_gate",
    "calls",
    "comes",
    "contents",
    "conversation",
    "ends",
    "finishes",
    "id_of",
    "in_time",
    "kinds",
    "next_end",
    "next_run",
    "offered",
    "params_of",
    "result_of",
    "runs",
    "said",
    "shown",
    "told",
    "told_of_calls",
    "words",
]

Content = Mapping[str, Any]

_Got = TypeVar("_Got")

INTRODUCTION_SECONDS: Final = 10.0
"""Within which a server has told of its settings; it may look up what models can do before."""

ENDS: Final = ("toolCalled", "toolCallRejected")
"""The types of content that close a call."""


def contents(chat: ChatSeat) -> list[Content]:
    """All contents of a chat, in order."""
    return [heard.content for heard in chat.heard]


def kinds(chat: ChatSeat) -> list[str]:
    """The types of a chat's contents; the last progress of a turn is `finished`."""
    return [
        "finished" if each.get("state") == "finished" else str(each.get("type"))
        for each in contents(chat)
    ]


def runs(chat: ChatSeat) -> list[Content]:
    """How each call was announced, in order; of a call that is announced twice the first time."""
    return _first_of_each(chat.of("toolCallRun"))


def ends(chat: ChatSeat) -> list[Content]:
    """How each call ended, in order; of a call that ends twice the first time."""
    return _first_of_each([each for each in contents(chat) if each.get("type") in ENDS])


def _first_of_each(told: list[Content]) -> list[Content]:
    return list({str(each.get("id")): each for each in reversed(told)}.values())[::-1]


async def next_run(chat: ChatSeat, n: int = 1, *, seconds: float = 5) -> Content:
    """How the nth call is announced.

    Raises:
        Stuck: it is not.
    """
    await chat.seat.until(
        lambda _: len(runs(chat)) >= n, seconds=seconds, expected=f"toolCallRun of call {n}"
    )
    return runs(chat)[n - 1]


async def next_end(chat: ChatSeat, n: int = 1, *, shows: str | None = None) -> Content:
    """How the nth call ends.

    Raises:
        Stuck: it does not.
    """
    await chat.seat.until(
        lambda _: len(ends(chat)) >= n, shows=shows, expected=f"the end of call {n}"
    )
    return ends(chat)[n - 1]


def id_of(call: Content) -> str:
    """The id of a call, as one of its contents tells it.

    Raises:
        Stuck: it tells none.
    """
    told = call.get("id")
    if not isinstance(told, str):
        raise Stuck("a call with an id", call)
    return told


def said(chat: ChatSeat, role: str) -> str:
    """The joined texts of one role."""
    return "".join(
        str(heard.content.get("text"))
        for heard in chat.heard
        if heard.params.get("role") == role and heard.content.get("type") == "text"
    )


def told(chat: ChatSeat) -> str:
    """All texts but the user's and the assistant's: what the server itself has to say."""
    return "".join(
        str(heard.content.get("text"))
        for heard in chat.heard
        if heard.content.get("type") == "text"
        and heard.params.get("role") not in ("user", "assistant")
    )


def result_of(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """The result of an answer; empty if it has none that is an object."""
    result = answer.get("result")
    return result if isinstance(result, Mapping) else {}


def params_of(message: Mapping[str, Any]) -> Mapping[str, Any]:
    """The params of a message; empty if it has none that are an object."""
    params = message.get("params")
    return params if isinstance(params, Mapping) else {}


async def shown(
    chat: ChatSeat,
    kind: str,
    *,
    n: int = 1,
    shows: str | None = None,
    seconds: float = 5,
    **members: Any,
) -> Content:
    """The chat's nth content of a type, with these members.

    Raises:
        Stuck: it does not come.
    """
    heard = await chat.content(kind, n=n, shows=shows, seconds=seconds, **members)
    return heard.content


async def comes(chat: ChatSeat, kind: str, *, seconds: float = 2, **members: Any) -> bool:
    """Whether such a content comes."""
    try:
        await chat.content(kind, seconds=seconds, **members)
    except Stuck:
        return False
    return True


async def finishes(chat: ChatSeat, turns: int = 1, *, seconds: float = 5) -> bool:
    """Whether so many turns come to their end."""
    try:
        await chat.finished(turns, seconds=seconds)
    except Stuck:
        return False
    return True


async def asked(chat: ChatSeat, times: int = 1) -> None:
    """Wait until the model was asked so often.

    Raises:
        Stuck: it was not.
    """
    await _until(chat, lambda: len(chat.model.requests) >= times, f"{times} requests to the model")


async def at_gate(chat: ChatSeat, gate: str) -> None:
    """Wait until the model waits at that gate.

    Raises:
        Stuck: it never comes so far.
    """
    await _until(chat, lambda: gate in chat.model.reached, f"the model at {gate!r}")


async def in_time(
    ask: Callable[[], Awaitable[_Got]], is_wanted: Callable[[_Got], object], *, seconds: float = 5
) -> _Got:
    """What was got last, of a server that may still look about: asked for until it is wanted."""
    end = anyio.current_time() + seconds
    while not is_wanted(got := await ask()) and anyio.current_time() < end:  # noqa: ASYNC110
        await anyio.sleep(0.1)
    return got


async def _until(chat: ChatSeat, condition: Callable[[], bool], expected: str) -> None:
    try:
        await chat.model.until(condition)
    except DeadlineExceeded as late:
        raise Stuck(expected, str(late)) from late


def calls(*made: tuple[str, Any], before: str = "") -> Reply:
    """A model's answer of tool calls: each a tool, and its arguments or the text in their place."""
    steps = [
        tool_call(
            name,
            given if isinstance(given, str) else json.dumps(given),
            call_id=f"call_{index}",
            index=index,
        )
        for index, (name, given) in enumerate(made)
    ]
    return reply(*([before] if before else []), *steps, finish("tool_calls"), usage(10, len(made)))


def words(value: Any) -> str:
    """All texts in a request, or in a part of it, in order."""
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
    """What a request holds of the chat: all but the system's part and the tools."""
    return words([each for each in _messages(body) if each.get("role") not in _SYSTEM])


_SYSTEM = ("system", "developer")


def _messages(body: Any) -> list[Mapping[str, Any]]:
    messages = body.get("messages") if isinstance(body, Mapping) else None
    return [each for each in messages or () if isinstance(each, Mapping)]


def offered(body: Any) -> list[str]:
    """The names of the tools that a request offers to the model."""
    tools = body.get("tools") if isinstance(body, Mapping) else None
    named = [tool.get("function", tool) for tool in tools or ()]
    return [str(each["name"]) for each in named if "name" in each]


def told_of_calls(body: Any) -> list[str]:
    """What a request tells of the results of calls, one text for each."""
    return [words(each) for each in _results(_messages(body))]


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

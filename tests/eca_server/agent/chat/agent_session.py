"""Fixtures of tests of whole turns with tools: a folder, a scripted provider, an editor."""

import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

from eca_protocol.testing.provider import Provider, Reply, finish, reply, tool_call
from eca_server.models.history import Message, TextPart, ToolCallPart, ToolResultPart, repair
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import Content, Editor, editor, provider_config

ALLOW: dict[str, Any] = {"toolCall": {"approval": {"byDefault": "allow"}}}
RUN = {"command": "echo hello"}


def calls(*made: tuple[str, Any], ids: str = "p{}") -> Reply:
    """An answer of calls: names with arguments, or with the text that stands for them."""
    steps = [
        tool_call(
            name,
            arguments if isinstance(arguments, str) else json.dumps(arguments),
            call_id=ids.format(index),
            index=index,
        )
        for index, (name, arguments) in enumerate(made)
    ]
    return reply(*steps, finish("tool_calls"))


@asynccontextmanager
async def older(
    *script: Reply,
    title: Reply | None = None,
    folder: Path | None = None,
    data: Path | None = None,
    about: Mapping[str, Any] = MappingProxyType({}),
    **config: Any,
) -> AsyncIterator[tuple[Editor, Provider]]:
    """A session with a client of an older edition; a chat has a title if one is given."""
    if title is not None:
        config["chat"] = {"title": True}
    async with (
        Provider(script, otherwise=reply("the end"), title=title) as provider,
        editor(
            provider_config(provider.url, **config), folder=folder, data=data, about=about
        ) as ours,
    ):
        yield ours, provider


@asynccontextmanager
async def today(
    *script: Reply,
    folder: Path | None = None,
    data: Path | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
    client: str = "any",
    **config: Any,
) -> AsyncIterator[tuple[Editor, Provider]]:
    """The same with a client of today's edition."""
    more: dict[str, Any] = {"folder": folder, "data": data, "environ": environ}
    async with (
        Provider(script, otherwise=reply("the end")) as provider,
        current(
            provider_config(provider.url, **config), clientInfo={"name": client}, **more
        ) as ours,
    ):
        yield ours, provider


def hook(event: str, *shells: str, **more: Any) -> dict[str, Any]:
    """Return a hook of these commands."""
    return {"type": event, "actions": [{"type": "shell", "shell": each} for each in shells], **more}


def hooked(**hooks: Mapping[str, Any]) -> dict[str, Any]:
    return {"hooks": hooks}


def of_calls(ours: Editor) -> list[Content]:
    return [each for each in ours.contents() if each["type"].startswith("toolCall")]


def order(contents: list[Content]) -> list[str]:
    """The kinds, without the pieces of arguments after the first."""
    kinds = [each["type"].removeprefix("toolCall") for each in contents]
    return [
        kind
        for position, kind in enumerate(kinds)
        if kind != "Prepare" or position == 0 or kinds[position - 1] != "Prepare"
    ]


def conversation(provider: Provider, request: int = -1) -> list[tuple[str, str]]:
    """Return role and text of the messages that the model was sent after its instructions."""
    system, *messages = provider.requests[request].body["messages"]
    assert system["role"] == "system"
    return [(each["role"], _text(each["content"])) for each in messages]


def _text(content: Any) -> str:
    if not isinstance(content, list):
        return str(content)
    return "|".join(str(part.get("text")) for part in content)


def results(provider: Provider, request: int = -1) -> list[str]:
    """Return the results of calls that the model was sent."""
    messages = provider.requests[request].body["messages"]
    return [str(each["content"]) for each in messages if each["role"] == "tool"]


def check_history(history: Sequence[Message]) -> None:
    """Each call has its one result, behind it; and repaired it is valid for every API."""
    _check_results(history)
    valid = repair(history)
    if not history:
        return
    _check_results(valid)
    assert valid[0].role == "user"
    assert all(one.role != other.role for one, other in itertools.pairwise(valid))
    for position, message in enumerate(valid):
        assert message.parts
        assert all(part.text.strip() for part in message.parts if isinstance(part, TextPart))
        calls = [part.id for part in message.parts if isinstance(part, ToolCallPart)]
        if calls:
            results = valid[position + 1].parts
            assert [part.call_id for part in results if isinstance(part, ToolResultPart)] == calls


def _check_results(history: Sequence[Message]) -> None:
    calls: list[str] = []
    results: Counter[str] = Counter()
    for message in history:
        calls += [part.id for part in message.parts if isinstance(part, ToolCallPart)]
        answered_ids = [part.call_id for part in message.parts if isinstance(part, ToolResultPart)]
        assert set(answered_ids) <= set(calls)
        assert not answered_ids or message.role == "tool"
        results.update(answered_ids)
    assert results == Counter(calls)
    assert len(set(calls)) == len(calls)

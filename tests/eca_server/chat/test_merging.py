"""Deltas that follow each other closely reach some clients as fewer contents."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
import trio

from eca_protocol.messages import (
    ChatContent,
    ChatProgressContent,
    ChatReasonTextContent,
    ChatTextContent,
    ChatToolCallPrepareContent,
)
from eca_server.chat.merging import Merger
from eca_server.content_formatting import Role
from tests.eca_server.chat.current import current
from tests.eca_server.chat.editor import SCRIPT, finishes, text

pytestmark = pytest.mark.trio

INTERVAL = 0.03


def words(text: str) -> ChatTextContent:
    return ChatTextContent(text=text)


def thought(text: str, id_: str = "r") -> ChatReasonTextContent:
    return ChatReasonTextContent(id=id_, text=text)


def piece(text: str, **more: Any) -> ChatToolCallPrepareContent:
    names: dict[str, Any] = {"id": "1", "name": "t", "server": "s", "origin": "mcp"}
    return ChatToolCallPrepareContent(**names, arguments_text=text, **more)


WORKING = ChatProgressContent(state="running", text="Working")
ECHO = ChatTextContent(text="hi", content_id="m")


@pytest.mark.requirement
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([words("a"), words("b"), words("c")], [words("a"), words("bc")]),
        ([words("a"), words("b"), WORKING], [words("a"), words("b"), WORKING]),
        ([words("a"), thought("b"), thought("c")], [words("a"), thought("b"), thought("c")]),
        ([thought("a"), thought("b", "2"), thought("c")], [
            thought("a"), thought("b", "2"), thought("c"),
        ]),
        ([piece(""), piece("{"), piece("}", summary="s")], [piece(""), piece("{}", summary="s")]),
    ],
)  # fmt: skip
async def test_deltas_of_one_content_are_joined_in_order(
    given: list[ChatContent], expected: list[ChatContent], autojump_clock: object
) -> None:
    written: list[ChatContent] = []
    async with trio.open_nursery() as nursery:
        merger = Merger(lambda _, content: written.append(content), INTERVAL, nursery)
        for content in given:
            merger.write("assistant", content)
    assert written == expected


@pytest.mark.requirement
async def test_a_delta_waits_an_interval_at_most(autojump_clock: object) -> None:
    written: list[tuple[float, str]] = []
    began = trio.current_time()

    def write(_: Role, content: ChatContent) -> None:
        assert isinstance(content, ChatTextContent)
        written.append((round(trio.current_time() - began, 3), content.text))

    async with trio.open_nursery() as nursery:
        merger = Merger(write, INTERVAL, nursery)
        for number in range(10):
            merger.write("assistant", words(str(number)))
            await trio.sleep(0.01)
        await trio.sleep(1)
        merger.write("assistant", words("late"))
    times = [at for at, _ in written]
    assert "".join(text for _, text in written) == "0123456789late"
    assert times[0] == 0
    assert all(later - sooner >= INTERVAL for sooner, later in pairwise(times))
    assert times[-2] < 0.15
    assert times[-1] >= 1


@pytest.mark.long
@pytest.mark.requirement("W-6d")
async def test_a_source_waits_until_few_characters_are_held(autojump_clock: object) -> None:
    written: list[str] = []

    def write(_: Role, content: ChatContent) -> None:
        assert isinstance(content, ChatTextContent)
        written.append(content.text)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        merger = Merger(write, INTERVAL, nursery)
        for _ in range(1000):
            merger.write("assistant", words("x" * 100))
            await merger.drained()
    assert "".join(written) == "x" * 100_000
    assert 16 < len(written) <= 50
    assert 1 < trio.current_time() - began < 2


@pytest.mark.requirement
async def test_what_the_user_said_is_written_as_it_is() -> None:
    written: list[ChatContent] = []
    async with trio.open_nursery() as nursery:
        merger = Merger(lambda _, content: written.append(content), INTERVAL, nursery)
        for _ in range(2):
            merger.write("user", ECHO)
        assert written == [ECHO, ECHO]


@pytest.mark.requirement("W-23e", "W-23g", "CHAT-33")
@pytest.mark.parametrize("client", ["emacs", "VsCode", "Neovim"])
async def test_a_flood_is_few_contents_and_a_stop_loses_none_of_what_came(client: str) -> None:
    async with current(clientInfo={"name": client}) as ours:
        received = await ours.turn("repeat 5000 x", model=SCRIPT)
        assert text(received[2:]) == "x" * 5000
        assert sum(each["type"] == "text" for each in received) < 500
        begun = len(ours.contents())
        await ours.prompt("repeat 99999999 x", model=SCRIPT)
        await ours.content("text", text="x")
        await ours.stop()
        with trio.fail_after(2):
            await ours.finished()
        flood = ours.contents()[begun:]
        assert finishes(flood) == 1
        assert set(text(flood[2:]).removesuffix("\n\nStopped.")) == {"x"}


@pytest.mark.requirement
async def test_other_clients_receive_each_delta_as_it_comes() -> None:
    async with current() as ours:
        received = await ours.turn("repeat 50 x", model=SCRIPT)
    assert [each["text"] for each in received[2:] if each["type"] == "text"] == ["x"] * 50

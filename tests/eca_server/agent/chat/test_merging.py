"""Deltas that follow each other closely reach some clients as fewer contents."""

from __future__ import annotations

from itertools import accumulate, pairwise
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
from eca_protocol.server.texts import Role
from eca_server.agent.chat.merging import Merger
from eca_server.client.profiles import ClientProfile
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import SCRIPT, finishes, text

INTERVAL = 0.03
MERGING = ClientProfile(merge_seconds=INTERVAL)
REPAINTING = ClientProfile(merge_seconds=INTERVAL, repaint_seconds=1e-5)


def words(text: str) -> ChatTextContent:
    return ChatTextContent(text=text)


def thought(text: str, id_: str = "r") -> ChatReasonTextContent:
    return ChatReasonTextContent(id=id_, text=text)


def piece(text: str, **more: Any) -> ChatToolCallPrepareContent:
    names: dict[str, Any] = {"id": "1", "name": "t", "server": "s", "origin": "mcp"}
    return ChatToolCallPrepareContent(**names, arguments_text=text, **more)


WORKING = ChatProgressContent(state="running", text="Working")
ECHO = ChatTextContent(text="hi", content_id="m")


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
async def test_deltas_of_one_content_are_joined_in_order(given, expected, autojump_clock):
    written: list[ChatContent] = []
    async with trio.open_nursery() as nursery:
        merger = Merger(lambda _, content: written.append(content), MERGING, nursery)
        for content in given:
            merger.write("assistant", content)
    assert written == expected


async def test_a_delta_waits_an_interval_at_most(autojump_clock):
    written: list[tuple[float, str]] = []
    began = trio.current_time()

    def write(_: Role, content: ChatContent) -> None:
        assert isinstance(content, ChatTextContent)
        written.append((round(trio.current_time() - began, 3), content.text))

    async with trio.open_nursery() as nursery:
        merger = Merger(write, MERGING, nursery)
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
async def test_a_source_waits_until_few_characters_are_held(autojump_clock):
    written: list[str] = []

    def write(_: Role, content: ChatContent) -> None:
        assert isinstance(content, ChatTextContent)
        written.append(content.text)

    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        merger = Merger(write, MERGING, nursery)
        for _ in range(1000):
            merger.write("assistant", words("x" * 100))
            await merger.drained()
    assert "".join(written) == "x" * 100_000
    assert 16 < len(written) <= 50
    assert 1 < trio.current_time() - began < 2


class Screen:
    """A client's screen: the texts that were written, with their times."""

    def __init__(self) -> None:
        self.began = trio.current_time()
        self.texts: list[str] = []
        self.times: list[float] = []

    def write(self, _: Role, content: ChatContent) -> None:
        assert isinstance(content, ChatTextContent | ChatReasonTextContent)
        self.texts.append(content.text)
        self.times.append(trio.current_time() - self.began)


async def test_a_content_that_is_painted_again_gets_longer_intervals(autojump_clock):
    screen = Screen()
    async with trio.open_nursery() as nursery:
        merger = Merger(screen.write, REPAINTING, nursery)
        for _ in range(1000):
            merger.write("assistant", words("x" * 100))
            await merger.drained()
    assert "".join(screen.texts) == "x" * 100_000
    assert screen.times[0] == 0
    lengths = accumulate(map(len, screen.texts))
    gaps = [later - sooner for sooner, later in pairwise(screen.times)]
    for gap, length in zip(gaps, lengths, strict=False):
        assert gap >= min(3 * length * 1e-5, 2) - 1e-6
    assert max(gaps) <= 2.1
    assert gaps[0] < 2 * INTERVAL


async def test_a_slow_model_is_shown_at_once_even_in_a_long_content(autojump_clock):
    screen = Screen()
    async with trio.open_nursery() as nursery:
        merger = Merger(screen.write, REPAINTING, nursery)
        merger.write("assistant", words("x" * 8000))
        for number in range(8):
            await trio.sleep(0.25)
            merger.write("assistant", words(str(number)))
    assert screen.texts == ["x" * 8000, *"01234567"]
    assert screen.times == pytest.approx([number / 4 for number in range(9)])


async def test_a_long_content_does_not_delay_the_next_one(autojump_clock):
    screen = Screen()
    async with trio.open_nursery() as nursery:
        merger = Merger(screen.write, REPAINTING, nursery)
        for text in ("x" * 60_000, "y"):
            merger.write("assistant", words(text))
        for text in "abc":
            merger.write("assistant", thought(text))
        await trio.sleep(INTERVAL + 0.001)
        assert screen.texts == ["x" * 60_000, "y", "a", "bc"]


async def test_a_content_in_between_does_not_shorten_the_interval(autojump_clock):
    written: list[ChatContent] = []
    async with trio.open_nursery() as nursery:
        merger = Merger(lambda _, content: written.append(content), REPAINTING, nursery)
        merger.write("assistant", words("x" * 20_000))
        merger.write("system", WORKING)
        for text in "abc":
            merger.write("assistant", words(text))
        await trio.sleep(0.5)
        assert written[1:] == [WORKING, words("a")]
        await trio.sleep(0.2)
        assert written[3:] == [words("bc")]


@pytest.mark.parametrize("drops", [False, True])
async def test_text_at_a_stop_waits_for_the_end(drops, autojump_clock):
    screen = Screen()
    async with trio.open_nursery() as nursery:
        merger = Merger(screen.write, MERGING, nursery)
        for text in "abc":
            merger.write("assistant", words(text))
        merger.wait_for_flush()
        await trio.sleep(1)
        assert screen.texts == ["a"]
        if drops:
            merger.drop()
        merger.flush()
    assert screen.texts == (["a"] if drops else ["a", "bc"])


async def test_the_users_message_is_written_as_it_is():
    written: list[ChatContent] = []
    async with trio.open_nursery() as nursery:
        merger = Merger(lambda _, content: written.append(content), MERGING, nursery)
        for _ in range(2):
            merger.write("user", ECHO)
        assert written == [ECHO, ECHO]


@pytest.mark.parametrize("client", ["emacs", "VsCode", "Neovim"])
async def test_a_flood_is_few_contents_and_a_stop_loses_none_of_what_came(client):
    async with current(clientInfo={"name": client}) as ours:
        received = await ours.turn("repeat 5000 x", model=SCRIPT)
        assert text(received[2:]) == "x" * 5000
        assert sum(each["type"] == "text" for each in received) < 500
        begun = len(ours.contents())
        await ours.prompt("repeat 99999999 x", model=SCRIPT)
        await ours.content("text", text="x")
        await ours.stop()
        with trio.fail_after(2):
            await ours.expect_finished()
        flood = ours.contents()[begun:]
        assert finishes(flood) == 1
        assert set(text(flood[2:]).removesuffix("\n\nStopped.")) == {"x"}


async def test_other_clients_receive_each_delta_as_it_comes():
    async with current() as ours:
        received = await ours.turn("repeat 50 x", model=SCRIPT)
    assert [each["text"] for each in received[2:] if each["type"] == "text"] == ["x"] * 50

"""Deltas reach some clients as fewer contents, and the code that an answer leaves open ended."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import accumulate, pairwise
from types import SimpleNamespace
from typing import Any

import anyio.lowlevel
import pytest
import trio

from eca_protocol import messages as m
from eca_protocol.server.texts import Role
from eca_protocol.testing.provider import burst, provider_in_thread, reply
from eca_server.agent.chat.markdown import OpenCode
from eca_server.agent.chat.merging import Merger
from eca_server.client.profiles import Writing
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import SCRIPT, editor, provider_config
from tests.promises import within

INTERVAL = 0.03
MERGING = Writing(merge_seconds=INTERVAL)
REPAINTING = Writing(merge_seconds=INTERVAL, repaint_seconds=1e-5)


def words(text: str) -> m.ChatTextContent:
    return m.ChatTextContent(text=text)


def thought(text: str, id_: str = "r") -> m.ChatReasonTextContent:
    return m.ChatReasonTextContent(id=id_, text=text)


def piece(text: str, **more: Any) -> m.ChatToolCallPrepareContent:
    names: dict[str, Any] = {"id": "1", "name": "t", "server": "s", "origin": "mcp"}
    return m.ChatToolCallPrepareContent(**names, arguments_text=text, **more)


WORKING = m.ChatProgressContent(state="running", text="Working")
ECHO = m.ChatTextContent(text="hi", content_id="m")


class Screen:
    """A client's screen: the contents that were written, with their times."""

    def __init__(self, writing: Writing, nursery: trio.Nursery) -> None:
        self.began = trio.current_time()
        self.contents: list[m.ChatContent] = []
        self.times: list[float] = []
        self.merger = Merger(self._write, writing, nursery)

    def _write(self, _: Role, content: m.ChatContent) -> None:
        self.contents.append(content)
        self.times.append(trio.current_time() - self.began)

    def say(self, *texts: str) -> None:
        for each in texts:
            self.merger.write("assistant", words(each))

    @property
    def texts(self) -> list[str]:
        return [str(getattr(each, "text", "")) for each in self.contents]

    @property
    def gaps(self) -> list[float]:
        return [later - sooner for sooner, later in pairwise(self.times)]


@asynccontextmanager
async def screen(writing: Writing = MERGING) -> AsyncIterator[Screen]:
    async with trio.open_nursery() as nursery:
        yield Screen(writing, nursery)


@pytest.mark.parametrize(
    ("contents", "expected"),
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
async def test_deltas_of_one_content_are_joined_in_order(contents, expected, autojump_clock):
    async with screen() as ours:
        for content in contents:
            ours.merger.write("assistant", content)
    assert ours.contents == expected


@pytest.mark.parametrize("answer", ["hi", " hi\n", "h", "\n\nh "])
@pytest.mark.parametrize("drops_repeats", [True, False])
async def test_a_client_that_drops_repeats_of_the_prompt_sees_the_answer(answer, drops_repeats):
    writing = Writing(merge_seconds=INTERVAL, drops_repeats=drops_repeats)
    async with screen(writing) as ours:
        ours.merger.write("user", words(f"{answer.strip()}\n"))
        for text in (answer, "ho"):
            ours.say(text)
            ours.merger.write("system", WORKING)
    echo, *texts = filter(None, ours.texts)
    assert echo == f"{answer.strip()}\n"
    assert "".join(texts).replace("\u034f", "") == f"{answer}WorkinghoWorking"
    assert (answer in texts) is not drops_repeats
    assert (answer.strip() in [each.strip() for each in texts]) is not drops_repeats


async def test_a_delta_waits_an_interval_at_most(autojump_clock):
    async with screen() as ours:
        for number in range(10):
            ours.say(str(number))
            await trio.sleep(0.01)
        await trio.sleep(1)
        ours.say("late")
    assert "".join(ours.texts) == "0123456789late"
    assert ours.times[0] == 0
    assert all(gap >= INTERVAL - 1e-6 for gap in ours.gaps)
    assert ours.times[-2] < 0.15
    assert ours.times[-1] >= 1


@pytest.mark.long(but=1)
@pytest.mark.parametrize("writing", [REPAINTING, MERGING], ids=["paints again", "appends"])
async def test_a_source_waits_and_a_repainted_content_waits_longer(writing, autojump_clock):
    async with screen(writing) as ours:
        for _ in range(1000):
            ours.say("x" * 100)
            await ours.merger.drained()
    assert "".join(ours.texts) == "x" * 100_000
    assert ours.times[0] == 0
    if writing is MERGING:
        assert 16 < len(ours.texts) <= 50
        assert 1 < ours.times[-1] < 2
        return
    lengths = accumulate(map(len, ours.texts))
    for gap, length in zip(ours.gaps, lengths, strict=False):
        assert gap >= min(3 * length * 1e-5, 2) - 1e-6
    assert max(ours.gaps) <= 2.1
    assert ours.gaps[0] < 2 * INTERVAL


async def test_a_slow_model_is_shown_at_once_even_in_a_long_content(autojump_clock):
    async with screen(REPAINTING) as ours:
        ours.say("x" * 8000)
        for number in range(8):
            await trio.sleep(0.25)
            ours.say(str(number))
    assert ours.texts == ["x" * 8000, *"01234567"]
    assert ours.times == pytest.approx([number / 4 for number in range(9)])


async def test_a_long_content_does_not_delay_the_next_one(autojump_clock):
    async with screen(REPAINTING) as ours:
        ours.say("x" * 60_000, "y")
        for each in "abc":
            ours.merger.write("assistant", thought(each))
        await trio.sleep(INTERVAL + 0.001)
        assert ours.texts == ["x" * 60_000, "y", "a", "bc"]


async def test_a_content_in_between_does_not_shorten_the_interval(autojump_clock):
    async with screen(REPAINTING) as ours:
        ours.say("x" * 20_000)
        ours.merger.write("system", WORKING)
        ours.say(*"abc")
        await trio.sleep(0.5)
        assert ours.contents[1:] == [WORKING, words("a")]
        await trio.sleep(0.2)
        assert ours.texts[3:] == ["bc"]


@pytest.mark.parametrize("drops", [False, True])
async def test_text_at_a_stop_waits_for_the_end(drops, autojump_clock):
    async with screen() as ours:
        ours.say(*"abc")
        ours.merger.wait_for_flush()
        await trio.sleep(1)
        assert ours.texts == ["a"]
        if drops:
            ours.merger.drop()
        ours.merger.flush()
    assert ours.texts == (["a"] if drops else ["a", "bc"])


async def test_the_users_message_is_written_as_it_is():
    async with screen() as ours:
        for _ in range(2):
            ours.merger.write("user", ECHO)
        assert ours.contents == [ECHO, ECHO]


@pytest.mark.long(but=1)
@pytest.mark.parametrize("client", ["emacs", "VsCode", "Neovim"])
async def test_a_flood_is_few_contents_and_a_stop_loses_none_of_what_came(client):
    async with current(clientInfo={"name": client}) as ours:
        received = await ours.turn("repeat 2000 x", model=SCRIPT)
        assert received.answer == "x" * 2000
        assert sum(each["type"] == "text" for each in received) < 200
        begun = len(ours.contents())
        await ours.prompt("repeat 99999999 x", model=SCRIPT)
        await ours.content("text", text="x")
        await ours.stop()
        with within(2):
            await ours.expect_finished()
        flood = ours.contents()[begun:]
        assert flood.finishes == 1
        assert set(flood.answer.removesuffix("\n\nStopped.")) == {"x"}


PIECES = 400


async def test_the_time_that_others_take_is_no_reason_to_give_way_again(monkeypatch, mock_clock):
    given_way = 0
    checkpoint = trio.lowlevel.checkpoint

    async def give_way_to_many() -> None:
        nonlocal given_way
        given_way += 1
        mock_clock.jump(0.01)
        await checkpoint()

    monkeypatch.setattr(trio.lowlevel, "checkpoint", give_way_to_many)
    monkeypatch.setattr(anyio.lowlevel, "checkpoint", give_way_to_many)
    clock = SimpleNamespace(perf_counter=trio.current_time)
    monkeypatch.setattr("eca_protocol.http.time", clock)
    with provider_in_thread([reply(burst(PIECES, "x"))]) as provider:
        async with editor(provider_config(provider.url)) as ours:
            assert (await ours.turn("go")).text.count("x") == PIECES
    assert given_way < PIECES / 4


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        ("no code, `inline` and ```inline```", None),
        ("```py\nx = 1\n```", None),
        ("~~~\n```\n~~~\n", None),
        ("```py\nx = 1", "\n```\n"),
        ("```py\nx = 1\n", "```\n"),
        ("```", "\n```\n"),
        ("```py\na\n```\nand\n```js\nb\n", "```\n"),
        ("````md\n```py\nx\n```\n", "````\n"),
        ("~~~\nx\n```\n", "~~~\n"),
        ("```py\n```js\n", "```\n"),
        ("- one\n  ```py\n  x\n", "  ```\n"),
        (f"```\n{'x' * 1000}", "\n```\n"),
    ],
)
@pytest.mark.parametrize("step", [1, 3, 10_000])
def test_the_end_of_an_open_block_of_code(text, ending, step):
    code = OpenCode()
    for start in range(0, len(text), step):
        code.read(m.ChatTextContent(text=text[start : start + step]))
    closing = code.ending
    assert (closing and closing.text) == ending
    if closing is not None:
        code.read(closing)
    assert code.ending is None


def test_a_block_of_code_before_another_content_is_left_as_it_is():
    code = OpenCode()
    code.read(m.ChatTextContent(text="```py\n"))
    code.read(m.ChatReasonFinishedContent(id="r", total_time_ms=1))
    assert code.ending is None

"""Drafts of a running turn are stored now and then, and replaced when the turn ends."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from eca_protocol.testing.provider import reply, text, wait
from eca_server.agent.chat import draft as drafts
from eca_server.agent.chat.draft import Draft
from eca_server.agent.chat.replay import CUT_OFF
from eca_server.agent.chat.store.rows import Piece
from eca_server.agent.chat.store.running import joined
from eca_server.agent.chat.store.store import Store
from eca_server.models.events import ReasoningDelta, ReasoningStarted, TextDelta
from eca_server.models.history import Message, Origin, ReasoningPart, TextPart
from tests.eca_server.agent.chat.agent_session import older
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import SCRIPT, Editor, contents

ORIGIN = Origin(api="a", provider="p", model="m")


class FakeTurn:
    """As much of a turn as a draft looks at."""

    def __init__(self) -> None:
        self.messages: list[Message] = [Message(role="user", parts=(TextPart("prompt"),))]
        self.calls: dict[str, Any] = {}
        self.draft = Draft(self.messages, self.calls)
        self.draft.stored = 1


class Disk:
    """Takes pieces; while it is `full` it refuses them, while `late` is not set it waits."""

    def __init__(self) -> None:
        self.batches: list[Sequence[Piece]] = []
        self.is_full = False
        self.late = trio.Event()
        self.late.set()

    async def add(self, pieces: Sequence[Piece]) -> bool:
        self.batches.append(pieces)
        await self.late.wait()
        return not self.is_full

    def take_pieces(self) -> list[tuple[int, int, str]]:
        """Message, number and text of the pieces asked for since the last look."""
        batches, self.batches = self.batches, []
        return [
            (each.message, each.number, "".join(getattr(p, "text", "") for p in each.body.parts))
            for pieces in batches
            for each in pieces
        ]


@pytest.fixture
async def running(nursery: trio.Nursery) -> tuple[FakeTurn, Disk]:
    turn, disk = FakeTurn(), Disk()
    nursery.start_soon(turn.draft.run, disk.add)
    await trio.testing.wait_all_tasks_blocked()
    turn.draft.begin_answer(ORIGIN)
    return turn, disk


def say(turn: FakeTurn, *texts: str) -> None:
    for each in texts:
        turn.draft.record(TextDelta(each))


async def test_only_what_is_new_is_stored_once_a_second(running, autojump_clock):
    turn, disk = running
    await trio.sleep(10)
    assert disk.take_pieces() == []
    say(turn, "a", "b")
    await trio.sleep(0.9)
    say(turn, "c")
    assert disk.take_pieces() == []
    await trio.sleep(0.2)
    assert disk.take_pieces() == [(1, 0, "abc")]
    await trio.sleep(10)
    assert disk.take_pieces() == []
    say(turn, "d")
    await trio.sleep(1.1)
    assert disk.take_pieces() == [(1, 1, "d")]


async def test_a_whole_message_takes_the_place_of_its_pieces(running, autojump_clock):
    turn, disk = running
    say(turn, "a")
    await trio.sleep(1.1)
    say(turn, "b")
    whole = Message(role="assistant", parts=(TextPart("ab"),), origin=ORIGIN)
    turn.messages.append(whole)
    turn.draft.end_answer()
    await trio.sleep(1.1)
    assert disk.take_pieces() == [(1, 0, "a"), (1, 0, "ab")]
    turn.messages[-1] = Message(role="assistant", parts=(TextPart("rewritten"),), origin=ORIGIN)
    turn.draft.begin_answer(ORIGIN)
    say(turn, "next")
    await trio.sleep(1.1)
    assert disk.take_pieces() == [(1, 0, "rewritten"), (2, 0, "next")]


async def test_what_the_disk_refused_comes_again_and_less_often(running, autojump_clock):
    turn, disk = running
    disk.is_full = True
    say(turn, "a")
    await trio.sleep(100)
    tries = disk.take_pieces()
    assert set(tries) == {(1, 0, "a")}
    assert 4 <= len(tries) <= 8
    say(turn, "b")
    disk.is_full = False
    await trio.sleep(2 * drafts.MOST_SECONDS)
    assert disk.take_pieces() == [(1, 0, "ab")]


async def test_behind_a_late_disk_nothing_piles_up(running, autojump_clock):
    turn, disk = running
    disk.late = trio.Event()
    say(turn, "a")
    await trio.sleep(5)
    say(turn, "b")
    await trio.sleep(100)
    assert disk.take_pieces() == [(1, 0, "a")]
    disk.late.set()
    await trio.sleep(5)
    assert disk.take_pieces() == [(1, 1, "b")]
    say(turn, "c")
    turn.draft.end()
    await trio.sleep(100)
    say(turn, "d")
    assert disk.take_pieces() == []


async def test_pieces_of_one_kind_are_joined_and_thoughts_are_separate() -> None:
    events = [ReasoningStarted("k"), ReasoningDelta("k", "one"), ReasoningStarted("l")]
    events_of_text = [ReasoningDelta("l", "two"), TextDelta("a"), TextDelta("b")]
    whole = [*events, *events_of_text]
    parts = tuple(joined(part for each in whole for part in drafts._part_of(each)))
    assert parts == (ReasoningPart(text="\n\none\n\ntwo"), TextPart("ab"))
    assert tuple(joined(parts)) == parts


def rows(data: Path, query: str) -> list[tuple[Any, ...]]:
    for path in data.rglob("chats.sqlite"):
        with closing(sqlite3.connect(path)) as connection, suppress(sqlite3.OperationalError):
            return connection.execute(query).fetchall()
    return []  # it is not made yet


async def until_pieces(data: Path, text: str) -> None:
    """Wait until pieces on disk hold a text together."""
    query = "SELECT body FROM running_piece ORDER BY message, piece"
    while text.encode() not in b"".join(body for (body,) in rows(data, query)):
        await trio.sleep(0.02)


RUNNING = "SELECT turn FROM running_turn UNION ALL SELECT turn FROM running_piece"


def words(ours: Editor, begun: int = 0) -> list[tuple[str, str]]:
    received = contents(ours.received[begun:])
    return [(role, each["text"]) for role, each in received if each["type"] == "text"]


async def test_a_turn_of_another_server_that_lives_is_left_alone(tmp_path: Path) -> None:
    async with current(data=tmp_path) as second:
        async with current(data=tmp_path) as first:
            await first.prompt("say half\nwait forever", model=SCRIPT)
            await until_pieces(tmp_path, "half")
            await second.ask("chat/open", {"chatId": "c"})
            await second.ask("chat/list")
            assert words(second) == [("user", "say half\nwait forever")]
            assert rows(tmp_path, RUNNING)
            await first.expect_stopped()
            assert rows(tmp_path, RUNNING) == []
        assert not list(tmp_path.rglob("chats.sqlite.turns-*"))
    async with current(data=tmp_path) as third:
        await third.ask("chat/open", {"chatId": "c"})
        stop = ("system", "\n\nStopped.")
        assert words(third) == [("user", "say half\nwait forever"), ("assistant", "half"), stop]


@pytest.mark.long(but=1)
@pytest.mark.parametrize("ends_by", ["rollback", "clear", "delete"])
async def test_nothing_is_left_of_a_running_turn_whose_chat_goes(tmp_path, ends_by):
    async with current(data=tmp_path) as ours:
        await ours.prompt("say half\nwait forever", model=SCRIPT)
        await until_pieces(tmp_path, "half")
        [prompt] = ours.contents().prompt_ids
        params = {"chatId": "c", "messages": True, "contentId": prompt}
        await ours.ask(f"chat/{ends_by}", params)
    assert rows(tmp_path, RUNNING) == []
    assert rows(tmp_path, "SELECT * FROM message") == []


async def test_a_turn_continues_and_is_whole_where_no_piece_can_be_stored(tmp_path, monkeypatch):
    tried = trio.Event()

    async def refuse(store: Store, chat_id: str, turn: str, pieces: Sequence[Piece]) -> bool:
        tried.set()
        raise OSError("the disk is gone")

    monkeypatch.setattr(Store, "add_pieces", refuse)
    script = reply("one, ", wait("first"), text("two"))
    async with older(script, folder=tmp_path, data=tmp_path) as (ours, provider):
        await ours.prompt("go")
        await tried.wait()
        provider.open("first")
        await ours.expect_finished()
    assert rows(tmp_path, RUNNING) == []
    assert len(rows(tmp_path, "SELECT * FROM message")) == 2
    assert CUT_OFF not in str(rows(tmp_path, "SELECT * FROM message"))

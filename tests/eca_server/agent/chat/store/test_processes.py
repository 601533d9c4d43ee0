"""Real processes: killed at random points, and several at once on one file."""

import random
import re
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
import trio

from eca_server.agent.chat.store.file import ChatFile
from eca_server.agent.chat.store.rows import StoredChat
from eca_server.agent.chat.store.view import ServerView
from eca_server.agent.chat.store.worker import FileThreads
from eca_server.models.history import ToolCallPart, ToolResultPart, repair
from tests.eca_server.agent.chat.store.keeping import (
    PATIENT,
    WORKSPACE,
    opened,
    texts_of,
    turn,
)
from tests.eca_server.agent.chat.store.process import begin_at_once, spawn, write_until_killed


def turns_of(chat: StoredChat | None) -> list[str]:
    """The names of a chat's turns; each is whole, and none mixes with another."""
    if chat is None:
        return []
    messages = chat.messages
    assert len(messages) % 4 == 0
    names = [f"{message.content_id}".removesuffix("-0") for message in messages[::4]]
    for place, name in enumerate(names):
        filler = texts_of(chat)[place * 2].removeprefix(f"{name} asks ")
        assert messages[4 * place : 4 * place + 4] == turn(name, filler=filler)
    return names


def is_sendable(chat: StoredChat | None) -> bool:
    """Return whether each call has a result, before and after the repair for a next request."""
    history = [*chat.messages] if chat is not None else []
    for messages in (history, repair(history)):
        calls = [p.id for m in messages for p in m.parts if isinstance(p, ToolCallPart)]
        results = [p.call_id for m in messages for p in m.parts if isinstance(p, ToolResultPart)]
        if calls != results:
            return False
    return True


def write_and_be_killed(path: Path, name: str, seed: str, *, turns: int, later: float) -> list[str]:
    """A server's life; the turns that it said were kept.

    Args:
        path: its file.
        name: its own chat.
        seed: for what it writes.
        turns: how many it is left alone for.
        later: when it is killed after that, in seconds.
    """
    with spawn(write_until_killed, path, name, seed) as running:
        assert running.pipe.recv() == "ready"
        acknowledged = [running.pipe.recv() for _ in range(turns)]
        time.sleep(later)  # the random point; nothing is waited for
        running.process.kill()
        return [*acknowledged, *running.read_rest()]


async def look(path: Path, names: list[str]) -> dict[str, StoredChat | None]:
    async with opened(path) as ours:
        chats = {name: await ours.store.load(name) for name in names}
        assert await ours.append("looked", *turn("looked"))
        listed = [chat.id for chat in await ours.store.list(WORKSPACE, 1000)]
        assert ours.problems == []
    assert all(len(chat.split()) == 1 or chat.endswith(" gone") for chat in listed)
    return chats


def kill_two_at_random_points(path: Path, names: tuple[str, str], chance: random.Random) -> None:
    """Two servers on one file: each killed once, the other going on meanwhile."""
    acknowledged: dict[str, list[str]] = {}

    def live(name: str, seed: str, turns: int, later: float) -> None:
        acknowledged[name] = write_and_be_killed(path, name, seed, turns=turns, later=later)

    threads = [
        threading.Thread(
            target=live,
            args=(name, f"{chance.random()}", chance.randrange(8), chance.uniform(0, 0.03)),
        )
        for name in names
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    chats = trio.run(look, path, [*names, "shared"])
    for name in names:
        turns = turns_of(chats[name])
        assert turns == [f"{name}-{number}" for number in range(len(turns))]
        assert turns[: len(acknowledged[name])] == acknowledged[name]
        assert len(turns) <= len(acknowledged[name]) + 1
    shared = turns_of(chats["shared"])
    for name in names:
        mine = [each for each in shared if re.fullmatch(rf"{name}-\d+", each)]
        assert mine == [f"{name}-{number}" for number in range(len(mine))]
        assert mine[: len(acknowledged[name])] == acknowledged[name]
    assert all(map(is_sendable, chats.values()))


@pytest.mark.long(but=1)
@pytest.mark.parametrize("life", range(16))
def test_killed_at_random_points_it_loses_at_most_the_turn_in_flight(tmp_path, life):
    chance = random.Random() if life else random.Random(5)
    for number in range(10 if life else 2):
        kill_two_at_random_points(tmp_path / "a", (f"{number}a", f"{number}b"), chance)
    kill_two_at_random_points(tmp_path / "new" / "b", ("a", "b"), chance)


def test_servers_that_begin_at_once_on_one_chat_keep_all_turns_of_all(tmp_path):
    names = ("a", "b", "c")
    path = tmp_path / "new" / "chats.sqlite"
    with ExitStack() as stack:
        servers = [stack.enter_context(spawn(begin_at_once, path, name)) for name in names]
        for server in servers:
            assert server.pipe.recv() == "ready"
        for server in servers:
            server.pipe.send("go")
        problems_by_server = [server.pipe.recv() for server in servers]
    shared = turns_of(trio.run(look, path, ["shared"])["shared"])
    for name in names:
        mine = [each for each in shared if each.startswith(name)]
        assert mine == [f"{name}-{number}" for number in range(20)]
    assert all(
        "The messages of both servers" in text for texts in problems_by_server for text in texts
    )


@pytest.mark.parametrize("files", [40, pytest.param(100, marks=pytest.mark.long)])
def test_a_new_file_may_be_opened_by_several_at_once(tmp_path, files):
    together = threading.Barrier(4)
    faults: list[str] = []

    def open_all() -> None:
        with ExitStack() as stack:
            for number in range(files):
                together.wait(timeout=30)
                path = tmp_path / f"{number}" / "chats.sqlite"
                file = ChatFile(path).serve(ServerView(faults.append))
                stack.callback(file.close, lambda: True)
                file.read(lambda _: True)

    threads = [threading.Thread(target=open_all) for _ in range(together.parties)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []


@pytest.mark.parametrize("threads", [None, FileThreads(PATIENT)])
async def test_a_turn_of_another_server_in_between_is_reported_once(path, threads):
    async with opened(path, threads) as ours, opened(path, threads) as theirs:
        for name in "abc":
            assert await ours.append("c", *turn(f"{name}-0"), title="Same")
            assert await theirs.append("c", *turn(f"{name}-1"))
        assert turns_of(await ours.store.load("c")) == [f"{n}-{i}" for n in "abc" for i in (0, 1)]
        (problem,) = ours.problems
        assert problem.startswith(
            "Another server also wrote to the chat Same. The messages of both servers"
        )
        await ours.append("other", *turn("d"))
        await theirs.store.load("other")
        assert await theirs.append("other", *turn("e"))
        assert len(theirs.problems) == 1


@pytest.mark.parametrize("threads", [None, FileThreads(PATIENT)])
async def test_a_chat_that_another_server_deleted_continues_with_what_comes(path, threads):
    async with opened(path, threads) as ours, opened(path, threads) as theirs:
        await ours.append("c", *turn("a"))
        await theirs.store.delete("c")
        assert await ours.append("c", *turn("b"))
        assert turns_of(await theirs.store.load("c")) == ["b"]
        (problem,) = ours.problems
        assert problem.startswith("Another server deleted messages of the chat c.")

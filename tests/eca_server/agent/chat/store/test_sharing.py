"""Several servers of one process at one file, with one thread."""

import threading
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import trio

from eca_server.agent.chat.store.rows import Piece, Running
from eca_server.agent.chat.store.running import CUT_OFF
from eca_server.agent.chat.store.worker import FileThreads
from eca_server.models.history import Message, TextPart
from tests.eca_server.agent.chat.store.keeping import (
    PATIENT,
    messages_of,
    opened,
    rows,
)

SERVERS = 100


@pytest.fixture
def threads() -> FileThreads:
    return FileThreads(PATIENT)


def store_threads() -> list[threading.Thread]:
    return [each for each in threading.enumerate() if each.name == "eca-chats"]


async def test_many_servers_have_one_thread_and_all_close_in_time(path: Path, threads) -> None:
    before = len(store_threads())
    async with AsyncExitStack() as stack:
        ours = [await stack.enter_async_context(opened(path, threads)) for _ in range(SERVERS)]
        for number, each in enumerate(ours):
            assert await each.append(f"{number}", *messages_of("text"))
        assert len(store_threads()) == before + 1
        closed: list[bool] = []

        async def close(number: int) -> None:
            closed.append(await ours[number].store.close())

        async with trio.open_nursery() as nursery:
            for number in range(SERVERS):
                nursery.start_soon(close, number)
        assert closed == [True] * SERVERS
        assert [each.problems for each in ours] == [[]] * SERVERS
    with trio.fail_after(10):
        while len(store_threads()) > before:
            await trio.sleep(0.005)
    assert not Path(f"{path}-wal").exists()  # it was closed


async def test_the_next_server_after_the_last_one_has_a_new_thread(path: Path, threads) -> None:
    for number in range(2):
        async with opened(path, threads) as ours, opened(path, threads):
            assert await ours.append("c", *messages_of(f"{number}"))
    async with opened(path, threads) as ours:
        assert await ours.texts("c") == ["0", "1"]


async def test_a_server_that_never_calls_ends_no_other(path: Path, threads) -> None:
    async with opened(path, threads) as ours:
        async with opened(path, threads):
            pass
        assert await ours.append("c", *messages_of("text"))


async def test_each_server_that_meets_a_problem_is_notified_once(path: Path, threads) -> None:
    path.mkdir(parents=True)
    async with (
        opened(path, threads) as ours,
        opened(path, threads) as theirs,
        opened(path, threads) as others,
    ):
        for _ in range(2):
            assert not await ours.append("c", *messages_of("text"))
            assert not await theirs.append("d", *messages_of("text"))
        assert ours.problems == theirs.problems
        assert len(ours.problems) == 1
        assert others.problems == []
        path.rmdir()
        assert await theirs.append("d", *messages_of("more"))
        assert await others.texts("c") == ["text"]


async def test_a_write_that_waits_for_the_disk_is_lost_to_its_own_server_alone(
    path: Path, threads
) -> None:
    async with opened(path, threads) as ours:
        assert await ours.append("c", *messages_of("text"))
        async with opened(path, threads) as theirs:
            for each in (path, *path.parent.iterdir()):
                each.unlink(missing_ok=True)
            path.mkdir()
            assert not await theirs.append("d", *messages_of("text"))
            assert not await theirs.store.close()
        assert await ours.store.close()


async def test_all_servers_are_notified_of_a_file_that_was_replaced(path: Path, threads) -> None:
    async with opened(path, threads) as ours, opened(path, threads) as theirs:
        assert await ours.append("c", *messages_of("lost"))
        assert await theirs.append("d", *messages_of("lost"))
        path.unlink()
        assert await ours.append("c", *messages_of("new"))
        assert await theirs.append("d", *messages_of("new"))
        for each in (ours, theirs):
            (problem,) = each.problems
            assert problem.startswith(f"{path} was removed or replaced while it was in use")
        assert await theirs.texts("c") == ["new"]


@pytest.mark.parametrize("fails", [False, True])
async def test_a_turn_that_a_closed_server_left_is_cut_off_for_the_next(
    path: Path, threads, fails
) -> None:
    async with opened(path, threads) as ours:
        async with opened(path, threads) as theirs:
            if fails:
                path.mkdir(parents=True)
            (prompt,) = messages_of("prompt")
            running = Running(turn="prompt", stored=1)
            assert await theirs.append("c", prompt, running=running) != fails
            body = Message(role="assistant", parts=(TextPart("half"),), interrupted=True)
            pieces = [Piece(message=1, number=0, body=body)]
            assert await theirs.store.add_pieces("c", "prompt", pieces) != fails
            if not fails:
                assert await ours.texts("c") == ["prompt"]
        if fails:
            path.rmdir()
        mark = texts_of_message(CUT_OFF)
        assert await ours.texts("c") == ["prompt", *(() if fails else ("half",)), *mark]
    assert rows(path, "SELECT * FROM running_turn") == []
    assert not [*path.parent.glob("*turns*")]


def texts_of_message(message: Message) -> list[str]:
    return [part.text for part in message.parts if isinstance(part, TextPart)]

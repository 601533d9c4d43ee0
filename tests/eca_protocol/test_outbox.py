"""The grouping of frames into writes."""

import contextlib
import itertools
import os
import socket
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.outbox import Outbox, WriteShape
from eca_protocol.streams import FdTransport

ANSWER = b"answer"


class Recorder:
    """A transport that records every write and its time."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.times: list[float] = []

    async def receive(self) -> bytes:
        await trio.sleep_forever()
        return b""

    async def send(self, data: bytes) -> None:
        self.writes.append(data)
        self.times.append(trio.current_time())
        await trio.lowlevel.checkpoint()

    async def aclose(self) -> None:
        pass


def filled(*frames: bytes, **shape: Any) -> tuple[Outbox, Recorder]:
    recorder = Recorder()
    outbox = Outbox(recorder)
    outbox.shape = WriteShape(**shape)
    for frame in frames:
        outbox.append(frame, is_answer=frame == ANSWER)
    return outbox, recorder


@contextlib.asynccontextmanager
async def writing(outbox: Outbox) -> AsyncIterator[None]:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.run)
        yield
        await outbox.wait_below(0)
        nursery.cancel_scope.cancel()


def connected_sockets() -> tuple[int, int]:
    """Return the descriptors of two connected sockets, as editors on libuv use."""
    there, here = socket.socketpair()
    return there.detach(), here.detach()


@pytest.mark.requirement("W-6d")
@given(frames=st.lists(st.binary(min_size=1, max_size=12), max_size=30), size=st.integers(1, 20))
async def test_a_write_holds_whole_frames_and_no_more_than_fit(frames, size):
    outbox, recorder = filled(*frames, size=size)
    async with writing(outbox):
        pass
    assert outbox.size == 0
    remaining = list(frames)
    for write in recorder.writes:
        held = [remaining.pop(0)]
        while sum(map(len, held)) < len(write):
            held.append(remaining.pop(0))
        assert b"".join(held) == write
        assert len(write) <= size or len(held) == 1
        assert not remaining or len(write) + len(remaining[0]) > size
    assert not remaining


async def test_silence_follows_an_answer_even_if_nothing_was_waiting(autojump_clock):
    outbox, recorder = filled(b"note", ANSWER, pause_after_answer=5)
    async with writing(outbox):
        await outbox.wait_below(0)
        outbox.append(b"next")
        outbox.append(b"next")
    assert recorder.writes == [b"note" + ANSWER, b"nextnext"]
    assert recorder.times[1] - recorder.times[0] == pytest.approx(5)


async def test_silence_may_follow_every_write_or_none(autojump_clock):
    outbox, recorder = filled(b"a", ANSWER, b"c", size=1, pause_between=2, pause_after_answer=3)
    async with writing(outbox):
        pass
    assert recorder.writes == [b"a", ANSWER, b"c"]
    gaps = [later - earlier for earlier, later in itertools.pairwise(recorder.times)]
    assert gaps == pytest.approx([2, 3])
    outbox, recorder = filled(ANSWER, ANSWER)
    async with writing(outbox):
        pass
    assert recorder.writes == [ANSWER * 2]


async def test_what_can_be_sent_at_once_is_and_the_rest_follows_in_order():
    outbox, transport = filled()
    room = 5

    def send_now(data: bytes) -> int:
        nonlocal room
        taken, room = min(room, len(data)), max(room - len(data), 0)
        if taken:
            transport.writes.append(data[:taken])
        return taken

    outbox.shape = WriteShape(send_now=send_now)
    outbox.append(b"abc")
    assert (outbox.size, transport.writes) == (0, [b"abc"])
    outbox.append(b"defg")
    room = 100
    outbox.append(b"h")  # behind the waiting frames, although there is space again
    assert outbox.size == 3
    async with writing(outbox):
        await outbox.wait_below(0)
        assert transport.writes == [b"abc", b"de", b"fgh"]
        outbox.append(b"i")
        assert transport.writes[-1] == b"i"
    outbox.append(b"dropped")  # the writer has been cancelled
    await outbox.wait_below(0)
    assert (outbox.closed, outbox.size, transport.writes[-1]) == (True, 0, b"i")


@pytest.mark.requirement("W-6d")
@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is unknown what was read")
@pytest.mark.parametrize("connect", [os.pipe, connected_sockets])
async def test_a_paced_client_finds_one_write_in_a_read_however_late_it_reads(
    connect, autojump_clock
):
    """Such as an editor that was suspended: it keeps nothing between two reads."""
    reader, writer = connect()
    outbox = Outbox(FdTransport(os.open(os.devnull, os.O_RDONLY), writer))
    outbox.shape = WriteShape(size=2, pause_between=0.001)
    for frame in (b"ab", b"cd", b"ef", b"gh"):
        outbox.append(frame)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(outbox.run)
        for expected in (b"ab", b"cd"):
            await trio.sleep(0.1)
            assert os.read(reader, 65_536) == expected
        await trio.sleep(0.1)
        with trio.fail_after(2):
            await outbox.wait_below(0)  # at the end the rest need not be read
        assert os.read(reader, 65_536) == b"efgh"
        os.close(reader)
        nursery.cancel_scope.cancel()


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere it is unknown what was read")
@pytest.mark.parametrize("connect", [os.pipe, connected_sockets])
async def test_a_paced_client_that_has_gone_is_noticed(connect, autojump_clock):
    reader, writer = connect()
    outbox = Outbox(FdTransport(os.open(os.devnull, os.O_RDONLY), writer))
    outbox.shape = WriteShape(size=2, pause_between=0.001)
    outbox.append(b"ab")
    outbox.append(b"cd")

    async def leave() -> None:
        await trio.sleep(0.05)
        os.close(reader)

    with pytest.RaisesGroup(BrokenPipeError), trio.fail_after(2):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(leave)
            nursery.start_soon(outbox.run)


async def test_tasks_that_wait_continue_in_turn_even_if_one_is_cancelled():
    outbox, _ = filled()
    scopes = [trio.CancelScope() for _ in range(8)]
    appended: list[int] = []

    async def append(source: int) -> None:
        with scopes[source]:
            while len(appended) < 400:
                appended.append(source)
                outbox.append(b"x")
                await outbox.wait_below(0)

    async with writing(outbox), trio.open_nursery() as nursery:
        for source in range(8):
            nursery.start_soon(append, source)
        while len(appended) < 200:
            await trio.lowlevel.checkpoint()
        scopes[appended[-1]].cancel()
    for source, scope in enumerate(scopes):
        places = [place for place, each in enumerate(appended) if each == source]
        assert scope.cancelled_caught or places[-1] > 400 - 16
        assert max(b - a for a, b in itertools.pairwise(places)) <= 16


async def test_a_task_that_waits_again_wakes_the_next_that_need_not_wait():
    outbox, _ = filled(b"first")
    continued: list[int] = []

    async def wait(size: int) -> None:
        await outbox.wait_below(size)
        continued.append(size)

    async with trio.open_nursery() as nursery:
        for size in (0, 4):
            nursery.start_soon(wait, size)
            await trio.testing.wait_all_tasks_blocked()
        await outbox._write()
        outbox.append(b"next")  # before the woken task runs
        await trio.testing.wait_all_tasks_blocked()
        assert continued == [4]
        await outbox._write()
    assert continued == [4, 0]

"""The proxy forwards every byte and every end, with minimal servers."""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import anyio.lowlevel
import attrs
import pytest

from eca_protocol.errors import StartFailed
from eca_protocol.streams import FdTransport
from eca_protocol.transcript import (
    DataEntry,
    EndEntry,
    ExitEntry,
    Recorder,
    new_file,
    proxy,
    read_transcript,
    tap,
)

pytestmark = pytest.mark.anyio


def child_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[-1])


@attrs.define
class Session:
    """A running proxy, with its client's end and its result."""

    client: FdTransport
    record: Path
    code: int | None = None
    over: anyio.Event = attrs.field(factory=anyio.Event)

    async def rest(self) -> bytes:
        """Return all bytes until the server's end."""
        data = bytearray()
        while chunk := await self.client.receive():
            data += chunk
        return bytes(data)

    async def exit_code(self) -> int | None:
        await self.over.wait()
        return self.code

    def passed(self, side: str) -> list[DataEntry]:
        entries = read_transcript(self.record).entries
        return [each for each in entries if isinstance(each, DataEntry) and each.side == side]


async def send_for_ever(client: FdTransport) -> None:
    while True:
        await client.send(b"x")
        await anyio.lowlevel.checkpoint()


@contextlib.asynccontextmanager
async def session(
    folder: Path, *command: str, client_takes: int | None = None, max_unwritten: int = 2**26
) -> AsyncIterator[Session]:
    there, back = os.pipe(), os.pipe()
    if client_takes is not None:
        fcntl.fcntl(back[1], fcntl.F_SETPIPE_SZ, client_takes)
    file, record = new_file(folder / "t.jsonl")
    ours = Session(FdTransport(back[0], there[1]), record)
    recorder = Recorder(file, max_unwritten=max_unwritten)

    async def run() -> None:
        ours.code = await tap(command, FdTransport(there[0], back[1]), recorder)
        ours.over.set()

    with anyio.fail_after(20):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            yield ours
            await ours.over.wait()
    await ours.client.aclose()


async def test_bytes_and_the_end_of_input_pass_and_the_exit_code_comes_back(tmp_path: Path) -> None:
    stream = b"Content-Length: 2\r\n\r\n{}junk\xff" + b"Content-Length: 9\r\n\r\n{"
    async with session(tmp_path, "sh", "-c", "cat; exit 7") as ours:
        for byte in stream:
            await ours.client.send(bytes([byte]))
            assert await ours.client.receive() == bytes([byte])
        ours.client.close_writing()
        assert await ours.rest() == b""
        assert await ours.exit_code() == 7
    for side in ("client", "server"):
        assert b"".join(each.data for each in ours.passed(side)) == stream
        assert ours.passed(side)[0].message == {}
    entries = read_transcript(ours.record).entries
    assert [each.side for each in entries if isinstance(each, EndEntry)] == ["client", "server"]
    assert isinstance(entries[-1], ExitEntry)
    assert entries[-1].code == 7


@pytest.mark.long(but=1)
async def test_much_passes_and_is_recorded_whole_both_ways_at_once(tmp_path: Path) -> None:
    much = os.urandom(1_000_000)
    async with session(tmp_path, "cat", max_unwritten=2**18) as ours:

        async def send() -> None:
            await ours.client.send(much)
            ours.client.close_writing()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send)
            assert await ours.rest() == much
    assert ours.code == 0
    for side in ("client", "server"):
        assert b"".join(each.data for each in ours.passed(side)) == much


async def test_each_side_learns_that_the_other_has_left(tmp_path: Path) -> None:
    async with session(tmp_path, "yes") as ours:
        await ours.client.receive()
        ours.client.close_reading()
        assert await ours.exit_code() == -signal.SIGPIPE
    async with session(tmp_path, "sh", "-c", "exec <&-; echo closed; exec sleep 60") as ours:
        assert await ours.client.receive() == b"closed\n"
        with pytest.raises(BrokenPipeError):
            await send_for_ever(ours.client)
        os.kill(child_of(os.getpid()), signal.SIGKILL)
        assert await ours.exit_code() == -signal.SIGKILL
    async with session(tmp_path, "sh", "-c", "printf bye") as ours:
        assert await ours.rest() == b"bye"
        assert await ours.exit_code() == 0
        with pytest.raises(BrokenPipeError):
            await ours.client.send(b"x")


async def test_a_server_that_stays_behind_in_silence_is_ended_and_its_last_output_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(proxy, "PATIENCE", 0.05)
    script = "trap 'head -c 300000 /dev/zero; exit 4' TERM; echo; sleep 60 & wait"
    async with session(tmp_path, "sh", "-c", script) as ours:
        assert await ours.client.receive() == b"\n"
        ours.client.close_writing()
        assert await ours.rest() == bytes(300_000)
        assert await ours.exit_code() == 4


async def test_a_slow_reader_gets_all_of_a_server_that_has_ended(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(proxy, "DRAINING", 0.01)
    script = "head -c 10000 /dev/zero; exit 4"
    async with session(tmp_path, "sh", "-c", script, client_takes=4096) as ours:
        with anyio.move_on_after(0.1) as unread:
            await ours.over.wait()
        assert unread.cancelled_caught
        assert await ours.rest() == bytes(10_000)
        assert await ours.exit_code() == 4


async def test_a_cancelled_tap_leaves_no_server(tmp_path: Path) -> None:
    file, record = new_file(tmp_path / "t.jsonl")
    there, back = os.pipe(), os.pipe()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(tap, ["cat"], FdTransport(there[0], back[1]), Recorder(file))
        client = FdTransport(back[0], there[1])
        await client.send(b"x")
        assert await client.receive() == b"x"
        tasks.cancel_scope.cancel()
    assert await client.receive() == b""
    await client.aclose()
    last = read_transcript(record).entries[-1]
    assert isinstance(last, ExitEntry)


async def test_a_command_that_cannot_start_is_reported(tmp_path: Path) -> None:
    file, _ = new_file(tmp_path / "t.jsonl")
    there, back = os.pipe(), os.pipe()
    with pytest.raises(StartFailed):
        await tap(["/no/such"], FdTransport(there[0], back[1]), Recorder(file))
    for fd in (there[1], back[0]):
        os.close(fd)

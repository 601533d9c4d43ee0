"""The proxy, which forwards every byte and every end; the replay of one side of a record."""

import contextlib
import fcntl
import json
import os
import signal
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import attrs
import pytest

from eca_protocol.errors import ConnectionClosed, DeadlineExceeded, StartFailed
from eca_protocol.framing import encode_frame
from eca_protocol.streams import FdTransport, memory_pair
from eca_protocol.transcript import (
    DataEntry,
    EndEntry,
    ExitEntry,
    Player,
    Recorder,
    Transcript,
    new_file,
    play,
    proxy,
    read_transcript,
    tap,
)
from tests.eca_protocol.wire import code_of, notification, request, success

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


JUNK = b"junk"


def transcript(*messages: tuple[Any, Any]) -> Transcript:
    entries: list[DataEntry | EndEntry] = []
    for side, what in messages:
        if what is None:
            entries.append(EndEntry(at=0, side=side))
        elif isinstance(what, bytes):
            entries.append(DataEntry(at=0, side=side, data=what, body=None))
        else:
            body = json.dumps(what).encode()
            entries.append(DataEntry(at=0, side=side, data=encode_frame(body), body=body))
    return Transcript(started=datetime.now(UTC), command=(), entries=tuple(entries))


def content(kind: str, **members: Any) -> dict[str, Any]:
    params = {"chatId": "C", "role": "assistant", "content": {"type": kind, **members}}
    return notification("chat/contentReceived", params)


FINISHED = content("progress", state="finished")
PROMPT = request(2, "chat/prompt", {"message": "hi"})
APPROVE = notification("chat/toolCallApprove", {"chatId": "C", "toolCallId": "T"})
MESSAGES = [
    ("client", request(1, "initialize", {"processId": 7})),
    ("server", success(1, {})),
    ("client", JUNK),
    ("client", PROMPT),
    ("server", success(2, {"chatId": "C"})),
    ("server", content("text", text="a")),
    ("server", content("toolCallRun", id="T")),
    ("client", APPROVE),
    ("server", request("s1", "editor/getDiagnostics", {"uri": "u"})),
    ("client", success("s1", {"diagnostics": []})),
    ("server", FINISHED),
    ("client", request(3, "shutdown")),
    ("server", success(3)),
    ("client", None),
]
RECORDED = transcript(*MESSAGES)


def sent(player: Player) -> list[Any]:
    return [
        each if each in (None, JUNK) else json.loads(each.partition(b"\r\n\r\n")[2])  # type: ignore[union-attr]
        for each in player.due_frames()
    ]


def renamed(message: Any, **ids: str) -> Any:
    text = json.dumps(message)
    for before, now in ids.items():
        text = text.replace(f'"{before}"', f'"{now}"')
    return json.loads(text)


def test_a_client_waits_for_what_its_messages_depend_on_and_uses_the_ids_of_this_run():
    player = Player(RECORDED, "client", process_id=99)
    assert sent(player) == [request(1, "initialize", {"processId": 99})]
    assert player.missing == ["the answer to 1"]
    player.receive(success(1, {"more": True}))
    assert sent(player) == [JUNK, PROMPT]
    player.receive(success(2, {"chatId": "mine"}))
    assert sent(player) == []
    player.receive(renamed(content("toolCallRun", id="its"), C="mine"))
    assert sent(player) == [renamed(APPROVE, C="mine", T="its")]
    assert player.missing == ["the request editor/getDiagnostics"]
    player.receive(request(40, "editor/getDiagnostics", {"uri": "other"}))
    player.receive(request(41, "editor/getDiagnostics"))
    refusal, answer = sent(player)
    assert code_of(refusal) == (41, -32601)
    assert answer == success(40, {"diagnostics": []})
    player.receive(FINISHED)
    player.receive(FINISHED)  # one more than recorded
    assert sent(player) == [request(3, "shutdown")]
    player.receive(success(3))
    assert sent(player) == [None]
    assert player.is_over


@pytest.mark.parametrize("params", [{}, {"params": None}, {"params": []}])
def test_a_client_without_client_info_still_gives_its_process_id(params):
    player = Player(transcript(("client", {**request(1, "initialize"), **params})), "client",
                    process_id=99)  # fmt: skip
    assert sent(player)[0]["params"] == {"processId": 99}


def test_a_server_answers_with_the_ids_of_this_client():
    player = Player(RECORDED, "server")
    assert sent(player) == []
    player.receive(request("i", "initialize", {}))
    assert sent(player) == [success("i", {})]
    player.receive(request("p", "chat/prompt", {"message": "hi"}))
    assert sent(player)[0] == success("p", {"chatId": "C"})
    player.receive(renamed(APPROVE, C="C"))
    assert [each["method"] for each in sent(player)] == ["editor/getDiagnostics"]
    player.receive(success("s1", None))
    assert sent(player) == [FINISHED]
    assert not player.is_over


@pytest.mark.parametrize(
    ("leaves", "expected"), [(False, DeadlineExceeded), (True, ConnectionClosed)]
)
async def test_a_vain_wait_names_the_missing_message_or_reader(leaves, expected):
    silence = 30 if leaves else 0.02
    for limit, second, missing in (
        (2**16, ("server", success(2, {})), "the answer to 2"),
        (1, ("client", PROMPT), "a reader of our messages"),
    ):
        near, far = memory_pair(limit=limit)
        if leaves and limit == 1:
            await far.aclose()
        elif leaves:
            far.close_writing()
        with pytest.raises(expected, match=missing):
            await play(transcript(("client", PROMPT), second), near, "client", deadline=silence)


async def test_two_players_play_the_whole_conversation():
    near, far = memory_pair()
    recorded = transcript(*MESSAGES[3:-1])
    received: dict[str, list[Any]] = {}

    async def run(side: Any, transport: Any) -> None:
        received[side] = await play(recorded, transport, side, deadline=5)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(run, "server", far)
        tasks.start_soon(run, "client", near)
    for side in ("client", "server"):
        assert received[side] == [what for who, what in MESSAGES[3:-1] if who != side]

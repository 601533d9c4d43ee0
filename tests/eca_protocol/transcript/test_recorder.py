"""A record that is written during a conversation without delaying it."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import attrs
import pytest

from eca_protocol.framing import encode_frame
from eca_protocol.streams import memory_pair
from eca_protocol.transcript import (
    DataEntry,
    EndEntry,
    ExitEntry,
    RecordedTransport,
    Recorder,
    is_locked,
    new_file,
    read_transcript,
)

pytestmark = pytest.mark.anyio

FRAME = encode_frame(b'{"a": 1}')


def test_what_passes_is_recorded_in_order_for_the_user_alone(tmp_path: Path) -> None:
    file, path = new_file(tmp_path / "t.jsonl")
    recorder = Recorder(file, command=["eca"])
    recorder.record_data("client", FRAME + FRAME[:9])
    recorder.record_data("server", b"junk")
    recorder.record_data("client", FRAME[9:])
    recorder.record_end("client")
    recorder.record_exit(3)
    with path.open("rb") as reader:
        while not reader.read(1):
            os.sched_yield()
        assert is_locked(reader.fileno())
        recorder.close()
        assert not is_locked(reader.fileno())
    entries = read_transcript(path).entries
    assert [getattr(each, "data", type(each)) for each in entries] == [
        FRAME, FRAME, EndEntry, b"junk", ExitEntry
    ]  # fmt: skip
    assert [each.at for each in entries] == sorted(each.at for each in entries)
    assert isinstance(entries[0], DataEntry)
    assert entries[0].message == {"a": 1}
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("mine")
    for name in ("t-2.jsonl", "t-3.jsonl"):
        file, free_path = new_file(path)
        os.close(file)
        assert free_path == tmp_path / name
    assert path.read_text() == "mine"


def test_what_the_mask_removes_is_stored_nowhere(tmp_path: Path) -> None:
    file, path = new_file(tmp_path / "t.jsonl")
    command = ["eca", "--key", "secret"]
    recorder = Recorder(file, command=command, mask=lambda data: data.replace(b"secret", b"*"))
    recorder.record_data("client", encode_frame(b'{"a":\n"secret"}') + FRAME)
    recorder.record_data("server", b"log: secret\n" + FRAME + b"secret")
    recorder.close()
    assert b"secret" not in path.read_bytes()
    body = b'{"a":\n"*"}'
    entries = [attrs.asdict(each) for each in read_transcript(path).entries]
    assert [(each["data"], each["body"], each["masked"]) for each in entries] == [
        (encode_frame(body), body, True),
        (FRAME, b'{"a": 1}', False),
        (b"log: *\n" + FRAME, b'{"a": 1}', True),
        (b"*", None, True),
    ]


def test_a_full_disk_ends_the_record_with_one_message() -> None:
    faults: list[str] = []
    failed = threading.Event()

    def record_fault(fault: str) -> None:
        faults.append(fault)
        failed.set()

    recorder = Recorder(os.open("/dev/full", os.O_WRONLY), on_failure=record_fault)
    recorder.record_data("client", FRAME)
    recorder.wake()
    assert failed.wait(5)
    recorder.record_data("client", FRAME)
    recorder.record_end("client")
    recorder.close()
    assert faults == ["the transcript is incomplete and ends here: No space left on device"]


def test_a_mask_that_fails_ends_the_record_and_lets_nothing_through(tmp_path: Path) -> None:
    def fail(data: bytes) -> bytes:
        if b"secret" in data:
            raise ValueError(data)
        return data

    faults: list[str] = []
    file, path = new_file(tmp_path / "t.jsonl")
    recorder = Recorder(file, mask=fail, on_failure=faults.append)
    for data in (FRAME, b"secret"):
        recorder.record_data("client", data)
    recorder.record_end("client")
    recorder.close()
    reason = "it cannot be written (ValueError)"
    assert faults == [f"the transcript is incomplete and ends here: {reason}"]
    assert recorder.failure is not None
    assert b"secret" not in path.read_bytes()


@pytest.mark.parametrize("waits", [True, False])
async def test_a_disk_that_is_too_slow_ends_the_record(waits: bool) -> None:
    reader, writer = os.pipe()  # it is never read
    recorder = Recorder(writer, max_unwritten=200_000, max_wait=0.01)
    for _ in range(2 if waits else 3):
        recorder.record_data("client", b"x" * 90_000)
        recorder.wake()
        if waits:
            await recorder.drain()
    assert recorder.failure == "it is written too slowly"
    os.close(reader)
    recorder.close()


async def test_a_connection_of_ones_own_is_recorded_from_its_side(tmp_path: Path) -> None:
    file, path = new_file(tmp_path / "t.jsonl")
    recorder = Recorder(file)
    near, far = memory_pair()
    recorded = RecordedTransport(near, recorder, "server")
    await far.send(FRAME)
    assert await recorded.receive() == FRAME
    await recorded.send(FRAME)
    assert await far.receive() == FRAME
    await far.aclose()
    assert await recorded.receive() == b""
    await recorded.aclose()
    recorder.close()
    assert [(type(each), each.side) for each in read_transcript(path).entries] == [
        (DataEntry, "client"), (DataEntry, "server"), (EndEntry, "client"), (EndEntry, "server"),
    ]  # fmt: skip

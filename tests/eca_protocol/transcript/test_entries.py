"""Transcripts: no byte is lost, in chunks of any size; recording delays no conversation."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import anyio
import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eca_protocol.framing import ContentLengthDecoder, encode_frame
from eca_protocol.streams import memory_pair
from eca_protocol.testing.strategies import json_objects
from eca_protocol.transcript import (
    DataEntry,
    EndEntry,
    ExitEntry,
    RecordedTransport,
    Recorder,
    TranscriptReader,
    is_locked,
    new_file,
    read_transcript,
)
from eca_protocol.transcript.entries import encode_entry
from eca_protocol.transcript.splitter import Splitter

pytestmark = pytest.mark.anyio

HEAD = b'{"transcript":1,"started":"2026-01-02T03:04:05+00:00","command":["eca","server"]}\n'

ODD_HEADER = b"\r\nContent-Type: x\r\nCONTENT-LENGTH : %d \r\n\r\n"

bodies = st.one_of(
    json_objects().map(lambda value: json.dumps(value).encode()),
    json_objects().map(lambda value: json.dumps(value, indent=1).encode() + b"\r\n"),
    st.sampled_from([b"[1]", b"{", b'{"a":NaN}', b'{"a":"\xff"}', b"", b'{"a":"\\ud800"}']),
)
headers = st.sampled_from([b"Content-Length: %d\r\n\r\n", b"content-length:%d\n\n", ODD_HEADER])
frames = st.builds(lambda header, body: header % len(body) + body, headers, bodies)
junk = st.sampled_from([b"print\n", b"\r\n\r\n", b"No: length\r\n\r\n", b"Content-Length: 9\r\n"])


def cut(stream: bytes, sizes: list[int]) -> list[tuple[bytes, bytes | None]]:
    splitter, pieces = Splitter(), []
    for size in [*sizes, len(stream)]:
        pieces += splitter.feed(stream[:size])
        stream = stream[size:]
    return [*pieces, *splitter.feed_eof()]


@given(st.lists(frames | junk | st.binary(max_size=30), max_size=4), st.lists(st.integers(0, 40)))
def test_the_pieces_of_a_stream_are_the_stream_however_it_was_cut(parts, sizes) -> None:
    stream = b"".join(parts)
    pieces = cut(stream, sizes)
    assert b"".join(data for data, _ in pieces) == stream
    messages = [piece for piece in pieces if piece[1] is not None]
    assert messages == [piece for piece in cut(stream, []) if piece[1] is not None]


@pytest.mark.parametrize("size", [1, 7, 1_000])
@pytest.mark.parametrize("length", [900, 30])
def test_a_length_that_is_too_large_ends_at_the_next_header(size, length):
    cut, whole = b'Content-Length: %d\r\n\r\n{"a":1}' % length, encode_frame(b'{"b":2}')
    splitter, stream, pieces = Splitter(), cut + whole, []
    for start in range(0, len(stream), size):
        pieces += splitter.feed(stream[start : start + size])
    assert pieces == [(cut, None), (whole, b'{"b":2}')]


@given(st.lists(frames, max_size=4))
def test_the_messages_of_a_stream_are_those_the_decoder_gives(parts: list[bytes]) -> None:
    stream = b"".join(parts)
    decoded = [each for each in ContentLengthDecoder().feed(stream) if isinstance(each, bytes)]
    objects = [body for body in decoded if Splitter().feed(encode_frame(body))[0][1] is not None]
    assert [body for _, body in cut(stream, []) if body is not None] == objects


def test_a_body_too_long_passes_in_pieces_and_of_two_lengths_none_is_believed() -> None:
    long, short = b"Content-Length: 6\r\n\r\n", b"Content-Length: 2\r\n\r\n{}"
    splitter = Splitter(max_body=5, max_header=40)
    assert splitter.feed(long + b"abcd") == [(long, None), (b"abcd", None)]
    assert splitter.feed(b"ef" + short) == [(b"ef", None), (short, b"{}")]
    assert splitter.feed(b"x" * 41) == [(b"x" * 41, None)]
    header = b"Content-Length: 2\r\nContent-Length: 1\r\n\r\n"
    assert Splitter().feed(header + b"{}\r\n\n\n")[0] == (header, None)


entries = st.one_of(
    st.builds(
        lambda at, side, data: [
            DataEntry(at=at, side=side, data=piece, body=body) for piece, body in cut(data, [])
        ],
        st.integers(0, 10**9).map(lambda micros: micros / 10**6),
        st.sampled_from(["client", "server"]),
        frames | junk | st.binary(),
    ),
    st.just([EndEntry(at=0.5, side="client"), ExitEntry(at=1.5, code=-9)]),
)


@given(entries)
@example([DataEntry(at=1, side="client", body=b'{"a":' + b"[" * 127 + b"]" * 127 + b"}",
                    data=encode_frame(b'{"a":' + b"[" * 127 + b"]" * 127 + b"}"))])  # fmt: skip
@example([DataEntry(at=1, side="server", data=encode_frame(b"{}"), body=b"{}", masked=True)])
def test_what_was_written_is_read_again_byte_for_byte(tmp_path_factory, written) -> None:
    lines = [encode_entry(entry) for entry in written]
    assert all(len(line.splitlines()) == 1 and json.loads(line) for line in lines)
    path = tmp_path_factory.getbasetemp() / "transcript.jsonl"
    path.write_bytes(HEAD + b"".join(lines) + b'{"at":9.0,"from":"cli')
    transcript = read_transcript(path)
    assert transcript.entries == tuple(written)
    assert (transcript.started.year, transcript.command) == (2026, ("eca", "server"))
    reformatted = b"".join(json.dumps(json.loads(line)).encode() + b"\n" for line in lines)
    path.write_bytes(HEAD + reformatted)
    again = read_transcript(path)
    assert list(again.messages()) == list(transcript.messages())


EXPECTED = "expected an entry, got"
LINES = [
    (b"{}", f"{EXPECTED} no member 'at'"),
    (b'{"at":1,"from":"x"}', f"{EXPECTED} 'x' as the side"),
    (b'{"at":1,"from":"client"}', f"{EXPECTED} neither a message"),
    (b'{"at":1,"from":"client","base64":"!"}', f"{EXPECTED} base64"),
    (b"[1]", EXPECTED),
    (b'{"at":1,"exit":1e999}', EXPECTED),
    (b'{"at":1e999,"exit":0}', f"{EXPECTED} inf as the time"),
    (b'{"at":1,"from":"client","message":{"a":NaN}}', EXPECTED),
    (b"[" * 100_000, EXPECTED),
]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", ":1: expected a transcript, got"),
        (b'{"at":1}\n', ":1: expected a transcript, got no member 'transcript'"),
        (
            b'\xef\xbb\xbf{"a": "\xff"}\n',
            ":1: expected a transcript, got the byte 0xff, which is not UTF-8",
        ),
        (b'{"transcript":2}\n', ":1: expected a transcript, got version 2, and not 1"),
        *(
            (b'{"transcript":1,"command":%s}\n' % odd, ":1: expected a transcript, got no list")
            for odd in (b"[1]", b"[[]]", b'"sh"', b"7", b'{"sh":1}')
        ),
        *((HEAD + line + b"\n", f":2: {message}") for line, message in LINES),
    ],
)
def test_what_is_no_transcript_is_refused_with_its_place(tmp_path, text, message):
    path = tmp_path / "t.jsonl"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=r":[12]: ") as caught:
        read_transcript(str(path))
    assert str(caught.value).startswith(f"{path}{message}")


def test_a_file_whose_first_line_has_no_end_is_eventually_removed() -> None:
    reader = TranscriptReader("t", max_first_line=len(HEAD))
    assert list(reader.feed(HEAD[:-1])) == []
    with pytest.raises(ValueError, match="t:1: expected a transcript, got no end of the line"):
        list(reader.feed(b"  "))


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
    assert entries[0].message == {"a": 1}
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_close_right_behind_the_writer_s_look_for_one_ends_the_writer(tmp_path: Path) -> None:
    class ClosedBehindTheLook(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            is_set = self.is_set()
            self.set()  # as `close` does
            recorder._wake.set()
            return is_set

    file, path = new_file(tmp_path / "t.jsonl")
    recorder = Recorder(file)
    recorder._closing = ClosedBehindTheLook()
    recorder.record_data("client", FRAME + b"junk")
    recorder.wake()
    recorder._thread.join(10)
    assert not recorder._thread.is_alive()
    recorder.close()
    assert [each.data for each in read_transcript(path).entries] == [FRAME, b"junk"]


def test_the_end_of_the_interpreter_completes_a_record(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    program = f"""from eca_protocol.transcript import *
recorder = Recorder(new_file({str(path)!r})[0])
recorder.record_data("client", {FRAME!r})"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
    assert [message for _, message in read_transcript(path).messages()] == [{"a": 1}]


def test_a_file_that_is_there_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("mine")
    for name in ("t-2.jsonl", "t-3.jsonl"):
        file, free_path = new_file(str(path))
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


async def test_bytes_that_the_thread_still_writes_are_unwritten() -> None:
    reader, writer = os.pipe()  # it is never read
    recorder = Recorder(writer, max_unwritten=100_000)
    recorder.record_data("client", b"x" * 90_000)
    recorder.wake()
    with anyio.fail_after(10):
        while recorder._notes:  # until the thread has taken them
            await anyio.sleep(0.001)
    assert recorder.is_behind
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

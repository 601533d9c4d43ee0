"""The format of a transcript: no byte is lost, in chunks of any size."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eca_protocol.framing import ContentLengthDecoder, encode_frame
from eca_protocol.testing.strategies import json_objects
from eca_protocol.transcript import (
    DataEntry,
    EndEntry,
    Entry,
    ExitEntry,
    TranscriptReader,
    read_transcript,
)
from eca_protocol.transcript.entries import encode_entry
from eca_protocol.transcript.splitter import Splitter

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
def test_the_pieces_of_a_stream_are_the_stream_however_it_was_cut(
    parts: list[bytes], sizes: list[int]
) -> None:
    stream = b"".join(parts)
    pieces = cut(stream, sizes)
    assert b"".join(data for data, _ in pieces) == stream
    messages = [piece for piece in pieces if piece[1] is not None]
    assert messages == [piece for piece in cut(stream, []) if piece[1] is not None]


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
def test_what_was_written_is_read_again_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, written: list[Entry]
) -> None:
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
    (b"{}", f"{EXPECTED} 'at'"),
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
        (b'{"at":1}\n', ":1: expected a transcript, got 'transcript'"),
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
        read_transcript(path)
    assert str(caught.value).startswith(f"{path}{message}")


def test_a_file_whose_first_line_has_no_end_is_eventually_removed() -> None:
    reader = TranscriptReader("t", max_first_line=len(HEAD))
    assert list(reader.feed(HEAD[:-1])) == []
    with pytest.raises(ValueError, match="t:1: expected a transcript, got no end of the line"):
        list(reader.feed(b"  "))

"""Framing: every error of the table, any size of chunks, limited time and memory."""

import io
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol import json
from eca_protocol.errors import INVALID_REQUEST, PARSE_ERROR, LocalProtocolError
from eca_protocol.framing import (
    CONTENT_LENGTH,
    FRAME_ERRORS,
    LINES,
    ContentLengthDecoder,
    FrameDecoder,
    FrameError,
    Frames,
    Framing,
    LineDecoder,
    encode_frame,
    encode_line,
)
from eca_protocol.framing import FrameErrorKind as Kind
from eca_protocol.sse import SSEDecoder
from tests.eca_protocol.wire import cut
from tests.lazy import LazyModule

pygls_io = LazyModule("pygls.io_")

framings = pytest.mark.parametrize("framing", [CONTENT_LENGTH, LINES], ids=["headers", "lines"])

NEXT = encode_frame(b'"next"')
SMALL = {"max_body": 100, "max_header": 80, "max_skip": 1000}


def decoded(decoder: FrameDecoder, *pieces: bytes) -> Frames:
    """Return the decoder's output for the pieces and the end of the stream."""
    output: Frames = []
    for piece in pieces:
        if decoder.closed:
            break
        output += decoder.feed(piece)
    return output + decoder.feed_eof()


def bytewise(data: bytes) -> Iterator[bytes]:
    return (data[i : i + 1] for i in range(len(data)))


def read(data: bytes, **limits: int) -> Frames:
    """Decode the bytes, and check that the size of the chunks does not matter."""
    whole = decoded(ContentLengthDecoder(**limits), data)
    assert decoded(ContentLengthDecoder(**limits), *bytewise(data)) == whole
    return whole


LENGTH_FAULTS = [
    (Kind.MISSING_LENGTH, b"Content-Type: x; charset=utf-8\r\n", "got none"),
    (Kind.MISSING_LENGTH, b"Content-Length 2\r\n", "got none"),
    (Kind.NEGATIVE_LENGTH, b"Content-Length: -2\r\n", "got '-2'"),
    (Kind.SIGNED_LENGTH, b"Content-Length: +2\r\n", "got '+2'"),
    (Kind.HEX_LENGTH, b"Content-Length: 0x2\r\n", "got '0x2'"),
    (Kind.HEX_LENGTH, b"Content-Length: 2a\r\n", "got '2a'"),
    (Kind.NOT_A_NUMBER, b"Content-Length: \r\n", "got ''"),
    (Kind.NOT_A_NUMBER, b"Content-Length: two\r\n", "got 'two'"),
    (Kind.NOT_A_NUMBER, b"Content-Length: 1_0\r\n", "got '1_0'"),
    (Kind.NOT_A_NUMBER, b"Content-Length: 2.0\r\n", "got '2.0'"),
    (Kind.NOT_A_NUMBER, b"Content-Length: 2, 2\r\n", "got '2, 2'"),
    (Kind.NOT_A_NUMBER, b"Content-Length: \xff2\r\n", "got '\\\\xff2'"),
    (Kind.NON_ASCII_DIGITS, "Content-Length: ٢\r\n".encode(), "got '٢'"),
    (Kind.TOO_MANY_DIGITS, b"Content-Length: 0000000000000000002\r\n", "got '00000000"),
    (Kind.TOO_MANY_DIGITS, b"Content-Length: " + b"9" * 50 + b"\r\n", "got '99999999"),
    (Kind.TWO_LENGTHS, b"Content-Length: 2\r\nContent-Length: 3\r\n", "got '2 and 3'"),
    (Kind.HEADER_TOO_LONG, b"X: " + b"x" * 90 + b"\r\n", "got more than 80 bytes"),
    (Kind.HEADER_TOO_LONG, b"X: x\r\n" * 20, "got more than 80 bytes"),
    (Kind.BEYOND_SKIPPING, b"Content-Length: 1001\r\n", "got one of 1001 bytes"),
]
BODY_FAULTS = [
    (Kind.BODY_TOO_LONG, b"Content-Length: 101\r\n", "got one of 101 bytes"),
    (Kind.BODY_TOO_LONG, b"Content-Length: 1000\r\nX\r\n", "got one of 1000 bytes"),
    (Kind.FOREIGN_CHARSET, b"Content-Length: 2\r\nContent-Type: x; charset=utf-16\r\n", "utf-16"),
    (Kind.FOREIGN_CHARSET, b"content-type: x;charset='latin1'\r\nContent-Length:2\r\n", "latin1"),
    (Kind.FOREIGN_CHARSET, b"Content-Length: 2\r\nContent-Type: x; charset=\r\n", "got ''"),
    (Kind.FOREIGN_CHARSET, b"Content-Length: 0\r\nContent-Type: x; Charset=a\r\n", "got 'a'"),
    (Kind.NON_ASCII_HEADER, "Content-Length: 2\r\nX: é\r\n".encode(), "got 'X: é'"),
    (Kind.NON_ASCII_HEADER, b"\xff: x\r\nContent-Length: 2\r\n", "got '\\\\xff: x'"),
    (Kind.HEADER_WITHOUT_COLON, b"Content-Length: 2\r\nX\r\n", "got 'X'"),
]
ENDS = [
    (Kind.EOF_IN_HEADER, b"C"),
    (Kind.EOF_IN_HEADER, b"Content-Length: 2\r\n"),
    (Kind.EOF_IN_HEADER, b"Content-Length: 2\r\n\r"),
    (Kind.EOF_IN_BODY, b"Content-Length: 2\r\n\r\n"),
    (Kind.EOF_IN_BODY, b"Content-Length: 2\r\n\r\n{"),
]


def message_of(fault: bytes | FrameError, kind: Kind, *, fatal: bool) -> str:
    """Check the kind of an error and return its message."""
    assert isinstance(fault, FrameError)
    assert (fault.kind, fault.fatal) == (kind, fatal)
    assert fault.message.startswith(f"expected {FRAME_ERRORS[kind].expected}, got ")
    return fault.message


@pytest.mark.requirement("W-13", "BASE-7", "BASE-8", "BASE-9")
@pytest.mark.parametrize(("kind", "header", "got"), LENGTH_FAULTS)
def test_a_length_that_cannot_be_used_closes_the_stream(kind, header, got) -> None:
    before, fault = read(NEXT + header + b"\r\n" + b"{}" + NEXT, **SMALL)
    assert before == b'"next"'
    assert got in message_of(fault, kind, fatal=True)


@pytest.mark.requirement("BASE-12", "BASE-15")
@pytest.mark.parametrize(("kind", "header", "got"), BODY_FAULTS)
def test_a_body_that_cannot_be_read_is_skipped(kind: Kind, header: bytes, got: str) -> None:
    length = int(header.lower().partition(b"content-length:")[2].split()[0])
    body = (NEXT * length)[:length]
    fault, *after = read(header + b"\r\n" + body + NEXT, **SMALL)
    assert after == [b'"next"']
    assert got in message_of(fault, kind, fatal=False)


@pytest.mark.requirement("W-13")
@pytest.mark.parametrize(("kind", "tail"), ENDS)
def test_an_end_inside_a_frame_is_an_error(kind: Kind, tail: bytes) -> None:
    frame, fault = read(NEXT + tail)
    assert frame == b'"next"'
    assert message_of(fault, kind, fatal=True)


@pytest.mark.requirement("W-13", "BASE-2")
def test_an_end_inside_a_skipped_body_is_an_error_and_one_between_frames_none() -> None:
    _, cut = read(b"Content-Length: 101\r\n\r\n{", **SMALL)
    got = "the end of the stream, 100 bytes too early"
    assert cut == FrameError(kind=Kind.EOF_IN_BODY, got=got)
    assert read(b"") == []
    assert read(NEXT + b"\r\n\n") == [b'"next"']


def test_the_table_names_every_kind_and_the_tests_show_each() -> None:
    shown = {kind for kind, *_ in [*LENGTH_FAULTS, *BODY_FAULTS, *ENDS]}
    assert set(FRAME_ERRORS) == set(Kind) == shown | {Kind.LINE_TOO_LONG}
    codes = {verdict.code for verdict in FRAME_ERRORS.values()}
    assert codes == {PARSE_ERROR, INVALID_REQUEST}


@pytest.mark.requirement("BASE-3", "BASE-5", "BASE-9", "BASE-10", "BASE-11", "BASE-14")
@pytest.mark.parametrize(
    "header",
    [
        b"Content-Length: 2\r\n",
        b"content-length: 2\r\n",
        b"CONTENT-LENGTH:2\r\n",
        b"Content-Length \t: \t2 \t\r\n",
        b"Content-Length: 002\r\n",
        b"Content-Length: 2\r\nContent-Length: 02\r\n",
        b"Content-Length: 2\nX-Unknown: a:b\n",
        b"\r\n\n\r\nContent-Length: 2\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: 2\r\n",
        b"Content-Length: 2\r\nContent-Type: application/json\r\n",
        b'Content-Length: 2\r\ncontent-TYPE: x; a=b; CharSet = "UTF8"\r\n',
        b"Content-Length: 2\r\nContent-Type: x;charset=Utf-8\r\n",
        b"Content-Type:\r\n:\r\nContent-Length: 2\r\n",
    ],
)
def test_headers_are_read_leniently(header: bytes) -> None:
    assert read(NEXT + header + b"\r\n" + b"{}" + NEXT) == [b'"next"', b"{}", b'"next"']


def test_limits_are_met_exactly() -> None:
    body = b"x" * 100
    header = b"X: " + b"x" * (80 - 5 - 23) + b"\r\nContent-Length: 100\r\n\r\n"
    assert len(header) == 80
    assert read(header + body, **SMALL) == [body]
    (fault,) = read(b"X" + header + body, **SMALL)
    assert message_of(fault, Kind.HEADER_TOO_LONG, fatal=True)
    with pytest.raises(ValueError, match="max_header: expected 64 or more, got 10"):
        ContentLengthDecoder(max_header=10)


@pytest.mark.requirement("W-1", "BASE-2", "BASE-3", "BASE-4", "BASE-6")
def test_a_header_is_written_as_the_ruling_says() -> None:
    assert encode_frame("é".encode()) == b"Content-Length: 2\r\n\r\n\xc3\xa9"
    assert encode_frame(b"") == b"Content-Length: 0\r\n\r\n"
    assert read(encode_frame(b"") + NEXT) == [b"", b'"next"']


def test_nothing_is_taken_after_the_end() -> None:
    fatal = ContentLengthDecoder()
    fatal.feed(b"\r\nX: y\r\n\r\n" + NEXT)
    assert fatal.closed
    for decoder in (ContentLengthDecoder(), LineDecoder(), fatal):
        assert decoder.closed is (decoder is fatal)
        assert decoder.feed_eof() == []
        assert decoder.closed
        assert decoder.feed_eof() == []
        with pytest.raises(LocalProtocolError, match="after the end"):
            decoder.feed(NEXT)


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        (b"{}\n[]\r\n", [b"{}", b"[]"]),
        (b"\n\r\n \t\n{}\n", [b"{}"]),
        (b"{}\nlast", [b"{}", b"last"]),
        (b"last\r", [b"last"]),
        (b"a\rb\n", [b"a\rb"]),
        ("\u2028\n".encode(), ["\u2028".encode()]),
        (b"12345678\r\n", [b"12345678"]),
        (b"", []),
    ],
)
def test_lines_are_cut(text: bytes, lines: list[bytes]) -> None:
    for pieces in ([text], bytewise(text)):
        assert decoded(LineDecoder(max_line=8), *pieces) == lines


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b" " * 99 + b"\n"])
def test_a_line_beyond_the_limit_is_skipped(end: bytes) -> None:
    fault = FrameError(kind=Kind.LINE_TOO_LONG, got="more than 8 bytes")
    text = b"a\n123456789" + end + b"b\n"
    for pieces in ([text], bytewise(text)):
        assert decoded(LineDecoder(max_line=8), *pieces) == [b"a", fault, b"b"]
    assert not fault.fatal


def test_a_line_is_written_and_never_two() -> None:
    assert encode_line(b'{"a":1}') == b'{"a":1}\n'
    for body in (b"[1,\n2]", b"[1]\r"):
        with pytest.raises(LocalProtocolError, match="without line ends"):
            encode_line(body)


PARTS = [b"Content-Length: ", b"2", b"\r\n", b"\n", b"\r", b"\r\n\r\n", b":", b"{"]
broken_streams = st.lists(
    st.one_of(
        st.binary(max_size=30).map(encode_frame),
        st.sampled_from([row[1] for row in [*LENGTH_FAULTS, *BODY_FAULTS]]),
        st.sampled_from(PARTS),
        st.binary(max_size=10),
    ),
    max_size=8,
).map(b"".join)


@pytest.mark.requirement("BASE-2")
@given(broken_streams, st.lists(st.integers(0, 500), max_size=8))
def test_the_output_is_the_same_however_the_bytes_are_cut(data: bytes, places: list[int]) -> None:
    makers: list[Any] = [
        lambda: ContentLengthDecoder(**SMALL),
        ContentLengthDecoder,
        lambda: LineDecoder(max_line=8),
    ]
    for make in makers:
        whole = decoded(make(), data)
        assert decoded(make(), *cut(data, places)) == whole
        assert decoded(make(), *bytewise(data)) == whole


bodies = st.lists(st.binary(max_size=50).filter(lambda body: not set(body) & set(b"\r\n")))


@pytest.mark.requirement("BASE-2", "BASE-6")
@framings
@given(bodies=bodies, places=st.lists(st.integers(0, 500), max_size=8))
def test_what_is_written_is_read_back(framing, bodies, places) -> None:
    stream = b"".join(map(framing.encode, bodies))
    if framing is LINES:
        bodies = [body for body in bodies if body.strip(b" \t")]
    assert decoded(framing.decoder(), *cut(stream, places)) == bodies


@pytest.mark.requirement("BASE-2")
@pytest.mark.long(but=1)
@framings
def test_a_message_of_64_mib_passes(framing: Framing) -> None:
    body = b"x" * (64 * 2**20)
    stream = framing.encode(body)
    decoder = framing.decoder()
    pieces = (stream[start : start + 2**20] for start in range(0, len(stream), 2**20))
    assert decoded(decoder, *pieces) == [body]


@pytest.mark.parametrize("length", [64 * 2**20, 2**30, 10**18 - 1])
def test_a_hostile_length_allocates_nothing(length: int) -> None:
    decoder = ContentLengthDecoder()
    piece = b"x" * 2**16
    tracemalloc.start()
    try:
        decoder.feed(b"Content-Length: %d\r\n\r\n" % length)
        if length == 2**30:
            for _ in range(100):
                decoder.feed(piece)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 100_000


def seconds_bytewise(make: Callable[[], FrameDecoder | SSEDecoder], stream: bytes) -> float:
    """Return the CPU time for a stream in chunks of one byte; the better of two runs."""
    times = []
    for _ in range(2):
        decoder = make()
        start = time.process_time()
        for piece in bytewise(stream):
            decoder.feed(piece)
        times.append(time.process_time() - start)
    return min(times)


STREAMS: dict[str, tuple[Callable[[], FrameDecoder | SSEDecoder], Callable[[int], bytes]]] = {
    "body": (ContentLengthDecoder, lambda n: b"Content-Length: %d\r\n\r\n" % n + b"x" * n),
    "line of a header": (lambda: ContentLengthDecoder(max_header=2**20), lambda n: b"X" * n),
    "header": (lambda: ContentLengthDecoder(max_header=2**20), lambda n: b"X\r\n" * (n // 3)),
    "skipped": (lambda: ContentLengthDecoder(max_body=9), lambda n: LONG_BODY + b"x" * n),
    "line": (LineDecoder, lambda n: b"x" * n),
    "skipped line": (lambda: LineDecoder(max_line=9), lambda n: b"x" * n),
    "line of an event": (SSEDecoder, lambda n: b"data: " + b"x" * n),
    "event": (SSEDecoder, lambda n: b"data:x\n" * (n // 7)),
}
LONG_BODY = b"Content-Length: 9999999\n\n"


@pytest.mark.long(but=2)
@pytest.mark.parametrize("name", STREAMS)
def test_a_byte_at_a_time_takes_linear_time(name: str) -> None:
    make, stream = STREAMS[name]
    once = seconds_bytewise(make, stream(4_000))
    ten_times = seconds_bytewise(make, stream(40_000))
    assert ten_times < 20 * once, "linear would be 10, quadratic 100"


@pytest.mark.requirement("W-1")
def test_a_foreign_reader_decodes_what_we_write() -> None:
    messages = [{"jsonrpc": "2.0", "method": "m", "params": {"text": "é" * n}} for n in (0, 1, 999)]
    received: list[Any] = []
    protocol = SimpleNamespace(
        structure_message=lambda message: message, handle_message=received.append
    )
    stream = io.BytesIO(b"".join(encode_frame(json.dumps(message)) for message in messages))
    pygls_io.run(threading.Event(), stream, protocol)
    assert received == messages

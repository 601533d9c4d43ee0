"""Server-sent events: the standard's cases, any size of chunks, the limit, both directions."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eca_protocol.errors import LocalProtocolError, RemoteProtocolError
from eca_protocol.sse import SSEDecoder, SSEvent, encode_comment, encode_event
from tests.eca_protocol.wire import cut


def decoded(*pieces: bytes, max_event: int = 2**20) -> list[SSEvent | str]:
    """Return the events of a stream, then its error, if any."""
    decoder = SSEDecoder(max_event=max_event)
    events: list[SSEvent | str] = []
    try:
        for piece in pieces:
            events += decoder.feed(piece)
        events += decoder.close()
    except RemoteProtocolError as fault:
        events.append(str(fault))
    return events


def message(data: str, **fields: Any) -> SSEvent:
    return SSEvent(**{"event": "message", "data": data} | fields)


EXAMPLE = b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third\n\n"
EVENTS = [message("first event", id="1"), *(message(x, id="") for x in ("second event", " third"))]
ENDS = (b"", b"\n", b"\r", b"\r\n")


@pytest.mark.parametrize(
    ("stream", "events"),
    [
        (b"data: YHOO\ndata: +2\ndata: 10\n\n", [message("YHOO\n+2\n10")]),
        (EXAMPLE, EVENTS),
        (b"data\n\ndata\ndata\n\ndata:", [message(""), message("\n"), message("")]),
        (b"data:test\n\ndata: test\n\n", [message("test"), message("test")]),
        (b"event: add\ndata: 73\n\ndata: 1\n\n", [message("73", event="add"), message("1")]),
        (b"event: lost\n\ndata: 1\n\n", [message("1")]),
        (b"data: a\rdata: b\r\r", [message("a\nb")]),
        (b"data: a\r\ndata: b\r\n\r\n", [message("a\nb")]),
        (b"data: a\r\n\ndata: b\n\r\n", [message("a"), message("b")]),
        (b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", [message("a")]),
        (b"\n\xef\xbb\xbfdata: a\n\n", []),
        ("data: a\u2028\x85\x0b\x0c\x1c\n\n".encode(), [message("a\u2028\x85\x0b\x0c\x1c")]),
        (b"data: \xff\xc3\n\n", [message("\ufffd\ufffd")]),
        (b"data: 1\nunknown: x\n: comment\nDATA: 2\n\n", [message("1")]),
        (b"data: 1\nid: a\0b\n\n", [message("1")]),
        (b"id: 7\n\ndata: 1\n\n", [message("1", id="7")]),
        (b"retry: 250\ndata: 1\n\ndata: 2\n\n", [message("1", retry=250), message("2")]),
        (b"retry: -1\nretry: 1s\nretry: " + b"9" * 5000 + b"\ndata: 1\n\n", [message("1")]),
        ("retry: ٣\ndata: 1\n\n".encode(), [message("1")]),
        (b"data: [DONE]\n\n", [message("[DONE]")]),
        (b"", []),
        (b"\n\n\r\r\n", []),
        (b"event: last", []),
        (b"event: last\r", []),
        *((b"event: last\ndata: 2" + end, [message("2", event="last")]) for end in ENDS),
    ],
)
def test_events_are_read_by_the_standard(stream, events):
    assert decoded(stream) == events
    assert decoded(*(stream[i : i + 1] for i in range(len(stream)))) == events


def test_what_a_reconnection_needs_is_stored_and_half_an_id_at_the_end_is_none():
    decoder = SSEDecoder()
    assert (decoder.last_event_id, decoder.retry) == (None, None)
    decoder.feed(b"id: 122\nretry: 1000\n")
    assert decoder.last_event_id is None
    assert decoder.feed(b"data: 1\n\ndata: 2\nid: 12") == [message("1", id="122", retry=1000)]
    assert (decoder.last_event_id, decoder.retry) == ("122", 1000)
    assert decoder.close() == [message("2", id="122")]
    assert decoder.last_event_id == "122"
    assert decoder.close() == []
    with pytest.raises(LocalProtocolError, match="after the end"):
        decoder.feed(b"data: 1\n\n")


TOO_LONG = (
    b"data: 12345",
    b"data: 12345\n",
    b"data:123\ndata:123\ndata:34\n",
    b":3456789abc\n",
    b"x" * 11,
)


@pytest.mark.parametrize("too_long", TOO_LONG)
def test_an_event_beyond_the_limit_is_an_error_after_the_events_before_it(too_long):
    decoder = SSEDecoder(max_event=10)
    assert decoder.feed(b"data: 1234\n\n" + too_long) == [message("1234")]
    for act in (lambda: decoder.feed(b"\n\ndata: 1\n\n"), lambda: decoder.feed(b""), decoder.close):
        with pytest.raises(RemoteProtocolError, match="at most 10 bytes, got more") as caught:
            act()
        assert caught.value.fatal
    with pytest.raises(RemoteProtocolError):
        SSEDecoder(max_event=10).feed(too_long + b"\n")


def test_comments_do_not_count():
    comments = b": 2345678\n" * 9
    assert decoded(comments + b"data: 1234\n" + comments, max_event=10) == [message("1234")]


def test_events_are_written_one_line_a_field():
    assert encode_event("a") == b"data: a\n\n"
    assert encode_event("") == b"data: \n\n"
    written = b"event: e\nid: \ndata: a\ndata: b\ndata: c\ndata: d\n\n"
    assert encode_event("a\nb\r\nc\rd", event="e", id="") == written
    assert encode_comment("é\n") == b": \xc3\xa9\n: \n\n"


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"event": "a\nb"}, "event: expected one line, got 'a\\nb'"),
        ({"event": "a\r"}, "event: expected one line"),
        ({"id": "\0"}, "id: expected one line without NUL"),
        ({"data": ".\ud800"}, "expected Unicode text, got a lone surrogate at position 7"),
    ],
)
def test_what_no_line_can_hold_is_refused(fields, complaint):
    with pytest.raises(LocalProtocolError) as caught:
        encode_event(**{"data": "", **fields})
    assert str(caught.value).startswith(complaint)


FIELDS = [b"data", b"data: ", b"event: ", b"id: ", b"retry: ", b":", b" ", b"1", b"text", b"\0"]
LINE_ENDS = [b"\n", b"\r", b"\r\n", b"\n\n", b"\r\r", b"\xe2\x80\xa8", b"\xef\xbb\xbf", b"\xff"]
parts = st.sampled_from([*FIELDS, *LINE_ENDS])
streams = st.lists(parts | st.binary(max_size=5), max_size=25).map(b"".join)


@given(streams, st.lists(st.integers(0, 200), max_size=6))
@example(b"data: 1\r\n\r\ndata: 2\r\n\r\n", [8, 10])
def test_the_events_are_the_same_however_the_bytes_are_cut(data, places):
    for limit in (2**20, 12):
        whole = decoded(data, max_event=limit)
        assert decoded(*cut(data, places), max_event=limit) == whole
        pieces = [piece for i in range(len(data)) for piece in (data[i : i + 1], b"")]
        assert decoded(*pieces, max_event=limit) == whole


one_line = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"))
ids = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\0"))
texts = st.text(st.characters(codec="utf-8", exclude_characters="\r"))


@given(st.lists(st.tuples(texts, one_line, ids | st.none(), texts), max_size=5))
def test_what_is_written_is_read_back(events):
    decoder = SSEDecoder()
    last_id = None
    for data, name, event_id, comment in events:
        last_id = last_id if event_id is None else event_id
        stream = encode_comment(comment) + encode_event(data, event=name, id=event_id)
        assert decoder.feed(stream) == [message(data, event=name or "message", id=last_id)]
    assert decoder.close() == []

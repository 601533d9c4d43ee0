"""Messages in a server's output; the rest is noise and never answered."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.endpoint import Endpoint
from eca_protocol.framing import LineDecoder
from eca_server.agent.mcp.dialect import MCP_DIALECT, LenientReader
from eca_server.agent.mcp.methods import TABLE

ANSWER = b'{"jsonrpc":"2.0","id":3,"result":{}}'


class Decoding:
    """A decoder, and the noise that it reported."""

    def __init__(self, *pending: int, max_line: int = 2**20) -> None:
        self.noise: list[tuple[bytes, str]] = []
        self.oversized: list[str] = []
        self.lines = LineDecoder(max_line=max_line)
        self.reader = LenientReader(
            pending=lambda: pending,
            on_noise=lambda line, why: self.noise.append((line, why)),
            on_oversized=self.oversized.append,
        )

    def take(self, data: bytes) -> list[object]:
        """Return the messages in these bytes, as JSON values."""
        return list(self.reader.read(self.lines.feed(data)))


@pytest.mark.parametrize(
    "line",
    [
        b"Server running on stdio",
        b"\x1b[32mnpm notice\x1b[0m",
        b"3",
        b'"text"',
        b"null",
        b'{"level":30,"time":1,"msg":"pino"}',
        b"{}",
        b"[]x",
        b"{broken",
        b"\xff\xfe\x00",
        b"[1,2]",
        b'{"jsonrpc":"2.0"}',
    ],
)
def test_a_line_that_is_not_a_message_is_noise(line):
    decoding = Decoding(3)
    assert decoding.take(line + b"\n" + ANSWER + b"\n") == [json.loads(ANSWER)]
    assert [noise for noise, _ in decoding.noise] in ([line], [b"1", b"2"])


@pytest.mark.parametrize(
    "line",
    [
        ANSWER,
        b"\xef\xbb\xbf" + ANSWER,
        ANSWER + b"\r",
        b"\r\n\n" + ANSWER,
        b"  " + ANSWER,
        b'{"id":3,"result":{}}',
        b'{"jsonrpc":"1.0","id":3,"result":{}}',
        b'{"jsonrpc":"2.0","id":"3","result":{}}',
        b'{"jsonrpc":"2.0","id":3.0,"result":{}}',
        b"[" + ANSWER + b"]",
    ],
)
def test_a_slightly_wrong_message_is_repaired(line):
    decoding = Decoding(3)
    assert decoding.take(line + b"\n") == [json.loads(ANSWER)]
    assert not decoding.noise


def test_bytes_that_are_no_utf_8_are_replaced():
    [message] = Decoding(3).take(b'{"jsonrpc":"2.0","id":3,"result":{"text":"caf\xe9"}}\n')
    assert message["result"] == {"text": "caf\ufffd"}


def test_a_lone_surrogate_is_replaced():
    decoding = Decoding(3)
    [message] = decoding.take(b'{"jsonrpc":"2.0","id":3,"result":{"text":"\\ud83d"}}\n')
    json.dumps(message["result"]["text"], ensure_ascii=False)
    assert not decoding.noise


def test_an_error_without_id_is_for_the_only_pending_call():
    error = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}\n'
    assert Decoding(7).take(error)[0]["id"] == 7
    assert Decoding(7, 8).take(error)[0]["id"] is None


@pytest.mark.parametrize("text", [b"NaN", b"Infinity", b"[" * 200 + b"]" * 200])
def test_an_answer_that_is_no_json_fails_the_call_that_it_names(text):
    line = b'{"jsonrpc":"2.0","id":3,"result":{"value":' + text + b"}}\n"
    decoding = Decoding(3)
    [message] = decoding.take(line)
    assert message["id"] == 3
    assert "cannot be read" in message["error"]["message"]
    assert Decoding(4).take(line) == []


@pytest.mark.parametrize(
    "answer",
    [
        b'{"jsonrpc":"2.0","id":3,"result":[%b1]}',
        b'{"id": 3, "result":[%b1]}',
        b'{"result":[%b1], "jsonrpc": "2.0", "id" : 3 } ',
    ],
)
def test_an_answer_of_very_many_values_fails_its_call(answer):
    decoding = Decoding(3, 4, max_line=2**24)
    (answer,) = decoding.take(answer % (b"[]," * 500_001) + b"\n")
    assert answer["id"] == 3
    assert "at most 1,000,000 values" in answer["error"]["message"]


def test_very_many_values_that_answer_no_call_are_noise():
    decoding = Decoding(3, max_line=2**24)
    for text in (b'{"method":"x","params":[%b1]}', b"[%b1]", b'{"id":5,"result":[%b1]}'):
        assert decoding.take(text % (b"[]," * 500_001) + b"\n") == []
    assert len(decoding.noise) == 3


def test_an_answer_of_neither_kind_fails_its_call():
    [message] = Decoding(3).take(b'{"jsonrpc":"2.0","id":3}\n')
    assert "neither a result nor an error" in message["error"]["message"]


@pytest.mark.parametrize(
    ("lines", "hint"),
    [(b"{\n", "several lines"), (ANSWER + ANSWER + b"\n", "two messages in one line")],
)
def test_a_common_mistake_is_named(lines, hint):
    decoding = Decoding(3)
    assert decoding.take(lines) == []
    assert hint in decoding.noise[0][1]


def test_our_own_messages_that_come_back_are_noise_with_a_hint():
    decoding = Decoding(1)
    assert decoding.take(b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}\n') == []
    assert "docker run -t" in decoding.noise[0][1]


def test_nesting_without_end_is_noise():
    decoding = Decoding(3)
    assert decoding.take(b"[" * 100_000 + b"\n" + ANSWER + b"\n") == [json.loads(ANSWER)]


def test_a_line_that_is_too_long_is_reported_and_skipped():
    decoding = Decoding(3, max_line=1000)
    assert decoding.take(b'{"x":"' + b"y" * 2000 + b'"}\n' + ANSWER + b"\n") == [json.loads(ANSWER)]
    assert len(decoding.oversized) == 1


def test_the_last_line_needs_no_end():
    decoding = Decoding(3)
    assert decoding.take(ANSWER) == []
    assert decoding.reader.read(decoding.lines.feed_eof()) == [json.loads(ANSWER)]
    assert decoding.lines.closed


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["jsonrpc", "id", "method", "result", "error", "params", "x"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(st.lists(JSON.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40)))
def test_our_endpoint_survives_any_input_and_does_not_answer_noise(lines):
    decoding = Decoding(1, 2)
    endpoint = Endpoint("client", TABLE, dialect=MCP_DIALECT)
    for value in decoding.take(b"\n".join(lines) + b"\n"):
        event = endpoint.receive(value)
        if "method" not in value:
            assert event is None  # nothing was called: whatever it answers is dropped


@given(st.lists(JSON.map(lambda value: json.dumps(value).encode()), max_size=5), st.data())
def test_however_the_bytes_are_cut_the_messages_are_the_same(lines, data):
    stream = b"\n".join([*lines, ANSWER]) + b"\n"
    whole = Decoding(3).take(stream)
    decoding = Decoding(3)
    pieces, rest = [], stream
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        pieces += decoding.take(rest[:size])
        rest = rest[size:]
    assert pieces == whole


def test_an_abandoned_handshake_is_never_cancelled_and_a_call_is():
    endpoint = Endpoint("client", TABLE, dialect=MCP_DIALECT)
    handshake, call = endpoint.call("initialize"), endpoint.call("tools/call")
    assert endpoint.abandon(handshake.id) is None
    cancel = endpoint.abandon(call.id)
    assert cancel is not None
    assert cancel.to_json() == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": call.id},
    }

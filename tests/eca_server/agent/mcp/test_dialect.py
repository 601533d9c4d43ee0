"""Messages in a server's output; the rest is noise and never answered."""

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


def test_bytes_that_are_no_utf_8_and_lone_surrogates_are_replaced():
    decoding = Decoding(3)
    for text in (b"caf\xe9", b"\\ud83d"):
        line = b'{"jsonrpc":"2.0","id":3,"result":{"text":"%b"}}\n' % text
        [message] = decoding.take(line)
        assert "\ufffd" in message["result"]["text"]
    assert not decoding.noise


def test_an_error_without_id_is_for_the_only_pending_call():
    error = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"no"}}\n'
    assert Decoding(7).take(error)[0]["id"] == 7
    assert Decoding(7, 8).take(error)[0]["id"] is None


MANY = b"[]," * 500_001
VALUES = "at most 1,000,000 values"


@pytest.mark.long(but=3)
@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b'{"jsonrpc":"2.0","id":3,"result":{"value":NaN}}', "cannot be read"),
        (b'{"jsonrpc":"2.0","id":3,"result":{"value":Infinity}}', "cannot be read"),
        (b'{"jsonrpc":"2.0","id":3,"result":' + b"[" * 200 + b"]" * 200 + b"}", "cannot be read"),
        (b'{"jsonrpc":"2.0","id":3,"result":[' + MANY + b"1]}", VALUES),
        (b'{"id": 3, "result":[' + MANY + b"1]}", VALUES),
        (b'{"result":[' + MANY + b'1], "jsonrpc": "2.0", "id" : 3 } ', VALUES),
        (b'{"jsonrpc":"2.0","id":3}', "neither a result nor an error"),
    ],
    ids=range(7),
)
def test_an_answer_that_is_none_fails_the_call_that_it_names_and_is_noise_for_others(line, why):
    [message] = Decoding(3, max_line=2**24).take(line + b"\n")
    assert message["id"] == 3
    assert why in message["error"]["message"]
    if b"result" in line:
        assert Decoding(4, max_line=2**24).take(line + b"\n") == []


@pytest.mark.parametrize(
    ("lines", "hint"),
    [
        (b"{\n", "several lines"),
        (ANSWER + ANSWER + b"\n", "two messages in one line"),
        (b'{"jsonrpc":"2.0","id":3,"method":"initialize","params":{}}\n', "docker run -t"),
        (b'{"method":"x","params":[' + MANY + b"1]}\n", "1,000,000 values"),
        (b"[" + MANY + b"1]\n", "1,000,000 values"),
        (b"[" * 100_000 + b"\n", ""),
    ],
    ids=range(6),
)
def test_a_common_mistake_is_noise_and_named(lines, hint):
    decoding = Decoding(3, max_line=2**24)
    assert decoding.take(lines + ANSWER + b"\n") == [json.loads(ANSWER)]
    assert hint in decoding.noise[0][1]


def test_a_line_that_is_too_long_is_skipped_and_the_last_line_needs_no_end():
    decoding = Decoding(3, max_line=1000)
    assert decoding.take(b'{"x":"' + b"y" * 2000 + b'"}\n' + ANSWER + b"\n") == [json.loads(ANSWER)]
    assert len(decoding.oversized) == 1
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


def test_an_abandoned_handshake_is_never_cancelled_and_a_call_is():
    endpoint = Endpoint("client", TABLE, dialect=MCP_DIALECT)
    handshake, call = endpoint.call("initialize"), endpoint.call("tools/call")
    assert endpoint.abandon(handshake.id) is None
    cancel = endpoint.abandon(call.id)
    assert cancel.to_json() == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": call.id},
    }

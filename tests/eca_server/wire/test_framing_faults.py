"""Every fault of the framing table over real pipes: what is answered, and what happens next."""

from __future__ import annotations

import time

import pytest

from eca_protocol.framing import FRAME_ERRORS, MAX_BODY, MAX_HEADER, MAX_SKIP, FrameErrorKind
from tests.eca_server.stranger import START_SECONDS, content_of, frame, message

HELLO = frame(message("initialize", {}, request_id="hello"))
LENGTH = b"Content-Length: %b\r\n\r\n{}"

FATAL: dict[FrameErrorKind, bytes] = {
    FrameErrorKind.NEGATIVE_LENGTH: LENGTH % b"-5",
    FrameErrorKind.EOF_IN_HEADER: b"Content-Length: 5\r\n",
    FrameErrorKind.EOF_IN_BODY: b"Content-Length: 5\r\n\r\n{",
    FrameErrorKind.BEYOND_SKIPPING: LENGTH % str(MAX_SKIP + 1).encode(),
    FrameErrorKind.MISSING_LENGTH: b"Content-Type: application/vscode-jsonrpc\r\n\r\n{}",
    FrameErrorKind.SIGNED_LENGTH: LENGTH % b"+2",
    FrameErrorKind.HEX_LENGTH: LENGTH % b"0x2",
    FrameErrorKind.NON_ASCII_DIGITS: LENGTH % "٣".encode(),
    FrameErrorKind.NOT_A_NUMBER: LENGTH % b"many",
    FrameErrorKind.TOO_MANY_DIGITS: LENGTH % (b"1" + b"0" * 5000),
    FrameErrorKind.TWO_LENGTHS: b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
    FrameErrorKind.HEADER_TOO_LONG: b"X: %b\r\n\r\n" % (b"x" * MAX_HEADER),
}
RECOVERABLE: dict[FrameErrorKind, bytes] = {
    FrameErrorKind.FOREIGN_CHARSET: (
        b"Content-Type: application/vscode-jsonrpc; charset=utf-16\r\nContent-Length: 4\r\n\r\n{ } "
    ),
    FrameErrorKind.NON_ASCII_HEADER: "X: ü\r\nContent-Length: 2\r\n\r\n{}".encode(),
    FrameErrorKind.HEADER_WITHOUT_COLON: b"nonsense\r\nContent-Length: 2\r\n\r\n{}",
    FrameErrorKind.BODY_TOO_LONG: frame(b" " * (MAX_BODY + 1)),
}
TOO_LONG = {FrameErrorKind.BEYOND_SKIPPING, FrameErrorKind.BODY_TOO_LONG}


def test_every_row_of_the_table_is_tried():
    assert set(FATAL) == {kind for kind, verdict in FRAME_ERRORS.items() if verdict.fatal}
    others = {kind for kind, verdict in FRAME_ERRORS.items() if not verdict.fatal}
    assert set(RECOVERABLE) == others - {FrameErrorKind.LINE_TOO_LONG}


def assert_names(fault, kind):
    code = -32600 if kind in TOO_LONG else -32700
    assert (fault["id"], fault["error"]["code"]) == (None, code), kind
    assert FRAME_ERRORS[kind].expected in fault["error"]["message"]


@pytest.mark.long(but=4)
@pytest.mark.requirement("BASE-7", "BASE-8", "BASE-9", "W-13i")
@pytest.mark.parametrize("kind", FATAL, ids=lambda kind: kind.name)
def test_a_fatal_error_is_answered_and_ends_the_process(server, kind):
    server.write(HELLO)
    server.answer("hello", seconds=START_SECONDS)
    server.write(FATAL[kind])
    begun = time.monotonic()
    if kind.name.startswith("EOF"):
        server.close_input()
    assert_names(server.receive(), kind)
    assert server.exit_code(within=3.0 - (time.monotonic() - begun)) == 1


@pytest.mark.requirement("BASE-12", "BASE-15", "BASE-23")
def test_after_any_other_error_the_next_request_is_served(server):
    server.initialize()
    for kind, data in RECOVERABLE.items():
        server.write(data + frame(message("chat/queryContext", request_id=kind.name)))
        assert_names(server.until(lambda m: "error" in m)[-1], kind)
        assert "result" in server.answer(kind.name)


NO_JSON = [
    *(b"{", b"", b"\xff\xfe{\x00}\x00", b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}', b"NaN"),
    b"[" * 200 + b"]" * 200,
]
NO_MESSAGE = [b"7", b'"text"']


def test_a_body_that_is_no_message_costs_only_itself(server):
    server.initialize()
    for last, size in (("whole", 10_000), ("halves", 150), ("byte by byte", 1)):
        data = b"".join(map(frame, NO_JSON + NO_MESSAGE))
        data += frame(message("chat/queryContext", request_id=last))
        for start in range(0, len(data), size):
            server.write(data[start : start + size])
        came = server.until(lambda m, last=last: m.get("id") == last)
        faults = [(seen["id"], seen["error"]["code"]) for seen in came if "error" in seen]
        expected = [-32700] * len(NO_JSON) + [-32600] * len(NO_MESSAGE)
        assert faults == [(None, code) for code in expected]


@pytest.mark.requirement("BASE-3", "BASE-5", "BASE-10", "BASE-11", "BASE-14")
def test_headers_are_read_in_every_spelling_and_many_frames_from_one_write(server):
    headers = [
        b"content-length: %d\r\n\r\n",
        b"CONTENT-LENGTH:%d\r\n\r\n",
        b"Content-Length:   %d  \r\n\r\n",
        b"Content-Type: application/vscode-jsonrpc; charset=utf-8\r\nContent-Length: %d\r\n\r\n",
        b'Content-Length: %d\r\ncontent-type: application/json; charset="UTF8"\r\n\r\n',
        b"X-Unknown: 1\r\nContent-Length: %d\r\nAnother:\r\n\r\n",
        b"Content-Length: %d\n\n",
        b"\r\n\r\nContent-Length: %d\r\n\r\n",
        b"Content-Length: 000%d\r\n\r\n",
    ]
    data = HELLO
    for number in range(2000):
        body = b'{"jsonrpc": "2.0", "id": %d, "method": "chat/queryContext"}\n' % number
        data += headers[number % len(headers)] % len(body) + body
    server.write(data, seconds=START_SECONDS)
    server.answer(1999, seconds=START_SECONDS)
    assert [seen["id"] for seen in server.seen] == ["hello", *range(2000)]
    assert all("result" in seen for seen in server.seen)


@pytest.mark.long
def test_a_prompt_of_64_mib_is_a_prompt(server):
    server.initialize()
    text = "words " * (MAX_BODY // 6 - 100)
    params = {"chatId": "big", "message": text, "model": "no/such"}
    body = message("chat/prompt", params, request_id="big")
    assert MAX_BODY - 1000 < len(frame(body)) <= MAX_BODY
    server.write(frame(body), seconds=60)
    assert server.answer("big", seconds=60)["result"]["status"] == "prompting"
    echoes = [content_of(seen)["text"] for seen in server.seen if content_of(seen).get("contentId")]
    assert "".join(echoes) == text

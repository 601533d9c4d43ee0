"""Every fault of the framing table over real pipes: what is answered, and what happens next."""

from __future__ import annotations

import time

import attrs
import pytest

from eca_protocol.framing import FRAME_ERRORS, MAX_BODY, MAX_HEADER, MAX_SKIP, FrameErrorKind
from tests.eca_server.stranger import START_SECONDS, content_of, frame, message

HELLO = frame(message("initialize", {}, request_id="hello"))


@attrs.frozen(kw_only=True)
class Case:
    """A fault's bytes and what they are answered with."""

    data: bytes
    code: int = -32700
    ends_input: bool = False


FATAL = {
    FrameErrorKind.MISSING_LENGTH: Case(data=b"Content-Type: application/vscode-jsonrpc\r\n\r\n{}"),
    FrameErrorKind.NEGATIVE_LENGTH: Case(data=b"Content-Length: -5\r\n\r\n{}"),
    FrameErrorKind.SIGNED_LENGTH: Case(data=b"Content-Length: +2\r\n\r\n{}"),
    FrameErrorKind.HEX_LENGTH: Case(data=b"Content-Length: 0x2\r\n\r\n{}"),
    FrameErrorKind.NON_ASCII_DIGITS: Case(data="Content-Length: ٣\r\n\r\n{}".encode()),
    FrameErrorKind.NOT_A_NUMBER: Case(data=b"Content-Length: many\r\n\r\n{}"),
    FrameErrorKind.TOO_MANY_DIGITS: Case(data=b"Content-Length: 1%b\r\n\r\n{}" % (b"0" * 5000)),
    FrameErrorKind.TWO_LENGTHS: Case(data=b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}"),
    FrameErrorKind.HEADER_TOO_LONG: Case(data=b"X: %b\r\n\r\n" % (b"x" * MAX_HEADER)),
    FrameErrorKind.BEYOND_SKIPPING: Case(
        data=b"Content-Length: %d\r\n\r\n{}" % (MAX_SKIP + 1), code=-32600
    ),
    FrameErrorKind.EOF_IN_HEADER: Case(data=b"Content-Length: 5\r\n", ends_input=True),
    FrameErrorKind.EOF_IN_BODY: Case(data=b"Content-Length: 5\r\n\r\n{", ends_input=True),
}

RECOVERABLE = {
    FrameErrorKind.FOREIGN_CHARSET: Case(
        data=b"Content-Type: application/vscode-jsonrpc; charset=utf-16\r\n"
        b"Content-Length: 4\r\n\r\n{ } "
    ),
    FrameErrorKind.NON_ASCII_HEADER: Case(data="X: ü\r\nContent-Length: 2\r\n\r\n{}".encode()),
    FrameErrorKind.HEADER_WITHOUT_COLON: Case(data=b"nonsense\r\nContent-Length: 2\r\n\r\n{}"),
    FrameErrorKind.BODY_TOO_LONG: Case(
        data=b"Content-Length: %d\r\n\r\n%b" % (MAX_BODY + 1, b" " * (MAX_BODY + 1)), code=-32600
    ),
}

OF_LINES = {FrameErrorKind.LINE_TOO_LONG}


def test_every_row_of_the_table_is_tried():
    assert set(FATAL) == {kind for kind, verdict in FRAME_ERRORS.items() if verdict.fatal}
    assert set(RECOVERABLE) | OF_LINES == {
        k for k, verdict in FRAME_ERRORS.items() if not verdict.fatal
    }


@pytest.mark.requirement("BASE-7", "BASE-8", "BASE-9", "W-13i")
@pytest.mark.parametrize("kind", FATAL, ids=lambda kind: kind.name)
def test_a_fatal_error_is_answered_and_ends_the_process(server, kind):
    case = FATAL[kind]
    server.write(HELLO)
    server.answer("hello", seconds=START_SECONDS)
    server.write(case.data)
    begun = time.monotonic()
    if case.ends_input:
        server.close_input()
    fault = server.receive()
    assert fault["id"] is None
    assert fault["error"]["code"] == case.code
    assert FRAME_ERRORS[kind].expected in fault["error"]["message"]
    assert server.exit_code(within=3.0 - (time.monotonic() - begun)) == 1


@pytest.mark.requirement("BASE-12", "BASE-15", "BASE-23")
def test_after_any_other_error_the_next_request_is_served(server):
    server.initialize()
    for kind, case in RECOVERABLE.items():
        server.write(case.data + frame(message("chat/queryContext", request_id=kind.name)))
        fault = server.until(lambda m: "error" in m)[-1]
        assert fault["id"] is None
        assert fault["error"]["code"] == case.code, kind
        assert FRAME_ERRORS[kind].expected in fault["error"]["message"]
        assert "result" in server.answer(kind.name)


def test_a_body_that_is_no_message_costs_only_itself(server):
    bodies = [
        (b"{", -32700),
        (b"", -32700),
        (b"\xff\xfe{\x00}\x00", -32700),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "\xff"}', -32700),
        (b"NaN", -32700),
        (b"[" * 200 + b"]" * 200, -32700),
        (b"7", -32600),
        (b'"text"', -32600),
    ]
    server.initialize()
    for last, size in (("whole", 10_000), ("halves", 150), ("byte by byte", 1)):
        data = b"".join(frame(body) for body, _ in bodies)
        data += frame(message("chat/queryContext", request_id=last))
        for start in range(0, len(data), size):
            server.write(data[start : start + size])
        came = server.until(lambda m, last=last: m.get("id") == last)
        faults = [seen for seen in came if "error" in seen]
        assert [fault["id"] for fault in faults] == [None] * len(bodies)
        assert [fault["error"]["code"] for fault in faults] == [code for _, code in bodies]


@pytest.mark.requirement("BASE-3", "BASE-5", "BASE-10", "BASE-11", "BASE-14")
def test_headers_are_read_in_every_spelling(server):
    body = b'{"jsonrpc": "2.0", "id": %d, "method": "chat/queryContext"}\n'
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
    server.initialize()
    data = b""
    for number, header in enumerate(headers):
        filled = body % (1000 + number)
        data += header % len(filled) + filled
    server.write(data)
    for number in range(len(headers)):
        assert "result" in server.answer(1000 + number)


def test_a_conversation_may_come_byte_by_byte(server):
    for byte in HELLO + frame(message("chat/queryCommands", {"query": "Ünïcode"}, request_id=2)):
        server.write(bytes([byte]))
    assert "result" in server.answer("hello", seconds=START_SECONDS)
    assert server.answer(2)["result"]["commands"] == []


def test_a_message_of_64_mib_is_a_message(server):
    server.initialize()
    body = b'{"jsonrpc":"2.0","id":"big","method":"chat/queryContext","unknown":"%b"}'
    body = body.replace(b"%b", b"x" * (MAX_BODY - len(body) + 2))
    assert len(body) == MAX_BODY
    server.write(frame(body), seconds=60)
    assert "result" in server.answer("big", seconds=60)


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


def test_many_frames_may_share_a_write(start_server):
    server = start_server()
    requests = [message("chat/queryContext", request_id=number) for number in range(2000)]
    server.write(HELLO + b"".join(map(frame, requests)), seconds=START_SECONDS)
    server.answer(1999, seconds=START_SECONDS)
    assert [seen["id"] for seen in server.seen] == ["hello", *range(2000)]

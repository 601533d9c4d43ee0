"""The list: each message with its lane and its latency."""

import json
from typing import Any

import pytest

from eca_protocol.framing import encode_frame
from eca_protocol.transcript import DataEntry, EndEntry, Entry, ExitEntry, Side
from eca_server.workbench.inspector import rows as rows_module
from eca_server.workbench.inspector.rows import Row, Rows


def passed(side: Side, message: Any, at: float = 0.0) -> DataEntry:
    body = json.dumps(message).encode()
    return DataEntry(at=at, side=side, data=encode_frame(body), body=body)


def rows_of(*entries: Entry) -> list[Row]:
    rows = Rows()
    return [
        rows.row(entry, entry.message if isinstance(entry, DataEntry) else None)
        for entry in entries
    ]


def request(id_: Any, method: str, **params: Any) -> DataEntry:
    return passed("client", {"id": id_, "method": method, "params": params})


def notification(method: str, **params: Any) -> DataEntry:
    return passed("client", {"method": method, "params": params})


def answer(id_: Any, **result: Any) -> DataEntry:
    return passed("server", {"id": id_, "result": result})


def server_notification(method: str, **params: Any) -> DataEntry:
    return passed("server", {"method": method, "params": params})


def content(kind: str, role: str = "assistant", chat: str = "c", **more: Any) -> DataEntry:
    params = {"chatId": chat, "role": role, "content": {"type": kind, **more}}
    return passed("server", {"method": "chat/contentReceived", "params": params})


MCP = {"origin": "mcp", "id": "2", "name": "now"}
NATIVE = {"origin": "native", "id": "1", "name": "grep"}
FINISHED = content("progress", "system", state="finished", text="")

# Each entry, its lane (negative: outward), the row it follows, and the kind of latency.
CONVERSATION: list[tuple[Entry, int, int | None, str | None]] = [
    (request(1, "initialize"), -1, None, None),
    (answer(1, chatWelcomeMessage="Hi"), 1, 0, "answer"),
    (server_notification("tool/serverUpdated", type="native"), 3, None, None),
    (server_notification("tool/serverUpdated", type="mcp"), 4, None, None),
    (notification("mcp/startServer", name="m"), -4, None, None),
    (request("a", "chat/prompt", chatId="c", message="one"), -2, None, None),
    (request("b", "chat/prompt", chatId="c", message="two"), -2, None, None),
    (content("text", "user", text="one"), 1, None, None),
    (answer("a", chatId="c"), 1, 5, "answer"),
    (answer("b", chatId="c"), 1, 6, "answer"),
    (content("reasonStarted"), 2, 5, "first"),
    (content("text", text="words"), 2, None, None),
    (content("toolCallPrepare", **MCP), 2, None, None),
    (content("toolCallRun", manualApproval=True, **MCP), 2, None, None),
    (notification("chat/toolCallApprove", chatId="c", toolCallId="2"), -4, 13, "approval"),
    (content("toolCallRunning", **MCP), -4, None, None),
    (content("toolCalled", **MCP), 4, 15, "tool"),
    (content("toolCallRunning", **NATIVE), -3, None, None),
    (content("toolCalled", **NATIVE), 3, 17, "tool"),
    (FINISHED, 1, 5, "turn"),
    (content("text", text="more"), 2, 6, "first"),
    (request(3, "chat/prompt", chatId="c", message="three"), -2, None, None),
    (notification("chat/promptStop", chatId="c"), -1, None, None),
    (FINISHED, 1, 22, "stop"),
    (request(4, "chat/prompt", message="in no chat yet"), -2, None, None),
    (answer(4, chatId="d"), 1, 24, "answer"),
    (content("text", chat="d", text="words"), 2, 24, "first"),
    (passed("server", {"id": 1, "method": "editor/getDiagnostics"}), 3, None, None),
    (passed("client", {"id": 1, "result": {}}), -3, 27, "answer"),
    (request(5, "completion/inline"), -2, None, None),
    (answer(5), 2, 29, "answer"),
    (answer(5), 1, None, None),
    (EndEntry(at=1, side="client"), 1, None, None),
    (ExitEntry(at=2, code=0), 1, None, None),
]


def test_each_message_has_its_lane_and_its_latency():
    rows = rows_of(*(entry for entry, *_ in CONVERSATION))
    actual = [(row.packed()[6], row.earlier, row.latency) for row in rows]
    expectations = [tuple(expected) for _, *expected in CONVERSATION]
    for number, (got, expected) in enumerate(zip(actual, expectations, strict=True)):
        assert got == expected, (number, rows[number])


REFUSED: list[tuple[Entry, int | None, str | None]] = [
    (request(1, "chat/prompt", chatId="c", message=5), None, None),
    (notification("chat/promptStop", chatId="c"), None, None),
    (passed("server", {"id": 1, "error": {"code": -32602, "message": "no"}}), 0, "answer"),
    (request(2, "chat/prompt", message=5), None, None),
    (passed("server", {"id": 2, "error": {"code": -32602, "message": "no"}}), 3, "answer"),
    (notification("chat/promptStop", chatId="c"), None, None),
    (request(3, "chat/prompt", chatId="c", message="one"), None, None),
    (answer(3, chatId="c"), 6, "answer"),
    (content("text", text="words"), 6, "first"),
    (FINISHED, 6, "turn"),
]
DELETED: list[tuple[Entry, int | None, str | None]] = [
    (request(1, "chat/prompt", chatId="c", message="one"), None, None),
    (request(2, "chat/prompt", chatId="c", message="two"), None, None),
    (content("text", text="words"), 0, "first"),
    (content("toolCallRun", manualApproval=True, **NATIVE), None, None),
    (request(3, "chat/delete", chatId="c"), None, None),
    (request(4, "chat/prompt", chatId="c", message="in the new chat"), None, None),
    (FINISHED, 0, "turn"),
    (answer(3), 4, "answer"),
    (notification("chat/toolCallApprove", chatId="c", toolCallId="1"), None, None),
    (content("text", text="more"), 5, "first"),
    (FINISHED, 5, "turn"),
]


@pytest.mark.parametrize("conversation", [REFUSED, DELETED])
def test_no_latency_is_measured_from_a_refused_prompt_or_one_of_a_deleted_chat(conversation):
    rows = rows_of(*(entry for entry, *_ in conversation))
    actual = [(row.earlier, row.latency) for row in rows]
    assert actual == [tuple(expected) for _, *expected in conversation]


def test_a_row_summarizes_its_message():
    prompt, error, called, exited = rows_of(
        request("7", "chat/prompt", chatId="c", message="Hello"),
        passed("server", {"id": "7", "error": {"code": -32603, "message": "no"}}),
        content("toolCallRun", **NATIVE),
        ExitEntry(at=1, code=-9),
    )
    assert (prompt.kind, prompt.label) == ("request", "chat/prompt")
    assert (prompt.id, prompt.chat) == ('"7"', "c")
    assert prompt.summary == "Hello"
    assert (error.kind, error.label, error.summary) == ("error", "chat/prompt", "no")
    assert called.label == "chat/contentReceived: toolCallRun"
    assert called.summary == "grep"
    assert exited.summary == "The server ended by signal 9."


def test_bytes_are_shown_unchanged():
    body = b'{"method":"exit"}'
    odd = b"content-length: 17\r\n\r\n" + body
    giant = DataEntry(at=0, side="server", data=b"x" * (rows_module.LONGEST + 5))
    plain, header, junk, cut = rows_of(
        DataEntry(at=0, side="client", data=encode_frame(body), body=body),
        DataEntry(at=0, side="client", data=odd, body=body),
        DataEntry(at=0, side="server", data=b"print\xff\n"),
        giant,
    )
    assert (len(cut.text), cut.omitted) == (rows_module.LONGEST, 5)
    assert (plain.text, plain.raw) == (body.decode(), None)
    assert (header.text, header.raw) == (body.decode(), odd.decode())
    assert (junk.kind, junk.text, junk.summary) == ("bytes", "print\\xff\n", "print\\xff\n")

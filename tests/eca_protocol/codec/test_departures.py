"""The list of departures from the text, with their places and rulings."""

from __future__ import annotations

from typing import Any, Literal

import pytest

from eca_protocol.codec import Codec, Departure, explain
from eca_protocol.errors import LocalProtocolError
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision

CALLED = {
    "type": "toolCalled",
    "origin": "mcp",
    "id": "1",
    "name": "n",
    "server": "s",
    "arguments": {},
    "error": False,
    "outputs": [],
    "totalTimeMs": 1,
}


def content(**raw: Any) -> dict[str, Any]:
    return {"chatId": "c", "role": "assistant", "content": raw}


Row = tuple[str, Literal["params", "result"], Any, str, str, str | None]

ALLOWED: list[Row] = [
    ("chat/delete", "params", None, "params", "null", "W-3"),
    ("chat/delete", "params", [], "params", "null", "W-3"),
    ("chat/delete", "result", None, "result", "null", "W-60"),
    ("shutdown", "result", {"x": 1}, "result", "wrong type", "W-60"),
    ("exit", "params", {"x": 1}, "params", "wrong type", "W-3"),
    ("chat/delete", "params", {"chatId": None}, "params.chatId", "null", "W-3"),
    ("chat/delete", "params", {"chat": 1}, "params.chat", "unknown key", "W-3"),
    ("chat/delete", "params", {"request-id": 1}, 'params["request-id"]', "unknown key", "W-3"),
    (
        "initialize",
        "params",
        {"processId": 1, "capabilities": {"codeAssistant": {"chat": {}}}, "workspaceFolders": []},
        "params.capabilities.codeAssistant.chat",
        "wrong type",
        "W-3",
    ),
    ("chat/delete", "result", {"x": 1}, "result.x", "unknown key", None),
    ("chat/queryCommands", "params", {}, "params.query", "missing", "W-3"),
    (
        "chat/queryCommands",
        "result",
        {"commands": [], "chatId": None},
        "result.chatId",
        "null",
        "W-60",
    ),
    (
        "initialize",
        "result",
        {"chatWelcomeMessage": ""},
        "result.chatWelcomeMessage",
        "other revision",
        "W-10",
    ),
    ("initialize", "result", {"models": []}, "result.models", "other revision", "W-60"),
    (
        "chat/prompt",
        "params",
        {"message": "", "agent": "a"},
        "params.agent",
        "other revision",
        "W-28",
    ),
    (
        "chat/prompt",
        "params",
        {"message": "", "behavior": "mine"},
        "params.behavior",
        "unknown value",
        "W-28",
    ),
    (
        "chat/prompt",
        "params",
        {"message": "", "contexts": [{"type": "sound"}]},
        "params.contexts[0].type",
        "unknown type",
        None,
    ),
    (
        "chat/prompt",
        "result",
        {"chatId": "c", "model": "m", "status": "error"},
        "result.status",
        "other revision",
        None,
    ),
    (
        "chat/contentReceived",
        "params",
        content(**CALLED | {"arguments": ["a"]}),
        "params.content.arguments",
        "wrong type",
        "W-32",
    ),
    (
        "chat/contentReceived",
        "params",
        content(**CALLED | {"outputs": [None]}),
        "params.content.outputs[0]",
        "null",
        "W-60",
    ),
    (
        "chat/contentReceived",
        "params",
        content(**CALLED | {"origin": "server"}),
        "params.content.origin",
        "other revision",
        "W-60",
    ),
    (
        "chat/contentReceived",
        "params",
        content(**CALLED | {"server": None}),
        "params.content.server",
        "null",
        "W-60",
    ),
    (
        "chat/contentReceived",
        "params",
        content(type="text", text="a", contentId="1"),
        "params.content.contentId",
        "other revision",
        "W-20",
    ),
    (
        "tool/serverUpdated",
        "params",
        {"type": "mcp", "name": "m", "command": "c", "args": [], "status": "stopping"},
        "params.status",
        "unknown value",
        "W-60",
    ),
    (
        "$/progress",
        "params",
        {"type": "start", "taskId": "t", "title": "T"},
        "params",
        "other revision",
        "W-11",
    ),
    ("chat/selectedAgentChanged", "params", {"agent": "a"}, "params", "other revision", None),
]


@pytest.mark.requirement("W-60d", "W-3e")
@pytest.mark.parametrize(("method", "part", "raw", "path", "kind", "ruling"), ALLOWED)
def test_what_is_read_all_the_same_is_listed_once(method, part, raw, path, kind, ruling):
    (departure,) = explain(method, raw, Revision.R2025_10, part=part)
    assert (departure.path, departure.kind, departure.ruling) == (path, kind, ruling)
    assert not departure.refused


def test_a_key_that_some_spell_their_own_way_is_read_and_listed():
    place = {"line": 1, "character": 1}
    raw = {"doc-text": "x", "docVersion": 1, "position": place}
    [departure] = explain("completion/inline", raw, Revision.CURRENT)
    assert (departure.path, departure.ruling, departure.refused) == ("params.docText", "W-3", False)
    [missing] = explain("completion/inline", {**raw, "doc-text": 1}, Revision.CURRENT)[1:]
    assert missing.refused
    raw = {"chatId": "c", "contentId": "1", "includes": ["messages"]}
    [departure] = explain("chat/rollback", raw, Revision.CURRENT)
    assert (departure.path, departure.ruling, departure.refused) == ("params.include", "W-3", False)
    read = Codec(ECA, Revision.CURRENT).decode_params("chat/rollback", raw)
    assert read.include == ("messages",)


def test_all_departures_of_a_message_are_listed():
    raw = {
        "chatId": 7,
        "contexts": [{"type": "file", "linesRange": {"start": 1}}],
        "extra": [0] * 100,
    }
    assert [str(departure) for departure in explain("chat/prompt", raw, Revision.R2025_10)] == [
        "params.chatId: wrong type: expected a string, got 7",
        "params.message: missing: expected a string, got nothing",
        "params.contexts[0].path: missing: expected a string, got nothing (allowed by W-3)",
        (
            "params.contexts[0].linesRange.end: missing: expected an integer, got nothing"
            " (allowed by W-3)"
        ),
        "params.extra: unknown key: expected no such key, got an array of 100 (allowed by W-3)",
    ]


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (content(type="metadata", title="t"), "params.content.type"),
        (content(**CALLED), "params.content.server"),
    ],
)
def test_what_came_with_october_is_foreign_to_september(raw, path):
    assert explain("chat/contentReceived", raw, Revision.R2025_10) == ()
    (departure,) = explain("chat/contentReceived", raw, Revision.R2025_09)
    assert departure.kind == "other revision"
    assert departure.path == path


def test_a_server_is_no_departure_where_the_revision_has_none():
    raw = content(**{key: value for key, value in CALLED.items() if key != "server"})
    assert explain("chat/contentReceived", raw, Revision.R2025_09) == ()
    (departure,) = explain("chat/contentReceived", raw, Revision.R2025_10)
    assert departure == Departure(
        path="params.content.server",
        kind="missing",
        expected="a string",
        got="nothing",
        ruling="W-60",
    )


def test_null_is_specified_for_a_process_without_a_parent():
    raw = {"processId": None, "capabilities": {}, "workspaceFolders": []}
    assert explain("initialize", raw, Revision.R2025_10) == ()


def test_a_method_that_is_not_in_the_table_cannot_be_explained():
    with pytest.raises(LocalProtocolError, match="no method chat/unheard"):
        explain("chat/unheard", {}, Revision.CURRENT)

"""The list of departures from the text, with their places and rulings."""

from typing import Any, Literal

import pytest

from eca_protocol.codec import Codec, explain
from eca_protocol.errors import LocalProtocolError
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision

NAMES = {"origin": "mcp", "id": "1", "name": "n", "server": "s", "arguments": {}}
CALLED = {"type": "toolCalled", **NAMES, "error": False, "outputs": [], "totalTimeMs": 1}


def content(**raw: Any) -> dict[str, Any]:
    return {"chatId": "c", "role": "assistant", "content": raw}


def called(**members: Any) -> dict[str, Any]:
    return content(**CALLED | members)


CHAT = {"processId": 1, "capabilities": {"codeAssistant": {"chat": {}}}, "workspaceFolders": []}
START = {"type": "start", "taskId": "t", "title": "T"}
STOPPING = {"type": "mcp", "name": "m", "command": "c", "args": [], "status": "stopping"}
SOUND = {"message": "", "contexts": [{"type": "sound"}]}
OTHER = "other revision"
CONTENT = "chat/contentReceived"
IN = "params.content"

ALLOWED: list[tuple[str, Any, str, str, str | None]] = [
    ("chat/delete", None, "params", "null", "W-3"),
    ("chat/delete", [], "params", "null", "W-3"),
    ("chat/delete", None, "result", "null", "W-60"),
    ("shutdown", {"x": 1}, "result", "wrong type", "W-60"),
    ("exit", {"x": 1}, "params", "wrong type", "W-3"),
    ("chat/delete", {"chatId": None}, "params.chatId", "null", "W-3"),
    ("chat/delete", {"chat": 1}, "params.chat", "unknown key", "W-3"),
    ("chat/delete", {"request-id": 1}, 'params["request-id"]', "unknown key", "W-3"),
    ("initialize", CHAT, "params.capabilities.codeAssistant.chat", "wrong type", "W-3"),
    ("chat/delete", {"x": 1}, "result.x", "unknown key", None),
    ("chat/queryCommands", {}, "params.query", "missing", "W-3"),
    ("chat/queryCommands", {"commands": [], "chatId": None}, "result.chatId", "null", "W-60"),
    ("initialize", {"chatWelcomeMessage": ""}, "result.chatWelcomeMessage", OTHER, "W-10"),
    ("initialize", {"models": []}, "result.models", OTHER, "W-60"),
    ("chat/prompt", {"message": "", "agent": "a"}, "params.agent", OTHER, "W-28"),
    ("chat/prompt", {"message": "", "behavior": "x"}, "params.behavior", "unknown value", "W-28"),
    ("chat/prompt", SOUND, "params.contexts[0].type", "unknown type", None),
    ("chat/prompt", {"chatId": "c", "model": "m", "status": "error"}, "result.status", OTHER, None),
    (CONTENT, called(arguments=["a"]), f"{IN}.arguments", "wrong type", "W-32"),
    (CONTENT, called(outputs=[None]), f"{IN}.outputs[0]", "null", "W-60"),
    (CONTENT, called(origin="server"), f"{IN}.origin", OTHER, "W-60"),
    (CONTENT, called(server=None), f"{IN}.server", "null", "W-60"),
    (CONTENT, content(type="text", text="a", contentId="1"), f"{IN}.contentId", OTHER, "W-20"),
    ("tool/serverUpdated", STOPPING, "params.status", "unknown value", "W-60"),
    ("$/progress", START, "params", OTHER, "W-11"),
    ("chat/selectedAgentChanged", {"agent": "a"}, "params", OTHER, None),
]


@pytest.mark.requirement("W-60d", "W-3e")
@pytest.mark.parametrize(("method", "raw", "path", "kind", "ruling"), ALLOWED)
def test_what_is_read_all_the_same_is_listed_once(method, raw, path, kind, ruling):
    part: Literal["params", "result"] = "result" if path.startswith("result") else "params"
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
    contexts = [{"type": "file", "linesRange": {"start": 1}}]
    raw = {"chatId": 7, "contexts": contexts, "extra": [0] * 100}
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
        (called(), "params.content.server"),
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
    assert str(departure) == (
        "params.content.server: missing: expected a string, got nothing (allowed by W-60)"
    )


def test_a_method_that_is_not_in_the_table_cannot_be_explained():
    with pytest.raises(LocalProtocolError, match="no method chat/unheard"):
        explain("chat/unheard", {}, Revision.CURRENT)

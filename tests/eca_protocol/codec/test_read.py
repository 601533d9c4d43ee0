"""The departures from the text that are read, and the messages of those that are refused."""

import re
from typing import Any

import pytest

from eca_protocol import messages as m
from eca_protocol.codec import Codec, explain
from eca_protocol.errors import INVALID_PARAMS, DecodeError, LocalProtocolError, RequestFailed
from eca_protocol.messages import UnknownContext, UnknownValue
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision

CODEC = Codec(ECA, Revision.R2025_10)


def read_content(content: Any) -> Any:
    raw = {"chatId": "c", "role": "assistant", "content": content}
    return CODEC.decode_params("chat/contentReceived", raw).content


@pytest.mark.requirement("W-3a")
@pytest.mark.parametrize("nothing", [None, {}, []])
def test_nothing_null_and_empty_ones_are_the_same(nothing):
    assert CODEC.decode_params("initialize", nothing) == m.InitializeParams()
    assert CODEC.decode_params("chat/queryContext", nothing) == m.ChatQueryContextParams()
    assert CODEC.decode_params("shutdown", nothing) is None
    assert CODEC.encode_result("chat/delete", CODEC.decode_result("chat/delete", nothing)) == {}
    assert CODEC.decode_result("shutdown", {"old": "servers"}) is None


@pytest.mark.requirement("W-3b", "W-3c")
@pytest.mark.parametrize(
    ("key", "attribute", "value"),
    [
        ("processId", "process_id", None),
        ("clientInfo", "client_info", None),
        ("initializationOptions", "initialization_options", None),
        ("capabilities", "capabilities", m.ClientCapabilities()),
        ("workspaceFolders", "workspace_folders", ()),
    ],
)
def test_what_initialize_does_not_say_has_a_value(key, attribute, value):
    raw: dict[str, Any] = {
        "processId": 1,
        "clientInfo": {"name": "vi"},
        "initializationOptions": {"chatBehavior": "plan"},
        "capabilities": {"codeAssistant": {"chat": True}},
        "workspaceFolders": [{"uri": "file:///a", "name": "a"}],
    }
    assert getattr(CODEC.decode_params("initialize", raw), attribute) != value
    assert getattr(CODEC.decode_params("initialize", raw | {key: None}), attribute) == value
    del raw[key]
    assert getattr(CODEC.decode_params("initialize", raw), attribute) == value


@pytest.mark.parametrize(
    "more",
    [
        {"chatId": None, "model": None, "behavior": None, "agent": None, "contexts": None},
        {"request-id": 7, "doc-text": None, "": [], "type": "x"},
    ],
)
def test_nulls_and_unknown_keys_are_passed_over(more):
    params = CODEC.decode_params("chat/prompt", {"message": "hi"} | more)
    assert params == m.ChatPromptParams(message="hi")


@pytest.mark.requirement("W-28c")
@pytest.mark.parametrize("revision", [Revision.R2025_09, Revision.R2025_10, Revision.CURRENT])
def test_agents_are_read_in_every_revision(revision):
    codec = Codec(ECA, revision)
    assert codec.decode_params("chat/prompt", {"message": "", "agent": "code"}).agent == "code"
    options = codec.decode_params("initialize", {"initializationOptions": {"chatAgent": "code"}})
    assert options.initialization_options.chat_agent == "code"
    assert codec.decode_params("chat/selectedAgentChanged", {"agent": "code"}).agent == "code"
    assert codec.decode_params("chat/selectedBehaviorChanged", {}).behavior == ""


def test_initialization_options_keep_every_key_that_no_field_claims():
    raw = {"chatBehavior": "plan", "providers": {"my_Key-1": {"a_b": None}}, "extras": 1}
    params = CODEC.decode_params("initialize", {"initializationOptions": raw})
    assert params.initialization_options == m.InitializationOptions(
        chat_behavior="plan", extras={"providers": {"my_Key-1": {"a_b": None}}, "extras": 1}
    )


def test_user_data_passes_untouched():
    arguments = {"snake_case": {"kebab-case": [None, 1.5, {"camelCase": 2**70}]}}
    raw = {"type": "toolCallRun", "origin": "mcp", "id": "1", "name": "n", "server": "s"}
    content = read_content(raw | {"arguments": arguments, "manualApproval": True})
    assert content.arguments is arguments


RUN = {"type": "toolCallRun", "id": "1"}
NAMELESS = {"name": None, "server": None, "origin": None}
TASK = m.UnknownToolCallDetails(type=None, raw={"x": 1})
OUTPUTS = [None, {"type": "text", "text": "a"}, None]


@pytest.mark.requirement("W-32a", "W-60a", "W-60b")
@pytest.mark.parametrize(
    ("raw", "content"),
    [
        (RUN, m.ChatToolCallRunContent(id="1")),
        (RUN | {"arguments": None}, m.ChatToolCallRunContent(id="1")),
        (RUN | {"arguments": []}, m.ChatToolCallRunContent(id="1")),
        (RUN | {"arguments": ["a", "b"]}, m.ChatToolCallRunContent(id="1")),
        (RUN | NAMELESS, m.ChatToolCallRunContent(id="1", origin=UnknownValue("unknown"))),
        (
            {"type": "toolCalled", "server": "eca", "name": "task", "details": {"x": 1}},
            m.ChatToolCalledContent(name="task", server="eca", details=TASK),
        ),
        (
            {"type": "toolCalled", "outputs": OUTPUTS, "error": None, "totalTimeMs": 5},
            m.ChatToolCalledContent(outputs=(m.ToolCallTextOutput(text="a"),), total_time_ms=5),
        ),
        (
            {"type": "usage", "sessionTokens": 1, "limit": {"context": None}},
            m.ChatUsageContent(session_tokens=1, limit=m.UsageLimit(context=None)),
        ),
        ({"type": "progress", "state": "finished"}, m.ChatProgressContent(state="finished")),
    ],
)
def test_a_content_of_upstream_may_be_incomplete(raw, content):
    assert read_content(raw) == content


@pytest.mark.requirement("W-60b")
def test_what_upstream_leaves_out_may_be_missing():
    raw = {"role": "system", "content": {"type": "text", "text": "a"}}
    params = CODEC.decode_params("chat/contentReceived", raw)
    text = m.ChatTextContent(text="a")
    assert params == m.ChatContentReceivedParams(chat_id="", role="system", content=text)
    response = CODEC.decode_result("chat/prompt", {"chatId": "c", "status": "login"})
    assert response == m.ChatPromptResponse(chat_id="c", model="", status="login")
    command = {"name": "n", "type": "custom-prompt", "arguments": [{"name": "a"}]}
    (read,) = CODEC.decode_result("chat/queryCommands", {"commands": [command]}).commands
    argument = m.CommandArgument(name="a", required=False)
    kind = UnknownValue("custom-prompt")
    assert read == m.ChatCommand(name="n", type=kind, arguments=(argument,))
    raw = {"type": "mcp", "name": "m", "command": None, "args": None, "url": "https://a.example"}
    server = CODEC.decode_params("tool/serverUpdated", raw | {"status": "stopping"})
    assert (server.command, server.args, server.url) == ("", (), "https://a.example")
    assert isinstance(server.status, UnknownValue)


KNOWN_REASONS = """
    user-choice user-config user userChoiceDeny userConfigDeny hookRejected userPromptStop userStop
"""


@pytest.mark.requirement("W-32c")
@pytest.mark.parametrize("reason", [*KNOWN_REASONS.split(), "user-prompt-stop"])
def test_every_spelling_of_a_reason_is_read(reason):
    content = read_content({"type": "toolCallRejected", "id": "1", "reason": reason})
    assert content.reason == reason
    assert isinstance(content.reason, UnknownValue) == (reason not in KNOWN_REASONS.split())


def test_the_names_of_old_servers_are_read_and_not_written():
    raw = {
        "models": ["a/b"],
        "chatBehaviors": ["agent", "plan"],
        "chatDefaultModel": "a/b",
        "chatDefaultBehavior": "agent",
        "chatWelcomeMessage": "hi",
    }
    response = CODEC.decode_result("initialize", raw)
    assert (response.models, response.chat_behaviors) == (("a/b",), ("agent", "plan"))
    assert (response.chat_default_model, response.chat_default_behavior) == ("a/b", "agent")
    assert CODEC.encode_result("initialize", response) == {"chatWelcomeMessage": "hi"}
    old = {"defaultModel": "a/b", "defaultBehavior": "agent"}
    chat = CODEC.decode_params("config/updated", {"chat": old}).chat
    assert (chat.default_model, chat.default_behavior) == ("a/b", "agent")


def test_diagnostics_beyond_the_text_are_read():
    raw = {"uri": "file:///a", "range": PLACE, "message": "m"}
    diagnostics = [
        raw | {"severity": "information", "source": None, "code": 7},
        raw | {"severity": "unknown", "source": "s", "code": None},
        raw | {"severity": "hint", "code": "c"},
    ]
    result = CODEC.decode_result("editor/getDiagnostics", {"diagnostics": diagnostics})
    read = [(each.severity, each.source, each.code) for each in result.diagnostics]
    assert read == [("information", "", 7), ("unknown", "s", None), ("hint", "", "c")]


@pytest.mark.requirement("W-60c")
@pytest.mark.parametrize(
    "raw", [{"type": "sound", "base64": "="}, {"type": None, "a": 1}, {"a": 1}, {"type": ""}]
)
def test_an_unknown_type_is_preserved_whole(raw):
    assert read_content(raw) == m.UnknownContent(type=raw.get("type"), raw=raw)
    prompt = CODEC.decode_params("chat/prompt", {"message": "", "contexts": [raw]})
    assert prompt.contexts == (UnknownContext(type=raw.get("type"), raw=raw),)
    assert CODEC.encode_params("chat/prompt", prompt)["contexts"] == [raw]


LONG = "x" * 1000
FILE = {"type": "file", "path": "p"}
PLACE = {"start": {"line": 1, "character": 1}, "end": {"line": 1, "character": 1}}


@pytest.mark.requirement("W-3f")
@pytest.mark.parametrize(
    "raw",
    [
        {"type": "cursor"},
        {"type": "cursor", "path": None, "position": None},
        {"type": "cursor", "path": "p", "position": {"start": {"line": 1}, "end": None}},
        {"type": "file"},
        FILE | {"linesRange": {"start": 1}},
        {"type": "mcpResource", "uri": "u", "name": 7},
    ],
)
@pytest.mark.parametrize("method", ["chat/prompt", "chat/queryContext"])
def test_a_context_without_what_it_needs_is_preserved_whole(method, raw):
    params = CODEC.decode_params(method, {"message": "", "contexts": [FILE, raw]})
    assert params.contexts == (m.FileContext(path="p"), UnknownContext(type=raw["type"], raw=raw))
    for departure in explain(method, {"message": "", "contexts": [raw]}, Revision.R2025_10):
        assert not departure.refused
        assert departure.kind != "missing" or departure.ruling == "W-3"


def test_a_server_lists_no_contexts_without_what_they_need():
    with pytest.raises(DecodeError, match="path"):
        CODEC.decode_result("chat/queryContext", {"contexts": [{"type": "file"}]})


def test_an_integer_may_be_written_with_a_fraction_of_zero():
    raw = FILE | {"linesRange": {"start": 5.0, "end": 7}}
    (context,) = CODEC.decode_params("chat/prompt", {"message": "", "contexts": [raw]}).contexts
    assert context == m.FileContext(path="p", lines_range=m.LinesRange(start=5, end=7))
    assert type(context.lines_range.start) is int


def lines(start: Any) -> dict[str, Any]:
    return FILE | {"linesRange": {"start": start, "end": 9}}


@pytest.mark.requirement("W-3d")
@pytest.mark.parametrize(
    ("method", "raw", "words"),
    [
        ("chat/prompt", {}, "params.message: expected a string, got nothing"),
        ("chat/prompt", {"message": None}, "params.message: expected a string, got null"),
        ("chat/prompt", {"message": 5}, "params.message: expected a string, got 5"),
        ("chat/prompt", "hi", 'params: expected an object, got "hi"'),
        ("chat/prompt", 0, "params: expected an object, got 0"),
        ("chat/prompt", False, "params: expected an object, got false"),
        ("chat/prompt", ["hi"], "params: expected an object, got an array of 1"),
        ("initialize", {"processId": "1"}, 'params.processId: expected an integer, got "1"'),
        ("chat/promptStop", {}, "params.chatId: expected a string, got nothing"),
        ("chat/promptStop", {"chatId": None}, "params.chatId: expected a string, got null"),
        ("chat/toolCallApprove", {"chatId": "c"}, "params.toolCallId: expected a string, got not"),
    ],
)
def test_params_are_refused_with_a_reason(method, raw, words):
    with pytest.raises(DecodeError) as raised:
        CODEC.decode_params(method, raw)
    assert str(raised.value).startswith(words)
    assert raised.value.code == INVALID_PARAMS
    assert not raised.value.fatal


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("contexts", {"0": FILE}, ": expected an array, got an object with 1 keys"),
        ("contexts", [FILE, lines("7")], '[1].linesRange.start: expected an integer, got "7"'),
        ("contexts", [lines(1.5)], "[0].linesRange.start: expected an integer, got 1.5"),
        ("contexts", [lines(True)], "[0].linesRange.start: expected an integer, got true"),
        ("contexts", [FILE | {"path": 7}], "[0].path: expected a string, got 7"),
        ("contexts", [{"type": ["file"]}], "[0].type: expected a string, got an array of 1"),
        ("contexts", [{"type": 1}], "[0].type: expected a string, got 1"),
        ("contexts", [None], "[0]: expected an object, got null"),
        ("contexts", LONG, f': expected an array, got "{LONG[:60]}"... (1000 characters)'),
        ("behavior", 1, ": expected a string, got 1"),
        ("model", 10**100, ": expected a string, got a very long integer"),
    ],
)
def test_a_member_is_refused_with_its_place(key, value, words):
    raw = {"message": "", key: value}
    with pytest.raises(DecodeError) as raised:
        CODEC.decode_params("chat/prompt", raw)
    assert str(raised.value) == f"params.{key}{words}"
    departures = explain("chat/prompt", raw, Revision.R2025_10)
    (refused,) = [each for each in departures if each.refused]
    assert f"{refused.path}: expected {refused.expected}, got {refused.got}" == str(raised.value)


@pytest.mark.parametrize(("value", "shown"), [("yes", '"yes"'), (1, "1")])
def test_a_capability_is_true_or_false(value, shown):
    with pytest.raises(DecodeError, match=f"chat: expected true or false, got {shown}"):
        CODEC.decode_params("initialize", {"capabilities": {"codeAssistant": {"chat": value}}})


HINT = {"uri": "u", "severity": "hint", "message": "m"}
NO_LINE = {"range": {"start": {}}}


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (None, ".diagnostics: expected an array, got nothing"),
        (["junk"], ": expected an object, got an array of 1"),
        (
            {"diagnostics": [HINT | NO_LINE]},
            ".diagnostics[0].range.start.line: expected an integer, got nothing",
        ),
        (
            {"diagnostics": [HINT | {"range": PLACE, "code": 1.5}]},
            ".diagnostics[0].code: expected a string or an integer, got 1.5",
        ),
    ],
)
def test_results_are_refused_with_a_reason(raw, words):
    with pytest.raises(DecodeError) as raised:
        CODEC.decode_result("editor/getDiagnostics", raw)
    assert str(raised.value) == f"result{words}"


def test_what_no_json_parser_gives_is_refused_too():
    class Number(int):
        pass

    with pytest.raises(DecodeError, match="params: expected JSON values"):
        CODEC.decode_params("initialize", {"processId": Number(5)})
    with pytest.raises(DecodeError, match="expected an integer, got a bytes"):
        CODEC.decode_params("initialize", {"processId": b"5"})


def test_a_method_that_is_not_in_the_table_is_our_own_error():
    for decode in (CODEC.decode_params, CODEC.decode_result):
        with pytest.raises(LocalProtocolError, match="no method chat/unheard"):
            decode("chat/unheard", {})


NOT_FOUND = {"code": "chat_not_found"}


@pytest.mark.requirement("W-60e")
@pytest.mark.parametrize(
    ("method", "result", "code", "data"),
    [
        ("chat/history", {"error": {**NOT_FOUND, "message": "gone"}}, -32603, NOT_FOUND),
        ("mcp/addServer", {"error": {"code": -5, "message": "gone", "data": 1}}, -5, 1),
        ("completion/inline", {"type": "warning", "message": "gone"}, -32603, None),
    ],
)
def test_an_error_that_is_in_a_result_is_an_error(method, result, code, data):
    with pytest.raises(RequestFailed, match="gone") as raised:
        CODEC.decode_result(method, result)
    assert (raised.value.code, raised.value.data, raised.value.method) == (code, data, method)


def test_a_result_whose_type_is_no_text_is_no_error():
    with pytest.raises(DecodeError, match="items: expected an array"):
        CODEC.decode_result("completion/inline", {"type": {}, "message": "gone"})


IMAGE = {"message": "", "contexts": [{"type": "image", "base64": 1}]}


@pytest.mark.parametrize(
    ("method", "raw", "words"),
    [
        ("chat/prompt", IMAGE, "contexts[0].base64: expected a string, got 1 (not in revision 2"),
        ("chat/list", {"limit": "x"}, 'got "x" (not in revision 2025-10'),
        ("chat/prompt", {"message": "", "trust": 1}, "got 1 (not in revision 2025-10"),
        ("chat/prompt", {"message": 1}, "expected a string, got 1"),
    ],
)
def test_what_is_newer_and_cannot_be_read_is_refused_naming_the_revision(method, raw, words):
    with pytest.raises(DecodeError, match=re.escape(words)) as refused:
        CODEC.decode_params(method, raw)
    assert ("2025-10" in str(refused.value)) is ("revision" in words)
    with pytest.raises(DecodeError) as known:
        Codec(ECA, Revision.CURRENT).decode_params(method, raw)
    assert known.value.revision is None
    assert known.value.path == refused.value.path

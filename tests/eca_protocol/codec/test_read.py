"""The departures from the text that are read, and the messages of those that are refused."""

from __future__ import annotations

import re
from typing import Any

import pytest

from eca_protocol.codec import Codec, explain
from eca_protocol.errors import INVALID_PARAMS, DecodeError, LocalProtocolError, RequestFailed
from eca_protocol.messages import (
    ChatCommand,
    ChatContentReceivedParams,
    ChatProgressContent,
    ChatPromptParams,
    ChatPromptResponse,
    ChatQueryContextParams,
    ChatTextContent,
    ChatToolCalledContent,
    ChatToolCallRejectedContent,
    ChatToolCallRunContent,
    ChatUsageContent,
    ClientCapabilities,
    ClientInfo,
    CommandArgument,
    FileContext,
    InitializationOptions,
    InitializeParams,
    LinesRange,
    MCPServerUpdatedParams,
    ToolCallTextOutput,
    UnknownContent,
    UnknownContext,
    UnknownToolCallDetails,
    UnknownValue,
    UsageLimit,
)
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision

CODEC = Codec(ECA, Revision.R2025_10)


def read_content(content: Any) -> Any:
    raw = {"chatId": "c", "role": "assistant", "content": content}
    return CODEC.decode_params("chat/contentReceived", raw).content


@pytest.mark.requirement("W-3a")
@pytest.mark.parametrize("raw", [None, {}, []])
def test_no_params_null_and_empty_ones_are_the_same(raw):
    assert CODEC.decode_params("initialize", raw) == InitializeParams()
    assert CODEC.decode_params("chat/queryContext", raw) == ChatQueryContextParams()
    assert CODEC.decode_params("shutdown", raw) is None


@pytest.mark.requirement("W-3b", "W-3c")
@pytest.mark.parametrize("nothing", ["absent", "null"])
@pytest.mark.parametrize(
    ("key", "attribute", "value"),
    [
        ("processId", "process_id", None),
        ("clientInfo", "client_info", None),
        ("initializationOptions", "initialization_options", None),
        ("capabilities", "capabilities", ClientCapabilities()),
        ("workspaceFolders", "workspace_folders", ()),
    ],
)
def test_what_initialize_does_not_say_has_a_value(key, attribute, value, nothing):
    raw: dict[str, Any] = {
        "processId": 1,
        "clientInfo": {"name": "vi"},
        "initializationOptions": {"chatBehavior": "plan"},
        "capabilities": {"codeAssistant": {"chat": True}},
        "workspaceFolders": [{"uri": "file:///a", "name": "a"}],
    }
    if nothing == "absent":
        del raw[key]
    else:
        raw[key] = None
    assert getattr(CODEC.decode_params("initialize", raw), attribute) == value


def test_a_prompt_of_nulls_is_a_prompt():
    raw = {"message": "hi", "chatId": None, "model": None, "behavior": None, "agent": None}
    params = CODEC.decode_params("chat/prompt", raw | {"contexts": None})
    assert params == ChatPromptParams(message="hi")


@pytest.mark.requirement("W-28c")
@pytest.mark.parametrize("revision", [Revision.R2025_09, Revision.R2025_10, Revision.CURRENT])
def test_agents_are_read_in_every_revision(revision):
    codec = Codec(ECA, revision)
    assert codec.decode_params("chat/prompt", {"message": "", "agent": "code"}).agent == "code"
    options = codec.decode_params("initialize", {"initializationOptions": {"chatAgent": "code"}})
    assert options.initialization_options.chat_agent == "code"
    assert codec.decode_params("chat/selectedAgentChanged", {"agent": "code"}).agent == "code"


def test_unknown_keys_are_passed_over():
    raw = {"message": "hi", "request-id": 7, "doc-text": None, "": [], "type": "x"}
    assert CODEC.decode_params("chat/prompt", raw) == ChatPromptParams(message="hi")


def test_initialization_options_keep_every_key_that_no_field_claims():
    raw = {"chatBehavior": "plan", "providers": {"my_Key-1": {"a_b": None}}, "extras": 1}
    params = CODEC.decode_params("initialize", {"initializationOptions": raw})
    assert params.initialization_options == InitializationOptions(
        chat_behavior="plan", extras={"providers": {"my_Key-1": {"a_b": None}}, "extras": 1}
    )


def test_user_data_passes_untouched():
    arguments = {"snake_case": {"kebab-case": [None, 1.5, {"camelCase": 2**70}]}}
    raw = {"type": "toolCallRun", "origin": "mcp", "id": "1", "name": "n", "server": "s"}
    content = read_content(raw | {"arguments": arguments, "manualApproval": True})
    assert content.arguments is arguments


@pytest.mark.requirement("W-32a", "W-60a")
@pytest.mark.parametrize("arguments", [None, [], ["a", "b"], "absent"])
def test_arguments_that_are_no_object_are_read_as_none_given(arguments):
    raw: dict[str, Any] = {"type": "toolCallRun", "id": "1"}
    if arguments != "absent":
        raw["arguments"] = arguments
    assert read_content(raw).arguments == {}


def test_the_call_of_an_unknown_tool_has_no_names():
    raw = {"type": "toolCallRun", "id": "1", "name": None, "server": None, "origin": None}
    assert read_content(raw | {"arguments": {}, "manualApproval": False}) == (
        ChatToolCallRunContent(id="1", origin=UnknownValue("unknown"))
    )


def test_a_cleared_task_list_is_a_call_with_hardly_anything():
    raw = {"type": "toolCalled", "server": "eca", "name": "task", "details": {"x": 1}}
    assert read_content(raw) == ChatToolCalledContent(
        name="task", server="eca", details=UnknownToolCallDetails(type=None, raw={"x": 1})
    )


def test_nulls_among_outputs_are_passed_over():
    raw = {"type": "toolCalled", "outputs": [None, {"type": "text", "text": "a"}, None]}
    content = read_content(raw | {"error": None, "totalTimeMs": 5})
    assert content.outputs == (ToolCallTextOutput(text="a"),)
    assert content.error is False


def test_limits_may_be_unknown():
    content = read_content({"type": "usage", "sessionTokens": 1, "limit": {"context": None}})
    assert content == ChatUsageContent(session_tokens=1, limit=UsageLimit(context=None))


@pytest.mark.requirement("W-60b")
def test_what_upstream_leaves_out_may_be_missing():
    assert read_content({"type": "progress", "state": "finished"}) == ChatProgressContent(
        state="finished", text=""
    )
    assert CODEC.decode_params(
        "chat/contentReceived", {"role": "system", "content": {"type": "text", "text": "a"}}
    ) == ChatContentReceivedParams(chat_id="", role="system", content=ChatTextContent(text="a"))
    assert CODEC.decode_result(
        "chat/prompt", {"chatId": "c", "status": "login"}
    ) == ChatPromptResponse(chat_id="c", model="", status="login")
    commands = CODEC.decode_result(
        "chat/queryCommands",
        {"commands": [{"name": "n", "type": "custom-prompt", "arguments": [{"name": "a"}]}]},
    )
    assert commands.commands == (
        ChatCommand(
            name="n",
            type=UnknownValue("custom-prompt"),
            arguments=(CommandArgument(name="a", required=False),),
        ),
    )


def test_servers_reached_by_url_have_no_command():
    raw = {"type": "mcp", "name": "m", "command": None, "args": None, "url": "https://a.example"}
    assert CODEC.decode_params("tool/serverUpdated", raw | {"status": "stopping"}) == (
        MCPServerUpdatedParams(
            name="m", command="", args=(), url="https://a.example", status=UnknownValue("stopping")
        )
    )


@pytest.mark.requirement("W-32c")
@pytest.mark.parametrize(
    "reason",
    [
        "user-choice",
        "user-config",
        "user",
        "user-prompt-stop",
        "userChoiceDeny",
        "userConfigDeny",
        "hookRejected",
        "userPromptStop",
        "userStop",
    ],
)
def test_every_spelling_of_a_reason_is_read(reason):
    raw = {"type": "toolCallRejected", "id": "1", "reason": reason}
    content = read_content(raw)
    assert isinstance(content, ChatToolCallRejectedContent)
    assert content.reason == reason
    assert isinstance(content.reason, UnknownValue) == (reason == "user-prompt-stop")


def test_the_names_of_old_servers_are_read_and_not_written():
    raw = {
        "models": ["a/b"],
        "chatBehaviors": ["agent", "plan"],
        "chatDefaultModel": "a/b",
        "chatDefaultBehavior": "agent",
        "chatWelcomeMessage": "hi",
    }
    response = CODEC.decode_result("initialize", raw)
    assert response.models == ("a/b",)
    assert response.chat_behaviors == ("agent", "plan")
    assert response.chat_default_model == "a/b"
    assert response.chat_default_behavior == "agent"
    assert CODEC.encode_result("initialize", response) == {"chatWelcomeMessage": "hi"}
    chat = CODEC.decode_params(
        "config/updated", {"chat": {"defaultModel": "a/b", "defaultBehavior": "agent"}}
    ).chat
    assert (chat.default_model, chat.default_behavior) == ("a/b", "agent")
    assert CODEC.encode_params("config/updated", CODEC.decode_params("config/updated", {})) == {}


def test_diagnostics_beyond_the_text_are_read():
    place = {"line": 0, "character": 0}
    raw = {"uri": "file:///a", "range": {"start": place, "end": place}, "message": "m"}
    result = CODEC.decode_result(
        "editor/getDiagnostics",
        {
            "diagnostics": [
                raw | {"severity": "information", "source": None, "code": 7},
                raw | {"severity": "unknown", "source": "s", "code": None},
                raw | {"severity": "hint", "code": "c"},
            ]
        },
    )
    assert [(each.severity, each.source, each.code) for each in result.diagnostics] == [
        ("information", "", 7),
        ("unknown", "s", None),
        ("hint", "", "c"),
    ]


@pytest.mark.requirement("W-60c")
@pytest.mark.parametrize(
    "raw", [{"type": "sound", "base64": "="}, {"type": None, "a": 1}, {"a": 1}, {"type": ""}]
)
def test_an_unknown_type_is_preserved_whole(raw):
    assert read_content(raw) == UnknownContent(type=raw.get("type"), raw=raw)
    prompt = CODEC.decode_params("chat/prompt", {"message": "", "contexts": [raw]})
    assert prompt.contexts == (UnknownContext(type=raw.get("type"), raw=raw),)
    assert CODEC.encode_params("chat/prompt", prompt)["contexts"] == [raw]


@pytest.mark.requirement("W-3f")
@pytest.mark.parametrize(
    "raw",
    [
        {"type": "cursor"},
        {"type": "cursor", "path": None, "position": None},
        {"type": "cursor", "path": "p", "position": {"start": {"line": 1}, "end": None}},
        {"type": "file"},
        {"type": "file", "path": "p", "linesRange": {"start": 1}},
        {"type": "mcpResource", "uri": "u", "name": 7},
    ],
)
@pytest.mark.parametrize("method", ["chat/prompt", "chat/queryContext"])
def test_a_context_without_what_it_needs_is_preserved_whole(method, raw):
    params = CODEC.decode_params(method, {"message": "", "contexts": [FILE, raw]})
    assert params.contexts == (FileContext(path="p"), UnknownContext(type=raw["type"], raw=raw))
    for departure in explain(method, {"message": "", "contexts": [raw]}, Revision.R2025_10):
        assert not departure.refused
        assert departure.kind != "missing" or departure.ruling == "W-3"


def test_a_server_lists_no_contexts_without_what_they_need():
    with pytest.raises(DecodeError, match="path"):
        CODEC.decode_result("chat/queryContext", {"contexts": [{"type": "file"}]})


def test_a_result_of_nothing_is_an_empty_one():
    for nothing in (None, {}, []):
        assert CODEC.encode_result("chat/delete", CODEC.decode_result("chat/delete", nothing)) == {}
    assert CODEC.decode_result("shutdown", {"old": "servers"}) is None


def test_an_integer_may_be_written_with_a_fraction_of_zero():
    raw = {"type": "file", "path": "p", "linesRange": {"start": 5.0, "end": 7}}
    (context,) = CODEC.decode_params("chat/prompt", {"message": "", "contexts": [raw]}).contexts
    assert context == FileContext(path="p", lines_range=LinesRange(start=5, end=7))
    assert type(context.lines_range.start) is int


LONG = "x" * 1000
FILE = {"type": "file", "path": "p"}
PLACE = {"start": {"line": 1, "character": 1}, "end": {"line": 1, "character": 1}}


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
        (
            "chat/prompt",
            {"message": "", "contexts": {"0": FILE}},
            "params.contexts: expected an array, got an object with 1 keys",
        ),
        (
            "chat/prompt",
            {"message": "", "contexts": [FILE, FILE | {"linesRange": {"start": "7", "end": 9}}]},
            'params.contexts[1].linesRange.start: expected an integer, got "7"',
        ),
        (
            "chat/prompt",
            {"message": "", "contexts": [FILE | {"linesRange": {"start": 1.5, "end": 9}}]},
            "params.contexts[0].linesRange.start: expected an integer, got 1.5",
        ),
        (
            "chat/prompt",
            {"message": "", "contexts": [{"type": "cursor", "path": 7, "position": PLACE}]},
            "params.contexts[0].path: expected a string, got 7",
        ),
        (
            "chat/prompt",
            {"message": "", "contexts": [FILE | {"linesRange": {"start": True, "end": 9}}]},
            "params.contexts[0].linesRange.start: expected an integer, got true",
        ),
        (
            "chat/prompt",
            {"message": "", "contexts": [{"type": ["file"]}]},
            "params.contexts[0].type: expected a string, got an array of 1",
        ),
        (
            "chat/prompt",
            {"message": "", "contexts": [{"type": 1}]},
            "params.contexts[0].type: expected a string, got 1",
        ),
        (
            "chat/prompt",
            {"message": "", "contexts": [None]},
            "params.contexts[0]: expected an object, got null",
        ),
        (
            "chat/prompt",
            {"message": "", "behavior": 1},
            "params.behavior: expected a string, got 1",
        ),
        (
            "chat/prompt",
            {"message": "", "model": 10**100},
            "params.model: expected a string, got a very long integer",
        ),
        (
            "chat/prompt",
            {"message": "", "contexts": LONG},
            f'params.contexts: expected an array, got "{LONG[:60]}"... (1000 characters)',
        ),
        (
            "initialize",
            {"capabilities": {"codeAssistant": {"chat": "yes"}}},
            'params.capabilities.codeAssistant.chat: expected true or false, got "yes"',
        ),
        (
            "initialize",
            {"capabilities": {"codeAssistant": {"chat": 1}}},
            "params.capabilities.codeAssistant.chat: expected true or false, got 1",
        ),
        ("initialize", {"processId": "1"}, 'params.processId: expected an integer, got "1"'),
        ("chat/promptStop", {}, "params.chatId: expected a string, got nothing"),
        ("chat/promptStop", {"chatId": None}, "params.chatId: expected a string, got null"),
        (
            "chat/toolCallApprove",
            {"chatId": "c"},
            "params.toolCallId: expected a string, got nothing",
        ),
    ],
)
def test_params_are_refused_with_a_reason(method, raw, words):
    with pytest.raises(DecodeError) as raised:
        CODEC.decode_params(method, raw)
    assert str(raised.value) == words
    assert raised.value.code == INVALID_PARAMS
    assert not raised.value.fatal


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (None, "result.diagnostics: expected an array, got nothing"),
        (["junk"], "result: expected an object, got an array of 1"),
        (
            {"diagnostics": [{"uri": "u", "severity": "hint", "range": {"start": {}}}]},
            "result.diagnostics[0].range.start.line: expected an integer, got nothing",
        ),
        (
            {
                "diagnostics": [
                    {
                        "uri": "u",
                        "severity": "hint",
                        "range": {
                            "start": {"line": 1, "character": 1},
                            "end": {"line": 1, "character": 1},
                        },
                        "code": 1.5,
                        "message": "m",
                    }
                ]
            },
            "result.diagnostics[0].code: expected a string or an integer, got 1.5",
        ),
    ],
)
def test_results_are_refused_with_a_reason(raw, words):
    with pytest.raises(DecodeError) as raised:
        CODEC.decode_result("editor/getDiagnostics", raw)
    assert str(raised.value) == words


def test_what_no_json_parser_gives_is_refused_too():
    class Number(int):
        pass

    with pytest.raises(DecodeError, match="params: expected JSON values"):
        CODEC.decode_params("initialize", {"processId": Number(5)})
    with pytest.raises(DecodeError, match="expected an integer, got a bytes"):
        CODEC.decode_params("initialize", {"processId": b"5"})


def test_a_method_that_is_not_in_the_table_is_our_own_error():
    with pytest.raises(LocalProtocolError, match="no method chat/unheard"):
        CODEC.decode_params("chat/unheard", {})
    with pytest.raises(LocalProtocolError, match="no method chat/unheard"):
        CODEC.decode_result("chat/unheard", {})


def test_a_notification_comes_in_as_a_list_of_one():
    raw = {"processId": None, "clientInfo": {"name": "vi", "version": None}}
    ((method, params),) = CODEC.incoming("initialize", raw)
    assert method == "initialize"
    assert params.client_info == ClientInfo(name="vi")


@pytest.mark.requirement("W-60e")
@pytest.mark.parametrize(
    ("method", "result", "data"),
    [
        (
            "chat/history",
            {"error": {"code": "chat_not_found", "message": "gone"}},
            {"code": "chat_not_found"},
        ),
        ("mcp/addServer", {"error": {"code": -5, "message": "gone", "data": 1}}, 1),
        ("completion/inline", {"type": "warning", "message": "gone"}, None),
    ],
)
def test_an_error_that_is_in_a_result_is_an_error(method, result, data):
    with pytest.raises(RequestFailed, match="gone") as raised:
        CODEC.decode_result(method, result)
    assert raised.value.code == (-5 if data == 1 else -32603)
    assert raised.value.data == data
    assert raised.value.method == method


def test_a_result_whose_type_is_no_text_is_no_error():
    with pytest.raises(DecodeError, match="items: expected an array"):
        CODEC.decode_result("completion/inline", {"type": {}, "message": "gone"})


@pytest.mark.parametrize(
    ("method", "raw", "words"),
    [
        (
            "chat/prompt",
            {"message": "", "contexts": [{"type": "image", "base64": 1}]},
            "contexts[0].base64: expected a string, got 1 (not in revision 2025-10",
        ),
        ("chat/list", {"limit": "x"}, 'got "x" (not in revision 2025-10'),
        ("chat/prompt", {"message": "", "trust": 1}, "got 1 (not in revision 2025-10"),
        ("chat/prompt", {"message": 1}, "expected a string, got 1"),
    ],
)
def test_what_is_newer_and_cannot_be_read_is_refused_naming_the_revision(method, raw, words):
    with pytest.raises(DecodeError, match=re.escape(words)) as refused:
        CODEC.decode_params(method, raw)
    assert ("2025-10" in str(refused.value)) is ("2025-10" in words)
    with pytest.raises(DecodeError) as known:
        Codec(ECA, Revision.CURRENT).decode_params(method, raw)
    assert known.value.revision is None
    assert known.value.path == refused.value.path

"""The written members: exactly those of the revision and of rulings."""

from __future__ import annotations

from typing import Any

import pytest

from eca_protocol.codec import Codec, converter
from eca_protocol.errors import LocalProtocolError
from eca_protocol.messages import (
    ChatConfig,
    ChatContentReceivedParams,
    ChatDeleteParams,
    ChatMetadataContent,
    ChatPromptParams,
    ChatPromptResponse,
    ChatSelectedAgentChanged,
    ChatTextContent,
    ChatToolCallApproveParams,
    ChatToolCallRunContent,
    ChatUsageContent,
    ConfigUpdatedParams,
    EcaServerUpdatedParams,
    FileContext,
    ImageContext,
    InitializationOptions,
    InitializedParams,
    InitializeParams,
    InitializeResponse,
    JsonOutputsDetails,
    MCPServerUpdatedParams,
    ProgressParams,
    UnknownValue,
)
from eca_protocol.messages.shapes import fields_of
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision

OLD = Codec(ECA, Revision.R2025_09)
OCTOBER = Codec(ECA, Revision.R2025_10)
CURRENT = Codec(ECA, Revision.CURRENT)


def written(codec: Codec, content: Any) -> Any:
    params = ChatContentReceivedParams(chat_id="c", role="assistant", content=content)
    return codec.encode_params("chat/contentReceived", params)["content"]


def test_options_that_are_not_set_are_not_written() -> None:
    assert OCTOBER.encode_params("chat/prompt", ChatPromptParams(message="hi")) == {"message": "hi"}
    assert OCTOBER.encode_params("initialized", InitializedParams()) == {}
    assert OCTOBER.encode_params("exit", None) is None
    assert OCTOBER.encode_result("shutdown", None) is None


def test_what_the_text_requires_is_written_even_if_empty() -> None:
    assert OCTOBER.encode_params("initialize", InitializeParams()) == {
        "processId": None,
        "capabilities": {},
        "workspaceFolders": [],
    }


def test_the_type_of_a_union_s_member_is_first() -> None:
    assert list(written(OCTOBER, ChatTextContent(text="a"))) == ["type", "text"]


@pytest.mark.requirement("W-27d")
@pytest.mark.parametrize("codec", [OLD, OCTOBER, CURRENT], ids=repr)
def test_a_ruling_writes_in_every_revision(codec: Codec) -> None:
    assert written(codec, ChatTextContent(text="a", content_id="1"))["contentId"] == "1"
    assert written(codec, ChatUsageContent(session_tokens=1, message_cost="0.10")) == {
        "type": "usage",
        "sessionTokens": 1,
        "messageCost": "0.10",
    }


@pytest.mark.requirement("W-10a", "W-11a", "W-11e")
@pytest.mark.parametrize("codec", [OLD, OCTOBER, CURRENT], ids=repr)
def test_the_start_is_announced_in_every_revision(codec: Codec) -> None:
    answer = InitializeResponse(chat_welcome_message="")
    assert codec.encode_result("initialize", answer) == {"chatWelcomeMessage": ""}
    chat = ChatConfig(
        models=("a/b",),
        behaviors=("agent",),
        agents=("agent",),
        select_model="a/b",
        select_behavior="agent",
        select_agent="agent",
        welcome_message="",
    )
    assert codec.encode_params("config/updated", ConfigUpdatedParams(chat=chat)) == {
        "chat": {
            "models": ["a/b"],
            "behaviors": ["agent"],
            "agents": ["agent"],
            "selectModel": "a/b",
            "selectBehavior": "agent",
            "selectAgent": "agent",
            "welcomeMessage": "",
        }
    }
    progress = ProgressParams(type="start", task_id="t", title="T")
    assert codec.outgoing("$/progress", progress) == (
        ("$/progress", {"type": "start", "taskId": "t", "title": "T"}),
    )


def test_a_field_outside_the_revision_is_left_out() -> None:
    approve = ChatToolCallApproveParams(chat_id="c", tool_call_id="t", save="session")
    raw = {"chatId": "c", "toolCallId": "t"}
    assert OLD.encode_params("chat/toolCallApprove", approve) == raw
    assert OCTOBER.encode_params("chat/toolCallApprove", approve) == raw | {"save": "session"}
    prompt = ChatPromptParams(message="m", agent="code")
    assert OCTOBER.encode_params("chat/prompt", prompt) == {"message": "m"}
    assert CURRENT.encode_params("chat/prompt", prompt) == {"message": "m", "agent": "code"}


def test_the_server_of_a_call_is_written_in_every_revision() -> None:
    run = ChatToolCallRunContent(id="1", origin="mcp", name="n", server="s")
    for codec in (OLD, OCTOBER, CURRENT):
        assert written(codec, run) == {
            "type": "toolCallRun",
            "origin": "mcp",
            "id": "1",
            "name": "n",
            "server": "s",
            "arguments": {},
            "manualApproval": False,
        }


def test_a_value_outside_the_revision_is_replaced_by_its_fallback() -> None:
    answer = ChatPromptResponse(chat_id="c", model="m", status="error")
    assert OLD.encode_result("chat/prompt", answer)["status"] == "prompting"
    assert OCTOBER.encode_result("chat/prompt", answer)["status"] == "prompting"
    assert CURRENT.encode_result("chat/prompt", answer)["status"] == "error"
    server = MCPServerUpdatedParams(name="m", status="requires-auth")
    assert OCTOBER.encode_params("tool/serverUpdated", server)["status"] == "failed"
    assert CURRENT.encode_params("tool/serverUpdated", server)["status"] == "requires-auth"


def test_a_server_by_url_is_announced_as_its_edition_spells_it() -> None:
    server = MCPServerUpdatedParams(name="m", url="http://x", status="running")
    old = {"type": "mcp", "name": "m", "command": "http://x", "args": [], "status": "running"}
    assert OLD.encode_params("tool/serverUpdated", server) == old
    assert OCTOBER.encode_params("tool/serverUpdated", server) == old
    assert CURRENT.encode_params("tool/serverUpdated", server) == {
        "type": "mcp",
        "name": "m",
        "url": "http://x",
        "status": "running",
        "disabled": False,
        "hasAuth": False,
    }


def test_what_an_option_holds_is_left_out_where_the_revision_has_no_such_thing() -> None:
    run = ChatToolCallRunContent(
        id="1", origin="server", name="n", server="s", details=JsonOutputsDetails(jsons=())
    )
    assert "details" not in written(OCTOBER, run)
    assert written(OCTOBER, run)["origin"] == "native"
    assert written(CURRENT, run)["details"] == {"type": "jsonOutputs", "jsons": []}
    prompt = ChatPromptParams(
        message="m",
        contexts=(ImageContext(media_type="image/png", base64=""), FileContext(path="p")),
    )
    raw = OCTOBER.encode_params("chat/prompt", prompt)
    assert raw["contexts"] == [{"type": "file", "path": "p"}]
    assert len(CURRENT.encode_params("chat/prompt", prompt)["contexts"]) == 2


def test_a_notification_outside_the_revision_becomes_none() -> None:
    title = ChatContentReceivedParams(
        chat_id="c", role="system", content=ChatMetadataContent(title="T")
    )
    assert OLD.outgoing("chat/contentReceived", title) == ()
    assert len(OCTOBER.outgoing("chat/contentReceived", title)) == 1
    agent = ChatSelectedAgentChanged(agent="code")
    assert OCTOBER.outgoing("chat/selectedAgentChanged", agent) == ()
    assert len(CURRENT.outgoing("chat/selectedAgentChanged", agent)) == 1


def test_what_must_be_written_and_cannot_be_is_our_own_error() -> None:
    title = ChatContentReceivedParams(
        chat_id="c", role="system", content=ChatMetadataContent(title="T")
    )
    with pytest.raises(
        LocalProtocolError, match=r"ChatMetadataContent does not exist in .*2025-09"
    ):
        OLD.encode_params("chat/contentReceived", title)
    with pytest.raises(
        LocalProtocolError, match="selectedAgentChanged: revision 2025-10 has no such"
    ):
        OCTOBER.encode_params("chat/selectedAgentChanged", ChatSelectedAgentChanged(agent="a"))


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("chat/prompt", ChatDeleteParams(), "expected a ChatPromptParams, got a ChatDeleteParams"),
        ("chat/prompt", {"message": "m"}, "expected a ChatPromptParams, got a dict"),
        ("exit", {}, "expected None, got a dict"),
        ("tool/serverUpdated", ChatDeleteParams(), "expected one of EcaServerUpdatedParams, MCP"),
        ("chat/unheard", None, "the table has no method chat/unheard"),
    ],
)
def test_params_of_another_method_are_our_own_error(method: str, params: Any, words: str) -> None:
    with pytest.raises(LocalProtocolError, match=words):
        OCTOBER.encode_params(method, params)
    with pytest.raises(LocalProtocolError, match=words):
        OCTOBER.outgoing(method, params)


def test_results_of_another_method_are_our_own_error() -> None:
    with pytest.raises(LocalProtocolError, match="expected a ChatPromptResponse, got a NoneType"):
        OCTOBER.encode_result("chat/prompt", None)


def test_an_object_deep_inside_that_does_not_belong_is_our_own_error() -> None:
    params = ChatContentReceivedParams(chat_id="c", role="user", content="hi")  # type: ignore[arg-type]  # intended
    with pytest.raises(LocalProtocolError, match="expected one of ChatTextContent"):
        OCTOBER.outgoing("chat/contentReceived", params)


@pytest.mark.requirement("W-28a")
def test_options_that_have_a_field_win_over_extras() -> None:
    options = InitializationOptions(chat_behavior="plan", extras={"chatBehavior": "x", "a": 1})
    raw = OCTOBER.encode_params("initialize", InitializeParams(initialization_options=options))
    assert raw["initializationOptions"] == {"chatBehavior": "plan", "a": 1}


def test_the_converter_reads_and_writes_models_inside_other_types() -> None:
    made = converter(Revision.R2025_10)
    contexts = made.structure([{"type": "file", "path": "p"}], tuple[FileContext, ...])
    assert contexts == (FileContext(path="p"),)
    assert made.unstructure(contexts[0]) == {"type": "file", "path": "p"}
    assert made is converter(Revision.R2025_10)


def test_every_field_has_a_wire_name_in_camel_case() -> None:
    assert [field.wire for field in fields_of(EcaServerUpdatedParams)] == [
        "name",
        "status",
        "tools",
    ]
    assert [field.wire for field in fields_of(InitializeParams)] == [
        "processId",
        "clientInfo",
        "initializationOptions",
        "capabilities",
        "workspaceFolders",
    ]


def test_a_misspelt_status_is_refused_unless_it_is_marked_as_unknown() -> None:
    codec = Codec(ECA, Revision.CURRENT)
    misspelt: Any = "promting"
    response = ChatPromptResponse(chat_id="c", model="a/b", status=misspelt)
    with pytest.raises(LocalProtocolError, match="unknown value 'promting': did you mean 'prompt"):
        codec.encode_result("chat/prompt", response)
    marked = ChatPromptResponse(chat_id="c", model="a/b", status=UnknownValue("paused"))
    assert codec.encode_result("chat/prompt", marked)["status"] == "paused"

"""The written members: exactly those of the revision and of rulings."""

from typing import Any

import pytest

from eca_protocol import messages as m
from eca_protocol.codec import Codec, converter
from eca_protocol.errors import LocalProtocolError
from eca_protocol.messages.shapes import fields_of
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision

OLD = Codec(ECA, Revision.R2025_09)
OCTOBER = Codec(ECA, Revision.R2025_10)
CURRENT = Codec(ECA, Revision.CURRENT)
in_every_revision = pytest.mark.parametrize("codec", [OLD, OCTOBER, CURRENT], ids=repr)
TITLE = m.ChatContentReceivedParams(
    chat_id="c", role="system", content=m.ChatMetadataContent(title="T")
)
AGENT = m.ChatSelectedAgentChanged(agent="code")


def written(codec: Codec, content: Any) -> Any:
    params = m.ChatContentReceivedParams(chat_id="c", role="assistant", content=content)
    return codec.encode_params("chat/contentReceived", params)["content"]


def test_only_what_is_set_or_required_is_written() -> None:
    prompt = m.ChatPromptParams(message="hi")
    assert OCTOBER.encode_params("chat/prompt", prompt) == {"message": "hi"}
    assert OCTOBER.encode_params("initialized", m.InitializedParams()) == {}
    assert OCTOBER.encode_params("exit", None) is None
    assert OCTOBER.encode_result("shutdown", None) is None
    empty = {"processId": None, "capabilities": {}, "workspaceFolders": []}
    assert OCTOBER.encode_params("initialize", m.InitializeParams()) == empty
    text = m.ChatTextContent(text="a")
    assert list(written(OCTOBER, text)) == ["type", "text"], "the type is first"


@pytest.mark.requirement("W-27d")
@in_every_revision
def test_a_ruling_writes_in_every_revision(codec: Codec) -> None:
    assert written(codec, m.ChatTextContent(text="a", content_id="1"))["contentId"] == "1"
    usage = m.ChatUsageContent(session_tokens=1, message_cost="0.10")
    raw = {"type": "usage", "sessionTokens": 1, "messageCost": "0.10"}
    assert written(codec, usage) == raw
    run = m.ChatToolCallRunContent(id="1", origin="mcp", name="n", server="s")
    assert written(codec, run)["server"] == "s"


@pytest.mark.requirement("W-10a", "W-11a", "W-11e")
@in_every_revision
def test_the_start_is_announced_in_every_revision(codec: Codec) -> None:
    answer = m.InitializeResponse(chat_welcome_message="")
    assert codec.encode_result("initialize", answer) == {"chatWelcomeMessage": ""}
    raw = {
        "models": ["a/b"],
        "behaviors": ["agent"],
        "agents": ["agent"],
        "selectModel": "a/b",
        "selectBehavior": "agent",
        "selectAgent": "agent",
        "welcomeMessage": "",
    }
    config = m.ConfigUpdatedParams(
        chat=m.ChatConfig(
            models=("a/b",),
            behaviors=("agent",),
            agents=("agent",),
            select_model="a/b",
            select_behavior="agent",
            select_agent="agent",
            welcome_message="",
        )
    )
    assert codec.encode_params("config/updated", config) == {"chat": raw}
    assert codec.encode_params("config/updated", m.ConfigUpdatedParams()) == {}
    progress = m.ProgressParams(type="start", task_id="t", title="T")
    start = {"type": "start", "taskId": "t", "title": "T"}
    assert codec.outgoing("$/progress", progress) == (("$/progress", start),)


def test_a_value_outside_the_revision_is_replaced_by_its_fallback() -> None:
    answer = m.ChatPromptResponse(chat_id="c", model="m", status="error")
    server = m.MCPServerUpdatedParams(name="m", status="requires-auth")
    run = m.ChatToolCallRunContent(id="1", origin="server", name="n", server="s")
    old = ["prompting", "failed", "native"]
    for codec, values in (
        (OLD, old),
        (OCTOBER, old),
        (CURRENT, ["error", "requires-auth", "server"]),
    ):
        assert [
            codec.encode_result("chat/prompt", answer)["status"],
            codec.encode_params("tool/serverUpdated", server)["status"],
            written(codec, run)["origin"],
        ] == values


def test_a_server_by_url_is_announced_as_its_edition_spells_it() -> None:
    server = m.MCPServerUpdatedParams(name="m", url="http://x", status="running")
    old = {"type": "mcp", "name": "m", "command": "http://x", "args": [], "status": "running"}
    assert OLD.encode_params("tool/serverUpdated", server) == old
    assert OCTOBER.encode_params("tool/serverUpdated", server) == old
    del old["command"], old["args"]
    new = old | {"url": "http://x", "disabled": False, "hasAuth": False}
    assert CURRENT.encode_params("tool/serverUpdated", server) == new


def test_what_the_revision_does_not_have_must_not_be_written() -> None:
    with pytest.raises(LocalProtocolError, match=r"MetadataContent does not exist in .*2025-09"):
        OLD.encode_params("chat/contentReceived", TITLE)
    with pytest.raises(LocalProtocolError, match="AgentChanged: revision 2025-10 has no such"):
        OCTOBER.encode_params("chat/selectedAgentChanged", AGENT)


DELETE = m.ChatDeleteParams()
ODD: Any = "hi"
NO_CONTENT = m.ChatContentReceivedParams(chat_id="c", role="user", content=ODD)


@pytest.mark.parametrize(
    ("method", "params", "words"),
    [
        ("chat/prompt", DELETE, "expected a ChatPromptParams, got a ChatDeleteParams"),
        ("chat/prompt", {"message": "m"}, "expected a ChatPromptParams, got a dict"),
        ("exit", {}, "expected None, got a dict"),
        ("tool/serverUpdated", DELETE, "expected one of EcaServerUpdatedParams, MCP"),
        ("chat/contentReceived", NO_CONTENT, "expected one of ChatTextContent"),
        ("chat/unheard", None, "the table has no method chat/unheard"),
    ],
)
def test_params_of_another_method_are_our_own_error(method: str, params: Any, words: str) -> None:
    for write in (OCTOBER.encode_params, OCTOBER.outgoing):
        with pytest.raises(LocalProtocolError, match=words):
            write(method, params)


def test_a_wrong_or_misspelt_result_is_our_own_error() -> None:
    with pytest.raises(LocalProtocolError, match="expected a ChatPromptResponse, got a NoneType"):
        OCTOBER.encode_result("chat/prompt", None)
    response = m.ChatPromptResponse(chat_id="c", model="a/b", status="promting")
    with pytest.raises(LocalProtocolError, match="unknown value 'promting': did you mean 'prompt"):
        CURRENT.encode_result("chat/prompt", response)
    marked = m.ChatPromptResponse(chat_id="c", model="a/b", status=m.UnknownValue("paused"))
    assert CURRENT.encode_result("chat/prompt", marked)["status"] == "paused"


@pytest.mark.requirement("W-28a")
def test_options_that_have_a_field_win_over_extras() -> None:
    options = m.InitializationOptions(chat_behavior="plan", extras={"chatBehavior": "x", "a": 1})
    raw = OCTOBER.encode_params("initialize", m.InitializeParams(initialization_options=options))
    assert raw["initializationOptions"] == {"chatBehavior": "plan", "a": 1}


def test_the_converter_reads_and_writes_models_inside_other_types() -> None:
    made = converter(Revision.R2025_10)
    contexts = made.structure([{"type": "file", "path": "p"}], tuple[m.FileContext, ...])
    assert contexts == (m.FileContext(path="p"),)
    assert made.unstructure(contexts[0]) == {"type": "file", "path": "p"}
    assert made is converter(Revision.R2025_10)


def test_every_field_has_a_wire_name_in_camel_case() -> None:
    names = "processId clientInfo initializationOptions capabilities workspaceFolders"
    assert [field.wire for field in fields_of(m.InitializeParams)] == names.split()

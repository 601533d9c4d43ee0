"""The method table against the headings of the specification; messages to JSON texts and back."""

import re

import pytest
from hypothesis import given

from eca_protocol import dumps, loads, methods
from eca_protocol import messages as m
from eca_protocol.errors import DecodeError, InvalidJSON, LocalProtocolError
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.testing import strategies as eca

CLIENT, SERVER = "client_to_server", "server_to_client"
SPECIFIED = {
    (CLIENT, "request"): (
        "initialize shutdown chat/prompt chat/queryContext chat/queryCommands chat/delete"
    ),
    (CLIENT, "notification"): (
        "initialized exit chat/toolCallApprove chat/toolCallReject chat/promptStop "
        "chat/selectedBehaviorChanged mcp/stopServer mcp/startServer"
    ),
    (SERVER, "request"): "editor/getDiagnostics",
    (SERVER, "notification"): (
        "chat/contentReceived config/updated tool/serverUpdated $/showMessage"
    ),
}
ADDED = {
    (CLIENT, "request"): (
        "chat/queryFiles chat/rollback chat/clear chat/addFlag chat/removeFlag chat/fork "
        "chat/inlinePrompt chat/update chat/list chat/open chat/history completion/inline "
        "rewrite/prompt mcp/updateServer mcp/addServer mcp/removeServer providers/list "
        "providers/login providers/loginInput providers/logout jobs/list jobs/kill jobs/readOutput"
    ),
    (CLIENT, "notification"): (
        "chat/promptSteer chat/promptSteerRemove chat/selectedAgentChanged "
        "chat/selectedModelChanged workspace/didChangeWorkspaceFolders mcp/connectServer "
        "mcp/logoutServer mcp/disableServer mcp/enableServer"
    ),
    (SERVER, "request"): "chat/askQuestion editor/getDefinition editor/getReferences",
    (SERVER, "notification"): (
        "chat/cleared chat/opened chat/statusChanged chat/deleted rewrite/contentReceived "
        "tool/serverRemoved providers/updated jobs/updated $/progress"
    ),
}
"""The methods that are newer than October 2025."""


@pytest.mark.requirement("W-15d")
def test_the_table_has_the_methods_of_every_edition() -> None:
    expected = {
        name: (*each, since)
        for since, table in ((Revision.R2025_09, SPECIFIED), (Revision.CURRENT, ADDED))
        for each, names in table.items()
        for name in names.split()
    }
    table = {row.name: (row.direction, row.kind, row.window.since) for row in ECA}
    assert table == expected, "the table and the lists above, SPECIFIED and ADDED, differ"


def test_a_row_s_constant_has_the_name_of_its_method() -> None:
    for row in ECA:
        words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", row.name.removeprefix("$/").replace("/", "_"))
        assert getattr(methods, words.upper()) is row


def test_only_requests_have_results() -> None:
    for row in ECA:
        assert row.kind == "request" or row.result is None
    without = {row.name for row in ECA if row.kind == "request" and row.result is None}
    assert without == {"shutdown"}
    assert {row.name for row in ECA if row.params is None} == {"shutdown", "exit"}


@given(eca.messages(revision=Revision.CURRENT))
def test_a_message_is_read_as_it_was_written(message):
    method, params = message
    if params is not None:
        text = dumps(params)
        assert dumps(loads(method, text)) == text


def test_results_and_editions_are_chosen():
    unknown = m.UnknownServerUpdatedParams(type="x", raw={"type": "x", "a": 1})
    assert loads("tool/serverUpdated", dumps(unknown)) == unknown
    result = m.ChatPromptResponse(chat_id="c", model="a/b", status="error")
    assert loads("chat/prompt", dumps(result), part="result") == result
    assert '"prompting"' in dumps(result, revision=Revision.R2025_10)
    params = m.ChatPromptParams(chat_id="c", message="m", trust=True)
    assert loads("chat/prompt", dumps(params)) == params
    assert "trust" not in dumps(params, revision=Revision.R2025_10)


def test_what_is_no_message_is_refused_with_its_reason():
    with pytest.raises(InvalidJSON):
        loads("chat/prompt", "{")
    with pytest.raises(DecodeError, match=r"params\.message"):
        loads("chat/prompt", '{"message": 1}')
    with pytest.raises(LocalProtocolError, match="no method chat/promt"):
        loads("chat/promt", "{}")
    with pytest.raises(LocalProtocolError, match="expected a message, got a dict"):
        dumps({"message": "m"})
    with pytest.raises(LocalProtocolError, match=r"ChatContentReceivedParams: .*got a str"):
        dumps(m.ChatContentReceivedParams(chat_id="c", role="user", content="c"))
    with pytest.raises(LocalProtocolError, match="codec_for"):
        loads("chat/prompt", "{}", revision=Revision.DRAFT)

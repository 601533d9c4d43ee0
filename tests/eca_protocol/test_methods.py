"""The method table against the headings of the specification."""

from __future__ import annotations

import re

import pytest

from eca_protocol import methods
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision

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
    assert {row.name: (row.direction, row.kind, row.window.since) for row in ECA} == expected


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

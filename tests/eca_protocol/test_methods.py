"""The method table against the headings of the specification."""

from __future__ import annotations

import re

import pytest

from eca_protocol import methods
from eca_protocol.codec import Codec
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision

CLIENT, SERVER = "client_to_server", "server_to_client"
SPECIFIED = {
    "initialize": (CLIENT, "request"),
    "initialized": (CLIENT, "notification"),
    "shutdown": (CLIENT, "request"),
    "exit": (CLIENT, "notification"),
    "chat/prompt": (CLIENT, "request"),
    "chat/contentReceived": (SERVER, "notification"),
    "chat/toolCallApprove": (CLIENT, "notification"),
    "chat/toolCallReject": (CLIENT, "notification"),
    "chat/queryContext": (CLIENT, "request"),
    "chat/queryCommands": (CLIENT, "request"),
    "chat/promptStop": (CLIENT, "notification"),
    "chat/delete": (CLIENT, "request"),
    "chat/selectedBehaviorChanged": (CLIENT, "notification"),
    "editor/getDiagnostics": (SERVER, "request"),
    "config/updated": (SERVER, "notification"),
    "tool/serverUpdated": (SERVER, "notification"),
    "mcp/stopServer": (CLIENT, "notification"),
    "mcp/startServer": (CLIENT, "notification"),
    "$/showMessage": (SERVER, "notification"),
}


ADDED = {
    (CLIENT, "request"): (
        "chat/queryFiles chat/rollback chat/clear chat/addFlag chat/removeFlag chat/fork "
        "chat/inlinePrompt "
        "chat/update chat/list chat/open chat/history completion/inline rewrite/prompt "
        "mcp/updateServer mcp/addServer mcp/removeServer providers/list providers/login "
        "providers/loginInput providers/logout jobs/list jobs/kill jobs/readOutput"
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
    assert {
        row.name: (row.direction, row.kind) for row in ECA if row.window.holds(Revision.R2025_09)
    } == SPECIFIED
    assert {
        row.name: (row.direction, row.kind)
        for row in ECA
        if row.window.since is Revision.CURRENT is row.window.until
    } == {name: which for which, names in ADDED.items() for name in names.split()}
    assert len(ECA) == len(SPECIFIED) + sum(len(names.split()) for names in ADDED.values())


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

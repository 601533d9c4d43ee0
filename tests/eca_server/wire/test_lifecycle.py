"""The start of a conversation with the real process (rulings W-10 to W-12, W-15)."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.eca_server.conftest import SERVE
from tests.eca_server.stranger import code_of, message


def shown(messages: list[Any]) -> list[tuple[str, str]]:
    shown = [each["params"] for each in messages if each.get("method") == "$/showMessage"]
    return [(params["type"], params["message"]) for params in shown]


def welcome(folder: Path, words: str) -> Path:
    """Write a configuration with a welcome into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps({"welcomeMessage": words}))
    return folder / "config.json"


@pytest.mark.requirement(
    *("LIFE-1", "LIFE-2", "LIFE-4", "LIFE-18", "LIFE-22", "LIFE-23", "LIFE-24"),
    *(f"ARROW:initialization-{number}" for number in (1, 2, 3)),
    *(f"ARROW:shutdown-{number}" for number in (1, 2, 3)),
)
def test_a_connection_is_opened_once_and_closed_once(server):
    server.tell("initialized")
    server.stop("1")
    for method in ("chat/prompt", "shutdown", "no/such"):
        assert code_of(server.answer(server.ask(method, {"message": "hi"}))) == -32002
    result = server.initialize()
    assert isinstance(result["chatWelcomeMessage"], str)
    assert code_of(server.answer(server.ask("initialize", {"capabilities": {}}))) == -32600
    assert server.result("shutdown") is None
    for method in ("shutdown", "initialize", "chat/queryCommands", "no/such"):
        assert code_of(server.answer(server.ask(method, {}))) == -32600
    server.tell("exit")
    assert server.exit_code() == 0


@pytest.mark.requirement("W-10b", "W-10c", "LIFE-13")
def test_nothing_is_written_before_the_answer_and_nothing_unasked_before_initialized(server):
    prompt = {"chatId": "c", "message": "hi", "model": "no/such"}
    server.send(
        message("initialize", {"workspaceFolders": [{"uri": "ftp://x"}]}, request_id=0),
        message("chat/queryContext", {"chatId": "c"}, request_id="early"),
        message("chat/prompt", prompt, request_id="prompt"),
    )
    server.answer("prompt")
    server.expect_finished()
    assert server.seen[0]["id"] == 0
    assert set(server.seen[0]["result"]) == {"chatWelcomeMessage"}
    assert {seen["id"] for seen in server.seen if "method" not in seen} == {0, "early", "prompt"}
    assert {seen["method"] for seen in server.seen if "method" in seen} == {"chat/contentReceived"}


@pytest.mark.requirement(
    *("W-11c", "LIFE-14", "LIFE-15", "CONF-1", "CONF-2", "CONF-6", "CONF-7", "CONF-8"),
    *("ARROW:initialization-4", "ARROW:initialization-5"),
)
def test_what_follows_initialized(server):
    introduction = server.introduced()
    server.settle()
    methods = ["$/progress", "config/updated", "tool/serverUpdated", "$/progress"]
    assert [seen["method"] for seen in introduction] == methods
    start, config, native, finish = (seen["params"] for seen in introduction)
    assert (start["type"], finish["type"]) == ("start", "finish")
    assert start["taskId"] == finish["taskId"]
    assert start["title"]
    assert finish["title"]
    chat = config["chat"]
    assert set(chat) == {
        *("models", "selectModel", "behaviors", "selectBehavior", "agents", "selectAgent"),
        "welcomeMessage",
    }
    assert chat["selectModel"] in chat["models"]
    assert chat["selectModel"].startswith("simulator/")
    assert chat["selectBehavior"] in chat["behaviors"]
    assert chat["selectAgent"] in chat["agents"]
    assert isinstance(chat["welcomeMessage"], str)
    tools = native.pop("tools")
    assert native == {"type": "native", "name": "ECA", "status": "running"}
    assert {"eca_read_file", "eca_edit_file", "eca_shell_command"} <= {t["name"] for t in tools}
    for tool in tools:
        assert tool["parameters"]["type"] == "object"
        assert tool["description"]
        assert isinstance(tool["disabled"], bool)


@pytest.mark.requirement("W-15a", "W-15c", "W-15d", "LIFE-8", "LIFE-10")
def test_only_workspace_folders_are_roots_and_those_that_give_none_are_named(
    start_server, tmp_path
):
    good, project = tmp_path / "with space", tmp_path / "project"
    welcome(good / ".eca", "from the root")
    welcome(project / ".eca", "from the cwd")
    trusted = {"workspaceTrusted": True, "chatBehavior": "plan"}
    rootless = start_server()
    rootless.introduced(workspaceFolders=None, initializationOptions=trusted)
    assert "from the cwd" not in str(rootless.seen)
    folders = [
        {"uri": "vscode-remote://ssh/home/x", "name": "remote"},
        {"uri": (tmp_path / "missing").as_uri(), "name": "missing"},
        {"uri": f"file://localhost{good.as_uri().removeprefix('file://')}", "name": "good"},
    ]
    server = start_server()
    introduction = server.introduced(
        workspaceFolders=folders, rootUri=project.as_uri(), initializationOptions=trusted
    )
    chat = next(e["params"]["chat"] for e in introduction if e.get("method") == "config/updated")
    assert (chat["welcomeMessage"], chat["selectBehavior"]) == ("from the root", "plan")
    server.settle()
    remote, missing = shown(server.seen)
    assert remote[0] == missing[0] == "warning"
    assert "vscode-remote" in remote[1]
    assert "missing" in missing[1]


@pytest.mark.requirement("GEN-1")
def test_a_broken_configuration_is_reported_with_source_line_and_key(start_server, tmp_path):
    file = welcome(tmp_path / ".config" / "eca", "")
    file.write_text('{\n  "defaultModel": 7,\n  "welcomeMessage": "Hello"\n}\n')
    server = start_server(env={"ECA_CONFIG": '{"chat": {"title": "yes"},\n oops'})
    options = {"protocolRevision": "tomorrow"}
    assert server.initialize(initializationOptions=options)["chatWelcomeMessage"] == "Hello"
    server.settle()
    texts = {text.partition(": ")[0]: text for _, text in shown(server.seen)}
    assert any(place.startswith("ECA_CONFIG:2") for place in texts)
    (of_file,) = [text for place, text in texts.items() if place.startswith(f"{file}:2")]
    assert "defaultModel" in of_file
    (of_option,) = [text for text in texts.values() if "'tomorrow'" in text]
    assert "2025-06, 2025-09, 2025-10, current" in of_option


OCTOBER = {"codeAssistant": {"chat": True}}
TODAY = {"codeAssistant": {"chatCapabilities": {}}}


@pytest.mark.long(but=2)
@pytest.mark.parametrize(
    ("capabilities", "options", "flags", "speaks_current"),
    [
        (OCTOBER, {}, (), False),
        (TODAY, {}, (), True),
        (OCTOBER, {"protocolRevision": "current"}, (), True),
        (TODAY, {"protocolRevision": "2025-09"}, (), False),
        (TODAY, {"protocolRevision": "current"}, ("--protocol-revision", "2025-10"), False),
    ],
)
def test_the_edition_is_forced_or_shown_by_what_the_client_announces(
    start_server, capabilities, options, flags, *, speaks_current
):
    server = start_server(command=(*SERVE, *flags))
    introduction = server.introduced(capabilities=capabilities, initializationOptions=options)
    answered = {"chatWelcomeMessage", *(("globalConfigPath",) if speaks_current else ())}
    assert set(server.seen[0]["result"]) == answered
    assert ("variants" in introduction[1]["params"]["chat"]) is speaks_current


@pytest.mark.requirement("FIELD:InitializeResponse.globalConfigPath")
def test_the_file_that_is_read_is_named_by_its_absolute_path(start_server, tmp_path):
    file = welcome(tmp_path / "config" / "eca", "mine")
    server = start_server(env={"XDG_CONFIG_HOME": str(tmp_path / "config")})
    result = server.initialize(capabilities=TODAY)
    assert result == {"chatWelcomeMessage": "mine", "globalConfigPath": str(file)}
    own = welcome(tmp_path / "own", "own")
    server = start_server(command=(*SERVE, "--config-file", str(own)))
    assert server.initialize(capabilities=TODAY)["globalConfigPath"] == str(own)


BROKEN = """
import sys
from eca_server.agent.chat.chats import Chats
from eca_server.cli.main import run
def delete(self, chat_id):
    raise KeyError('the secret of the house')
Chats.delete = delete
sys.exit(run(['server']))
"""


@pytest.mark.requirement("BASE-27")
def test_a_bug_of_our_own_is_32603_and_reported_to_the_log_only(start_server, tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    command = (sys.executable, "-P", str(tmp_path / "broken.py"))
    server = start_server(command=command, may_log_tracebacks=True)
    server.initialize()
    answer = server.answer(server.ask("chat/delete", {"chatId": "1"}))
    assert code_of(answer) == -32603
    assert not [word for word in ("secret", "KeyError") if word in str(answer)]
    assert server.result("chat/queryContext") == {"contexts": []}
    assert "the secret of the house" in server.errors

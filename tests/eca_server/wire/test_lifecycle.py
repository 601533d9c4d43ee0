"""The start of a conversation with the real process (rulings W-10 to W-12, W-15)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.eca_server.conftest import SERVE
from tests.eca_server.stranger import code_of, message


def shown(messages: list[Any]) -> list[tuple[str, str]]:
    return [
        (seen["params"]["type"], seen["params"]["message"])
        for seen in messages
        if seen.get("method") == "$/showMessage"
    ]


@pytest.mark.requirement(
    "LIFE-1", "LIFE-2", "LIFE-4", "LIFE-18", "LIFE-22", "LIFE-23", "LIFE-24",
    "ARROW:initialization-1", "ARROW:initialization-2", "ARROW:initialization-3",
    "ARROW:shutdown-1", "ARROW:shutdown-2", "ARROW:shutdown-3",
)  # fmt: skip
def test_a_connection_is_opened_once_and_closed_once(server):
    server.tell("initialized")
    server.stop("1")
    for method in ("chat/prompt", "shutdown", "no/such"):
        assert code_of(server.answer(server.ask(method, {"message": "hi"}))) == -32002
    result = server.initialize()
    assert isinstance(result["chatWelcomeMessage"], str)
    assert code_of(server.answer(server.ask("initialize", {"capabilities": {}}))) == -32600
    shutdown = server.answer(server.ask("shutdown"))
    assert shutdown["result"] is None
    for method in ("shutdown", "initialize", "chat/queryCommands", "no/such"):
        assert code_of(server.answer(server.ask(method, {}))) == -32600
    server.tell("exit")
    assert server.exit_code() == 0


@pytest.mark.requirement("W-10b", "W-10c", "LIFE-13")
def test_nothing_is_written_before_the_answer_to_initialize(server):
    early = [
        message("chat/queryContext", {"chatId": "c"}, request_id="early"),
        message(
            "chat/prompt", {"chatId": "c", "message": "hi", "model": "no/such"}, request_id="prompt"
        ),
    ]
    server.send(
        message("initialize", {"workspaceFolders": [{"uri": "ftp://x"}]}, request_id=0), *early
    )
    server.answer("prompt")
    server.expect_finished()
    assert server.seen[0]["id"] == 0
    assert set(server.seen[0]["result"]) == {"chatWelcomeMessage"}
    assert {seen["id"] for seen in server.seen if "method" not in seen} == {0, "early", "prompt"}
    unasked = {seen["method"] for seen in server.seen if "method" in seen}
    assert unasked == {"chat/contentReceived"}


def test_requests_are_served_without_initialized(server):
    server.result("initialize", {})
    chat = server.prompt("say hello")
    assert chat
    server.expect_finished()
    assert "config/updated" not in {seen.get("method") for seen in server.seen}


@pytest.mark.requirement(
    "W-11c", "LIFE-14", "LIFE-15", "CONF-1", "CONF-2", "CONF-6", "CONF-7", "CONF-8",
    "ARROW:initialization-4", "ARROW:initialization-5",
)  # fmt: skip
def test_what_follows_initialized(server):
    introduction = server.introduced()
    server.settle()
    assert [seen["method"] for seen in introduction] == [
        "$/progress",
        "config/updated",
        "tool/serverUpdated",
        "$/progress",
    ]
    start, config, native, finish = (seen["params"] for seen in introduction)
    assert (start["type"], finish["type"]) == ("start", "finish")
    assert start["taskId"] == finish["taskId"]
    assert start["title"]
    assert finish["title"]
    chat = config["chat"]
    assert set(chat) == {
        "models",
        "selectModel",
        "behaviors",
        "selectBehavior",
        "agents",
        "selectAgent",
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


@pytest.mark.requirement("LIFE-8")
def test_the_first_behaviour_is_the_one_the_client_asked_for(server):
    introduction = server.introduced(initializationOptions={"chatBehavior": "plan"})
    assert introduction[1]["params"]["chat"]["selectBehavior"] == "plan"


@pytest.mark.requirement("W-15a", "W-15d", "LIFE-10")
def test_folders_that_give_no_root_are_named(start_server, tmp_path):
    server = start_server()
    good = tmp_path / "with space"
    (good / ".eca").mkdir(parents=True)
    (good / ".eca" / "config.json").write_text('{"welcomeMessage": "from the root"}')
    (tmp_path / "project" / ".eca").mkdir()
    (tmp_path / "project" / ".eca" / "config.json").write_text('{"welcomeMessage": "from the cwd"}')
    folders = [
        {"uri": "vscode-remote://ssh/home/x", "name": "remote"},
        {"uri": (tmp_path / "missing").as_uri(), "name": "missing"},
        {"uri": f"file://localhost{good.as_uri().removeprefix('file://')}", "name": "good"},
    ]
    introduction = server.introduced(
        workspaceFolders=folders,
        rootUri=(tmp_path / "project").as_uri(),
        initializationOptions={"workspaceTrusted": True},
    )
    chat = next(e["params"]["chat"] for e in introduction if e.get("method") == "config/updated")
    assert chat["welcomeMessage"] == "from the root"
    server.settle()
    remote, missing = shown(server.seen)
    assert remote[0] == missing[0] == "warning"
    assert "vscode-remote" in remote[1]
    assert "missing" in missing[1]


@pytest.mark.requirement("W-15c")
def test_the_current_folder_is_no_root(start_server, tmp_path):
    server = start_server()
    (tmp_path / "project" / ".eca").mkdir()
    (tmp_path / "project" / ".eca" / "config.json").write_text('{"welcomeMessage": "from the cwd"}')
    assert server.initialize(workspaceFolders=None)["chatWelcomeMessage"] != "from the cwd"


@pytest.mark.requirement("GEN-1")
def test_a_broken_configuration_is_reported_with_source_line_and_key(start_server, tmp_path):
    home = tmp_path / ".config" / "eca"
    home.mkdir(parents=True)
    (home / "config.json").write_text('{\n  "defaultModel": 7,\n  "welcomeMessage": "Hello"\n}\n')
    server = start_server(env={"ECA_CONFIG": '{"chat": {"title": "yes"},\n oops'})
    assert server.initialize()["chatWelcomeMessage"] == "Hello"
    server.settle()
    kinds, texts = zip(*shown(server.seen), strict=True)
    assert set(kinds) == {"error"}
    (inline,) = [text for text in texts if text.startswith("ECA_CONFIG:2")]
    assert inline
    (file,) = [text for text in texts if text.startswith(f"{home / 'config.json'}:2")]
    assert "defaultModel" in file


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
    home = tmp_path / "config"
    (home / "eca").mkdir(parents=True)
    (home / "eca" / "config.json").write_text('{"welcomeMessage": "mine"}')
    server = start_server(env={"XDG_CONFIG_HOME": str(home)})
    result = server.initialize(capabilities=TODAY)
    assert result == {
        "chatWelcomeMessage": "mine",
        "globalConfigPath": str(home / "eca" / "config.json"),
    }
    own = tmp_path / "own.json"
    own.write_text('{"welcomeMessage": "own"}')
    server = start_server(command=(*SERVE, "--config-file", str(own)))
    assert server.initialize(capabilities=TODAY)["globalConfigPath"] == str(own)


def test_an_unknown_edition_is_reported_in_plain_text(server):
    server.initialize(initializationOptions={"protocolRevision": "tomorrow"})
    server.settle()
    ((_, text),) = shown(server.seen)
    assert "'tomorrow'" in text
    assert "2025-06, 2025-09, 2025-10, current" in text

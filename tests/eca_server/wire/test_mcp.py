"""The real process with real MCP servers: good ones, and ones that do everything wrong."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.eca_server.processes import assert_gone, children
from tests.eca_server.stranger import Stranger, content_of, text_of

SERVER = Path(__file__).parents[1] / "agent" / "mcp" / "scripted_server.py"

BAD: Mapping[str, Mapping[str, Any]] = {
    "mute": {"on": {"initialize": [["hang"]]}},
    "dies": {"on": {"initialize": [["exit", 3]]}},
    "noisy": {"at_start": [["repeat", 5_000, ["line", "not a message"]], ["hang"]]},
    "floods": {"at_start": [["repeat", 3_000, ["stderr", "x" * 900]]]},
    "liar": {"on": {"tools/list": [["result", {"tools": [{"name": 3}, "x", {"name": "t"}]}]]}},
    "stays": {"at_start": [["ignore_term"]], "at_end": [["hang"]]},
}
"""Servers that do something wrong, by its name."""


def scripted(script: Mapping[str, Any] | None = None) -> dict[str, Any]:
    return {
        "command": sys.executable,
        "args": ["-S", "-E", str(SERVER), json.dumps(script or {})],
        "startTimeoutSeconds": 60,
    }


def configured(servers: Mapping[str, Any], **more: Any) -> dict[str, str]:
    return {"ECA_CONFIG": json.dumps({"chat": {"title": False}, "mcpServers": servers, **more})}


def wait_for(server: Stranger, name: str, status: str) -> Any:
    """Read until that MCP server has this status; return its announcements."""

    def is_it(message: Any) -> bool:
        params = message.get("params", {})
        return bool(
            message.get("method") == "tool/serverUpdated"
            and (params["name"], params["status"]) == (name, status)
        )

    told = [message for message in server.seen if is_it(message)]
    return (told or server.until(is_it))[-1]["params"]


@pytest.mark.long
@pytest.mark.requirement("CONF-9", "CONF-10", "LIFE-20")
def test_bad_servers_cost_only_their_own_status(start_server):
    servers = {name: scripted(script) for name, script in BAD.items()}
    servers |= {"gone": {"command": "no-such-program"}, "good": scripted()}
    server = start_server(
        env=configured(servers, toolCall={"approval": {"allow": {"good__echo": {}}}})
    )
    server.introduced()
    assert wait_for(server, "good", "running")["tools"][0]["name"] == "echo"
    for name in ("dies", "noisy", "gone"):
        wait_for(server, name, "failed")
    assert [tool["name"] for tool in wait_for(server, "liar", "running")["tools"]] == ["t"]
    wait_for(server, "floods", "running")
    wait_for(server, "stays", "running")

    server.prompt('call good__echo {"a": 1}\nsay done')
    came = server.expect_finished()
    (called,) = [content_of(each) for each in came if content_of(each).get("type") == "toolCalled"]
    assert (called["server"], called["name"], called["error"]) == ("good", "echo", False)
    assert called["outputs"] == [{"type": "text", "text": "called"}]

    pids = children(server.pid)
    assert len(pids) >= 5
    assert server.leave() == 0
    assert_gone(pids, within=0.5)


@pytest.mark.requirement("CONF-12", "CONF-13", "CONF-15", "CONF-16")
def test_a_server_is_stopped_and_started_by_the_user(start_server):
    server = start_server(env=configured({"good": scripted()}))
    server.introduced()
    wait_for(server, "good", "running")
    pids = children(server.pid)
    server.tell("mcp/stopServer", {"name": "good"})
    wait_for(server, "good", "stopped")
    assert_gone(pids)
    before = len(server.seen)
    server.tell("mcp/startServer", {"name": "good"})
    server.until(lambda message: message.get("params", {}).get("status") == "running")
    statuses = [message["params"]["status"] for message in server.seen[before:]]
    assert statuses == ["starting", "running"]
    server.result("shutdown")


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    ("how", "script"), [("end of input", {}), ("SIGTERM", {}), ("SIGKILL", BAD["stays"])]
)
def test_no_server_outlives_ours_however_it_ends(start_server, how, script):
    server = start_server(env=configured({"s": scripted(script)}))
    server.introduced()
    wait_for(server, "s", "running")
    pids = children(server.pid)
    assert pids
    match how:
        case "end of input":
            server.close_input()
        case _:
            server.process.send_signal(getattr(signal, how))
    server.exit_code()
    assert_gone(pids)


def test_an_edit_of_the_configuration_restarts_only_what_it_changes(start_server, tmp_path):
    project = tmp_path / "project"
    file = project / ".eca" / "config.json"
    file.parent.mkdir()
    file.write_text(json.dumps({"mcpServers": {"same": scripted(), "other": scripted()}}))
    server = start_server()
    server.introduced(project, initializationOptions={"workspaceTrusted": True})
    for name in ("same", "other"):
        wait_for(server, name, "running")
    pids = children(server.pid)
    new = file.with_name("new")
    new.write_text(
        json.dumps({"mcpServers": {"same": scripted(), "other": {**scripted(), "env": {"X": "1"}}}})
    )
    new.replace(file)
    for status in ("starting", "running"):

        def has_come(message: Mapping[str, Any], status: str = status) -> bool:
            params = message.get("params", {})
            return bool(params.get("name") == "other" and params["status"] == status)

        server.until(has_come)
    assert len(children(server.pid) & pids) >= len(pids) // 2
    assert children(server.pid) != pids
    told = [
        message["params"]["status"]
        for message in server.seen
        if message.get("params", {}).get("name") == "same"
    ]
    assert told == ["starting", "running"]
    server.result("shutdown")


def test_ten_servers_end_together(start_server):
    servers = {str(number): scripted() for number in range(10)}
    server = start_server(env=configured(servers))
    server.introduced()
    for name in servers:
        wait_for(server, name, "running")
    pids = children(server.pid)
    begun = time.monotonic()
    server.result("shutdown")
    assert time.monotonic() - begun < 2
    assert_gone(pids, within=0.2)


def test_a_server_has_the_users_variables_and_none_of_our_keys(start_server, tmp_path):
    out = tmp_path / "variables.json"
    code = (
        "import json,os,sys; "
        f"json.dump(dict(os.environ), open({os.fspath(out)!r}, 'w')); sys.exit(1)"
    )
    servers = {"s": {"command": sys.executable, "args": ["-c", code], "env": {"MINE": "1"}}}
    server = start_server(
        env={**configured(servers), "OPENAI_API_KEY": "sk-not-a-real-key-0123456789", "ANY": "2"}
    )
    server.introduced()
    wait_for(server, "s", "failed")
    variables = json.loads(out.read_text())
    assert (variables["MINE"], variables["ANY"]) == ("1", "2")
    assert "OPENAI_API_KEY" not in variables
    assert "ECA_CONFIG" not in variables


@pytest.mark.requirement("CHAT-31", "CTX-7")
def test_prompts_are_commands_and_resources_are_contexts(start_server):
    prompts = {"prompts": [{"name": "greet", "arguments": [{"name": "who", "required": True}]}]}
    said = {"role": "user", "content": {"type": "text", "text": "say hello from the server"}}
    resource = {"uri": "memo://today", "name": "today"}
    good = {
        "prompts/list": [["result", prompts]],
        "prompts/get": [["result", {"messages": [said]}]],
        "resources/list": [["result", {"resources": [resource]}]],
        "resources/read": [["result", {"contents": [{**resource, "text": "buy milk"}]}]],
    }
    dies = {"prompts/list": good["prompts/list"], "prompts/get": [["exit", 3]]}
    servers = {"good": scripted({"on": good}), "dies": scripted({"on": dies})}
    server = start_server(env=configured(servers))
    server.introduced()

    def answer(text: str, role: str, **params: Any) -> str:
        asked = {"chatId": "c", "message": text, "model": "simulator/script", **params}
        server.tell("chat/prompt", asked)
        return text_of(server.expect_finished(), role)

    assert answer("/good:greet me", "assistant") == "hello from the server"
    assert "Missing arguments of `/good:greet`: `who`" in answer("/good:greet", "system")
    assert "- good: running (1 tool, 1 prompt, 1 resource)" in answer("/doctor", "system")
    found = server.result("chat/queryCommands", {"query": "good:"})["commands"]
    assert [(each["name"], each["type"]) for each in found] == [("good:greet", "mcp-prompt")]
    (context,) = server.result("chat/queryContext", {"query": "today"})["contexts"]
    assert context["type"] == "mcpResource"
    assert "buy milk" in answer("/prompt-show", "system", contexts=[context])
    assert "refused the prompt: " in answer("/dies:greet me", "system")
    server.result("shutdown")

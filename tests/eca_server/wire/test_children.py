"""Children of the server: whatever ends it, nothing that it started or made is left."""

import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from eca_server.workspace.temporary_files import TemporaryFiles
from tests.eca_server.conftest import Start
from tests.eca_server.processes import assert_gone, children
from tests.eca_server.stranger import SECONDS, Stranger, content_of
from tests.eca_server.wire.real_job import call
from tests.eca_server.workspace.test_temporary_files import killed, make_old
from tests.promises import within

FAMILY = (
    "sleep 600 & timeout 600 sleep 601 & setsid sleep 602 & (trap '' TERM; exec sleep 603) & "
    "echo ready >'{ready}'; wait"
)
"""A shell with grandchildren: plain, with a group, with a session of its own, and a deaf one."""

Starter = Callable[[str], tuple[dict[str, Any], str]]
"""Returns the configuration and the prompt that have the server run a shell script."""


def in_shell(script: str) -> tuple[dict[str, Any], str]:
    return {}, call("shell_command", command=script)


def in_job(script: str) -> tuple[dict[str, Any], str]:
    return {}, call("shell_command", command=script, background="family")


def in_custom_tool(script: str) -> tuple[dict[str, Any], str]:
    tool = {"description": "d", "command": script, "schema": {"properties": {}, "required": []}}
    return {"customTools": {"family": tool}}, "call eca_family {}"


def in_hook(script: str) -> tuple[dict[str, Any], str]:
    hook = {"type": "preRequest", "actions": [{"type": "shell", "shell": script}]}
    return {"hooks": {"family": hook}}, "say anything"


def in_mcp_server(script: str) -> tuple[dict[str, Any], str]:
    return {"mcpServers": {"family": {"command": "sh", "args": ["-c", script]}}}, ""


def with_family(start_server: Start, folder: Path, starting: Starter) -> tuple[Stranger, set[int]]:
    """Start a server whose child has grandchildren; return it and the ids of them all."""
    ready = folder / "ready"
    os.mkfifo(ready)
    reader = os.open(ready, os.O_RDONLY | os.O_NONBLOCK)
    config, prompt = starting(FAMILY.format(ready=ready))
    allowed = {"toolCall": {"approval": {"byDefault": "allow"}}, "chat": {"title": False}}
    server = start_server(env={"ECA_CONFIG": json.dumps({**allowed, **config})})
    server.introduced(
        folder, capabilities={"codeAssistant": {"chatCapabilities": {"askQuestion": True}}}
    )
    if prompt:
        server.send_prompt(prompt, model="simulator/script")
    assert select.select([reader], [], [], SECONDS)[0], server.received[-3:]
    os.close(reader)
    server.settle()  # the call that started the child has returned
    family = children(server.pid)
    assert len(family) >= 5
    return server, family


def shutdown_and_exit(server: Stranger) -> None:
    with within(2):
        assert server.result("shutdown") is None
    server.tell("exit")


@pytest.mark.long(but=3)
@pytest.mark.requirement("LIFE-25", "W-13h")
@pytest.mark.parametrize(
    ("starting", "end", "code"),
    [
        (in_job, signal.SIGKILL, -9),
        (in_shell, signal.SIGQUIT, 131),
        (in_shell, shutdown_and_exit, 0),
        (in_shell, signal.SIGKILL, -9),
        (in_custom_tool, signal.SIGKILL, -9),
        (in_hook, signal.SIGKILL, -9),
        (in_mcp_server, signal.SIGKILL, -9),
        (in_shell, signal.SIGUSR1, 138),
        (in_job, shutdown_and_exit, 0),
        (in_hook, signal.SIGTERM, 143),
        (in_job, signal.SIGHUP, 129),
        (in_job, Stranger.close_input, 0),
        (in_mcp_server, Stranger.close_input, 0),
        (in_mcp_server, signal.SIGTERM, 143),
    ],
)
def test_nothing_outlives_the_server_however_it_ends(start_server, tmp_path, starting, end, code):
    server, family = with_family(start_server, tmp_path, starting)
    if isinstance(end, signal.Signals):
        server.kill(end)
    else:
        end(server)
    assert server.exit_code() == code
    assert_gone(family, within=SECONDS if code == -9 else 0.5)


@pytest.mark.parametrize("opened", ["at the start", "later"])
def test_the_next_server_removes_what_a_killed_one_was_writing(start_server, tmp_path, opened):
    root = tmp_path / "root"
    root.mkdir()
    records = TemporaryFiles(tmp_path / ".local" / "share" / "eca-python" / "temporaries")
    leftover, record = killed(records, root)
    make_old(leftover, record)
    folder = {"name": "r", "uri": root.as_uri()}
    server = start_server()
    server.introduced(workspaceFolders=[folder] if opened == "at the start" else [])
    if opened == "later":
        event = {"added": [folder], "removed": []}
        server.tell("workspace/didChangeWorkspaceFolders", {"event": event})
    deadline = time.monotonic() + SECONDS
    while leftover.exists() or record.exists():
        assert time.monotonic() < deadline
        server.settle()


SERVER = Path(__file__).parents[1] / "agent" / "mcp" / "scripted_server.py"
BAD: dict[str, tuple[str, dict[str, Any]]] = {
    "mute": ("starting", {"on": {"initialize": [["hang"]]}}),
    "dies": ("failed", {"on": {"initialize": [["exit", 3]]}}),
    "noisy": ("failed", {"at_start": [["repeat", 5_000, ["line", "no message"]], ["hang"]]}),
    "floods": ("running", {"at_start": [["repeat", 3_000, ["stderr", "x" * 900]]]}),
    "liar": (
        "running",
        {"on": {"tools/list": [["result", {"tools": [{"name": 3}, "x", {"name": "t"}]}]]}},
    ),
    "stays": ("running", {"at_start": [["ignore_term"]], "at_end": [["hang"]]}),
    "good": ("running", {}),
}
"""The status and the script of MCP servers that do something wrong, and of one that does not."""


def wait_for(server: Stranger, name: str, status: str) -> Any:
    """Read until that MCP server has this status; return its announcement."""

    def is_it(message: Any) -> bool:
        params = message.get("params", {})
        is_update = message.get("method") == "tool/serverUpdated"
        return is_update and (params["name"], params["status"]) == (name, status)

    announced = [message for message in server.received if is_it(message)]
    return (announced or server.until(is_it))[-1]["params"]


def with_servers(servers: dict[str, Any], **more: Any) -> dict[str, str]:
    return {"ECA_CONFIG": json.dumps({"chat": {"title": False}, "mcpServers": servers, **more})}


@pytest.mark.long
@pytest.mark.requirement("CONF-9", "CONF-10", "LIFE-20")
def test_bad_mcp_servers_cost_only_their_own_status(start_server):
    servers = {
        name: {
            "command": sys.executable,
            "args": ["-S", "-E", str(SERVER), json.dumps(script)],
            "startTimeoutSeconds": 60,
        }
        for name, (_, script) in BAD.items()
    }
    servers["gone"] = {"command": "no-such-program"}
    allowed = {"approval": {"allow": {"good__echo": {}}}}
    server = start_server(env=with_servers(servers, toolCall=allowed))
    server.introduced()
    updates = {name: wait_for(server, name, status) for name, (status, _) in BAD.items()}
    wait_for(server, "gone", "failed")
    assert [tool["name"] for tool in updates["liar"]["tools"]] == ["t"]

    server.prompt('call good__echo {"a": 1}\nsay done')
    came = server.expect_finished()
    (called,) = [content_of(each) for each in came if content_of(each).get("type") == "toolCalled"]
    assert (called["server"], called["name"], called["error"]) == ("good", "echo", False)
    assert called["outputs"] == [{"type": "text", "text": "called"}]

    pids = children(server.pid)
    assert len(pids) >= 5
    assert server.leave() == 0
    assert_gone(pids, within=0.5)


def test_an_mcp_server_has_the_users_variables_and_none_of_our_keys(start_server, tmp_path):
    out = tmp_path / "variables.json"
    code = f"import json,os,sys; json.dump(dict(os.environ), open({str(out)!r}, 'w')); sys.exit(1)"
    servers = {"s": {"command": sys.executable, "args": ["-c", code], "env": {"MINE": "1"}}}
    keys = {"OPENAI_API_KEY": "sk-not-a-real-key-0123456789", "ANY": "2"}
    server = start_server(env={**with_servers(servers), **keys})
    server.introduced()
    wait_for(server, "s", "failed")
    variables = json.loads(out.read_text())
    assert (variables["MINE"], variables["ANY"]) == ("1", "2")
    assert not {"OPENAI_API_KEY", "ECA_CONFIG"} & variables.keys()

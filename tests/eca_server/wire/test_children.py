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
from tests.eca_server.stranger import SECONDS, Stranger
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
    assert children(server.pid) == set()
    server.tell("exit")


@pytest.mark.long(but=3)
@pytest.mark.requirement("LIFE-20", "LIFE-25", "W-13h")
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
        (in_mcp_server, shutdown_and_exit, 0),
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


def test_an_mcp_server_has_the_users_variables_and_none_of_our_keys(start_server, tmp_path):
    out = tmp_path / "variables.json"
    code = f"import json,os,sys; json.dump(dict(os.environ), open({str(out)!r}, 'w')); sys.exit(1)"
    failing = {"command": sys.executable, "args": ["-c", code], "env": {"MINE": "1"}}
    config = json.dumps({"mcpServers": {"s": failing}})
    keys = {"OPENAI_API_KEY": "sk-not-a-real-key-0123456789", "ANY": "2"}
    server = start_server(env={"ECA_CONFIG": config, **keys})
    server.introduced()
    server.until(lambda message: message.get("params", {}).get("status") == "failed")
    variables = json.loads(out.read_text())
    assert (variables["MINE"], variables["ANY"]) == ("1", "2")
    assert not {"OPENAI_API_KEY", "ECA_CONFIG"} & variables.keys()

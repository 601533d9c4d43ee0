"""The server is killed, or ended by a signal: nothing that it started or made is left."""

from __future__ import annotations

import json
import os
import select
import signal
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

FAMILY = (
    "sleep 600 & timeout 600 sleep 601 & setsid sleep 602 & (trap '' TERM; exec sleep 603) & "
    "echo ready >'{ready}'; wait"
)
"""A shell with grandchildren: plain, with a group, with a session of its own, and a deaf one."""


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


STARTED_BY = [in_shell, in_job, in_custom_tool, in_hook, in_mcp_server]


def with_family(
    start_server: Start, folder: Path, starting: Callable[[str], tuple[dict[str, Any], str]]
) -> tuple[Stranger, set[int]]:
    """A server whose child has grandchildren, and all of their numbers."""
    ready = folder / "ready"
    os.mkfifo(ready)
    heard = os.open(ready, os.O_RDONLY | os.O_NONBLOCK)
    config, prompt = starting(FAMILY.format(ready=ready))
    allowed = {"toolCall": {"approval": {"byDefault": "allow"}}, "chat": {"title": False}}
    server = start_server(env={"ECA_CONFIG": json.dumps({**allowed, **config})})
    server.introduced(
        folder, capabilities={"codeAssistant": {"chatCapabilities": {"askQuestion": True}}}
    )
    if prompt:
        server.ask("chat/prompt", {"message": prompt, "model": "simulator/script", "chatId": "c"})
    assert select.select([heard], [], [], SECONDS)[0], server.seen[-3:]
    os.close(heard)
    server.settle()  # the call that started the child has returned
    family = children(server.pid)
    assert len(family) >= 5
    return server, family


@pytest.mark.long(but=2)
@pytest.mark.parametrize("starting", STARTED_BY)
def test_nothing_outlives_a_server_that_was_killed(start_server, tmp_path, starting):
    server, family = with_family(start_server, tmp_path, starting)
    server.process.send_signal(signal.SIGKILL)
    assert server.exit_code(within=SECONDS) == -signal.SIGKILL
    assert_gone(family)


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


@pytest.mark.long(but=1)
@pytest.mark.requirement("W-13h")
@pytest.mark.parametrize("number", [signal.SIGQUIT, signal.SIGUSR1])
def test_children_end_with_a_server_that_gets_a_rare_signal(start_server, tmp_path, number):
    server, family = with_family(start_server, tmp_path, in_shell)
    server.process.send_signal(number)
    assert server.exit_code() == 128 + number
    assert_gone(family, within=0.5)

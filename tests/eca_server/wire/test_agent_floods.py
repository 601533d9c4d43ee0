"""Processes of tools that write without end, or leave something behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.eca_server.stranger import contents_of
from tests.eca_server.wire.agent_session import ALLOW, calls, ends, told

MEGABYTE = 2**20


@pytest.mark.long(but=1)
@pytest.mark.requirement("W-6b")
@pytest.mark.parametrize("size", ["100M", pytest.param("1G", marks=pytest.mark.long)])
@pytest.mark.parametrize("stream", [1, 2])
def test_a_flood_of_output_takes_no_memory_and_no_large_message(start_agent, size, stream):
    command = f"yes 'a line of a flood' | head -c {size} >&{stream}"
    agent = start_agent(calls(("eca_shell_command", {"command": command})), **ALLOW)
    (called,) = ends(contents_of(agent.turn(seconds=60)))
    assert "bytes left out" in told(called)
    assert called["error"] is False
    assert agent.results() == [told(called)]
    assert agent.resident() < 100 * MEGABYTE
    assert agent.largest_frame() < MEGABYTE
    assert agent.largest_request() < MEGABYTE


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Path]:
    """Where a daemon notes its pid; it is ended after the test."""
    noted = tmp_path / "project" / "pid"
    yield noted
    if noted.exists() and noted.read_text():
        os.kill(int(noted.read_text()), signal.SIGKILL)


@pytest.mark.long
def test_a_daemon_that_left_its_session_holds_up_neither_the_turn_nor_the_end(start_agent, daemon):
    fork = "setsid -f sh -c 'echo $$ > pid.new; mv pid.new pid; exec sleep 60'"
    command = f"{fork}; while [ ! -e pid ]; do sleep 0.01; done; echo up"
    agent = start_agent(calls(("eca_shell_command", {"command": command})), **ALLOW)
    begun = time.monotonic()
    (called,) = ends(contents_of(agent.turn()))
    assert (told(called), called["error"]) == ("up\n", False)
    assert time.monotonic() - begun < 5
    assert agent.leave() == 0

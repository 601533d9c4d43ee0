"""`eca-server acp` as a process over pipes, at its own server and at one of a command."""

import json
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_protocol.acp import messages as m
from eca_protocol.errors import RPCError
from eca_server.acp.cli import server_maker
from eca_server.connection.features.host import Options
from tests.eca_server import fork_server
from tests.eca_server.acp.bench import editing


@asynccontextmanager
async def _process(tmp_path: Path, *arguments: str) -> AsyncIterator[trio.Process]:
    environ = {**os.environ, "HOME": str(tmp_path)}
    environ["ECA_CONFIG"] = json.dumps({"defaultModel": "simulator/script"})
    command = [*fork_server.command(), "acp", *arguments]
    process = await trio.lowlevel.open_process(
        command, stdin=-1, stdout=-1, env=environ, cwd=tmp_path
    )
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


async def _ask(
    process: trio.Process, lines: list[Any], number: int, method: str, params: Any
) -> Any:
    """Send a request; return its answer, and append everything read to `lines`."""
    message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    await process.stdin.send_all(json.dumps(message).encode() + b"\n")
    pending = b""
    with trio.fail_after(60):
        while True:
            pending += await process.stdout.receive_some(65536)
            *complete, pending = pending.split(b"\n")
            lines += [json.loads(line) for line in complete]
            for line in lines:
                if line.get("id") == number and "method" not in line:
                    return line["result"]


@pytest.mark.parametrize("has_command", [False, True])
async def test_a_conversation_over_pipes(tmp_path: Path, has_command: bool) -> None:
    lines: list[Any] = []
    marking = ("--", "/bin/sh", "-c", 'touch started; exec "$@"', "sh")
    arguments = [*marking, *fork_server.command(), "server"] if has_command else []
    async with _process(tmp_path, *arguments) as process:
        hello = await _ask(process, lines, 1, "initialize", {"protocolVersion": 1})
        assert hello["protocolVersion"] == 1
        new = {"cwd": str(tmp_path), "mcpServers": []}
        session = (await _ask(process, lines, 2, "session/new", new))["sessionId"]
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "say a b c"}]}
        answer = await _ask(process, lines, 3, "session/prompt", prompt)
        assert answer == {"stopReason": "end_turn"}
        updates = [line["params"]["update"] for line in lines if "method" in line]
        chunks = [each for each in updates if each["sessionUpdate"] == "agent_message_chunk"]
        assert "".join(each["content"]["text"] for each in chunks) == "a b c"
        assert (tmp_path / "started").exists() == has_command
        await process.stdin.aclose()
        with trio.fail_after(20):
            assert await process.wait() == 0


def test_the_servers_of_all_sessions_share_the_threads_of_files(tmp_path: Path) -> None:
    make = server_maker(lambda: Options(environ={"HOME": str(tmp_path)}))
    shared = {make(discovers=True)._options.chat_threads for _ in range(3)}
    assert shared == {make(only_answers=True)._options.chat_threads}
    assert None not in shared


async def test_only_a_session_starts_hooks_and_mcp_servers(tmp_path: Path) -> None:
    config = tmp_path / ".config" / "eca" / "config.json"
    config.parent.mkdir(parents=True)
    marks = [tmp_path / "hook", tmp_path / "mcp"]
    touch = [f"touch {mark}" for mark in marks]
    hook = {"type": "sessionStart", "actions": [{"type": "shell", "shell": touch[0]}]}
    server = {"command": "/bin/sh", "args": ["-c", touch[1]]}
    providers = {"p": {"url": "https://corp.example", "key": "a-planted-key"}}
    config.write_text(
        json.dumps({"hooks": {"begun": hook}, "mcpServers": {"m": server}, "providers": providers})
    )
    async with _process(tmp_path) as process:
        await _ask(process, [], 1, "initialize", {"protocolVersion": 1})
        for number in (2, 3):
            assert await _ask(process, [], number, "session/list", {}) == {"sessions": []}
        assert await _ask(process, [], 5, "authenticate", {"methodId": "environment"}) == {}
        assert await _ask(process, [], 6, "session/delete", {"sessionId": "none"}) == {}
        assert await _ask(process, [], 7, "logout", {}) == {}
        assert [mark.exists() for mark in marks] == [False, False]
        await _ask(process, [], 4, "session/new", {"cwd": str(tmp_path), "mcpServers": []})
        with trio.fail_after(20):
            while not all(mark.exists() for mark in marks):
                await trio.sleep(0.01)


@pytest.mark.long
async def test_a_signal_ends_the_server_of_a_session(tmp_path: Path) -> None:
    stubborn = 'trap "" TERM; echo $$ > pid.new; mv pid.new pid; while :; do sleep 0.1; done'
    async with _process(tmp_path, "--", "/bin/sh", "-c", stubborn) as process:
        await _ask(process, [], 1, "initialize", {"protocolVersion": 1})
        new = {"cwd": str(tmp_path), "mcpServers": []}
        message = {"jsonrpc": "2.0", "id": 2, "method": "session/new", "params": new}
        await process.stdin.send_all(json.dumps(message).encode() + b"\n")
        with trio.fail_after(20):
            while not (tmp_path / "pid").exists():
                await trio.sleep(0.01)
            process.terminate()
            assert await process.wait() == 128 + signal.SIGTERM
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "pid").read_text()), 0)


@pytest.mark.long
async def test_a_server_that_dies_in_a_prompt_fails_it(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ECA_CONFIG", json.dumps({"defaultModel": "simulator/script"}))
    pid_file = tmp_path / "pid"
    shell = f'echo $$ > {pid_file}; exec "$@"'
    command = ["/bin/sh", "-c", shell, "sh", *fork_server.ECA, "server"]
    async with editing(tmp_path, command=command) as editor:
        session = await editor.new()
        call = editor.start_prompt(session.session_id, "say x\nwait forever")
        await editor.wait_for(m.AgentMessageChunk)
        os.kill(int(pid_file.read_text()), signal.SIGKILL)
        with pytest.raises(RPCError, match="the ECA server failed"):
            await call.result(deadline=30)
        with trio.fail_after(10):
            with pytest.raises(RPCError):
                await editor.prompt(session.session_id, "say again")
        resumed = m.ResumeSessionRequest(session_id=session.session_id, cwd=str(tmp_path))
        await editor.call("session/resume", resumed)
        assert await editor.prompt(session.session_id, "say again") == "end_turn"
        assert "again" in editor.text()

"""From settings to a session: what is asked first, and what a user reads when it fails."""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_protocol.messages.lifecycle import WorkspaceFolder
from eca_protocol.server.roots import parse_roots, uri_of
from eca_server.agent.mcp.eras import ERAS
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.methods import CLIENT
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.settings import ServerSettings
from tests.eca_server.agent.mcp.scripted import (
    child_of,
    is_gone,
    scripted,
    session_with,
    talking_to,
)
from tests.eca_server.agent.mcp.scripted_server import INFO

STATELESS = "2026-07-28"
INTRODUCTION = json.dumps({"jsonrpc": "2.0", "id": "$id", "result": INFO})


async def fault_of(settings: ServerSettings, log: ServerLog | None = None) -> MCPError:
    """Why there is no session."""
    with pytest.raises(MCPError) as raised:
        async with talking_to(settings, log):
            pass
    return raised.value


async def test_a_session_knows_the_server_and_the_revision():
    async with session_with() as session:
        assert session.info.name == "scripted"
        assert session.instructions == "Be scripted."
        assert session.era is ERAS["2025-11-25"]


async def test_the_handshake_names_the_client_its_capabilities_and_its_end():
    script = {
        "on": {
            "initialize": [["echo_message"], ["result", INFO]],
            "notifications/initialized": [["echo_message"]],
        }
    }
    log = ServerLog("bad")
    async with session_with(script, log) as session:
        await session.ping()
    asked, told = map(json.loads, log.last_lines(10, 10_000).splitlines())
    assert asked["params"] == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {"listChanged": True}},
        "clientInfo": dict(CLIENT),
    }
    assert told == {"jsonrpc": "2.0", "method": "notifications/initialized"}


async def test_the_client_sends_its_version():
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    assert CLIENT["version"] == project["version"]


@pytest.mark.parametrize("revision", [name for name, era in ERAS.items() if not era.stateless])
async def test_every_revision_with_a_handshake_is_spoken(revision):
    answer = {**INFO, "protocolVersion": revision}
    async with session_with({"on": {"initialize": [["result", answer]]}}) as session:
        assert session.era is ERAS[revision]
        assert [tool.name for tool in await session.list_tools()] == ["echo"]


async def test_an_unknown_revision_is_named_with_ours():
    answer = {**INFO, "protocolVersion": "1999-01-01"}
    error = await fault_of(scripted({"on": {"initialize": [["result", answer]]}}))
    assert "1999-01-01" in error.message
    assert "2025-11-25" in error.message


async def test_a_missing_program_is_named_with_the_path_that_was_searched(tmp_path):
    folders = [str(tmp_path), *(f"/programs/{number}" for number in range(100))]
    path = {"PATH": os.pathsep.join(folders)}
    error = await fault_of(ServerSettings(name="bad", command="no-such-program", env=path))
    assert error.kind == "start"
    assert "no-such-program" in error.message
    assert f"({tmp_path}, /programs/0, " in error.message
    assert "and 95 more)" in error.message


async def test_the_program_is_looked_up_on_the_servers_own_path(tmp_path):
    (tmp_path / "my-server").symlink_to(sys.executable)
    settings = scripted(command="my-server", env={"PATH": str(tmp_path)})
    async with talking_to(settings) as session:
        assert session.info.name == "scripted"


async def test_a_program_that_is_no_program_is_refused(tmp_path):
    file = tmp_path / "server"
    file.write_text("#!/bin/sh\n")
    error = await fault_of(ServerSettings(name="bad", command=str(file)))
    assert error.kind == "start"
    assert str(file) in error.message


async def test_a_relative_program_is_looked_for_in_the_servers_directory(tmp_path):
    (tmp_path / "my-server").symlink_to(sys.executable)
    settings = scripted(command="./my-server", directory=tmp_path)
    async with talking_to(settings) as session:
        assert session.info.name == "scripted"


async def test_a_missing_directory_and_a_missing_program_have_different_errors(tmp_path):
    error = await fault_of(scripted(directory=tmp_path / "gone"))
    assert error.kind == "start"
    assert "directory" in error.message
    error = await fault_of(scripted(directory=tmp_path / ("x" * 300)))
    assert "its directory cannot be used (File name too long)" in error.message


async def test_arguments_inside_the_command_get_a_hint():
    error = await fault_of(ServerSettings(name="bad", command="no-such-npx -y server"))
    assert "`args`" in error.message


async def test_a_variable_of_null_is_removed_and_others_are_set(monkeypatch):
    monkeypatch.setenv("UNWANTED", "1")
    log = ServerLog("bad")
    settings = scripted(
        {"at_start": [["environment", "UNWANTED"], ["environment", "WANTED"]]},
        env={"UNWANTED": None, "WANTED": "yes"},
    )
    async with talking_to(settings, log):
        pass
    assert log.last_lines().splitlines() == ["UNWANTED=None", "WANTED='yes'"]


async def test_a_server_that_ends_at_once_shows_its_code_and_its_last_lines():
    error = await fault_of(scripted({"at_start": [["stderr", "bad arguments"], ["exit", 7]]}))
    assert error.kind == "closed"
    assert "exit code 7" in error.message
    assert "bad arguments" in error.message


async def test_a_server_that_never_answers_is_killed():
    log = ServerLog("bad")
    steps = [["stderr", "downloading"], ["child", 60, {}], ["hang"]]
    error = await fault_of(scripted({"at_start": steps}, start_seconds=0.3), log)
    assert error.kind == "timeout"
    assert "0.3 s" in error.message
    assert "downloading" in error.message
    assert await is_gone(child_of(log))


async def test_npx_that_may_be_asking_gets_a_hint(tmp_path):
    (tmp_path / "npx").symlink_to(sys.executable)
    settings = scripted({"at_start": [["hang"]]}, command=str(tmp_path / "npx"), start_seconds=0.2)
    assert "`-y`" in (await fault_of(settings)).message


async def test_a_start_can_be_cancelled():
    with trio.move_on_after(0.2) as patience:
        async with session_with({"at_start": [["hang"]]}):
            pass
    assert patience.cancelled_caught


async def test_a_refused_handshake_fails_with_the_servers_message():
    error = await fault_of(scripted({"on": {"initialize": [["error", -32000, "no licence"]]}}))
    assert "no licence" in error.message


@pytest.mark.parametrize("answer", [{}, None, [], "yes", {"protocolVersion": 7}])
async def test_an_answer_without_a_revision_is_no_handshake(answer):
    error = await fault_of(scripted({"on": {"initialize": [["result", answer]]}}))
    assert "protocolVersion" in error.message


async def test_an_answer_of_neither_kind_fails_the_handshake_at_once():
    script = {"on": {"initialize": [["say", {"jsonrpc": "2.0", "id": "$id"}]]}}
    error = await fault_of(scripted(script))
    assert "neither a result nor an error" in error.message


async def test_a_server_without_server_info_is_accepted():
    answer = {"protocolVersion": "2025-06-18", "capabilities": None, "serverInfo": {"name": None}}
    async with session_with({"on": {"initialize": [["result", answer]]}}) as session:
        assert session.info.name == ""
        assert [tool.name for tool in await session.list_tools()] == ["echo"]
        assert await session.list_prompts() == ()


DISCOVERED = {
    "supportedVersions": [STATELESS],
    "capabilities": {"tools": {}},
    "instructions": "stateless",
    "resultType": "complete",
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modern"}},
}
STATELESS_SCRIPT = {
    "on": {
        "initialize": [["error", -32022, "no handshakes", {"supported": [STATELESS]}]],
        "server/discover": [["result", DISCOVERED]],
        "tools/list": [["echo_message"], ["result", {"tools": [{"name": "late"}]}]],
    }
}


@pytest.mark.parametrize(
    "refusal",
    [
        ["error", -32022, "no handshakes", {"supported": [STATELESS]}],
        ["error", -32022, "no handshakes"],
        ["error", -32601, "unknown method initialize"],
        ["error", -32600, f"this server speaks {STATELESS} only"],
    ],
)
async def test_a_refusal_that_names_a_stateless_revision_is_followed_in_a_new_process(refusal):
    on = {**STATELESS_SCRIPT["on"], "initialize": [refusal, ["stderr", "was asked"]]}
    log = ServerLog("bad")
    async with session_with({"on": on}, log) as session:
        assert session.era is ERAS[STATELESS]
        assert session.info.name == "modern"
        assert [tool.name for tool in await session.list_tools()] == ["late"]
    said = log.last_lines(10, 10_000).splitlines()
    assert said[0] == "was asked"
    meta = json.loads(said[-1])["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == STATELESS
    assert meta["io.modelcontextprotocol/clientInfo"] == dict(CLIENT)
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {"roots": {}}


async def test_a_server_that_is_to_be_legacy_is_never_spoken_to_without_a_handshake():
    error = await fault_of(scripted(STATELESS_SCRIPT, revision="legacy"))
    assert "no handshakes" in error.message


async def test_a_configured_stateless_revision_is_spoken_from_the_first_line():
    script = {"on": {**STATELESS_SCRIPT["on"], "initialize": [["exit", 9]]}}
    async with session_with(script, revision=STATELESS) as session:
        assert session.era.stateless
        await session.ping()


async def test_a_stateless_server_of_other_revisions_is_refused():
    answer = {**DISCOVERED, "supportedVersions": ["2031-01-01"]}
    script = {"on": {"server/discover": [["result", answer]]}}
    error = await fault_of(scripted(script, revision=STATELESS))
    assert "2031-01-01" in error.message


@pytest.mark.parametrize(
    "script",
    [
        {"at_start": [["repeat", 2000, ["line", "npm notice"]]]},
        {"on": {"initialize": [["line", "npm notice\n" * 2000 + INTRODUCTION]]}},
    ],
    ids=["before anything else", "in one breath with an answer"],
)
async def test_noise_without_end_is_no_server(script: dict[str, Any]):
    error = await fault_of(scripted(script))
    assert "1000 lines" in error.message, error.message


async def test_a_server_runs_in_its_first_root_and_elsewhere_if_configured(tmp_path):
    root = tmp_path / "a root"
    root.mkdir()
    roots, _ = parse_roots([WorkspaceFolder(name="r", uri=uri_of(root))])
    log = ServerLog("bad")
    async with talking_to(scripted({"at_start": [["where"]]}), log, lambda: roots):
        pass
    elsewhere = scripted({"at_start": [["where"]]}, directory=tmp_path)
    async with talking_to(elsewhere, log, lambda: roots):
        pass
    assert log.last_lines().splitlines() == [str(root), str(tmp_path)]

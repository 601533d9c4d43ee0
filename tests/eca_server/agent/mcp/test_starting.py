"""From settings to a session: revisions, what is asked first, what a user reads when it fails."""

import base64
import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.messages.lifecycle import WorkspaceFolder
from eca_protocol.server.roots import parse_roots, uri_of
from eca_server.agent.mcp.eras import ERAS, OFFERED, era_of, header_value, newest_stateless
from eca_server.agent.mcp.methods import CLIENT
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.config.mcp_settings import MCPServer
from tests.eca_server.agent.mcp.scripted import (
    STATELESS,
    failure,
    pid_in,
    scripted,
    session_with,
    talking_to,
)
from tests.eca_server.agent.mcp.scripted_server import INFO
from tests.eca_server.processes import assert_gone

INTRODUCTION = json.dumps({"jsonrpc": "2.0", "id": "$id", "result": INFO})


def on_initialize(*steps: Any) -> dict[str, Any]:
    return {"on": {"initialize": [*steps]}}


async def test_the_handshake_names_the_client_its_capabilities_and_its_end():
    script = on_initialize(["echo_message"], ["result", INFO])
    script["on"]["notifications/initialized"] = [["echo_message"]]
    log = ServerLog("bad")
    async with session_with(script, log) as session:
        assert session.instructions == "Be scripted."
        await session.ping()
    request, announced = map(json.loads, log.last_lines(10, 10_000).splitlines())
    assert request["params"] == {
        "protocolVersion": "2025-11-25",
        "capabilities": {"roots": {"listChanged": True}},
        "clientInfo": dict(CLIENT),
    }
    assert announced == {"jsonrpc": "2.0", "method": "notifications/initialized"}
    project = tomllib.loads(Path("pyproject.toml").read_text())["project"]
    assert CLIENT["version"] == project["version"]


@pytest.mark.long(but=2)
@pytest.mark.parametrize("revision", [name for name, era in ERAS.items() if not era.stateless])
async def test_every_revision_with_a_handshake_is_spoken(revision):
    answer = {"protocolVersion": revision, "capabilities": None, "serverInfo": {"name": None}}
    async with session_with(on_initialize(["result", answer])) as session:
        assert session.era is ERAS[revision]
        assert [tool.name for tool in await session.list_tools()] == ["echo"]
        assert await session.list_prompts() == ()


async def test_a_program_that_cannot_be_started_is_named_with_the_reason(tmp_path):
    path = os.pathsep.join([str(tmp_path), *(f"/programs/{number}" for number in range(100))])
    file = tmp_path / "server"
    file.write_text("#!/bin/sh\n")
    searched = ["no-such-program", f"({tmp_path}, /programs/0, ", "and 95 more)"]
    rows: list[tuple[dict[str, Any], list[str]]] = [
        ({"command": "no-such-program", "env": {"PATH": path}}, searched),
        ({"command": str(file)}, [str(file)]),
        ({"command": "no-such-npx -y server"}, ["`args`"]),
        ({"command": sys.executable, "cwd": str(tmp_path / "gone")}, ["directory does not exist"]),
        ({"command": sys.executable, "cwd": "x" * 300}, ["File name too long"]),
    ]
    for settings, reasons in rows:
        error = await failure(talking_to(MCPServer(**settings)))
        assert error.kind == "start"
        assert all(reason in error.message for reason in reasons), error.message


async def test_a_program_is_looked_for_on_the_servers_own_path_and_in_its_directory(tmp_path):
    (tmp_path / "my-server").symlink_to(sys.executable)
    for settings in (
        scripted(command="my-server", env={"PATH": str(tmp_path)}),
        scripted(command="./my-server", cwd=str(tmp_path)),
    ):
        async with talking_to(settings) as session:
            assert session.instructions == "Be scripted."


async def test_a_server_runs_with_its_variables_in_its_first_root_or_its_directory(
    tmp_path, monkeypatch
):
    monkeypatch.setenv("UNWANTED", "1")
    root = tmp_path / "a root"
    (root / "sub").mkdir(parents=True)
    roots, _ = parse_roots([WorkspaceFolder(name="r", uri=uri_of(root))])
    script = {"at_start": [["environment", "UNWANTED"], ["environment", "WANTED"], ["where"]]}
    log = ServerLog("bad")
    env = {"UNWANTED": None, "WANTED": "yes"}
    for directory, settings in (
        (root, scripted(script, env=env)),
        (tmp_path, scripted(script, env=env, cwd=str(tmp_path))),
        (root / "sub", scripted(script, env=env, cwd="sub")),
    ):
        async with talking_to(settings, log, lambda: roots):
            pass
        lines = log.last_lines(6).splitlines()
        assert lines == ["UNWANTED=None", "WANTED='yes'", str(directory)]


@pytest.mark.long
async def test_a_server_that_never_answers_is_killed_or_its_start_cancelled(tmp_path):
    log = ServerLog("bad")
    steps = [["stderr", "downloading"], ["child", 60, {}], ["hang"]]
    error = await failure(talking_to(scripted({"at_start": steps}), log, start_seconds=3))
    assert error.kind == "timeout"
    assert "3 s" in error.message
    assert "downloading" in error.message
    assert_gone({pid_in(log)})
    (tmp_path / "npx").symlink_to(sys.executable)  # which may be asking its user
    settings = scripted({"at_start": [["idle"]]}, command=str(tmp_path / "npx"))
    assert "`-y`" in (await failure(talking_to(settings, start_seconds=0.2))).message
    with trio.move_on_after(0.2) as patience:
        async with session_with({"at_start": [["idle"]]}):
            pass
    assert patience.cancelled_caught


NPM_ERROR = [
    ["stderr", "npm error code E404"],
    ["stderr", "npm error 404 Not Found - GET https://registry"],
    *([["stderr", "npm error 404"]] * 100),
]
UNKNOWN = {**INFO, "protocolVersion": "1999-01-01"}
NEITHER = {"jsonrpc": "2.0", "id": "$id"}


@pytest.mark.parametrize(
    ("script", "reasons"),
    [
        ({"at_start": [["stderr", "bad arguments"], ["exit", 7]]}, ["exit code 7", "bad argu"]),
        ({"at_start": [["line", "no key"], ["exit", 7]]}, ["exit code 7", "no key"]),
        ({"at_start": [["stderr", "\x1b[31mred"], ["exit", 7]]}, ["exit code 7", "\\x1b[31mred"]),
        (on_initialize(["error", -32000, "no \u202elicence"]), ["no \\u202elicence"]),
        ({"at_start": [*NPM_ERROR, ["exit", 7]]}, ["exit code 7", "404 Not Found", "...\n"]),
        (on_initialize(["error", -32000, "no licence"]), ["no licence"]),
        (on_initialize(["result", UNKNOWN]), ["1999-01-01", "2025-11-25"]),
        (on_initialize(["result", None]), ["protocolVersion"]),
        (on_initialize(["result", "yes"]), ["protocolVersion"]),
        (on_initialize(["result", {"protocolVersion": 7}]), ["protocolVersion"]),
        (on_initialize(["say", NEITHER]), ["neither a result nor an error"]),
        ({"at_start": [["repeat", 2000, ["line", "npm notice"]]]}, ["1000 lines"]),
        (on_initialize(["line", "npm notice\n" * 2000 + INTRODUCTION]), ["1000 lines"]),
    ],
    ids=range(13),
)
async def test_a_handshake_that_fails_says_why(script, reasons):
    error = await failure(talking_to(scripted(script)))
    assert (error.kind == "closed") is ("exit code 7" in reasons)
    for reason in reasons:
        assert reason in error.message, error.message


DISCOVERED = {
    "supportedVersions": [STATELESS],
    "capabilities": {"tools": {}},
    "instructions": "stateless",
    "resultType": "complete",
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "modern"}},
}
REFUSAL = ["error", -32022, "no handshakes", {"supported": [STATELESS]}]
STATELESS_SCRIPT = {
    "initialize": [REFUSAL],
    "server/discover": [["result", DISCOVERED]],
    "tools/list": [["echo_message"], ["result", {"tools": [{"name": "late"}]}]],
}


@pytest.mark.parametrize(
    "refusal",
    [
        REFUSAL,
        ["error", -32022, "no handshakes"],
        ["error", -32601, "unknown method initialize"],
        ["error", -32600, f"this server speaks {STATELESS} only"],
    ],
)
async def test_a_refusal_that_names_a_stateless_revision_is_followed_in_a_new_process(refusal):
    on = {**STATELESS_SCRIPT, "initialize": [refusal, ["stderr", "was asked"]]}
    log = ServerLog("bad")
    async with session_with({"on": on}, log) as session:
        assert session.era is ERAS[STATELESS]
        assert [tool.name for tool in await session.list_tools()] == ["late"]
    lines = log.last_lines(10, 10_000).splitlines()
    assert lines[0] == "was asked"
    meta = json.loads(lines[-1])["params"]["_meta"]
    assert meta["io.modelcontextprotocol/protocolVersion"] == STATELESS
    assert meta["io.modelcontextprotocol/clientInfo"] == dict(CLIENT)
    assert meta["io.modelcontextprotocol/clientCapabilities"] == {"roots": {}}


async def test_a_configured_revision_is_spoken_from_the_first_line_or_not_at_all():
    on = {**STATELESS_SCRIPT, "initialize": [["exit", 9]]}
    async with session_with({"on": on}, protocol=STATELESS) as session:
        assert session.era.stateless
        await session.ping()
    error = await failure(talking_to(scripted({"on": STATELESS_SCRIPT}, protocol="legacy")))
    assert "no handshakes" in error.message
    of_others = {"server/discover": [["result", {"supportedVersions": ["2031-01-01"]}]]}
    error = await failure(talking_to(scripted({"on": of_others}, protocol=STATELESS)))
    assert "2031-01-01" in error.message


def test_every_published_revision_is_spoken_and_the_newest_handshake_is_offered():
    assert list(ERAS) == ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
    assert [name for name, era in ERAS.items() if era.stateless] == ["2026-07-28"]
    assert max(name for name, era in ERAS.items() if not era.stateless) == OFFERED
    for name in (None, 3, "2026", ["2025-11-25"], "DRAFT"):
        assert era_of(name) is None
    assert newest_stateless(["2025-11-25", "2026-07-28", "2031-01-01"]) is ERAS["2026-07-28"]
    assert newest_stateless(["2025-11-25"]) is None
    assert newest_stateless("2026-07-28") is None


@given(st.text())
def test_every_text_fits_into_a_header_and_comes_back(text):
    value = header_value(text)
    assert value.isascii()
    assert value == value.strip()
    assert value.isprintable()
    if value.startswith("=?base64?"):
        encoded = value.removeprefix("=?base64?").removesuffix("?=")
        assert base64.b64decode(encoded) == text.encode("utf-8", "replace")
    else:
        assert value == text

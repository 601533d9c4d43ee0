"""Cases of announcements: settings to choose from, tool servers, changes."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
from collections.abc import Mapping
from typing import Any, Final

from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.chat_session import comes
from eca_protocol.testing.conformance.harness import ClientSession, Harness
from eca_protocol.testing.conformance.recorder import ReceivedMessage
from eca_protocol.testing.conformance.server.children import becomes_true
from eca_protocol.testing.conformance.server.reading import INTRODUCTION_SECONDS
from eca_protocol.testing.conformance.target import Directories
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.members import object_at
from eca_protocol.testing.watching.announcements import AT_FIRST, SELECTIONS

GREETING: Final = "Welcome to the conformance suite"
_MUTE: Final = "import sys; open(sys.argv[1], 'w').close(); sys.stdin.read()"
_EARLY_SECONDS: Final = 0.5
_NOTICE_SECONDS: Final = 1.5  # in which a watcher of files notices a change
BROKEN_FILE: Final = '{"welcomeMessage": '


@case(
    "LIFE-14", "W-11a", "W-11b", "W-11c", "W-11e", "CONF-8", "CONF-11", seconds=30, handshake=False
)
async def it_introduces_itself(session: ClientSession) -> None:
    """Send `initialize` and `initialized`; read all notifications that follow."""
    await session.initialize()
    update = await _wait_for_introduction(session)
    session.record_pass("LIFE-14")
    _check_settings(session, object_at(update.params, "chat"))
    if await comes(_task_ends(session, shows="W-11e")):
        session.record_pass("W-11e")
    native = await _native_server(
        session, shows="W-11c", expected="`tool/serverUpdated` of the server ECA"
    )
    expected = "`tool/serverUpdated` of the native server after `config/updated`"
    got = f"`config/updated` as message {update.index}, the native server as {native.index}"
    session.check("W-11c", update.index < native.index, expected, got)
    is_right = native.params.get("status") == "running"
    expected = "status running of the native server"
    session.check("CONF-8", is_right, expected, native.params.get("status"))
    _check_tools(session, native.params.get("tools"))


async def _wait_for_introduction(session: ClientSession) -> ReceivedMessage:
    """Send `initialized`; return the first `config/updated` after it."""
    await session.notify("initialized", {})
    return await session.wait_for(
        "config/updated", seconds=INTRODUCTION_SECONDS, shows="LIFE-14", expected="`config/updated`"
    )


def _check_settings(session: ClientSession, chat: Mapping[str, Any]) -> None:
    missing = [name for name in AT_FIRST if name not in chat]
    session.check("W-11a", not missing, f"`chat` with {', '.join(AT_FIRST)}", chat)
    invalid = {
        name: chat[name]
        for name, of in SELECTIONS.items()
        if name in chat
        and isinstance(chat.get(of), list)
        and not (chat[name] and chat[name] in chat[of])
    }
    session.check("W-11b", not invalid, "each selection is in its list and not empty", invalid)


async def _native_server(session: ClientSession, **options: Any) -> ReceivedMessage:
    return await session.until(
        lambda each: each.method == "tool/serverUpdated" and each.params.get("type") != "mcp",
        **options,
    )


async def _task_ends(session: ClientSession, *, shows: str | None = None) -> None:
    started: list[object] = []

    def ends(received: ReceivedMessage) -> bool:
        kind, task = received.params.get("type"), received.params.get("taskId")
        if received.method == "$/progress" and kind == "start":
            started.append(task)
        return received.method == "$/progress" and kind == "finish" and task in started

    await session.until(ends, shows=shows, expected="the start and the finish of one task")


def _check_tools(session: ClientSession, tools: Any) -> None:
    if not tools:
        session.not_applicable("CONF-11", "It has no native tools.")
        return
    invalid = [
        tool
        for tool in (tools if isinstance(tools, list) else [tools])
        if not (
            isinstance(tool, Mapping)
            and isinstance(tool.get("parameters"), Mapping | bool)
            and isinstance(tool.get("disabled"), bool | None)
        )
    ]
    expected = "each tool with `parameters`; `disabled` is a boolean, null or missing"
    session.check("CONF-11", not invalid, expected, invalid)


@case("LIFE-17", "W-11d", "W-11f", needs="config", seconds=30)
async def an_mcp_server_holds_nothing_up(harness: Harness) -> None:
    """Configure an MCP server that never answers; read the announcements.

    `initialized` comes late, to see whether the MCP server's process starts before an update.
    """
    started = harness.directories().temporary / "started"
    mute_server = {"command": sys.executable, "args": ["-ISc", _MUTE, str(started)]}
    config = {"mcpServers": {"mute": mute_server}}
    async with harness.session(config=config, handshake=False) as session:
        await session.initialize()
        has_started = await becomes_true(started.exists, seconds=_EARLY_SECONDS)
        is_early = has_started and not session.config
        expected = "no process of an MCP server before the first `config/updated`"
        harness.check("LIFE-17", not is_early, expected, "a process" if is_early else "no process")
        update = await _wait_for_introduction(session)
        mute = await session.wait_for(
            "tool/serverUpdated",
            {"name": "mute"},
            expected="`tool/serverUpdated` of the server mute",
        )
        expected = "the MCP server's `tool/serverUpdated` after the first `config/updated`"
        got = f"the MCP server as message {mute.index}, `config/updated` as {update.index}"
        harness.check("LIFE-17", update.index < mute.index, expected, got)
        native = await _native_server(session, expected="the native server")
        expected = "the MCP server's `tool/serverUpdated` after the native server's"
        got = f"the MCP server as message {mute.index}, the native server as {native.index}"
        harness.check("W-11d", native.index < mute.index, expected, got)
        ends = await comes(_task_ends(session))
    if not ends:
        async with harness.session(fresh=True) as plain:
            if not await comes(_task_ends(plain)):
                raise Unmet("the end of the task without a configured MCP server", "none")
    expected = "`$/progress` finishes although an MCP server does not start"
    harness.check("W-11f", ends, expected, "a finished task" if ends else "no finished task")


@case("LIFE-16", needs="config")
async def a_provider_holds_nothing_up(harness: Harness) -> None:
    """Configure a provider whose endpoint accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as endpoint:
        provider = {
            "api": "openai-chat",
            "url": f"http://127.0.0.1:{endpoint.getsockname()[1]}/v1",
            "key": "a key",
            "fetchModels": True,
            "models": {"silent": {}},
        }
        config = {"providers": {"silent": provider}}
        async with harness.session(config=config, handshake=False) as session:
            await session.initialize()
            await session.notify("initialized", {})
            expected = "`config/updated`, though a provider does not answer"
            await session.wait_for("config/updated", shows="LIFE-16", expected=expected)
    harness.record_pass("LIFE-16")


@case("CONF-6", needs="config", config={"welcomeMessage": GREETING}, fresh=True)
async def the_welcome_is_the_configured_one(session: ClientSession) -> None:
    """Configure `welcomeMessage`."""
    with contextlib.suppress(Unmet):
        await session.until_holds(
            lambda: "welcomeMessage" in session.config,
            seconds=INTRODUCTION_SECONDS,
            expected="a welcome message",
        )
    got = session.config.get("welcomeMessage")
    session.check("CONF-6", got == GREETING, GREETING, got)


def write_configuration(directories: Directories, text: str) -> None:
    """Write the user's and the workspace's configuration file."""
    for folder in (directories.home / ".config" / "eca", directories.workspace / ".eca"):
        folder.mkdir(parents=True, exist_ok=True)
        new = folder / "new"
        new.write_text(text)
        new.replace(folder / "config.json")


async def _welcome_is_announced(session: ClientSession) -> ReceivedMessage:
    expected = "`config/updated` with the new welcome message"
    return await session.wait_for(
        "config/updated", text=GREETING, seconds=15, shows="CONF-3", expected=expected
    )


@case("CONF-3", needs="config", seconds=40, fresh=True)
async def a_broken_file_is_survived(session: ClientSession) -> None:
    """Write half of a configuration file, then a whole one.

    Whether the broken file is reported is left to the server.
    """
    write_configuration(session.wire.directories, BROKEN_FILE)
    try:
        await session.quiet(_NOTICE_SECONDS)
        await session.settle()
    except Unmet as stuck:
        expected = "a server that runs with a broken configuration file"
        session.check("CONF-3", False, expected, stuck.got)
        raise
    write_configuration(session.wire.directories, json.dumps({"welcomeMessage": GREETING}))
    await _welcome_is_announced(session)
    session.record_pass("CONF-3")


@case("CONF-3", "W-11g", needs="config", seconds=30, fresh=True)
async def a_change_of_configuration_is_announced(session: ClientSession) -> None:
    """Create the user's and the workspace's configuration file with one setting.

    A server may ignore a workspace that the user has not trusted.
    """
    before = session.config
    write_configuration(session.wire.directories, json.dumps({"welcomeMessage": GREETING}))
    message = await _welcome_is_announced(session)
    session.record_pass("CONF-3")
    update_chat = object_at(message.params, "chat")
    repeated = [
        name for name, value in update_chat.items() if before.get(name) == value or value is None
    ]
    got = f"unchanged or null: {', '.join(repeated) or 'none'}"
    session.check("W-11g", not repeated, "only changed settings, no null", got)


@case("W-36d", fresh=True)
async def unknown_mcp_servers_are_named_to_the_user(session: ClientSession) -> None:
    """Send `mcp/startServer` and `mcp/stopServer` with an unknown name."""
    for method in ("mcp/startServer", "mcp/stopServer"):
        last = session.messages[-1]
        await session.notify(method, {"name": "no-such-server"})
        expected = f"`$/showMessage` of type warning after {method}"
        await session.wait_for(
            "$/showMessage", {"type": "warning"}, after=last, shows="W-36d", expected=expected
        )
    session.record_pass("W-36d")

"""Cases of MCP servers: announcements, calls, stop and start, prompts and resources."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from eca_protocol import json
from eca_protocol.http_server import HTTPRequest, Responder, serve
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.harness import Harness
from eca_protocol.testing.conformance.recorder import ReceivedMessage
from eca_protocol.testing.conformance.server.children import becomes_true, has_ended, last_pid
from eca_protocol.testing.conformance.server.contexts import require_files
from eca_protocol.testing.conformance.server.queries import commands, find_contexts
from eca_protocol.testing.conformance.server.reading import (
    all_text,
    calls,
    conversation,
    offered_tools,
    start_call,
)
from eca_protocol.testing.conformance.server.stops import stop_turn
from eca_protocol.testing.conformance.session import ClientSession
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.members import at, list_at
from eca_protocol.testing.script import reply

PROGRAM: Final = Path(__file__).parents[1] / "mcp_server.py"
UPDATED: Final = "tool/serverUpdated"
_LEGAL: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def program(*arguments: str, **more: Any) -> dict[str, Any]:
    """Return the configuration of the kit's MCP server."""
    return {"command": sys.executable, "args": ["-S", "-E", str(PROGRAM), *arguments], **more}


SERVERS: Final[dict[str, object]] = {
    "kit": program(),
    "toggled": program(),
    "off": program(disabled=True),
    "broken": {"command": "there-is-no-such-program", "args": []},
}
CONFIG: Final[dict[str, object]] = {"chat": {"title": False}, "mcpServers": SERVERS}


def updates(session: ClientSession, name: str) -> list[ReceivedMessage]:
    """Return all updates of that MCP server since the ECA server was started."""
    return [
        received
        for received in session.wire.recorder.messages
        if received.method == UPDATED and received.params.get("name") == name
    ]


async def wait_for_status(
    session: ClientSession,
    name: str,
    *statuses: str,
    after: ReceivedMessage | None = None,
    shows: str | None = None,
) -> ReceivedMessage:
    """Return the first update of an MCP server, after another one, with one of these statuses."""
    earliest = -1 if after is None else after.index
    for received in updates(session, name):
        if received.params.get("status") in statuses and received.index > earliest:
            return received
    return await session.until(
        lambda each: (
            each.method == UPDATED
            and each.params.get("name") == name
            and each.params.get("status") in statuses
        ),
        seconds=15,
        after=after,
        shows=shows,
        expected=f"the MCP server {name} to be {' or '.join(statuses)}",
    )


@case("CONF-9", "CONF-10", needs="config", seconds=30, config=CONFIG)
async def mcp_servers_are_shown_as_they_come(session: ClientSession) -> None:
    """Configure a working MCP server, a missing program, and a disabled server."""
    running = await wait_for_status(session, "kit", "running", shows="CONF-10")
    tools = [
        each.get("name") for each in list_at(running.params, "tools") if isinstance(each, Mapping)
    ]
    expected_names = ["echo", "sleep", "odd name!", "odd name?"]
    has_them = sorted(map(str, tools)) == sorted(expected_names)
    session.check("CONF-10", has_them, f"{expected_names}, in any order", tools)
    await wait_for_status(session, "broken", "failed", shows="CONF-9")
    await wait_for_status(session, "off", "disabled", shows="CONF-9")
    statuses = [received.params.get("status") for received in updates(session, "kit")]
    expected = "the status starting, then running"
    session.check("CONF-9", statuses[:2] == ["starting", "running"], expected, statuses)


@case("W-37", "TOOL-10", "TOOL-11", needs="config", seconds=30, config=CONFIG)
async def a_tool_of_an_mcp_server_is_called(session: ClientSession) -> None:
    """Call a tool of an MCP server by the name in the request to the model."""
    await wait_for_status(session, "kit", "running")
    await wait_for_status(session, "toggled", "running")
    chat = await session.take_approved_turn(
        "Call it.",
        lambda request: calls((name_of(request.body, "kit", "echo"), {"text": "hello"})),
        reply("Called."),
    )
    names = offered_tools(chat.model.first.body)
    foreign = [name for name in names if "kit" in name or "toggled" in name]
    wrong = [name for name in foreign if not _LEGAL.fullmatch(name)]
    is_right = len(foreign) == len(set(foreign)) == 8 and not wrong
    expected = "eight unique names with server and tool, of legal characters"
    session.check("W-37", is_right, expected, foreign)
    called = (chat.of("toolCalled") or [{}])[-1]
    if "echo: hello" not in all_text(called.get("outputs")):
        raise Unmet("the output of the tool", called)
    call_contents = [each for each in chat.of() if str(each.get("type")).startswith("toolCall")]
    for row, key, expected in (("TOOL-10", "origin", "mcp"), ("TOOL-11", "server", "kit")):
        values = [each.get(key) for each in call_contents]
        is_right = all(each == expected for each in values)
        session.check(row, is_right, f"{key} {expected!r} in every content of the call", values)


def name_of(body: Any, server: str, tool: str) -> str:
    """Return the name by which a request offers a tool of an MCP server."""
    names = [name for name in offered_tools(body) if server in name and tool in name]
    return names[0] if names else tool


@case("W-23c", needs="config", seconds=30, config=CONFIG)
async def a_stop_ends_a_call_of_an_mcp_server(session: ClientSession) -> None:
    """Stop the turn while a tool runs that takes half a minute."""
    await wait_for_status(session, "kit", "running")
    chat = session.chat(lambda request: calls((name_of(request.body, "kit", "sleep"), {})))
    await start_call(chat, "Sleep.")
    await chat.comes("toolCallRunning")
    took = await stop_turn(chat)
    is_soon = took is not None and took <= 1
    got = "no `finished`" if took is None else f"`finished` after {took:.1f} s"
    session.check("W-23c", is_soon, "`finished` within 1 s of the stop", got)


@case(
    "CONF-12", "CONF-13", "CONF-15", "CONF-16", "W-36e", "W-36f", needs="config", seconds=45
)  # fmt: skip
async def mcp_servers_are_stopped_and_started(harness: Harness) -> None:
    """Stop and start a running, a disabled and a failed MCP server."""
    pids = harness.directories().temporary / "pids"
    servers = {**SERVERS, "toggled": program(str(pids))}
    async with harness.session(fresh=True, config={"mcpServers": servers}) as session:
        await _stop_and_start(session, pids)


async def _stop_and_start(session: ClientSession, pids: Path) -> None:
    running = await wait_for_status(session, "toggled", "running")
    await session.notify("mcp/stopServer", {"name": "toggled"})
    first_stop = await wait_for_status(
        session, "toggled", "stopped", after=running, shows="CONF-13"
    )
    session.record_pass("CONF-13")
    gone = await becomes_true(partial(has_ended, last_pid(pids)), seconds=2)
    got = "the end of the process" if gone else "a running process"
    session.check("CONF-12", gone, "the end of the MCP server's process", got)
    await session.notify("mcp/stopServer", {"name": "toggled"})
    again = await wait_for_status(session, "toggled", "stopped", after=first_stop, shows="W-36f")

    await session.notify("mcp/startServer", {"name": "toggled"})
    starting = await wait_for_status(session, "toggled", "starting", after=again, shows="CONF-16")
    running = await wait_for_status(session, "toggled", "running", after=starting, shows="CONF-15")
    session.record_pass("CONF-15", "CONF-16")
    await session.notify("mcp/startServer", {"name": "toggled"})
    await wait_for_status(session, "toggled", "running", after=running, shows="W-36f")
    session.record_pass("W-36f")

    off = await wait_for_status(session, "off", "disabled")
    await session.notify("mcp/startServer", {"name": "off"})
    await wait_for_status(session, "off", "running", after=off, shows="W-36e")
    failed = await wait_for_status(session, "broken", "failed")
    await session.notify("mcp/startServer", {"name": "broken"})
    await wait_for_status(session, "broken", "starting", "failed", after=failed, shows="W-36e")
    session.record_pass("W-36e")


@case("CHAT-31", "W-40d", needs="config", seconds=30, config=CONFIG)
async def a_prompt_of_an_mcp_server_is_a_command(session: ClientSession) -> None:
    """Query for a prompt of an MCP server, and run it with an argument."""
    await wait_for_status(session, "kit", "running")
    listed = await commands(session, "greet")
    names = [str(each.get("name")) for each in listed]
    matching = [name for name in names if "kit" in name]
    session.check(
        "CHAT-31", matching, "a command of the MCP server kit for its prompt greet", names
    )
    if matching:
        arguments = [each for command in listed for each in list_at(command, "arguments")]
        without_required = [
            each for each in arguments if not isinstance(at(each, "required"), bool)
        ]
        are_said = arguments and not without_required
        session.check("W-40d", are_said, "a boolean `required` in each argument", arguments)
        chat = session.chat(reply("Hello!"))
        await chat.prompt(f"/{matching[0]} {chat.model.marker}", marker=False)
        await chat.model.wait_for_requests()
        sent = conversation(chat.model.first.body)
        expected = "the MCP prompt's text in the request to the model"
        session.check("CHAT-31", f"Say hello to {chat.model.marker}." in sent, expected, sent)
        await chat.finished()


@case("CTX-7", needs="config", seconds=30, config=CONFIG)
async def a_resource_of_an_mcp_server_is_a_context(session: ClientSession) -> None:
    """Query for a resource of an MCP server, and prompt with it as a context."""
    await wait_for_status(session, "kit", "running")
    resource = {
        "type": "mcpResource",
        "uri": "memo://today",
        "name": "today",
        "description": "What is on today.",
        "mimeType": "text/plain",
        "server": "kit",
    }
    await require_files(session)
    listed = [
        each for each in await find_contexts(session, "") if each.get("type") == "mcpResource"
    ]
    chat = await session.take_turn("What is on?", reply("I see."), contexts=[resource])
    sent = all_text(chat.model.first.body)
    is_right = "Today we test." in sent and any(each.get("server") == "kit" for each in listed)
    expected = "the resource in the list of contexts, and its text in the request"
    got = f"contexts {listed}; the request {conversation(chat.model.first.body)}"
    session.check("CTX-7", is_right, expected, got)


@asynccontextmanager
async def _locked_server(harness: Harness) -> AsyncIterator[tuple[ClientSession, str]]:
    """Open a session with an MCP server that requires a login; yield it and the server's URL.

    Without any update of the MCP server, its status is not judged.
    """
    async with serve(_lock) as server:
        url = f"{server.url}/mcp"
        config = {"chat": {"title": False}, "mcpServers": {"locked": {"url": url}}}
        async with harness.session(fresh=True, config=config) as session:
            expected = "any status of the MCP server locked"
            await session.wait_for(UPDATED, {"name": "locked"}, seconds=15, expected=expected)
            yield session, url


async def _lock(request: HTTPRequest, responder: Responder) -> None:
    base = f"http://{request.headers['host']}"
    if request.path == "/mcp":
        metadata = f'Bearer resource_metadata="{base}/.well-known/oauth-protected-resource"'
        await responder.respond(401, b"", {"www-authenticate": metadata})
        return
    answers: Mapping[str, Any] = {
        "oauth-protected-resource": {
            "resource": f"{base}/mcp",
            "authorization_servers": [base],
        },
        "oauth-authorization-server": {
            "issuer": base,
            "authorization_endpoint": f"{base}/authorize",
            "token_endpoint": f"{base}/token",
            "registration_endpoint": f"{base}/register",
            "response_types_supported": ["code"],
            "code_challenge_methods_supported": ["S256"],
        },
        "register": {
            "client_id": "conformance",
            "redirect_uris": list_at(json.loads(request.body or b"{}"), "redirect_uris"),
            "token_endpoint_auth_method": "none",
        },
    }
    document = next((value for part, value in answers.items() if part in request.path), None)
    if document is None:
        await responder.respond(404, b"")
        return
    status = 201 if request.path == "/register" else 200
    await responder.respond(status, json.dumps(document), {"content-type": "application/json"})


@case("W-36a", "W-36b", until=Revision.R2025_10, needs="config", seconds=30)
async def an_mcp_server_that_wants_a_login_has_failed(harness: Harness) -> None:
    """Configure an MCP server whose URL refuses requests without a token."""
    async with _locked_server(harness) as (session, url):
        params = (await wait_for_status(session, "locked", "failed", shows="W-36b")).params
        shape = (params.get("command"), params.get("args"))
        harness.check("W-36a", shape == (url, []), f"the command {url} and the arguments []", shape)
        expected = "a message for the user, with the link to log in with"
        await session.wait_for(
            "$/showMessage", text="/authorize?", seconds=10, shows="W-36b", expected=expected
        )
        harness.record_pass("W-36b")


@case("W-36c", since=Revision.CURRENT, needs="config", seconds=30)
async def an_mcp_server_that_wants_a_login_says_so_in_current(harness: Harness) -> None:
    """Configure an MCP server whose URL refuses requests without a token."""
    async with _locked_server(harness) as (session, _):
        await wait_for_status(session, "locked", "requires-auth", shows="W-36c")
        harness.record_pass("W-36c")

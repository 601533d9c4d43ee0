"""Cases of MCP servers: shown, called, stopped and started; their prompts and resources."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final

from eca_protocol import json
from eca_protocol.http_server import HTTPRequest, Responder, serve
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import Stuck, case
from eca_protocol.testing.conformance.seat import Seat
from eca_protocol.testing.conformance.server.children import becomes_so, is_gone
from eca_protocol.testing.conformance.server.contexts import needs_files
from eca_protocol.testing.conformance.server.queries import commands, found
from eca_protocol.testing.conformance.server.reading import (
    asked,
    calls,
    comes,
    contents,
    conversation,
    id_of,
    offered,
    params_of,
    shown,
    words,
)
from eca_protocol.testing.conformance.server.stops import stopped
from eca_protocol.testing.conformance.server.tools import approving
from eca_protocol.testing.conformance.wire import Heard
from eca_protocol.testing.script import reply

PROGRAM: Final = Path(__file__).parents[1] / "mcp_server.py"
UPDATED: Final = "tool/serverUpdated"
_LEGAL: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def program(*arguments: str, **more: Any) -> dict[str, Any]:
    """The configuration of our small MCP server."""
    return {"command": sys.executable, "args": ["-S", "-E", str(PROGRAM), *arguments], **more}


SERVERS: Final = {
    "kit": program(),
    "toggled": program(),
    "off": program(disabled=True),
    "broken": {"command": "there-is-no-such-program", "args": []},
}
CONFIG: Final = {"chat": {"title": False}, "mcpServers": SERVERS}


def updates(seat: Seat, name: str) -> list[Heard]:
    """What was told of that MCP server, since the ECA server was started."""
    told = [heard for heard in seat.wire.heard if heard.method == UPDATED]
    return [heard for heard in told if heard.params.get("name") == name]


async def is_so(
    seat: Seat, name: str, *statuses: str, after: Heard | None = None, shows: str | None = None
) -> Heard:
    """The first update of an MCP server, behind another one, that has one of these statuses.

    Raises:
        Stuck: there is none.
    """
    earliest = -1 if after is None else after.index
    for heard in updates(seat, name):
        if heard.params.get("status") in statuses and heard.index > earliest:
            return heard
    return await seat.until(
        lambda message: (
            message.get("method") == UPDATED
            and params_of(message).get("name") == name
            and params_of(message).get("status") in statuses
        ),
        seconds=15,
        after=after,
        shows=shows,
        expected=f"the MCP server {name} to be {' or '.join(statuses)}",
    )


@case("CONF-9", "CONF-10", needs="config", seconds=30)
async def mcp_servers_are_shown_as_they_come(bench: Bench) -> None:
    """One that works, one whose program there is not, and one that is disabled."""
    async with bench.seat(config=CONFIG) as seat:
        running = await is_so(seat, "kit", "running", shows="CONF-10")
        told = running.params.get("tools")
        tools = [
            tool.get("name")
            for tool in (told if isinstance(told, list) else ())
            if isinstance(tool, Mapping)
        ]
        wanted = ["echo", "sleep", "odd name!", "odd name?"]
        has_them = sorted(map(str, tools)) == sorted(wanted)
        bench.check("CONF-10", has_them, expected=f"{wanted}, in any order", got=tools)
        await is_so(seat, "broken", "failed", shows="CONF-9")
        await is_so(seat, "off", "disabled", shows="CONF-9")
        statuses = [heard.params.get("status") for heard in updates(seat, "kit")]
        bench.check(
            "CONF-9",
            statuses[:2] == ["starting", "running"],
            expected="starting, then running",
            got=statuses,
        )


@case("W-37", "TOOL-10", "TOOL-11", needs="config", seconds=30)
async def a_tool_of_an_mcp_server_is_called(bench: Bench) -> None:
    """The model calls it by the name that it is offered, and reads a file as well."""
    async with bench.seat(config=CONFIG) as seat:
        await is_so(seat, "kit", "running")
        await is_so(seat, "toggled", "running")
        chat = seat.chat(
            lambda request: calls((name_of(request.body, "kit", "echo"), {"text": "hello"})),
            reply("Called."),
        )
        await chat.prompt("Call it.")
        await approving(chat)
        names = offered(chat.model.first.body)
        foreign = [name for name in names if "kit" in name or "toggled" in name]
        wrong = [name for name in foreign if not _LEGAL.fullmatch(name)]
        bench.check(
            "W-37",
            len(foreign) == len(set(foreign)) == 8 and not wrong,
            expected="eight names with server and tool, legal, each once",
            got=foreign,
        )
        called = (chat.of("toolCalled") or [{}])[-1]
        if "echo: hello" not in words(called.get("outputs")):
            raise Stuck("the output of the tool", called)
        told = [each for each in contents(chat) if str(each.get("type")).startswith("toolCall")]
        for row, key, wanted in (("TOOL-10", "origin", "mcp"), ("TOOL-11", "server", "kit")):
            given = [each.get(key) for each in told]
            bench.check(
                row,
                all(each == wanted for each in given),
                expected=f"the {key} {wanted} in every content of the call",
                got=given,
            )


def name_of(body: Any, server: str, tool: str) -> str:
    """The name by which a request offers a tool of an MCP server."""
    names = [name for name in offered(body) if server in name and tool in name]
    return names[0] if names else tool


@case("W-23c", needs="config", seconds=30)
async def a_stop_ends_a_call_of_an_mcp_server(bench: Bench) -> None:
    """A stop while a tool runs that takes half a minute."""
    async with bench.seat(config=CONFIG) as seat:
        await is_so(seat, "kit", "running")
        chat = seat.chat(lambda request: calls((name_of(request.body, "kit", "sleep"), {})))
        await chat.prompt("Sleep.")
        run = await shown(chat, "toolCallRun")
        if run.get("manualApproval"):
            await chat.approve(id_of(run))
        await comes(chat, "toolCallRunning")
        took = await stopped(chat)
        bench.check(
            "W-23c",
            took is not None and took <= 1,
            expected="`finished` within 1 s of the stop",
            got=f"{took} s",
        )


@case(
    "CONF-12", "CONF-13", "CONF-15", "CONF-16", "W-36e", "W-36f", needs="config", seconds=45
)  # fmt: skip
async def mcp_servers_are_stopped_and_started(bench: Bench) -> None:
    """One that runs, one that is disabled, one that has failed."""
    with tempfile.TemporaryDirectory(prefix="eca-conformance-") as folder:
        pids = Path(folder) / "pids"
        servers = {**SERVERS, "toggled": program(str(pids))}
        async with bench.seat(fresh=True, config={"mcpServers": servers}) as seat:
            await _stop_and_start(bench, seat, pids)


async def _stop_and_start(bench: Bench, seat: Seat, pids: Path) -> None:
    running = await is_so(seat, "toggled", "running")
    await seat.tell("mcp/stopServer", {"name": "toggled"})
    stopped_ = await is_so(seat, "toggled", "stopped", after=running, shows="CONF-13")
    bench.saw("CONF-13")
    gone = await becomes_so(partial(is_gone, _started_last(pids)), seconds=2)
    bench.check("CONF-12", gone, expected="the end of its process", got="it runs on")
    await seat.tell("mcp/stopServer", {"name": "toggled"})
    again = await is_so(seat, "toggled", "stopped", after=stopped_, shows="W-36f")

    await seat.tell("mcp/startServer", {"name": "toggled"})
    starting = await is_so(seat, "toggled", "starting", after=again, shows="CONF-16")
    running = await is_so(seat, "toggled", "running", after=starting, shows="CONF-15")
    bench.saw("CONF-15", "CONF-16")
    await seat.tell("mcp/startServer", {"name": "toggled"})
    await is_so(seat, "toggled", "running", after=running, shows="W-36f")
    bench.saw("W-36f")

    off = await is_so(seat, "off", "disabled")
    await seat.tell("mcp/startServer", {"name": "off"})
    await is_so(seat, "off", "running", after=off, shows="W-36e")
    failed = await is_so(seat, "broken", "failed")
    await seat.tell("mcp/startServer", {"name": "broken"})
    await is_so(seat, "broken", "starting", "failed", after=failed, shows="W-36e")
    bench.saw("W-36e")


def _started_last(pids: Path) -> int:
    return int(pids.read_text().split()[-1])


@case("CHAT-31", "W-40d", needs="config", seconds=30)
async def a_prompt_of_an_mcp_server_is_a_command(bench: Bench) -> None:
    """It is found as a command, and run with an argument."""
    async with bench.seat(config=CONFIG) as seat:
        await is_so(seat, "kit", "running")
        listed = await commands(seat, "greet")
        names = [str(each.get("name")) for each in listed]
        mine = [name for name in names if "kit" in name]
        bench.check("CHAT-31", mine, expected="a command of kit's to greet", got=names)
        if mine:
            some = [command.get("arguments") for command in listed]
            arguments = [each for its in some if isinstance(its, list) for each in its]
            unsaid = [
                each
                for each in arguments
                if not isinstance(each, Mapping) or not isinstance(each.get("required"), bool)
            ]
            said = arguments and not unsaid
            bench.check("W-40d", said, expected="`required` of each argument", got=arguments)
            chat = seat.chat(reply("Hello!"))
            await chat.prompt(f"/{mine[0]} {chat.model.word}", word=False)
            await asked(chat)
            told = conversation(chat.model.first.body)
            bench.check(
                "CHAT-31",
                f"Say hello to {chat.model.word}." in told,
                expected="the prompt's text in the request",
                got=told,
            )
            await chat.finished()


@case("CTX-7", needs="config", seconds=30)
async def a_resource_of_an_mcp_server_is_a_context(bench: Bench) -> None:
    """It is found as a context, and shown to the model."""
    async with bench.seat(config=CONFIG) as seat:
        await is_so(seat, "kit", "running")
        resource = {
            "type": "mcpResource",
            "uri": "memo://today",
            "name": "today",
            "description": "What is on today.",
            "mimeType": "text/plain",
            "server": "kit",
        }
        await needs_files(seat)
        listed = [each for each in await found(seat, "") if each.get("type") == "mcpResource"]
        chat = seat.chat(reply("I see."))
        await chat.prompt("What is on?", contexts=[resource])
        await chat.finished()
        told = words(chat.model.first.body)
        bench.check(
            "CTX-7",
            "Today we test." in told and any(each.get("server") == "kit" for each in listed),
            expected="the resource among the contexts, its text in the request",
            got=f"{listed}, {conversation(chat.model.first.body)}",
        )


@asynccontextmanager
async def locked() -> AsyncIterator[str]:
    """An MCP server behind a URL that wants a login, with the authorization that goes with it."""
    async with serve(_lock) as server:
        yield f"{server.url}/mcp"


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
            "redirect_uris": _redirects(request.body),
            "token_endpoint_auth_method": "none",
        },
    }
    found = next((value for part, value in answers.items() if part in request.path), None)
    if found is None:
        await responder.respond(404, b"")
        return
    status = 201 if request.path == "/register" else 200
    await responder.respond(status, json.dumps(found), {"content-type": "application/json"})


def _redirects(body: bytes) -> list[Any]:
    asked = json.loads(body) if body else {}
    given = asked.get("redirect_uris", []) if isinstance(asked, dict) else []
    return list(given)


@case("W-36a", "W-36b", until=Revision.R2025_10, needs="config", seconds=30)
async def an_mcp_server_that_wants_a_login_has_failed(bench: Bench) -> None:
    """It is behind a URL, and refuses everybody without a token."""
    async with locked() as url, bench.seat(fresh=True, config=behind(url)) as seat:
        told = (await is_so(seat, "locked", "failed", shows="W-36b")).params
        shape = (told.get("command"), told.get("args"))
        bench.check("W-36a", shape == (url, []), expected=f"{url}, []", got=shape)
        await seat.until(
            lambda message: (
                message.get("method") == "$/showMessage" and "/authorize?" in str(message)
            ),
            seconds=10,
            shows="W-36b",
            expected="a message for the user, with the link to log in with",
        )
        bench.saw("W-36b")


@case("W-36c", since=Revision.CURRENT, needs="config", seconds=30)
async def an_mcp_server_that_wants_a_login_says_so_in_current(bench: Bench) -> None:
    """It is behind a URL, and refuses everybody without a token."""
    async with locked() as url, bench.seat(fresh=True, config=behind(url)) as seat:
        await is_so(seat, "locked", "requires-auth", shows="W-36c")
        bench.saw("W-36c")


def behind(url: str) -> dict[str, Any]:
    """The configuration of one MCP server behind a URL."""
    return {"chat": {"title": False}, "mcpServers": {"locked": {"url": url}}}

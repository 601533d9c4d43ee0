"""Our MCP client as the official conformance suite starts it: with a server's URL, and no browser.

Run as `python conformance_client.py URL`; the suite says in the environment which scenario it is.
It connects, logs in where that is wanted, lists what there is, and calls every tool.
"""

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

import trio

from eca_protocol.http import HTTPClient
from eca_server.agent.mcp.authorization.login import Login
from eca_server.agent.mcp.connection import connect
from eca_server.agent.mcp.eras import ERAS
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.messages import MCPTool
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.session import Session
from eca_server.config.mcp_settings import MCPServer, OAuthClient
from eca_server.models.credentials.logins import Logins
from eca_server.secret import Secret

MOST_LOGINS = 6
CONTEXT: Mapping[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
REVISION = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "auto")


async def log_in(http: HTTPClient, page: str, has_logged_in: trio.Event) -> None:
    """Open the page as a user who approves every login, and go where it sends the browser.

    Raises:
        trio.TooSlowError: no login comes of it.
    """
    async with http.stream("GET", page) as response:
        there = response.headers["location"]
    async with http.stream("GET", there):
        pass
    with trio.fail_after(20):
        await has_logged_in.wait()


async def work(session: Session) -> None:
    """Use all that a server offers."""
    tools = await session.list_tools()
    for name, arguments in _wanted_calls(tools):
        try:
            outcome: object = await session.call_tool(name, arguments, deadline=10)
        except MCPError as error:
            if error.kind != "refused":
                raise
            outcome = error
        print(f"{name}: {outcome}", file=sys.stderr)
    await session.list_prompts()
    await session.list_resources()


def _wanted_calls(tools: tuple[MCPTool, ...]) -> list[tuple[str, Mapping[str, Any]]]:
    if "toolCalls" in CONTEXT:
        return [(call["name"], call.get("arguments", {})) for call in CONTEXT["toolCalls"]]
    return [(tool.name, _arguments(tool, tools[0])) for tool in tools]


def _arguments(tool: MCPTool, first: MCPTool) -> dict[str, Any]:
    """Return the simplest valid arguments of a tool; one tool takes those of the first one."""
    samples = {"string": "a", "number": 1, "integer": 1, "boolean": True, "array": []}
    fields = tool.input_schema.get("properties", {})
    return {
        name: samples.get(field.get("type"), first.input_schema) for name, field in fields.items()
    }


async def main(url: str) -> None:
    """Come to a session as often as a login is wanted."""
    secret = CONTEXT.get("client_secret")
    revision = REVISION if REVISION in ERAS else "auto"
    settings = MCPServer(url=url, protocol=revision)
    has_logged_in = trio.Event()
    with tempfile.TemporaryDirectory() as home:
        async with trio.open_nursery() as nursery, HTTPClient() as http:
            login = Login(
                url=url,
                http=http,
                logins=Logins({"XDG_DATA_HOME": home, "HOME": home}),
                nursery=nursery,
                client=OAuthClient(
                    client_id=CONTEXT.get("client_id"),
                    client_secret=Secret(secret) if secret else None,
                ),
                on_login=lambda: has_logged_in.set(),  # noqa: PLW0108 - the event changes
            )
            how = {"environment": {}, "roots": tuple, "log": ServerLog("suite")}
            for _ in range(MOST_LOGINS):
                try:
                    async with connect(settings, http=http, login=login, **how) as session:
                        await work(session)
                    break
                except* MCPError as faults:
                    (error,) = faults.exceptions
                    print(f"{error.kind}: {error}", file=sys.stderr)
                    if error.url is None:
                        raise
                    has_logged_in = trio.Event()
                    await log_in(http, error.url, has_logged_in)
            nursery.cancel_scope.cancel()


if __name__ == "__main__":
    trio.run(main, sys.argv[1])

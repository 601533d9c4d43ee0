"""MCP servers over stdio: their tools, prompts and resources, and the states a client sees."""

from __future__ import annotations

import contextlib
import os
import re
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urlsplit

import anyio

from eca_protocol import json
from eca_protocol.errors import HTTPError, InvalidJSON, StartFailed
from eca_protocol.process import Child, GracePeriods, spawn
from tests.eca_protocol.testing.conformance.reference.tools import Tool, ToolFault

if TYPE_CHECKING:
    from tests.eca_protocol.testing.conformance.reference.server import Server

PROTOCOL = "2025-06-18"


class MCPTool(Tool):
    """A tool of an MCP server."""

    origin = "mcp"

    def __init__(self, owner: Server, server: MCPServer, listed: dict[str, Any]) -> None:
        super().__init__(owner)
        self.server, self.name = server.name, listed["name"]
        self.description = listed.get("description") or self.name
        self._mcp, self._schema = server, listed.get("inputSchema") or {"type": "object"}

    @property
    def offered_name(self) -> str:
        """Return a name that is legal for every model, made unique by the number."""
        legal = re.sub(r"[^A-Za-z0-9_-]", "_", f"{self.server}__{self.name}")
        return f"{legal[:60]}_{self._mcp.tools.index(self)}"

    @property
    def parameters(self) -> dict[str, Any]:
        return self._schema

    async def run(self, arguments: dict[str, Any]) -> str:
        try:
            result = await self._mcp.call("tools/call", {"name": self.name, "arguments": arguments})
        except MCPFault as fault:
            raise ToolFault(str(fault)) from fault
        text = self.cut("\n".join(part.get("text", "") for part in result.get("content", ())))
        if result.get("isError"):
            raise ToolFault(text)
        return text


class MCPFault(Exception):
    """A server that cannot be started, or does not answer as it should."""


class LoginNeeded(MCPFault):
    """A server that refuses clients without a login; the text has the link."""


class MCPServer:
    """One configured server; it can be started and stopped again and again."""

    def __init__(self, owner: Server, name: str, settings: dict[str, Any]) -> None:
        self.owner, self.name = owner, name
        self._settings = settings
        self.status = "disabled" if settings.get("disabled") else "stopped"
        self.tools: list[MCPTool] = []
        self.prompts: list[dict[str, Any]] = []
        self.resources: list[dict[str, Any]] = []
        self._child: Child | None = None
        self._scope = anyio.CancelScope()
        self._ended = anyio.Event()
        self._ids = 0
        self._answers: dict[int, Any] = {}
        self._waiting: dict[int, anyio.Event] = {}

    def start(self) -> None:
        if self.status in ("starting", "running"):
            self.announce(self.status)
            return
        self.announce("starting")
        self._scope, self._ended = anyio.CancelScope(), anyio.Event()
        self.owner.tasks.start_soon(self._run)

    async def stop(self) -> None:
        if self.status in ("starting", "running"):
            self._scope.cancel()
            await self._ended.wait()
        self.tools, self.prompts, self.resources = [], [], []
        self.announce("stopped")

    def announce(self, status: str) -> None:
        self.status = status
        self.owner.notify("tool/serverUpdated", self.announced(status), unasked=True)

    def announced(self, status: str) -> dict[str, Any]:
        """Return the server as the client sees it in that state."""
        params = {
            "type": "mcp",
            "name": self.name,
            "command": self._settings.get("url") or self._settings["command"],
            "args": self._settings.get("args", []),
            "status": status,
        }
        if status == "running":
            params["tools"] = self.owner.toolbox.listed(self.tools, self.owner.behavior)
        return params

    async def _run(self) -> None:
        try:
            with self._scope:
                try:
                    await self._converse()
                except* (MCPFault, StartFailed) as faults:
                    self.announce("failed")
                    why = faults.exceptions[0]
                    self.owner.show("error", f"The MCP server {self.name} failed: {why}")
        finally:
            self._ended.set()

    async def _converse(self) -> None:
        if "url" in self._settings:
            await self._ask_for_login(self._settings["url"])
        command = [self._settings["command"], *self._settings.get("args", [])]
        env = {**os.environ, **self._settings.get("env", {})}
        self._child = spawn(command, env=env, stderr="null")
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(self._greet)
                await self._listen(self._child)
                group.cancel_scope.cancel()
            raise MCPFault("it has ended")
        finally:
            for waiting in self._waiting.values():
                waiting.set()
            await self._child.end(GracePeriods(after_stdin=0.1, after_term=0.3, after_kill=0.3))
            self._child = None

    async def _ask_for_login(self, url: str) -> NoReturn:
        """Return the login of servers behind a URL."""
        origin = url.removesuffix(urlsplit(url).path)
        place = f"{origin}/.well-known/oauth-authorization-server"
        try:
            async with self.owner.http.stream("GET", place) as response:
                where = json.loads(await response.read())["authorization_endpoint"]
        except (HTTPError, InvalidJSON, KeyError, TypeError) as fault:
            raise MCPFault("it cannot be reached") from fault
        raise LoginNeeded(f"log in at {where}?response_type=code&client_id=reference")

    async def _greet(self) -> None:
        about = {"name": "reference", "version": "1"}
        params = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": about}
        able = (await self.call("initialize", params)).get("capabilities", {})
        await self._send({"method": "notifications/initialized"})
        if "tools" in able:
            listed = (await self.call("tools/list", {}))["tools"]
            self.tools = [self.owner.parts.mcp_tool(self.owner, self, each) for each in listed]
        if "prompts" in able:
            self.prompts = (await self.call("prompts/list", {}))["prompts"]
        if "resources" in able:
            self.resources = (await self.call("resources/list", {}))["resources"]
        self.announce("running")

    async def _listen(self, child: Child) -> None:
        buffer = b""
        while data := await child.transport.receive():
            *lines, buffer = (buffer + data).split(b"\n")
            for line in filter(None, lines):
                with contextlib.suppress(InvalidJSON):
                    message = json.loads(line)
                    if "method" not in message and message.get("id") in self._waiting:
                        self._answers[message["id"]] = message
                        self._waiting[message["id"]].set()

    async def _send(self, message: dict[str, Any]) -> None:
        if self._child is None:
            raise MCPFault(f"the server {self.name} does not run")
        with contextlib.suppress(OSError):
            await self._child.transport.send(json.dumps({"jsonrpc": "2.0", **message}) + b"\n")

    async def call(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request; return its result."""
        self._ids += 1
        number, self._waiting[self._ids] = self._ids, anyio.Event()
        try:
            await self._send({"id": number, "method": method, "params": params})
            await self._waiting[number].wait()
        finally:
            del self._waiting[number]
        answer = self._answers.pop(number, {"error": {"message": "it has ended"}})
        if "error" in answer:
            raise MCPFault(str(answer["error"].get("message")))
        return answer["result"]


class MCPServers:
    """The configured MCP servers."""

    def __init__(self, owner: Server) -> None:
        self._owner = owner
        configured = owner.config.get("mcpServers", {})
        self._servers = {
            name: owner.parts.mcp_server(owner, name, settings)
            for name, settings in configured.items()
        }

    def start_all(self) -> None:
        for server in self._servers.values():
            if server.status == "disabled":
                server.announce("disabled")
            else:
                server.start()

    @property
    def tools(self) -> list[MCPTool]:
        return [tool for server in self._servers.values() for tool in server.tools]

    def prompts(self) -> list[tuple[MCPServer, dict[str, Any]]]:
        return [(server, each) for server in self._servers.values() for each in server.prompts]

    def resources(self) -> list[dict[str, Any]]:
        """Return the contexts that the servers offer."""
        return [
            {
                "type": "mcpResource",
                "uri": each["uri"],
                "name": each["name"],
                "description": each.get("description", ""),
                "mimeType": each.get("mimeType", "text/plain"),
                "server": server.name,
            }
            for server in self._servers.values()
            for each in server.resources
        ]

    def add(self, server: MCPServer) -> None:
        self._servers[server.name] = server

    def remove(self, server: MCPServer) -> None:
        del self._servers[server.name]

    def get(self, name: str) -> MCPServer | None:
        """Return the server of that name; warn the user if there is none."""
        if name not in self._servers:
            self._owner.show("warning", f"There is no MCP server {name!r}.")
        return self._servers.get(name)

    async def read_resource(self, server: str, uri: str) -> str:
        if server not in self._servers:
            return f"There is no MCP server {server!r}."
        try:
            result = await self._servers[server].call("resources/read", {"uri": uri})
        except MCPFault as fault:
            return f"{uri}: {fault}"
        return "\n".join(each.get("text", "") for each in result["contents"])

    async def close(self) -> None:
        async with anyio.create_task_group() as group:
            for server in self._servers.values():
                if server.status in ("starting", "running"):
                    group.start_soon(server.stop)

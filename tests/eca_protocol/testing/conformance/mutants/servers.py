"""Mutants of the announcements of tools and MCP servers."""

from __future__ import annotations

from typing import Any

from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference.mcp import MCPServer, MCPTool
from tests.eca_protocol.testing.conformance.reference.params import Params
from tests.eca_protocol.testing.conformance.reference.server import Server
from tests.eca_protocol.testing.conformance.reference.tools import Toolbox

Message = dict[str, Any]


@breaks("W-11c", "Does not show its native tools.")
class NativeServerIsNotShown(Server):
    def notify(self, method: str, params: Any, *, unasked: bool = False) -> None:
        if method != "tool/serverUpdated" or params["type"] != "native":
            super().notify(method, params, unasked=unasked)


@breaks("W-33a", "Calls the native server by another name.")
class NativeServerIsCalledSo(Server):
    def notify(self, method: str, params: Any, *, unasked: bool = False) -> None:
        if method == "tool/serverUpdated" and params["type"] == "native":
            params = {**params, "name": "eca"}
        super().notify(method, params, unasked=unasked)


@breaks("W-36d", "Says nothing when a server is started that there is not.")
class UnknownServersAreSilent(Server):
    def show(self, kind: str, text: str) -> None:
        if not text.startswith("There is no MCP"):
            super().show(kind, text)


@breaks("GEN-1", "Shows a message without a word when it has introduced itself.")
class EmptyMessages(Server):
    def introduce(self) -> None:
        super().introduce()
        self.show("info", " ")


@breaks("FIELD:ShowMessageParams.message", "Spells a field of `$/showMessage` otherwise.")
class MessagesAreCalledText(Server):
    def notify(self, method: str, params: Any, *, unasked: bool = False) -> None:
        if method == "$/showMessage":
            params = {"type": params["type"], "text": params["message"]}
        super().notify(method, params, unasked=unasked)


@breaks("FIELD:ServerTool.description", "Shows tools without saying what they are for.")
class ToolsWithoutDescription(Toolbox):
    def listed(self, tools: Any, behavior: str) -> list[dict[str, Any]]:
        listed = super().listed(tools, behavior)
        return [{key: tool[key] for key in tool if key != "description"} for tool in listed]


@breaks("CONF-11", "Writes the schema of a tool as a text.")
class SchemasAsText(Toolbox):
    def listed(self, tools: Any, behavior: str) -> list[dict[str, Any]]:
        listed = super().listed(tools, behavior)
        return [{**tool, "parameters": str(tool["parameters"])} for tool in listed]


@breaks("W-33b", "Does not tell that a behaviour disables tools.")
class ListIsNotSentAgain(Server):
    def select_behavior(self, params: Params) -> None:
        introduced, self.announce_native_tools = self.announce_native_tools, lambda: None  # type: ignore[method-assign] - for this call
        super().select_behavior(params)
        self.announce_native_tools = introduced  # type: ignore[method-assign] - as it was


@breaks("CONF-13", "Does not tell that a server has stopped.")
class StopIsNotTold(MCPServer):
    def announce(self, status: str) -> None:
        if status == "stopped":
            self.status = status
        else:
            super().announce(status)


@breaks("CONF-12", "Says that a server has stopped, and lets it run on.")
class StopLeavesTheProcess(MCPServer):
    async def stop(self) -> None:
        if self.owner.exit_code is None and self.owner.state == "ready":
            self.announce("stopped")
        else:
            self.status = "running"
            await super().stop()

    def start(self) -> None:
        if self._child is None:
            super().start()
        else:
            self.announce("starting")
            self.announce("running")


@breaks("CONF-10", "Shows a server that runs without its tools.")
class RunningWithoutTools(MCPServer):
    def announce(self, status: str) -> None:
        tools, self.tools = self.tools, []
        super().announce(status)
        self.tools = tools


@breaks("W-36f", "Says nothing when what runs is started.")
class SameStatusIsSilent(MCPServer):
    def start(self) -> None:
        if self.status not in ("starting", "running"):
            super().start()


@breaks("W-36e", "Does not start what is disabled.")
class DisabledStaysSo(MCPServer):
    def start(self) -> None:
        if self.status != "disabled":
            super().start()


@breaks("W-37", "Offers a server's tool under the name that the server gave it.")
class ToolsByTheirOwnName(MCPTool):
    @property
    def offered_name(self) -> str:
        return str(self.name)


@breaks("CONF-8", "Says that the native server starts.")
class NativeServerStarts(Server):
    def notify(self, method: str, params: Any, *, unasked: bool = False) -> None:
        if method == "tool/serverUpdated" and params["type"] == "native":
            params = {**params, "status": "starting"}
        super().notify(method, params, unasked=unasked)


@breaks("CONF-9", "Does not tell that a server starts with the session.")
class FirstStartIsNotTold(MCPServer):
    has_started = False

    def announce(self, status: str) -> None:
        if status == "starting" and not self.has_started:
            self.status, self.has_started = status, True
        else:
            super().announce(status)


@breaks("CONF-16", "Does not tell that a server starts which the user has started.")
class RestartIsNotTold(MCPServer):
    has_started = False

    def announce(self, status: str) -> None:
        if status == "starting" and self.has_started:
            self.status = status
        else:
            self.has_started = self.has_started or status == "starting"
            super().announce(status)


@breaks("CONF-15", "Says that it starts a server which was stopped, and does not.")
class StoppedForEver(MCPServer):
    async def stop(self) -> None:
        self.was_stopped = True
        await super().stop()

    async def _run(self) -> None:
        if not hasattr(self, "was_stopped"):
            await super()._run()


@breaks("W-36a", "Does not tell the URL of a server as its command.")
class URLsAreHidden(MCPServer):
    def announced_command(self) -> tuple[str, list[str]]:
        return ("", []) if "url" in self._settings else super().announced_command()


@breaks("W-36b", "Does not give the link to log in with.")
class LoginsAreNotNamed(Server):
    def show(self, kind: str, text: str) -> None:
        super().show(kind, text.partition("log in")[0])


@breaks("W-11d", "Shows MCP servers before the native one.")
class ServersComeFirst(Server):
    def introduce(self) -> None:
        native, self.announce_native_tools = self.announce_native_tools, lambda: None  # type: ignore[method-assign] - announced below
        super().introduce()
        self.announce_native_tools = native  # type: ignore[method-assign] - as it was
        native()


@breaks("LIFE-17", "Starts with `initialize`, and is announced when the client is ready.")
class ServersStartAtOnce(MCPServer):
    def __init__(self, owner: Server, name: str, settings: dict[str, Any]) -> None:
        super().__init__(owner, name, settings)
        self.has_begun = self.status == "disabled"
        if not self.has_begun:
            super().start()

    def start(self) -> None:
        if self.has_begun:
            super().start()
        self.has_begun = True


@breaks("LIFE-20", "Answers `shutdown` before an MCP server has ended.")
class ServersOutliveTheShutdown(MCPServer):
    async def stop(self) -> None:
        if self.owner.state == "shutdown" and self.owner.exit_code is None:
            return
        await super().stop()


@breaks("W-11f", "Tells the end of its start when MCP servers have started.")
class StartWaitsForServers(Server):
    finish: Any = None

    def notify(self, method: str, params: Any, *, unasked: bool = False) -> None:
        if method == "$/progress" and params["type"] == "finish" and "mcpServers" in self.config:
            self.finish = params
            return
        super().notify(method, params, unasked=unasked)
        if self.finish and params.get("status") in ("running", "failed", "disabled"):
            finish, self.finish = self.finish, None
            super().notify("$/progress", finish)

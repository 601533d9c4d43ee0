"""Mutants of the announcements of tools and MCP servers."""

from typing import Any

from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference.mcp import MCPServer, MCPTool
from tests.eca_protocol.testing.conformance.reference.params import Params
from tests.eca_protocol.testing.conformance.reference.server import Server

Message = dict[str, Any]


@breaks("GEN-1", "Shows a message without a word when it has introduced itself.")
class EmptyMessages(Server):
    def introduce(self) -> None:
        super().introduce()
        self.show("info", " ")


@breaks("W-33b", "Does not tell that a behaviour disables tools.")
class ListIsNotSentAgain(Server):
    def select_behavior(self, params: Params) -> None:
        introduced, self.announce_native_tools = self.announce_native_tools, lambda: None  # type: ignore[method-assign] - for this call
        super().select_behavior(params)
        self.announce_native_tools = introduced  # type: ignore[method-assign] - as it was


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

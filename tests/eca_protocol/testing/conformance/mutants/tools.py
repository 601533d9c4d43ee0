"""Mutants of tools, calls and MCP servers whose fault is no rewrite of a message."""

from pathlib import Path
from typing import Any

import anyio

from eca_protocol.process import Child
from eca_protocol.testing.conformance.server.approvals import FORBIDDEN
from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference.chat import Turn
from tests.eca_protocol.testing.conformance.reference.mcp import MCPServer, MCPTool
from tests.eca_protocol.testing.conformance.reference.server import Server
from tests.eca_protocol.testing.conformance.reference.tool_call import ToolCall
from tests.eca_protocol.testing.conformance.reference.tools import ShellCommand, Toolbox, ToolFault


@breaks("W-30h", "Shows the pieces of all calls as they come.")
class MixesPreparation(Turn):
    def take_call(self, piece: dict[str, Any]) -> None:
        super().take_call(piece)
        for call in self.calls:
            call.prepare_rest()


@breaks("TOOL-18", "Runs what the user has rejected, in silence.")
class RejectedCallsRun(ToolCall):
    async def approved(self) -> bool:
        yes = await super().approved()
        if not yes and self.tool is not None:
            await self.tool.run(self.arguments)
        return yes


@breaks("W-30d", "Asks the user about a command that a rule for its text denies.")
class DenialsAreQuestions(ToolCall):
    def verdict(self) -> str:
        verdict = super().verdict()
        is_denied = verdict == "deny" and FORBIDDEN in str(self.arguments.get("command"))
        return "ask" if is_denied else verdict


@breaks("W-34a", "Keeps a decision on a call that does not wait yet.")
class EarlyDecisionsAreKept(ToolCall):
    def decide(self, approves: bool, *, for_session: bool = False) -> None:
        if self.state == "waiting":
            super().decide(approves, for_session=for_session)
        else:
            self._decision = approves
            self._decided.set()


@breaks("W-34b")
class WaitsTooLate(ToolCall):
    """Listens to the user a moment after it has asked, from the fifth call of a chat on."""

    async def approved(self) -> bool:
        if sum(message["role"] == "tool" for message in self.turn.chat.history) > 3:
            self.state = "preparing"
            await anyio.sleep(0.05)
            self.state = "waiting"
        return await super().approved()


@breaks("W-6b", "Passes outputs on whole.")
class OutputsAreEndless(Toolbox):
    cap = 10**9


@breaks("TOOL-13", "Writes what an edit has announced, and loses what changed since.")
class AnnouncedTextIsWritten(ToolCall):
    async def execute(self) -> None:
        await super().execute()
        if self._change is not None:
            Path(self._change.path).write_text(self._change.after, "utf-8")


class _Lingering(ShellCommand):
    """A command that is ended a while after `shutdown`."""

    async def end(self, child: Child) -> None:
        if self.owner.state == "shutdown":
            self.owner.tasks.start_soon(self.end_later, child)
        else:
            await super().end(child)

    async def end_later(self, child: Child) -> None:
        try:
            await anyio.sleep(1)
        finally:
            await super().end(child)


@breaks("W-13b", "Answers `shutdown` before the commands that run have ended.")
class CommandsOutliveTheShutdown(Toolbox):
    natives = (*Toolbox.natives[:-1], _Lingering)


@breaks("W-23c", "Waits for the answer of an MCP server, whatever the user wants.")
class ServersAreNotStopped(MCPTool):
    async def run(self, arguments: dict[str, Any]) -> str:
        with anyio.CancelScope(shield=True), anyio.move_on_after(4):
            return await super().run(arguments)
        raise ToolFault("It took too long.")


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

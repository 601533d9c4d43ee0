"""Mutants of the handshake, the end, and the announced configuration."""

from abc import abstractmethod
from pathlib import Path
from typing import Any

import anyio

from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference import server as reference
from tests.eca_protocol.testing.conformance.reference.params import Params
from tests.eca_protocol.testing.conformance.reference.server import Server
from tests.eca_protocol.testing.conformance.reference.wire import Fault, Wire
from tests.eca_protocol.testing.conformance.reference.workspace import Workspace

Message = dict[str, Any]


@breaks("LIFE-4", "Serves `initialize` a second time.")
class InitializeAgain(Server):
    def pass_gate(self, method: str) -> None:
        if not (method == "initialize" and self.state == "ready"):
            super().pass_gate(method)


@breaks("W-10b", "Says something before it answers `initialize`.")
class SpeaksFirst(Server):
    def initialize(self, params: Params) -> Any:
        self.notify("$/showMessage", {"type": "info", "message": "Hello."})
        return super().initialize(params)


@breaks("W-10d", "Refuses requests until `initialized` was received.")
class WaitsForInitialized(Server):
    def pass_gate(self, method: str) -> None:
        super().pass_gate(method)
        if self.state == "ready" and not self.is_introduced:
            raise Fault(-32002, "not initialized")


@breaks("W-10d", "Answers queries of contexts when `initialized` was received.")
class HoldsUntilInitialized(Server):
    def query_context(self, params: Params) -> Any:
        found = super().query_context(params)
        return found if self.is_introduced else self._later(found)

    async def _later(self, found: Any) -> Any:
        while not self.is_introduced:
            await anyio.sleep(0.02)
        return found


@breaks("W-10e", "Tells its configuration behind the answer to `initialize`.")
class IntroducedTooSoon(Server):
    def write(self, message: Message) -> None:
        super().write(message)
        if "chatWelcomeMessage" in (message.get("result") or {}):
            self.initialized(Params(None))


@breaks("LIFE-14", "Tells nothing of itself to a client that asked something before `initialized`.")
class TellsNothingTheEarly(Server):
    has_request = False

    def pass_gate(self, method: str) -> None:
        super().pass_gate(method)
        self.has_request = self.has_request or method != "initialize"

    def introduce(self) -> None:
        if not self.has_request:
            super().introduce()


@breaks("W-11g", "Tells what has not changed as null, when the behaviour changes.")
class NullInAnUpdate(Server):
    def select_behavior(self, params: Params) -> None:
        super().select_behavior(params)
        self.notify("config/updated", {"chat": {"models": None}})


@breaks("W-28b", "Tells the client what the client has selected.")
class BehaviourIsSentBack(Server):
    def select_behavior(self, params: Params) -> None:
        super().select_behavior(params)
        self.notify("config/updated", {"chat": {"selectBehavior": self.behavior}})


@breaks("LIFE-22", "Continues to serve.")
class ServesAfterShutdown(Server):
    def pass_gate(self, method: str) -> None:
        if self.state != "shutdown":
            super().pass_gate(method)


@breaks("LIFE-24", "Does not end by `exit` after `shutdown`, but by the end of its input.")
class ExitIsIgnored(Server):
    def exit(self, params: Params) -> None:
        if self.state != "shutdown":
            super().exit(params)


@breaks("W-13a", "Answers `shutdown` when the turns that run have come to their own end.")
class ShutdownWaits(Server):
    async def close(self) -> None:
        for chat in list(self.chats.values()):
            if chat.turn is not None and self.exit_code is None:
                await chat.turn.ended.wait()
        await super().close()


class _OtherCode(Server):
    """Ends with another code."""

    wrong = 3

    def end(self, code: int) -> None:
        super().end(self.wrong if self.is_it(code) else code)

    @abstractmethod
    def is_it(self, code: int) -> bool:
        """Return whether this end is the mutated one."""


@breaks("W-13d", "Ends with 3 after `shutdown` and `exit`.")
class ExitsWithThree(_OtherCode):
    def exit(self, params: Params) -> None:
        self.has_received_exit = True
        super().exit(params)

    def is_it(self, code: int) -> bool:
        return self.state == "shutdown" and hasattr(self, "has_received_exit")


@breaks("W-13e", "Ends with 3 at the end of its input.")
class EndOfInputIsAFault(_OtherCode):
    def exit(self, params: Params) -> None:
        self.has_received_exit = True
        super().exit(params)

    def is_it(self, code: int) -> bool:
        return code == 0 and not hasattr(self, "has_received_exit")


@breaks("W-13f", "Ends with 0 after `exit` without `shutdown`.")
class ExitAloneIsFine(Server):
    def exit(self, params: Params) -> None:
        self.end(0)


@breaks("W-13h", "Ends with 1 by a signal.")
class SignalsAreFaults(_OtherCode):
    wrong = 1

    def is_it(self, code: int) -> bool:
        return code > 128


@breaks("W-13i", "Ends without a word when the stream is beyond use.")
class FatalFaultsAreSilent(Server):
    def fail(self, fault: Fault) -> None:
        if not fault.fatal:
            super().fail(fault)


@breaks("W-13j", "Takes the end of the input inside a body for a good end.")
class CutBodiesAreFine(Wire):
    def feed_end(self) -> Fault | None:
        return None


@breaks("W-14b", "Ends for a parent that it has never seen.")
class UnseenParentsAreGone(Server):
    def watch_parent(self, pid: Any) -> None:
        if isinstance(pid, int) and not reference.is_alive(pid):
            self.end(0)
        super().watch_parent(pid)


@breaks("W-14c", "Lives on without an input.")
class EndOfInputIsIgnored(Server):
    async def _read(self) -> None:
        await super()._read()
        if self.exit_code == 0 and self.state != "shutdown":
            self.exit_code = None
            with anyio.CancelScope(shield=True):
                await anyio.sleep(8)
            self.end(0)


@breaks("W-15a", "Takes the part of a URI behind `file://` for a path.")
class URIsArePaths(Server):
    def initialize(self, params: Params) -> Any:
        result = super().initialize(params)
        folders = params.list("workspaceFolders")
        self.workspace = Workspace(folders)
        plain = {Path(str(folder["uri"]).removeprefix("file://")) for folder in folders}
        self.workspace.roots = [root for root in self.workspace.roots if root in plain]
        return result


@breaks("W-10c", "Serves what came behind `initialize` before that is answered.")
class InitializeIsOvertaken(Server):
    def initialize(self, params: Params) -> Any:
        result = super().initialize(params)

        async def later() -> Any:
            await anyio.sleep(0.02)
            return result

        return later()


@breaks("CONF-3", "Reads its configuration once.")
class ChangesAreNotSeen(Server):
    async def _watch_configuration(self) -> None:
        return None


@breaks("CONF-6", "Has a welcome of its own, whatever the configuration says at the start.")
class OneWelcome(Server):
    @property
    def welcome(self) -> str:
        return str(self.workspace.configuration().get("welcomeMessage", reference.WELCOME))


@breaks("W-13k", "Takes its time to end.")
class SlowExit(Server):
    async def run(self) -> int:
        code = await super().run()
        if code == 1 and self.state == "ready":
            await anyio.sleep(4)
        return code


@breaks("W-15c", "Takes the folder that `rootUri` names for a root.")
class RootsOfTheirOwn(Server):
    def initialize(self, params: Params) -> Any:
        folders = params.list("workspaceFolders")
        if params.text("rootUri"):
            folders = [*folders, {"uri": params.text("rootUri"), "name": "root"}]
            params._value["workspaceFolders"] = folders
        return super().initialize(params)

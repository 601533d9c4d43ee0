"""Mutants of the end of a server whose fault is no rewrite of a message."""

import json
from typing import Any

import anyio

from tests.eca_protocol.testing.conformance.mutants.registry import breaks
from tests.eca_protocol.testing.conformance.reference.server import Server
from tests.eca_protocol.testing.conformance.reference.wire import Fault, Wire
from tests.eca_protocol.testing.conformance.reference.workspace import Workspace


@breaks("W-13a", "Answers `shutdown` when the turns that run have come to their own end.")
class ShutdownWaits(Server):
    async def close(self) -> None:
        for chat in list(self.chats.values()):
            if chat.turn is not None and self.exit_code is None:
                await chat.turn.ended.wait()
        await super().close()


@breaks("W-13i", "Ends without a word when the stream is beyond use.")
class FatalFaultsAreSilent(Server):
    def fail(self, fault: Fault) -> None:
        if not fault.fatal:
            super().fail(fault)


@breaks("W-13j", "Takes the end of the input inside a body for a good end.")
class CutBodiesAreFine(Wire):
    def feed_end(self) -> Fault | None:
        return None


@breaks("W-14c", "Lives on without an input.")
class EndOfInputIsIgnored(Server):
    async def _read(self) -> None:
        await super()._read()
        if self.exit_code == 0 and self.state != "shutdown":
            self.exit_code = None
            with anyio.CancelScope(shield=True):
                await anyio.sleep(8)
            self.end(0)


@breaks("W-13k", "Takes its time to end.")
class SlowExit(Server):
    async def run(self) -> int:
        code = await super().run()
        if code == 1 and self.state == "ready":
            await anyio.sleep(4)
        return code


@breaks("CONF-3", "Ends at a configuration file that is no JSON.")
class BrokenFileIsFatal(Workspace):
    def configuration(self) -> dict[str, Any]:
        file = self.roots[0] / ".eca" / "config.json"
        if file.exists():
            json.loads(file.read_bytes())
        return super().configuration()

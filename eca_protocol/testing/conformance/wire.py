"""A running server: its process, the record of all bytes, and the routes to the sessions."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any, Final

import anyio
import anyio.abc

from eca_protocol import json
from eca_protocol.framing import encode_frame
from eca_protocol.testing.conformance.recorder import Recorder
from eca_protocol.testing.conformance.router import Router
from eca_protocol.testing.conformance.server_process import ServerProcess
from eca_protocol.testing.conformance.target import Directories, Target
from eca_protocol.testing.conformance.verdicts import Unmet

__all__ = ["Wire"]

_SHUTDOWN_SECONDS: Final = 3.0


class Wire:
    """A running server, until it is stopped or ends.

    Attributes:
        case: the case that has it alone; empty for a shared server.
        suspects: the cases at a shared server, or the last one that left; fixed at its end.
        router: the sessions, and the answers to its requests.
        introduction_seconds: the time that it has for its announcements after `initialized`.
    """

    def __init__(
        self,
        target: Target,
        directories: Directories,
        url: str,
        config: Mapping[str, Any],
        *,
        recorder: Recorder | None = None,
        router: Router | None = None,
    ) -> None:
        self.directories = directories
        self.case = ""
        self.suspects: tuple[str, ...] = ()
        self._present: list[str] = []
        self.introduction_seconds: float = 10.0
        self.recorder: Recorder = recorder or Recorder()
        self.router: Router = router or Router()
        self.process: ServerProcess = ServerProcess(
            target, directories, url, config, on_output=self._take_output
        )

    def enter(self, case: str) -> None:
        """Note a case whose session at this shared server begins."""
        self._present.append(case)
        self.suspects = tuple(dict.fromkeys(self._present))

    def leave(self, case: str) -> bool:
        """Note the end of a case's session; return whether the server still serves."""
        if self.process.may_write:
            self._present.remove(case)
            self.suspects = tuple(dict.fromkeys(self._present)) or (case,)
        return self.process.may_write

    async def write(self, data: bytes) -> None:
        """Write bytes, and wait until they are written.

        Raises:
            Unmet: the server does not read.
            ServerExited: it has ended.
        """
        self.process.require_input()
        self._record_ours(data)
        await self.process.write(data)

    def close_input(self) -> None:
        """Close the server's input after the queued bytes."""
        self.recorder.record_end("client")
        self.process.close_input()

    async def shut_down(self) -> None:
        """Shut the server down in order; unfinished turns are breaches."""
        request_id = self.router.next_id()
        message = {"jsonrpc": "2.0", "id": request_id, "method": "shutdown"}

        def is_answered() -> bool:
            return any(
                not each.method and each.message.get("id") == request_id
                for each in self.recorder.messages
            )

        with contextlib.suppress(Unmet), anyio.move_on_after(_SHUTDOWN_SECONDS):
            await self.write(encode_frame(json.dumps(message)))
            await self.process.until(
                is_answered, seconds=_SHUTDOWN_SECONDS, expected="an answer to shutdown"
            )
            await self.write(encode_frame(json.dumps({"jsonrpc": "2.0", "method": "exit"})))
        self.recorder.finish()

    def _take_output(self, data: bytes) -> int:
        """Record a part of the server's output, and answer it; return the number of messages."""
        if self.recorder.is_out_of_step:
            return 0
        if not data:
            self.recorder.record_end("server")
        before = len(self.recorder.messages)
        for received in self.recorder.record_bytes("server", data):
            answer = self.router.deliver(received) if received.is_message else b""
            if answer:
                self._record_ours(answer)
                self.process.queue(answer)
        if self.recorder.is_out_of_step:
            self.process.stop(is_out_of_step=True)
        return len(self.recorder.messages) - before

    def _record_ours(self, data: bytes) -> None:
        for _ in self.recorder.record_bytes("client", data):
            pass

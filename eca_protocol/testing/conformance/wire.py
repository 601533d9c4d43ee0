"""A running server: its process, the record of all bytes, and the sessions that have it."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping
from typing import Any, Final, Protocol

import anyio
import anyio.abc

from eca_protocol import json
from eca_protocol.framing import encode_frame
from eca_protocol.testing.conformance.model import Model
from eca_protocol.testing.conformance.recorder import ReceivedMessage, Recorder, id_key
from eca_protocol.testing.conformance.server_process import ServerProcess
from eca_protocol.testing.conformance.target import Directories, Target
from eca_protocol.testing.conformance.verdicts import Finding, Unmet, failing
from eca_protocol.testing.members import text_at
from eca_protocol.testing.watching import Observation

__all__ = ["Wire"]

_SHUTDOWN_SECONDS: Final = 3.0
_BEFORE: Final = 20  # entries of an exchange
_AFTER: Final = 5


class Listener(Protocol):
    """A session of a case, to which messages are delivered."""

    case: str
    messages: list[ReceivedMessage]


class Wire:
    """A running server, until it is stopped or ends.

    A message concerns the session that owns its chat or its request; without an owner, each.

    Attributes:
        target: the program under test.
        model: the scripted model of the whole run.
        encode: writes a body as the bytes of a message.
        case: the case that has it alone; empty for a shared server.
        suspects: the cases at a shared server, or the last one that left; fixed at its end.
        sessions: receive the messages.
        replies: the results for the server's requests, or functions of the params, by method;
            other methods are refused with -32601, and a case answers those with None.
        introduction_seconds: the time that it has for its announcements after `initialized`.
    """

    encode = staticmethod(encode_frame)

    def __init__(
        self, target: Target, model: Model, directories: Directories, config: Mapping[str, Any]
    ) -> None:
        self.target = target
        self.model = model
        self.directories = directories
        self.case = ""
        self.suspects: tuple[str, ...] = ()
        self._present: list[str] = []
        self.introduction_seconds: float = 10.0
        self.sessions: list[Listener] = []
        self.replies: dict[str, Any] = {}
        self._chat_owners: dict[str, Listener] = {}
        self._id_owners: dict[str, Listener] = {}
        self._ids = itertools.count(1)
        self.recorder: Recorder = self._new_recorder()
        self.process: ServerProcess = ServerProcess(
            target, directories, model.url, config, on_output=self._take_output
        )

    def _new_recorder(self) -> Recorder:
        return Recorder()

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
        request_id = self.next_id()
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

    def _take_output(self, data: bytes) -> None:
        """Record a part of the server's output, and answer it."""
        if self.recorder.is_out_of_step:
            return
        if not data:
            self.recorder.record_end("server")
        for received in self.recorder.record_bytes("server", data):
            answer = self._deliver(received) if received.is_message else b""
            if answer:
                self._record_ours(answer)
                self.process.queue(answer)
        if self.recorder.is_out_of_step:
            self.process.stop(is_out_of_step=True)
        elif excess := self.recorder.excess("server"):
            self.process.stop(excess=excess)

    def _record_ours(self, data: bytes) -> None:
        for _ in self.recorder.record_bytes("client", data):
            pass

    def next_id(self) -> int:
        """Return a new request id."""
        return next(self._ids)

    def claim_id(self, id_: object, session: Listener) -> None:
        """Claim a request's answer, unless another session has."""
        self._id_owners.setdefault(id_key(id_), session)

    def claim_chat(self, chat_id: str, session: Listener) -> None:
        """Claim a chat: its messages concern that session only."""
        self._chat_owners[chat_id] = session
        for other in self.sessions:
            if other is not session:
                other.messages[:] = [each for each in other.messages if each.chat_id != chat_id]

    def owner(self, received: ReceivedMessage) -> Listener | None:
        """Return the only session that a message concerns."""
        if received.method or not received.message:
            return self._chat_owners.get(received.chat_id)
        return self._id_owners.get(id_key(received.message.get("id")))

    def finding(self, observation: Observation) -> Finding:
        """Return an observation of the watcher as a finding with the messages around it."""
        record = self.recorder.record
        entry = record[observation.index] if observation.index < len(record) else None
        chat_id = observation.chat_id or (entry.chat_id if entry else "")
        owner = self._chat_owners.get(chat_id)
        first = max(0, observation.index - 4 * _BEFORE)
        around = [
            recorded.transmission
            for recorded in record[first : observation.index + 4 * _AFTER + 1]
            if not chat_id or recorded.chat_id in ("", chat_id)
        ]
        place = sum(entry is not None and each.at <= entry.at for each in around)
        first = max(0, place - _BEFORE)
        return Finding(
            id=observation.requirement,
            verdict=failing(observation.requirement),
            case=self.case if owner is None else owner.case,
            expected=observation.expected,
            got=observation.got,
            exchange=around[first : place + _AFTER],
            breach=place - 1 - first if place else None,
        )

    def _deliver(self, received: ReceivedMessage) -> bytes:
        """Deliver a message of the server; return the bytes that answer it, if any."""
        owner = self.owner(received)
        for session in self.sessions:
            if owner in (None, session):
                session.messages.append(received)
        chat_id = text_at(received.message, "result", "chatId")
        if owner in self.sessions and chat_id and not received.method:
            self.claim_chat(chat_id, owner)
        return self._reply(received) if received.method and "id" in received.message else b""

    def _reply(self, request: ReceivedMessage) -> bytes:
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": request.message["id"]}
        if request.method not in self.replies:
            answer["error"] = {"code": -32601, "message": "Method not found"}
            return self.encode(json.dumps(answer))
        result = self.replies[request.method]
        if callable(result):
            result = result(request.params)
        return b"" if result is None else self.encode(json.dumps({**answer, "result": result}))

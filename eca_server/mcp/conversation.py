"""What a session is made of: one peer, its handshake, its requests and how they end.

The rules it keeps: what a server asks (its roots, a ping) is answered at once, or it might never
end; nothing a server sends can raise anywhere but in the request that it answers; a request of
which the answer was lost, or whose server is gone, ends at once and says why.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias

import trio

from eca_protocol.calls import PendingCall
from eca_protocol.endpoint import CallAnswered
from eca_protocol.errors import (
    INTERNAL_ERROR,
    ConnectionClosed,
    LocalProtocolError,
    RequestFailed,
)
from eca_protocol.framing import FrameDecoder, Framing
from eca_protocol.peer import Peer
from eca_server.mcp.dialect import MCP_DIALECT, Intake
from eca_server.mcp.eras import Era, era_of
from eca_server.mcp.faults import MCPFault
from eca_server.mcp.messages import (
    Initialized,
    InputRequired,
    LogMessage,
    Progress,
    ServerInfo,
)
from eca_server.mcp.methods import CAPABILITIES, CLIENT, TABLE, MCPCodec
from eca_server.mcp.server_log import ServerLog
from eca_server.mcp.transport import ServerTransport
from eca_server.workspace import Root, uri_of

__all__ = ["ANSWER_SECONDS", "MAX_NOISE", "MAX_ROUNDS", "Changed", "Conversation"]

Changed: TypeAlias = Literal["tools", "prompts", "resources"]

ANSWER_SECONDS: Final = 30.0
"""How long one page of a list, a prompt or a resource may take."""

MAX_ROUNDS: Final = 8
"""How often a stateless server may ask something before it answers."""

MAX_NOISE: Final = 1000
"""Lines that are no messages, before the first message: then it is no server."""


class Conversation:
    """The protocol's side of a session: what every request, every answer and every ending needs.

    Attributes:
        name: of the server in the configuration.
        era: the revision that is spoken.
        info: what the server calls itself.
        capabilities: what it declared, as it came.
        instructions: what it wants the model to know; untrusted, already cut.
        on_change: told that a list has changed; must not wait.
        on_update: told the URI of a resource that has changed; likewise.
        suspect: set when a call was not answered in time.
        ended: set once the server is gone; `fault` says why.
    """

    def __init__(
        self,
        transport: ServerTransport,
        *,
        name: str,
        era: Era,
        roots: Callable[[], Sequence[Root]],
        log: ServerLog,
    ) -> None:
        self.name = name
        self.era = era
        self.info = ServerInfo()
        self.capabilities: Mapping[str, Any] = {}
        self.instructions = ""
        self.on_change: Callable[[Changed], None] = _nobody_listens
        self.on_update: Callable[[str], None] = _nobody_listens
        self.suspect = trio.Event()
        self.ended = trio.Event()
        self.fault: MCPFault | None = None
        self._transport = transport
        self._roots = roots
        self._log = log
        self._open: dict[int | str, PendingCall] = {}
        self._progress: dict[int | str, Callable[[Progress], None]] = {}
        self._watched: frozenset[str] = frozenset()
        self._listening = trio.CancelScope()
        self._noise = 0
        self._heard_a_message = False
        self.peer = Peer(
            transport,
            side="client",
            table=TABLE,
            codec=MCPCodec(era),
            handlers=self._handlers(),
            dialect=MCP_DIALECT,
            framing=Framing(decoder=self._intake, encode=transport.framing.encode),
        )
        self.peer.shape = transport.shape

    def _handlers(self) -> dict[str, Callable[[Any], Any]]:
        return {
            "ping": lambda _: {},
            "roots/list": self._list_roots,
            "notifications/progress": self._take_progress,
            "notifications/message": self._take_log_message,
            "notifications/tools/list_changed": lambda _: self.on_change("tools"),
            "notifications/prompts/list_changed": lambda _: self.on_change("prompts"),
            "notifications/resources/list_changed": lambda _: self.on_change("resources"),
            "notifications/resources/updated": self._take_update,
        }

    def _intake(self) -> FrameDecoder:
        return Intake(
            frames=self._transport.framing.decoder(),
            pending=self._open.keys,
            on_noise=self._take_noise,
            on_oversized=self._fail_all,
        )

    def _take_noise(self, line: bytes, why: str) -> None:
        self._log.warn_once(f"it writes lines to its output that are no messages ({why})")
        self._log.note(f"output: {line[:500].decode('utf-8', 'replace')}")
        self._noise += 1
        if self._noise >= MAX_NOISE and not self._heard_a_message:
            self.give_up(MCPFault(f"its first {MAX_NOISE} lines were no messages ({why})"))

    def _fail_all(self, why: str) -> None:
        """A message was lost, and with it perhaps the answer to any call: fail them now."""
        self._log.warn_once(f"a message was skipped: {why}")
        for call in tuple(self._open.values()):
            lost = RequestFailed(INTERNAL_ERROR, f"a message was skipped: {why}")
            call.settle(CallAnswered(call.id, call.method, error=lost))
            self.peer.abandon(call)

    def _list_roots(self, _: Any) -> Any:
        roots = [{"uri": uri_of(root.path), "name": root.name} for root in self._roots()]
        return {"roots": roots}

    def _take_progress(self, progress: Progress | None) -> None:
        listener = None if progress is None else self._progress.get(progress.token)
        if progress is not None and listener is not None:
            listener(progress)

    def _take_update(self, uri: str) -> None:
        self.on_update(uri)

    def _take_log_message(self, message: LogMessage) -> None:
        loud = {"error", "critical", "alert", "emergency"}
        level = logging.INFO if message.level in loud else logging.DEBUG
        self._log.note(f"{message.level}: {message.text[:2000]}", level=level)

    async def serve(self) -> None:
        """Read until the server is gone or the session is left; a task beside the session."""
        end = await self.peer.serve()
        if self.fault is None and end.kind != "closed":
            known = None if end.kind == "broken" else await self._transport.fault()
            self.fault = known or MCPFault(end.reason, kind="closed")
        self.ended.set()

    async def introduce(self) -> None:
        """Open the conversation: `initialize`, or `server/discover` where there is none.

        Raises:
            MCPFault: the server says nothing that we understand, or is gone.
            RequestFailed: it says no.
        """
        found = await (self._discover() if self.era.stateless else self._shake_hands())
        self._transport.agree(self.era)
        self._heard_a_message = True
        self.info = found.info
        self.capabilities = found.capabilities
        self.instructions = found.instructions
        if self.era.stateless:
            self.peer.start_soon(self._listen)
        else:
            self.peer.notify("notifications/initialized")

    async def _shake_hands(self) -> Initialized:
        params = {
            "protocolVersion": self.era.revision,
            "capabilities": CAPABILITIES,
            "clientInfo": CLIENT,
        }
        found: Initialized = await self._request("initialize", params)
        era = era_of(found.revisions[0])
        if era is None or era.stateless:
            raise MCPFault(
                f"it speaks revision {found.revisions[0]} of the protocol, "
                f"we offered {self.era.revision}"
            )
        self.era = era
        self.peer.codec = MCPCodec(era)
        return found

    async def _discover(self) -> Initialized:
        self._transport.agree(self.era)
        found: Initialized = await self._request("server/discover", {})
        if self.era.revision not in found.revisions:
            offered = ", ".join(found.revisions) or "no revision"
            raise MCPFault(f"it speaks {offered}, we speak {self.era.revision}")
        return found

    async def _listen(self) -> None:
        """Hear of changes as long as the session lasts, if the server tells of any.

        Who is to hear of other resources than before cancels the request; it is then made anew.
        """
        while True:
            wanted: dict[str, Any] = {"toolsListChanged": True, "promptsListChanged": True}
            wanted["resourcesListChanged"] = True
            if self._watched:
                wanted["resourceSubscriptions"] = sorted(self._watched)
            with trio.CancelScope() as self._listening:
                try:
                    await self._request("subscriptions/listen", {"notifications": wanted})
                except (RequestFailed, MCPFault) as fault:
                    self._log.note(f"it tells of no changes: {fault}")
            if not self._listening.cancelled_caught:
                return

    async def _request(self, method: str, params: Mapping[str, Any]) -> Any:
        """The typed answer to a request, after what a stateless server asks before it.

        Raises:
            MCPFault: the server is gone, or its answer lacks its essential part.
            RequestFailed: it answered with an error.
        """
        for _ in range(MAX_ROUNDS):
            result = await self._round(method, params)
            if not isinstance(result, InputRequired):
                return result
            params = {**params, **self._answers(result)}
        raise MCPFault(f"{method}: it asked {MAX_ROUNDS} times and gave no answer")

    async def _round(self, method: str, params: Mapping[str, Any]) -> Any:
        try:
            call = self.peer.start_call(method, params)
            self._open[call.id] = call
            try:
                return await call.result()
            finally:
                del self._open[call.id]
        except LocalProtocolError as fault:
            raise MCPFault(str(fault), kind="refused") from fault
        except ConnectionClosed as closed:
            with trio.move_on_after(1):
                await self.ended.wait()
            raise self.fault or MCPFault(closed.reason, kind="closed") from closed

    def _answers(self, question: InputRequired) -> dict[str, Any]:
        """What is added to a request that is asked again; only roots were declared."""
        answers: dict[str, Any] = {}
        for key, asked in question.requests.items():
            method = asked.get("method") if isinstance(asked, dict) else None
            if method != "roots/list":
                raise MCPFault(f"it asks for {method}, which was not declared", kind="refused")
            answers[key] = self._list_roots(None)
        state = {} if question.state is None else {"requestState": question.state}
        return {"inputResponses": answers, **state}

    async def _ask(
        self, method: str, params: Mapping[str, Any], seconds: float = ANSWER_SECONDS
    ) -> Any:
        """A request that is soon answered, or a fault: `refused`, `timeout`, `closed`."""
        with trio.move_on_after(seconds):
            try:
                return await self._request(method, params)
            except RequestFailed as fault:
                raise MCPFault(f"{method}: {fault.message}", kind="refused") from fault
        raise MCPFault(f"{method}: no answer within {seconds:g} s", kind="timeout")

    async def ping(self, seconds: float = ANSWER_SECONDS) -> None:
        """See that it answers; nothing to ask of a stateless server.

        Raises:
            MCPFault: it does not, or refuses to.
        """
        if not self.era.stateless:
            await self._ask("ping", {}, seconds)

    @property
    def is_busy(self) -> bool:
        """Whether something that was asked is not answered yet."""
        return bool(self._open)

    def give_up(self, fault: MCPFault) -> None:
        """End the conversation, for a reason of ours."""
        self.fault = self.fault or fault
        self.peer.close(fault.message)

    def roots_changed(self) -> None:
        """Tell the server that the roots are others now."""
        if not self.era.stateless:
            with contextlib.suppress(ConnectionClosed):
                self.peer.notify("notifications/roots/list_changed")

    async def close(self) -> None:
        """End the conversation; `ended` is set when it is over. Leaving `connect` does it too."""
        self.peer.close()
        await self.ended.wait()


def _nobody_listens(_: str) -> None:
    return

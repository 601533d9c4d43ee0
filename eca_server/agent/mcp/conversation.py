"""The base of a session: one peer, its handshake, its requests and their errors.

Rules: a server's requests (roots, ping) are answered at once, since it may wait for them; a message
of the server can raise only in the request that it answers; a request fails at once, with the
reason, if its answer was lost or its server has ended.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, Protocol, TypeAlias

import attrs
import trio

from eca_protocol.calls import PendingCall
from eca_protocol.endpoint import CallAnswered
from eca_protocol.errors import (
    INTERNAL_ERROR,
    ConnectionClosed,
    DeadlineExceeded,
    LocalProtocolError,
    RequestFailed,
)
from eca_protocol.message_transport import MessageTransport, Reader
from eca_protocol.peer import Peer
from eca_protocol.server.roots import Root, uri_of
from eca_server.agent.mcp import messages as m
from eca_server.agent.mcp.dialect import MCP_DIALECT, LenientReader
from eca_server.agent.mcp.eras import Era, era_of
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.methods import CAPABILITIES, CLIENT, TABLE, MCPCodec
from eca_server.agent.mcp.server_log import ServerLog

Changed: TypeAlias = Literal["tools", "prompts", "resources"]

ANSWER_SECONDS: Final = 30.0
"""Time limit for one page of a list, a prompt or a resource."""

MAX_ROUNDS: Final = 8
"""Maximum number of questions of a stateless server before its answer."""

MAX_NOISE: Final = 1000
"""Maximum number of invalid lines before the first message; then it is not an MCP server."""


@attrs.define
class Wait:
    """The time limit of a request, over all its rounds; `extend` moves its end."""

    seconds: float
    until: float = attrs.field(init=False)
    call: PendingCall[Any] | None = None

    def __attrs_post_init__(self) -> None:
        self.until = trio.current_time() + self.seconds

    def extend(self, until: float) -> None:
        """Let the wait end at a later time."""
        self.until = until
        if self.call is not None:
            self.call.expires_at = until


class ServerTransport(Protocol):
    """A connection to one server; closing its messages is bounded and ends its requests.

    Errors that only a transport sees (a status, an empty answer) become JSON-RPC errors with the
    request's id.
    """

    def messages(self, read: Reader, take: Callable[[Sequence[Any]], object]) -> MessageTransport:
        """Return the messages to and from the server; `read` reads the received frames.

        A transport of several streams calls `take` with the messages that arrive on each.
        """
        ...

    def agree(self, era: Era) -> None:
        """Set the negotiated revision."""
        ...

    async def error(self) -> MCPError | None:
        """Return the reason of the stream's end, if it is known; bounded."""
        ...


class Conversation:
    """The protocol's part of a session, without tools, prompts and resources.

    Attributes:
        name: the server's name in the configuration.
        capabilities: its declared capabilities, as raw JSON.
        instructions: its instructions for the model; untrusted, already cut.
        on_change: called when a list has changed; must not wait.
        on_update: called with the URI of a changed resource; must not wait.
        suspect: set when a call was not answered in time.
        ended: set once the server has ended; `error` is the reason.
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
        self.capabilities: Mapping[str, Any] = {}
        self.instructions = ""
        self.on_change: Callable[[Changed], None] = _ignore
        self.on_update: Callable[[str], None] = _ignore
        self.suspect = trio.Event()
        self.ended = trio.Event()
        self.error: MCPError | None = None
        self._transport = transport
        self._roots = roots
        self._log = log
        self._tokens = itertools.count(1)
        self._progress: dict[int | str, Callable[[m.Progress], None]] = {}
        self._watched: frozenset[str] = frozenset()
        self._listening = trio.CancelScope()
        self._noise = 0
        self._heard_a_message = False
        reader = LenientReader(
            pending=lambda: self.peer.pending_calls,
            on_noise=self._on_noise,
            on_oversized=self._fail_all,
        )
        self.peer = Peer(
            transport.messages(reader.read, lambda each: self.peer.take(each)),  # noqa: PLW0108 - set later
            side="client",
            table=TABLE,
            codec=MCPCodec(era),
            handlers=self._handlers(),
            dialect=MCP_DIALECT,
        )

    def _handlers(self) -> dict[str, Callable[[Any], Any]]:
        return {
            "ping": lambda _: {},
            "roots/list": self._list_roots,
            "notifications/progress": self._on_progress,
            "notifications/message": self._on_log_message,
            "notifications/tools/list_changed": lambda _: self.on_change("tools"),
            "notifications/prompts/list_changed": lambda _: self.on_change("prompts"),
            "notifications/resources/list_changed": lambda _: self.on_change("resources"),
            "notifications/resources/updated": lambda uri: self.on_update(uri),  # noqa: PLW0108 - set later
        }

    def _on_noise(self, line: bytes, why: str) -> None:
        self._log.warn_once(f"it writes lines to stdout that are not messages ({why})")
        self._log.feed_line(line)
        self._noise += 1
        if self._noise >= MAX_NOISE and not self._heard_a_message:
            self.give_up(MCPError(f"its first {MAX_NOISE} lines were not messages ({why})"))

    def _fail_all(self, why: str) -> None:
        """Fail all calls, since a lost message may have been the answer to any of them."""
        self._log.warn_once(f"a message was skipped: {why}")
        for call in tuple(self.peer.pending_calls.values()):
            lost = RequestFailed(INTERNAL_ERROR, f"a message was skipped: {why}")
            call.settle(CallAnswered(call.id, call.method, error=lost))
            self.peer.abandon(call)

    def _list_roots(self, _: Any) -> Any:
        roots = [{"uri": uri_of(root.path), "name": root.name} for root in self._roots()]
        return {"roots": roots}

    def _on_progress(self, progress: m.Progress | None) -> None:
        listener = None if progress is None else self._progress.get(progress.token)
        if progress is not None and listener is not None:
            listener(progress)

    def _on_log_message(self, message: m.LogMessage) -> None:
        loud = {"error", "critical", "alert", "emergency"}
        level = logging.INFO if message.level in loud else logging.DEBUG
        self._log.note(f"{message.level}: {message.text[:2000]}", level=level)

    async def serve(self) -> None:
        """Read messages until the server or the session ends; runs as a background task."""
        try:
            end = await self.peer.serve()
            if self.error is None and end.kind != "closed":
                known = None if end.kind == "broken" else await self._transport.error()
                self.error = known or MCPError(end.reason, kind="closed")
        finally:
            self.ended.set()

    async def introduce(self) -> None:
        """Open the conversation with `initialize`, or with `server/discover` if stateless.

        Raises:
            MCPError: the answer is invalid, or the server has ended.
            RequestFailed: the server refuses.
        """
        introduction = await (self._discover() if self.era.stateless else self._shake_hands())
        self._transport.agree(self.era)
        self._heard_a_message = True
        self.capabilities = introduction.capabilities
        self.instructions = introduction.instructions
        if self.era.stateless:
            self.peer.start_soon(self._listen)
        else:
            self.peer.notify("notifications/initialized")

    async def _shake_hands(self) -> m.Initialized:
        params = {
            "protocolVersion": self.era.revision,
            "capabilities": CAPABILITIES,
            "clientInfo": CLIENT,
        }
        introduction: m.Initialized = await self._request("initialize", params)
        era = era_of(introduction.revisions[0])
        if era is None or era.stateless:
            raise MCPError(
                f"it supports protocol revision {introduction.revisions[0]}, "
                f"we offered {self.era.revision}"
            )
        self.era = era
        self.peer.codec = MCPCodec(era)
        return introduction

    async def _discover(self) -> m.Initialized:
        self._transport.agree(self.era)
        introduction: m.Initialized = await self._request("server/discover", {})
        if self.era.revision not in introduction.revisions:
            offered = ", ".join(introduction.revisions) or "no revision"
            raise MCPError(f"it supports {offered}, we support {self.era.revision}")
        return introduction

    async def _listen(self) -> None:
        """Subscribe to changes for the whole session, if the server supports it.

        When the watched resources change, `watch` cancels the request, which is then sent again.
        """
        while True:
            notifications: dict[str, Any] = {"toolsListChanged": True, "promptsListChanged": True}
            notifications["resourcesListChanged"] = True
            if self._watched:
                notifications["resourceSubscriptions"] = sorted(self._watched)
            with trio.CancelScope() as self._listening:
                try:
                    await self._request("subscriptions/listen", {"notifications": notifications})
                except (RequestFailed, MCPError) as error:
                    self._log.note(f"it does not announce changes: {error}")
            if not self._listening.cancelled_caught:
                return

    async def _request(
        self, method: str, params: Mapping[str, Any], wait: Wait | None = None
    ) -> Any:
        """Return the typed answer to a request, after answering a stateless server's questions.

        Raises:
            MCPError: the server has ended, or its answer lacks a required part.
            RequestFailed: the server answered with an error.
            DeadlineExceeded: it was not answered in time.
        """
        for _ in range(MAX_ROUNDS):
            result = await self._round(method, params, wait)
            if not isinstance(result, m.InputRequired):
                return result
            params = {**params, **self._answers(result)}
        raise MCPError(f"{method}: it asked {MAX_ROUNDS} questions and did not answer")

    async def _round(self, method: str, params: Mapping[str, Any], wait: Wait | None) -> Any:
        try:
            call = self.peer.start_call(method, params)
            if wait is None:
                return await call.result()
            wait.call = call
            return await call.result(deadline=wait.until - trio.current_time())
        except LocalProtocolError as error:
            raise MCPError(str(error), kind="refused") from error
        except ConnectionClosed as closed:
            with trio.move_on_after(1):
                await self.ended.wait()
            raise self.error or MCPError("it was stopped", kind="closed") from closed

    def _answers(self, question: m.InputRequired) -> dict[str, Any]:
        """Return the answers that are added to a repeated request; only roots were declared."""
        answers: dict[str, Any] = {}
        for key, request in question.requests.items():
            method = request.get("method") if isinstance(request, dict) else None
            if method != "roots/list":
                raise MCPError(f"it asks for {method}, which was not declared", kind="refused")
            answers[key] = self._list_roots(None)
        state = {} if question.state is None else {"requestState": question.state}
        return {"inputResponses": answers, **state}

    async def _ask(
        self, method: str, params: Mapping[str, Any], seconds: float = ANSWER_SECONDS
    ) -> Any:
        """Send a request with a deadline; raise `refused`, `timeout` and `closed` errors."""
        try:
            return await self._request_within(method, params, seconds)
        except RequestFailed as error:
            raise MCPError(f"{method}: {error.message}", kind="refused") from error

    async def _request_within(self, method: str, params: Mapping[str, Any], seconds: float) -> Any:
        try:
            return await self._request(method, params, Wait(seconds))
        except DeadlineExceeded as error:
            raise MCPError(f"{method}: no answer within {seconds:g} s", kind="timeout") from error

    async def ping(self, seconds: float = ANSWER_SECONDS) -> None:
        """Check that the server answers; do nothing if it is stateless.

        Raises:
            MCPError: it does not answer, or refuses.
        """
        if not self.era.stateless:
            await self._ask("ping", {}, seconds)

    @property
    def is_busy(self) -> bool:
        """True if a request is not answered yet."""
        return bool(self.peer.pending_calls)

    def give_up(self, error: MCPError) -> None:
        """End the conversation with an error."""
        self.error = self.error or error
        self.peer.close(error.message)

    def roots_changed(self) -> None:
        """Notify the server that the roots have changed."""
        if not self.era.stateless:
            with contextlib.suppress(ConnectionClosed):
                self.peer.notify("notifications/roots/list_changed")


def _ignore(_: str) -> None:
    return

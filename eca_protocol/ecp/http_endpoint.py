"""The HTTP endpoint of a served agent: request checks, sessions, and one answer to each POST.

A long step is answered by an event stream if the caller accepts one; comments keep the connection
alive. A caller that returns the session header has its own conversation. All callers without it
share the conversation that was initialized last.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Collection
from typing import Any, Final

import anyio
import attrs

from eca_protocol import json
from eca_protocol.ecp.authoring import Agent
from eca_protocol.ecp.conversation import Conversation
from eca_protocol.ecp.methods import ECP, ECP_CODEC, ECP_DIALECT
from eca_protocol.endpoint import Endpoint, NotificationReceived, Reply, RequestReceived
from eca_protocol.errors import InvalidJSON, RemoteProtocolError, RPCError
from eca_protocol.http_server import HTTPRequest, Responder
from eca_protocol.jsonrpc import ErrorResponse
from eca_protocol.sse import encode_comment, encode_event

SESSION_HEADER: Final = "ecp-session-id"

_MAX_SESSIONS: Final = 64
_MAX_BATCH: Final = 256
_JSON: Final = frozenset({"application/json", "application/*", "*/*"})
_EVENTS: Final = frozenset({"text/event-stream", "text/*", "*/*"})


@attrs.define
class AgentEndpoint:
    """One agent served at one path; `port` is known once the server listens."""

    agent: Agent
    path: str = attrs.field(kw_only=True)
    origins: Collection[str] | None = attrs.field(kw_only=True)
    keep_alive: float = attrs.field(kw_only=True)
    port: int = 0
    _default: Conversation | None = None
    _sessions: OrderedDict[str, Conversation] = attrs.field(factory=OrderedDict)

    async def handle(self, request: HTTPRequest, responder: Responder) -> None:
        """Answer one HTTP request."""
        status, headers = self._refusal(request)
        if status:
            await responder.respond(status, headers=headers)
            return
        try:
            value = json.loads(request.body, duplicate_keys="refuse")
        except InvalidJSON as fault:
            refusal = ErrorResponse(None, fault.code, fault.message)
            await _respond_json(responder, 400, refusal.to_json())
            return
        session = request.headers.get(SESSION_HEADER)
        if session is not None and session not in self._sessions:
            await responder.respond(404, b"unknown session: send agent/initialize without it\n")
            return
        await self._answer(value, session, request, responder)

    def _refusal(self, request: HTTPRequest) -> tuple[int, dict[str, str]]:
        origin = request.headers.get("origin")
        if request.path != self.path:
            return 404, {}
        if origin is not None and origin not in self._own_origins():
            return 403, {}
        if request.method != "POST":
            return 405, {"allow": "POST"}
        if _media_types(request.headers.get("accept", "*/*")).isdisjoint(_JSON | _EVENTS):
            return 406, {}
        content_types = _media_types(request.headers.get("content-type", "application/json"))
        return (0, {}) if "application/json" in content_types else (415, {})

    def _own_origins(self) -> Collection[str]:
        if self.origins is not None:
            return self.origins
        return {f"http://{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]")}

    async def _answer(
        self, value: Any, session: str | None, request: HTTPRequest, responder: Responder
    ) -> None:
        messages = value if isinstance(value, list) and value else [value]
        if len(messages) > _MAX_BATCH:
            await responder.respond(413, b"too many messages at once\n")
            return
        headers: dict[str, str] = {}
        if session is None and _has_initialize(messages):
            session = self._open_session()
            headers[SESSION_HEADER] = session
        conversation = self._conversation(session)
        answers: list[dict[str, Any]] = []
        accepted = _media_types(request.headers.get("accept", "*/*"))
        delay = None if accepted.isdisjoint(_EVENTS) else self.keep_alive
        done = anyio.Event()

        async def work() -> None:
            await _exchange(conversation, messages, answers)
            if headers and conversation.has_started:
                self._default = conversation
            done.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(work)
            if not accepted.isdisjoint(_JSON):
                with anyio.move_on_after(delay):
                    await done.wait()
                if done.is_set():
                    await _respond(responder, answers, headers, as_array=isinstance(value, list))
                    return
            await _stream(responder, answers, done, headers, self.keep_alive)

    def _open_session(self) -> str:
        """Open a session; forget the least recently used one above the limit."""
        session = secrets.token_urlsafe(18)
        conversation = Conversation(self.agent) if self.agent.isolated else self._conversation(None)
        self._sessions[session] = conversation
        while len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return session

    def _conversation(self, session: str | None) -> Conversation:
        """Return the session's conversation; without a session, the one initialized last."""
        if session is not None:
            self._sessions.move_to_end(session)
            return self._sessions[session]
        if self._default is None:
            self._default = Conversation(self.agent)
        return self._default


async def _exchange(
    conversation: Conversation, messages: list[Any], answers: list[dict[str, Any]]
) -> None:
    """Handle the messages of one POST; append their answers in the same order."""
    endpoint = Endpoint("server", ECP, dialect=ECP_DIALECT)
    for value in messages:
        event = endpoint.receive(value)
        if isinstance(event, Reply):
            answers.append(event.message.to_json())
        elif isinstance(event, RequestReceived | NotificationReceived):
            name = event.method.name
            try:
                params = ECP_CODEC.decode_params(name, event.params)
                result = await conversation.handlers[name](params)
                raw = ECP_CODEC.encode_result(name, result)
            except (RPCError, RemoteProtocolError) as fault:
                data = fault.data if isinstance(fault, RPCError) else None
                if event.id is not None:
                    refusal = endpoint.refuse(event.id, fault.code, fault.message, data)
                    answers.append(refusal.to_json())
            else:
                if event.id is not None:
                    answers.append(endpoint.respond(event.id, raw).to_json())


def _has_initialize(messages: list[Any]) -> bool:
    return any(
        isinstance(value, dict) and value.get("method") == "agent/initialize" for value in messages
    )


def _media_types(header: str) -> set[str]:
    return {part.partition(";")[0].strip().lower() for part in header.split(",")}


async def _respond_json(
    responder: Responder, status: int, value: Any, headers: dict[str, str] | None = None
) -> None:
    kind = {"content-type": "application/json; charset=utf-8"}
    await responder.respond(status, json.dumps(value), kind | (headers or {}))


async def _respond(
    responder: Responder,
    answers: list[dict[str, Any]],
    headers: dict[str, str],
    *,
    as_array: bool,
) -> None:
    if not answers:
        await responder.respond(202, headers=headers)
        return
    await _respond_json(responder, 200, answers if as_array else answers[0], headers)


async def _stream(
    responder: Responder,
    answers: list[dict[str, Any]],
    done: anyio.Event,
    headers: dict[str, str],
    keep_alive: float,
) -> None:
    """Answer by events; send comments meanwhile, which keep the connection alive."""
    kind = {"content-type": "text/event-stream", "cache-control": "no-store"}
    await responder.start(200, kind | headers)
    while not done.is_set():
        await responder.send(encode_comment("working"))
        with anyio.move_on_after(keep_alive):
            await done.wait()
    for answer in answers:
        await responder.send(encode_event(json.dumps(answer).decode(), event="message"))
    await responder.end()

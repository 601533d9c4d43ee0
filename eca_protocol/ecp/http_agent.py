"""A connection to an agent behind a URL: each request is one POST, answered by JSON or by events.

Redirects are not followed, and loopback uses no proxy. An answer is complete when its event is,
even if the stream continues. One deadline holds for a whole request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import anyio
import attrs
from typing_extensions import override

from eca_protocol import json
from eca_protocol.ecp.connection import AgentConnection, AgentLimits
from eca_protocol.ecp.errors import AgentError, AgentErrorKind, answered_error, first_words
from eca_protocol.ecp.lines import envelope_fault
from eca_protocol.ecp.messages import InitializeResult
from eca_protocol.ecp.methods import ECP_CODEC, ECPCodec
from eca_protocol.errors import HTTPError, InvalidJSON, RemoteProtocolError
from eca_protocol.http import Deadlines, HTTPClient, HTTPResponse
from eca_protocol.sse import SSEDecoder

_SESSION: Final = "ecp-session-id"
_HEADERS: Final = {
    "accept": "application/json, text/event-stream",
    "content-type": "application/json",
}


@asynccontextmanager
async def connect_http(url: str, *, limits: AgentLimits) -> AsyncIterator[HTTPAgent]:
    """Connect to an agent behind `url`; see `connect_agent`."""
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None:
        raise AgentError(
            "transport_error", "the URL contains a user or a password, which is not supported"
        )
    if parts.scheme.lower() not in {"http", "https"} or not parts.hostname:
        shown = first_words(repr(url), 200)
        raise AgentError(
            "transport_error",
            f"expected an http or https URL, or a command as a list of arguments, got {shown}",
        )
    async with HTTPClient() as client:
        yield HTTPAgent(client, url, limits)


@attrs.frozen
class _Request:
    """A request, and the errors that name its method."""

    method: str
    id: int

    def error(self, text: str, *, kind: AgentErrorKind = "protocol_error") -> AgentError:
        return AgentError(kind, f"{self.method}: {text}")

    def answered(self, error: Mapping[str, Any]) -> AgentError:
        return answered_error(self.method, error["message"], error["code"], error.get("data"))


class HTTPAgent(AgentConnection):
    """An agent behind a URL; `connect_http` makes it."""

    def __init__(self, client: HTTPClient, url: str, limits: AgentLimits) -> None:
        super().__init__()
        self._client = client
        self._url = url
        self._limits = limits
        self._session: str | None = None
        self._last_id = 0

    @override
    async def initialize(
        self, config: Mapping[str, Any] | None = None, *, deadline: float
    ) -> InitializeResult:
        self._session = None
        return await super().initialize(config, deadline=deadline)

    @override
    async def _call(
        self, method: str, params: Any, deadline: float, *, codec: ECPCodec = ECP_CODEC
    ) -> Any:
        self._last_id += 1
        request = _Request(method, self._last_id)
        written = codec.encode_params(method, params)
        raw = {"jsonrpc": "2.0", "id": request.id, "method": method, "params": written}
        value: dict[str, Any] | None = None
        with anyio.move_on_after(deadline):
            value = await self._post(request, json.dumps(raw), deadline)
        if value is None:
            raise request.error(f"no complete answer in {deadline:g} s", kind="timeout")
        if "error" in value:
            raise request.answered(value["error"])
        try:
            return codec.decode_result(method, value["result"])
        except RemoteProtocolError as fault:
            raise request.error(str(fault)) from fault

    async def _post(self, request: _Request, body: bytes, deadline: float) -> dict[str, Any]:
        headers = dict(_HEADERS)
        if self._session is not None:
            headers[_SESSION] = self._session
        waits = Deadlines(
            connect=min(self._limits.start, deadline),
            write=deadline,
            first_byte=deadline,
            idle=deadline,
        )
        try:
            async with self._client.stream(
                "POST",
                self._url,
                headers=headers,
                content=body,
                deadlines=waits,
                resend=request.method != "agent/step",  # the agent may have begun it
            ) as response:
                return await self._read_answer(request, response)
        except HTTPError as fault:
            is_late = fault.kind == "timeout"
            kind: AgentErrorKind = "timeout" if is_late else "transport_error"
            raise request.error(str(fault), kind=kind) from fault

    async def _read_answer(self, request: _Request, response: HTTPResponse) -> dict[str, Any]:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status == 404 and self._session is not None:
            raise request.error("the agent has lost the session", kind="transport_error")
        if 300 <= response.status < 400:
            where = first_words(response.headers.get("location", "nowhere"), 200)
            raise request.error(
                f"status {response.status} to {where}; redirects are not followed",
                kind="transport_error",
            )
        if not 200 <= response.status < 300:
            await self._raise_for_status(request, kind, response)
        self._session = response.headers.get(_SESSION, self._session)
        if kind == "text/event-stream":
            return await self._read_events(request, response)
        body = await self._read_body(request, response)
        if not body:
            raise request.error(f"status {response.status} without an answer")
        if kind != "application/json":
            got = f"{kind or 'no content type'}: {first_words(body, 80)!r}{self._path_hint()}"
            raise request.error(f"expected JSON or events, got {got}")
        return self._parse_answer(request, body)

    async def _raise_for_status(self, request: _Request, kind: str, response: HTTPResponse) -> None:
        """Raise the error of an unsuccessful status: the agent's JSON-RPC error, if it sent one."""
        body = await response.read(8192)
        if kind == "application/json":
            try:
                value = json.loads(body, duplicate_keys="refuse")
            except InvalidJSON:
                value = None
            if (
                isinstance(value, dict)
                and value.get("id") == request.id
                and "error" in value
                and envelope_fault(value) is None
            ):
                raise request.answered(value["error"])
        excerpt = first_words(body, 200).strip()
        text = f"status {response.status}{f': {excerpt}' if excerpt else ''}{self._path_hint()}"
        raise request.error(text, kind="transport_error")

    def _path_hint(self) -> str:
        """Return the path of the requests, unless it is the usual one."""
        parts = urlsplit(self._url)
        if parts.path == "/ecp":
            return ""
        usual = first_words(parts._replace(path="/ecp").geturl(), 200)
        return f"; the path tried was {parts.path or '/'}; most agents listen at {usual}"

    async def _read_body(self, request: _Request, response: HTTPResponse) -> bytes:
        body = bytearray()
        async for chunk in response.chunks():
            body += chunk
            if len(body) > self._limits.max_message:
                raise self._too_long(request)
        return bytes(body)

    async def _read_events(self, request: _Request, response: HTTPResponse) -> dict[str, Any]:
        decoder = SSEDecoder(max_event=self._limits.max_message)
        async for chunk in response.chunks():
            try:
                events = decoder.feed(chunk)
            except RemoteProtocolError as fault:
                raise self._too_long(request) from fault
            for event in events:
                if event.data:
                    value = self._parse_answer(request, event.data.encode(), is_event=True)
                    if value:
                        return value
        raise request.error("the events ended before the answer")

    def _parse_answer(
        self, request: _Request, body: bytes, *, is_event: bool = False
    ) -> dict[str, Any]:
        """Parse an answer; return an empty mapping for an event that is not an answer."""
        try:
            value = json.loads(body, duplicate_keys="refuse")
        except InvalidJSON as fault:
            raise request.error(f"the answer is not strict JSON: {fault}") from fault
        if not isinstance(value, dict):
            raise request.error(f"expected one answer, got {first_words(body, 80)!r}")
        if is_event and "method" in value:
            return {}
        if type(value.get("id")) is not int or value["id"] != request.id:
            shown = first_words(repr(value.get("id")), 60)
            raise request.error(f"an answer with the id {shown}, expected {request.id}")
        fault_text = envelope_fault(value)
        if fault_text is not None:
            raise request.error(fault_text)
        return value

    def _too_long(self, request: _Request) -> AgentError:
        return request.error(f"an answer of more than {self._limits.max_message} bytes")

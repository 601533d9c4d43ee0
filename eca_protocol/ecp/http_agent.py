"""A connection to an agent behind a URL: each request is one POST, answered by JSON or by events.

Redirects are not followed, and loopback uses no proxy. An answer is complete when its event is,
even if the stream continues. One deadline holds for a whole request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import anyio
from typing_extensions import override

from eca_protocol import json
from eca_protocol.ecp.connection import AgentConnection, AgentLimits
from eca_protocol.ecp.errors import AgentError, answered_error
from eca_protocol.ecp.excerpts import first_words
from eca_protocol.ecp.lines import envelope_fault
from eca_protocol.ecp.messages import InitializeResult
from eca_protocol.ecp.methods import ECP_CODEC, RAW_CODEC
from eca_protocol.errors import HTTPError, InvalidJSON, RemoteProtocolError
from eca_protocol.http import Deadlines, HTTPClient, HTTPResponse
from eca_protocol.sse import SSEDecoder

if TYPE_CHECKING:  # saves importing the models of ECA
    from eca_protocol.codec import MessageCodec

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
    async def request_raw(self, method: str, params: Any, *, deadline: float) -> Any:
        return await self._call(method, params, deadline, codec=RAW_CODEC)

    @override
    def log(self) -> str:
        """Return an empty text: the agent's log is out of reach."""
        return ""

    async def _call(
        self, method: str, params: Any, deadline: float, *, codec: MessageCodec = ECP_CODEC
    ) -> Any:
        self._last_id += 1
        request_id = self._last_id
        request = {
            "jsonrpc": "2.0",
            "id": request_id,
            "method": method,
            "params": codec.encode_params(method, params),
        }
        body = json.dumps(request)
        value: dict[str, Any] | None = None
        with anyio.move_on_after(deadline) as scope:
            value = await self._post(method, request_id, body, deadline)
        if value is None:
            assert scope.cancelled_caught
            raise AgentError("timeout", f"{method}: no complete answer in {deadline:g} s")
        if "error" in value:
            error = value["error"]
            raise answered_error(method, error["message"], error["code"], error.get("data"))
        try:
            return codec.decode_result(method, value["result"])
        except RemoteProtocolError as fault:
            raise AgentError("protocol_error", f"{method}: {fault}") from fault

    async def _post(
        self, method: str, request_id: int, body: bytes, deadline: float
    ) -> dict[str, Any]:
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
                resend=method != "agent/step",  # the agent may have begun it
            ) as response:
                return await self._read_answer(method, request_id, response)
        except HTTPError as fault:
            kind = "timeout" if fault.kind == "timeout" else "transport_error"
            raise AgentError(kind, f"{method}: {fault}") from fault  # type: ignore[arg-type]  # both are kinds

    async def _read_answer(
        self, method: str, request_id: int, response: HTTPResponse
    ) -> dict[str, Any]:
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status == 404 and self._session is not None:
            raise AgentError("transport_error", f"{method}: the agent has lost the session")
        if 300 <= response.status < 400:
            where = first_words(response.headers.get("location", "nowhere"), 200)
            raise AgentError(
                "transport_error",
                f"{method}: status {response.status} to {where}; redirects are not followed",
            )
        if not 200 <= response.status < 300:
            await self._raise_for_status(method, request_id, kind, response)
        self._session = response.headers.get(_SESSION, self._session)
        if kind == "text/event-stream":
            return await self._read_events(method, request_id, response)
        body = await self._read_body(method, response)
        if not body:
            raise AgentError(
                "protocol_error", f"{method}: status {response.status} without an answer"
            )
        if kind != "application/json":
            got = f"{kind or 'no content type'}: {first_words(body, 80)!r}{self._path_hint()}"
            raise AgentError("protocol_error", f"{method}: expected JSON or events, got {got}")
        return self._parse_answer(method, request_id, body)

    async def _raise_for_status(
        self, method: str, request_id: int, kind: str, response: HTTPResponse
    ) -> None:
        """Raise the error of an unsuccessful status: the agent's JSON-RPC error, if it sent one."""
        body = await response.read(8192)
        if kind == "application/json":
            try:
                value = json.loads(body, duplicate_keys="refuse")
            except InvalidJSON:
                value = None
            if (
                isinstance(value, dict)
                and value.get("id") == request_id
                and "error" in value
                and envelope_fault(value) is None
            ):
                error = value["error"]
                raise answered_error(method, error["message"], error["code"], error.get("data"))
        excerpt = first_words(body, 200).strip()
        text = f"{method}: status {response.status}{f': {excerpt}' if excerpt else ''}"
        raise AgentError("transport_error", f"{text}{self._path_hint()}")

    def _path_hint(self) -> str:
        """Return the path of the requests, unless it is the usual one."""
        parts = urlsplit(self._url)
        if parts.path == "/ecp":
            return ""
        usual = first_words(parts._replace(path="/ecp").geturl(), 200)
        return f"; the path tried was {parts.path or '/'}; most agents listen at {usual}"

    async def _read_body(self, method: str, response: HTTPResponse) -> bytes:
        body = bytearray()
        async for chunk in response.chunks():
            body += chunk
            if len(body) > self._limits.max_message:
                raise self._too_long(method)
        return bytes(body)

    async def _read_events(
        self, method: str, request_id: int, response: HTTPResponse
    ) -> dict[str, Any]:
        decoder = SSEDecoder(max_event=self._limits.max_message)
        async for chunk in response.chunks():
            try:
                events = decoder.feed(chunk)
            except RemoteProtocolError as fault:
                raise self._too_long(method) from fault
            for event in events:
                if event.data:
                    value = self._parse_answer(
                        method, request_id, event.data.encode(), is_event=True
                    )
                    if value:
                        return value
        raise AgentError("protocol_error", f"{method}: the events ended before the answer")

    def _parse_answer(
        self, method: str, request_id: int, body: bytes, *, is_event: bool = False
    ) -> dict[str, Any]:
        """Parse an answer; return an empty mapping for an event that is not an answer."""
        try:
            value = json.loads(body, duplicate_keys="refuse")
        except InvalidJSON as fault:
            raise AgentError(
                "protocol_error", f"{method}: the answer is not strict JSON: {fault}"
            ) from fault
        if not isinstance(value, dict):
            raise AgentError(
                "protocol_error", f"{method}: expected one answer, got {first_words(body, 80)!r}"
            )
        if is_event and "method" in value:
            return {}
        if type(value.get("id")) is not int or value["id"] != request_id:
            shown = first_words(repr(value.get("id")), 60)
            raise AgentError(
                "protocol_error",
                f"{method}: an answer with the id {shown}, expected {request_id}",
            )
        fault_text = envelope_fault(value)
        if fault_text is not None:
            raise AgentError("protocol_error", f"{method}: {fault_text}")
        return value

    def _too_long(self, method: str) -> AgentError:
        return AgentError(
            "protocol_error", f"{method}: an answer of more than {self._limits.max_message} bytes"
        )

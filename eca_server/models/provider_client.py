"""Requests to a provider for one model: authorized, timed, logged, with secrets masked.

The debug log has the address, size and duration of each request. It contains neither content nor
secrets: no text of a prompt, an answer or an error, no header, and only the names of a query. While
the log is off, an event costs nothing.
"""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, Self

import attrs

from eca_protocol import json
from eca_protocol.errors import HTTPError, InvalidJSON
from eca_protocol.http import Deadlines, HTTPClient, HTTPResponse
from eca_server.models.access import Access, Target
from eca_server.models.answer_body import MAX_BODY
from eca_server.models.backend import BackendError, Request
from eca_server.models.errors import (
    error_from_fault,
    error_from_page,
    error_from_response,
    is_missing_path,
)
from eca_server.models.events import Event, Finished, Progress, Usage
from eca_server.secret import mask, mask_url, secrets_in

_log = logging.getLogger("eca_server.models")
_numbers = itertools.count(1)


class ExchangeLog:
    """A request and its answer, as a context manager around both.

    Args:
        model: as `provider/model`.
        size: bytes of the body.
        request: the model request; None for other requests (a listing).
    """

    def __init__(
        self, method: str, url: str, *, model: str, size: int, request: Request | None = None
    ) -> None:
        self._is_enabled = _log.isEnabledFor(logging.DEBUG)
        self._started_at = time.perf_counter()
        self._usage = Usage()
        self._ending = "ended"
        self._number = next(_numbers)
        if self._is_enabled:
            counts = request and f"{len(request.messages)} messages, {len(request.tools)} tools, "
            self._write(f"{method} {mask_url(url)} for {model}: {counts or ''}{size} bytes")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        if not self._is_enabled:
            return
        if isinstance(error, BackendError):
            self._ending = f"failed ({error.kind})"
        elif error is not None:
            self._ending = "stopped" if not isinstance(error, Exception) else "failed"
        self._write(f"{self._ending} after {self._elapsed()}{_counted(self._usage)}")

    def log_status(self, status: int) -> None:
        """Log the status of the answer."""
        if self._is_enabled:
            self._write(f"status {status} after {self._elapsed()}")

    def watch(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        """Return the same events; log the first one and the counts."""
        return self._logged(events) if self._is_enabled else events

    async def _logged(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[Event, None]:
        has_begun = False
        async with aclosing(events):
            async for event in events:
                if not has_begun and not isinstance(event, Progress):
                    has_begun = True
                    self._write(f"first event after {self._elapsed()}")
                match event:
                    case Usage():
                        self._usage = event
                    case Finished(reason=reason):
                        self._ending = f"finished ({reason})"
                yield event

    def _write(self, words: str) -> None:
        _log.debug("request %d: %s", self._number, words)

    def _elapsed(self) -> str:
        return f"{(time.perf_counter() - self._started_at) * 1000:.0f} ms"


def _counted(usage: Usage) -> str:
    counts = {
        "input": usage.input,
        "from cache": usage.cache_read,
        "to cache": usage.cache_write,
        "output": usage.output,
        "of it reasoning": usage.reasoning,
    }
    listed = ", ".join(f"{count} {name}" for name, count in counts.items() if count is not None)
    return f"; tokens: {listed}" if listed else ""


@attrs.define(kw_only=True, eq=False)
class ProviderClient:
    """The HTTP client for one model.

    Args:
        http: the client, shared by all models.
        model: the model in the log, as `provider/model`.
        extra_headers: by name in lower case; replace our headers of the same name.
    """

    _http: HTTPClient
    access: Access
    _model: str
    _extra_headers: dict[str, str]
    _deadlines: Deadlines

    def masked(self, error: BackendError) -> BackendError:
        """Mask the secrets that a provider may quote in its answers, and return the error."""
        return error.mask_secrets(*self.access.secrets, *secrets_in(self._extra_headers))

    @asynccontextmanager
    async def open(
        self,
        method: str,
        target: Target,
        *,
        headers: Mapping[str, str],
        content: bytes,
        request: Request | None = None,
    ) -> AsyncIterator[tuple[HTTPResponse, ExchangeLog]]:
        """Send a request, and return its response and its log.

        Raises:
            BackendError: the exchange failed, also within the block.
        """
        own = {"content-type": "application/json", **headers, **target.headers}
        with ExchangeLog(
            method, target.url, model=self._model, size=len(content), request=request
        ) as log:
            try:
                async with self._http.stream(
                    method,
                    target.url,
                    headers=own | self._extra_headers,
                    content=content,
                    deadlines=self._deadlines,
                    shows_certificate=True,
                ) as response:
                    log.log_status(response.status)
                    yield response, log
            except HTTPError as fault:
                raise error_from_fault(fault) from fault

    async def json(self, method: str, path: str, content: bytes, headers: Mapping[str, str]) -> Any:
        """Return the JSON answer to a request; renew refused credentials once.

        Raises:
            BackendError: the exchange failed; its secrets are masked.
        """
        headers = {**headers, "accept": "application/json"}
        try:
            target = await self.access.target(path)
            try:
                return await self._json_from(method, target, content, headers)
            except BackendError as error:
                if error.status not in (401, 403) or not await self.access.renew(target):
                    raise
            target = await self.access.target(path)
            return await self._json_from(method, target, content, headers)
        except BackendError as error:
            self.masked(error)
            raise

    async def _json_from(
        self, method: str, target: Target, content: bytes, headers: Mapping[str, str]
    ) -> Any:
        async with self.open(method, target, headers=headers, content=content) as (response, _):
            if response.status != 200:
                raise self.refusal(response, await response.read_excerpt())
            body = await response.read(limit=MAX_BODY)
        try:
            return json.loads(body)
        except InvalidJSON:
            content_type = response.headers.get("content-type", "")
            raise error_from_page(content_type, body[:65_536]) from None

    def refusal(self, response: HTTPResponse, body: bytes) -> BackendError:
        """Return the error of a response without success."""
        error = error_from_response(response.status, response.headers, body)
        if is_missing_path(error):
            address = mask(response.url.partition("?")[0])
            error.kind, error.message = "configuration", f"nothing is at {address}: {error.message}"
        self.access.adjust_error(error)
        return error

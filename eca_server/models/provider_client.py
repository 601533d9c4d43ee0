"""Requests to a provider for one model: authorized, timed, logged, with secrets masked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

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
from eca_server.models.exchange_log import ExchangeLog
from eca_server.secret import mask, secrets_in


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

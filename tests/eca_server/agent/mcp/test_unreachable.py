"""Servers at a URL that no connection reaches: on a silent network, or one with a login."""

import contextlib
from collections.abc import AsyncIterator

import pytest

from eca_protocol.errors import HTTPError, HTTPTimeout
from eca_protocol.http import HTTPClient, HTTPResponse
from tests.eca_server.agent.mcp import web


@pytest.mark.parametrize(
    "fault",
    [
        HTTPTimeout("connect", 10, "no connection within 10 s"),
        HTTPError("tls", "no connection: the certificate of a hotel"),
        HTTPError("proxy", "no connection by the proxy"),
    ],
)
async def test_a_connection_that_is_never_made_has_sent_nothing_and_may_be_made_later(
    monkeypatch, fault
):
    @contextlib.asynccontextmanager
    async def silent(*_: object, **__: object) -> AsyncIterator[HTTPResponse]:
        raise fault
        yield

    async with web.serving() as (server, session):
        await server.has_seen("GET")  # the handshake is over
        with monkeypatch.context() as patch:
            patch.setattr(HTTPClient, "stream", silent)
            result = await web.call(session)
            assert "the request was not sent: no connection" in web.text_of(result)
            await session.ended.wait()
            assert session.error is not None
            assert session.error.kind == "closed"
            assert (await web.fails_to_start(server.url)).kind == "unreachable"

"""For any metadata of a server's login, requests go only to places that may get a login."""

from __future__ import annotations

import ipaddress
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast
from urllib.parse import urlsplit

import trio
from runner import instrumented, main

with instrumented():
    from eca_protocol.http import HTTPClient
    from eca_server.agent.mcp.authorization.discovery import (
        find_authorization_server,
        find_resource,
        parse_bearer_challenge,
    )
    from eca_server.models.credentials.oauth import OAuthError

SERVERS = ("https://mcp.example/one/mcp", "http://127.0.0.1:8080/mcp")


def check(data: bytes) -> None:
    """Check `data`: a `WWW-Authenticate` in the first line, then one response per line."""
    header, *documents = data.split(b"\n")
    demand = parse_bearer_challenge(header.decode("latin-1"))
    assert all(scope and not set(scope) & set(" \t\r\n") for scope in demand.scopes)
    for url in SERVERS:
        trio.run(find, url, header.decode("latin-1"), documents)


async def find(url: str, header: str, documents: list[bytes]) -> None:
    client = cast("HTTPClient", Client(url, iter(documents)))
    try:
        resource = await find_resource(client, url, parse_bearer_challenge(header))
        server = await find_authorization_server(client, resource, url)
    except (OAuthError, ValueError) as fault:
        assert str(fault)
        return
    assert urlsplit(resource.identifier).hostname == urlsplit(url).hostname
    assert server.issuer.removesuffix("/") == resource.issuer.removesuffix("/")
    for place in (server.authorize_url, server.token_url, server.registration_url):
        assert place is None or is_open(place, url), place


class Client:
    """An HTTP client with responses from the input: a digit for the status, then the body."""

    def __init__(self, url: str, documents: Iterator[bytes]) -> None:
        self._url = url
        self._documents = documents

    @asynccontextmanager
    async def stream(self, _method: str, url: str, **_others: Any) -> AsyncIterator[object]:
        assert is_open(url, self._url), url
        document = next(self._documents, b"4")
        status = int(document[:1]) * 100 if document[:1] in b"2345" and document else 200

        async def read(_limit: int = 0) -> bytes:
            return document.lstrip(b"2345")

        yield SimpleNamespace(status=status, headers={}, read=read, read_excerpt=read)


def is_open(place: str, url: str) -> bool:
    """Return True if a login may be sent to this place."""
    parts = urlsplit(place)
    is_local = is_loopback(parts.hostname) and is_loopback(urlsplit(url).hostname)
    return parts.scheme == "https" or (parts.scheme == "http" and is_local)


def is_loopback(host: str | None) -> bool:
    """Return True for `localhost` and any loopback address: all of 127.0.0.0/8 is loopback."""
    try:
        return host == "localhost" or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


if __name__ == "__main__":
    main("oauth", check)

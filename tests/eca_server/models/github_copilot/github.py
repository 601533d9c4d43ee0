"""A fake GitHub, which issues short tokens of Copilot for a login."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs

from eca_protocol.http_server import HTTPRequest, Responder, serve

LOGIN = "ghu_planted-login-0123456789"


@attrs.define
class GitHub:
    """The server: its requests, and its tokens.

    Attributes:
        api: the base URL of its tokens.
        url: its own address.
        requests: the headers of each token request.
        refuses: the status and the body of a refusal.
        lives: the lifetime of a token, in seconds.
    """

    api: str
    url: str = ""
    requests: list[Any] = attrs.field(factory=list)
    refuses: tuple[int, Any] | None = None
    lives: float = 1500

    async def handle(self, request: HTTPRequest, responder: Responder) -> None:
        assert (request.method, request.path) == ("GET", "/api/v3/copilot_internal/v2/token")
        self.requests.append(request.headers)
        sold = {
            "token": f"tid=planted{len(self.requests)};exp=1",
            "expires_at": 1,  # long past, by the system's clock
            "refresh_in": self.lives,
            "endpoints": {"api": self.api},
        }
        status, body = self.refuses or (200, sold)
        await responder.respond(status, _encoded(body))


def _encoded(body: Any) -> bytes:
    return body if isinstance(body, bytes) else json.dumps(body).encode()


@asynccontextmanager
async def github(api: str) -> AsyncIterator[GitHub]:
    ours = GitHub(api)
    async with serve(ours.handle) as server:
        ours.url = server.url
        yield ours

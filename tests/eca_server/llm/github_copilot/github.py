"""A GitHub of the tests' own: it sells short tokens of Copilot to whoever is logged in."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs

from eca_protocol.http_server import HTTPRequest, Responder, serve

LOGIN = "ghu_planted-login-0123456789"


@attrs.define
class GitHub:
    """What it was asked, and what it sells.

    Attributes:
        api: where its tokens lead to.
        url: where it listens.
        asked: the headers of each request for a token.
        refuses: a status and a body in place of a token.
        lives: seconds after which a token is to be renewed.
    """

    api: str
    url: str = ""
    asked: list[Any] = attrs.field(factory=list)
    refuses: tuple[int, Any] | None = None
    lives: float = 1500

    async def handle(self, request: HTTPRequest, responder: Responder) -> None:
        assert (request.method, request.path) == ("GET", "/api/v3/copilot_internal/v2/token")
        self.asked.append(request.headers)
        sold = {
            "token": f"tid=planted{len(self.asked)};exp=1",
            "expires_at": 1,  # by the user's clock: long ago
            "refresh_in": self.lives,
            "endpoints": {"api": self.api},
        }
        status, body = self.refuses or (200, sold)
        await responder.respond(status, json.dumps(body).encode())


@asynccontextmanager
async def github(api: str) -> AsyncIterator[GitHub]:
    ours = GitHub(api)
    async with serve(ours.handle) as server:
        ours.url = server.url
        yield ours

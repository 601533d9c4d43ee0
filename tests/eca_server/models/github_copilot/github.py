"""A fake GitHub, which issues short tokens of Copilot for a login."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import attrs

from eca_protocol.http_server import HTTPRequest, Responder
from tests.eca_server.models.credentials.login_server import Fields, LoginServer, login_server

LOGIN = "ghu_planted-login-0123456789"
TOKEN = "/api/v3/copilot_internal/v2/token"


@attrs.define
class GitHub(LoginServer):
    """A server that issues short tokens of Copilot for a login.

    Attributes:
        api: the base URL of its tokens.
        lives: the lifetime of a token, in seconds.
    """

    api: str = ""
    lives: float = 1500

    async def handle(self, request: HTTPRequest, responder: Responder) -> None:
        assert (request.method, request.path) == ("GET", TOKEN)
        await super().handle(request, responder)

    def fresh(self, path: str, fields: Fields) -> tuple[int, Any]:
        return 200, {
            "token": f"tid=planted{len(self.requests)};exp=1",
            "expires_at": 1,  # long past, by the system's clock
            "refresh_in": self.lives,
            "endpoints": {"api": self.api},
        }


@asynccontextmanager
async def github(api: str) -> AsyncIterator[GitHub]:
    server = GitHub(api=api)
    async with login_server(server):
        yield server

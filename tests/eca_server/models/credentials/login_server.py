"""A login server: it issues tokens, renews each once, and can be scripted."""

import itertools
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import attrs
import pytest

from eca_protocol.http import HTTPClient
from eca_protocol.http_server import HTTPRequest, Responder, serve
from eca_server.models.credentials.oauth import Client, TokenSet
from eca_server.secret import Secret

Fields = Mapping[str, str]
DEVICE = {
    "device_code": "device-code-planted",
    "user_code": "ABCD-1234",
    "verification_uri": "https://login.example/device",
    "interval": 0.01,
}


@attrs.define
class LoginServer:
    """The server: its requests, and its next answers.

    Attributes:
        url: its address.
        requests: the path and the fields of each request.
        headers: the headers of each request.
        says: answers by path, each used once: a status and a body, or None for a connection that
            breaks; then device codes and fresh tokens follow.
        before_answer: awaited before each answer.
        valid: the valid refresh tokens.
    """

    url: str = ""
    requests: list[tuple[str, Fields]] = attrs.field(factory=list)
    headers: list[Mapping[str, str]] = attrs.field(factory=list)
    says: dict[str, list[tuple[int, Any] | None]] = attrs.field(factory=dict)
    before_answer: Callable[[], Awaitable[None]] | None = None
    valid: set[str] = attrs.field(factory=lambda: {"refresh-0"})
    _count: Any = attrs.field(factory=lambda: itertools.count(1))

    def config(self, *providers: str, **auth: Any) -> dict[str, Any]:
        """Return a configuration whose provider `p`, or these, have the logins of this server."""
        auth = {"clientId": "ours", "tokenUrl": f"{self.url}/token", **auth}
        provider = {"url": "http://127.0.0.1:9/v1", "models": {"m": {}}, "auth": auth}
        return {"providers": dict.fromkeys(providers or ["p"], provider)}

    def by_device(self) -> dict[str, Any]:
        """Return one whose provider has logins by a device code."""
        return self.config(deviceUrl=f"{self.url}/device")

    async def handle(self, request: HTTPRequest, responder: Responder) -> None:
        text = request.body.decode()
        is_json = request.headers.get("content-type") == "application/json"
        fields = json.loads(text) if is_json and text else dict(parse_qsl(text))
        self.requests.append((request.path, fields))
        self.headers.append(request.headers)
        if self.before_answer is not None:
            await self.before_answer()
        planned = self.says.get(request.path)
        answer = planned.pop(0) if planned else self.fresh(request.path, fields)
        if answer is None:
            await responder.reset()
            return
        status, body = answer
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        await responder.respond(status, data, {"content-type": "application/json"})

    def fresh(self, path: str, fields: Fields) -> tuple[int, Any]:
        """Return what is answered unless the test says something else."""
        if path == "/device":
            return 200, DEVICE
        if fields.get("grant_type") == "refresh_token":
            if fields["refresh_token"] not in self.valid:
                return 400, {"error": "invalid_grant", "error_description": "it was used before"}
            self.valid.remove(fields["refresh_token"])
        number = next(self._count)
        self.valid.add(f"refresh-{number}")
        return 200, {
            "access_token": f"access-{number}",
            "refresh_token": f"refresh-{number}",
            "token_type": "bearer",
            "expires_in": 3600,
        }


def tokens_of(server: str = "https://login.example", **fields: Any) -> TokenSet:
    """Return the first tokens of a login at this server."""
    usual = {
        "access": Secret("access-0"),
        "refresh": Secret("refresh-0"),
        "expires_at": None,
        "obtained_at": 0.0,
        "client": Client(id="ours", token_url=f"{server}/token"),
    }
    return TokenSet(**{**usual, **fields})


@asynccontextmanager
async def login_server(server: LoginServer | None = None) -> AsyncIterator[LoginServer]:
    server = server or LoginServer()
    async with serve(server.handle) as running:
        server.url = running.url
        yield server


@pytest.fixture
async def server() -> AsyncIterator[LoginServer]:
    async with login_server() as running:
        yield running


def stored_logins(data: Path) -> dict[str, Any]:
    """Return the logins by provider that the server's own directory in `data` holds."""
    file = data / "eca-python" / "logins.json"
    return dict(json.loads(file.read_text())["providers"]) if file.exists() else {}


async def come_back(page: str, answer: str = "code=planted") -> int:
    """Send a browser where the page of a login sends it, and return the status of that page."""
    query = parse_qs(urlsplit(page).query)
    back = f"{query['redirect_uri'][0]}?{answer}&state={query['state'][0]}"
    async with HTTPClient() as browser, browser.stream("GET", back) as response:
        return response.status

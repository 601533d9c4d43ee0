"""A server over HTTP that wants a token, and gives tokens out itself."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import trio

from eca_protocol.http import HTTPClient
from eca_protocol.http_server import HTTPRequest, Responder
from eca_server.agent.mcp.authorization.login import Login
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.session import Session
from eca_server.models.credentials.logins import Logins
from tests.eca_server.agent.mcp.scripted import failure
from tests.eca_server.agent.mcp.web import Exchange, WebServer, names_of_tools, session_at

RESOURCE = "/.well-known/oauth-protected-resource/mcp"
OAUTH = "/.well-known/oauth-authorization-server"


class Guarded:
    """A server that wants a token, and gives tokens out itself.

    Attributes:
        good: the token that is given out.
        accepted: the token that is accepted, if it is a different one.
        requests: the requests for registrations and tokens.
        proofs: the headers with which tokens were asked for.
        registered: the answer to a registration beside the id.
        refusal: the error of a renewal that is refused.
        failures: the reasons of failed logins.
    """

    def __init__(self, server: WebServer, http: HTTPClient, logins: Logins) -> None:
        self.server = server
        self.http = http
        self.logins = logins
        self.requests: list[tuple[str, Any]] = []
        self.good = "token-1"
        self.accepted: str | None = None
        self.registered: dict[str, str] = {}
        self.refusal = "invalid_grant"
        self.failures: list[str] = []
        self.proofs: list[str | None] = []
        self.scopes = "read"
        self.returned = trio.Event()
        self.login: Login
        url = server.at.url
        self.documents: dict[str, Any] = {
            RESOURCE: {"resource": f"{url}/mcp", "authorization_servers": [url]},
            OAUTH: {
                "issuer": url,
                "authorization_endpoint": f"{url}/authorize?tenant=1",
                "token_endpoint": f"{url}/token",
                "registration_endpoint": f"{url}/register",
                "code_challenge_methods_supported": ["S256"],
            },
        }
        self._be_decent = server.handle
        server.handle = self.handle  # type: ignore[method-assign]

    def change(self, place: str, **changes: Any) -> None:
        self.documents[place] = {**self.documents[place], **changes}

    def renew_login(self, nursery: trio.Nursery, url: str | None = None, **changes: Any) -> None:
        """Take a login as a later process would."""
        self.login = Login(
            url=url or self.server.url,
            http=self.http,
            logins=self.logins,
            nursery=nursery,
            on_login=lambda: self.returned.set(),  # noqa: PLW0108 - the event changes
            on_failure=self.failures.append,
            **changes,
        )

    async def handle(self, request: HTTPRequest, responder: Responder) -> None:
        exchange = Exchange(without_body(request), responder, self.server)
        path = request.path
        if path == "/mcp":
            if request.headers.get("authorization") == f"Bearer {self.accepted or self.good}":
                await self._be_decent(request, responder)
            else:
                challenge = (
                    f'Basic realm="a, b", Bearer error="invalid_token", scope="{self.scopes}"'
                )
                await exchange.text(401, "no token", www_authenticate=challenge)
        elif path in self.documents:
            await exchange.json(self.documents[path])
        elif path == "/register":
            self.requests.append((path, json.loads(request.body)))
            await exchange.json({"client_id": "client-7", **self.registered}, 201)
        elif path == "/token":
            form = dict(parse_qsl(request.body.decode()))
            self.requests.append((path, form))
            self.proofs.append(request.headers.get("authorization"))
            if form.get("refresh_token", "refresh-1") != "refresh-1":
                await exchange.json({"error": self.refusal}, 400)
            else:
                access = f"{self.good}-{len(self.requests)}" if self.accepted else self.good
                tokens = {"access_token": access, "refresh_token": "refresh-1"}
                await exchange.json({**tokens, "expires_in": 3600, "token_type": "bearer"})
        else:
            await exchange.text(404)

    def forms(self) -> list[dict[str, str]]:
        return [sent for path, sent in self.requests if path == "/token"]

    @asynccontextmanager
    async def session(self, url: str | None = None, **more: Any) -> AsyncIterator[Session]:
        url = url or self.server.url
        async with session_at(url, http=self.http, login=self.login, **more) as session:
            yield session

    async def tools(self, url: str | None = None) -> list[str]:
        """Open a session that works, and list its tools."""
        async with self.session(url) as session:
            return await names_of_tools(session)

    async def error(self, url: str | None = None, **more: Any) -> MCPError:
        return await failure(self.session(url, **more))

    async def asks(self, url: str | None = None) -> str:
        """Return the page of the login that a session asks for."""
        error = await self.error(url)
        assert error.kind == "login"
        assert error.url is not None
        return error.url

    async def come_back(self, page: str, **changes: str) -> int:
        """Send the browser's redirect after the user's approval."""
        query = query_of(page)
        fields = {"code": "the-code", "state": query["state"], **changes}
        url = f"{query['redirect_uri']}?{urlencode(fields)}"
        async with self.http.stream("GET", url) as response:
            return response.status

    async def log_in(self, url: str | None = None) -> dict[str, str]:
        """From the refusal to the stored tokens; what the page was asked with."""
        page = await self.asks(url)
        assert await self.come_back(page) == 200
        with trio.fail_after(5):
            await self.returned.wait()
        return query_of(page)


def query_of(page: str) -> dict[str, str]:
    return dict(parse_qsl(urlsplit(page).query))


def without_body(request: HTTPRequest) -> HTTPRequest:
    return HTTPRequest(
        method=request.method, target=request.target, headers=request.headers, body=b""
    )

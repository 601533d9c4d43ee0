"""Logins at servers over HTTP: found out, begun by a link, kept, renewed, asked for again."""

from __future__ import annotations

import base64
import hashlib
import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import pytest
import trio

from eca_protocol.http import HTTPClient
from eca_protocol.http_server import HTTPRequest, Responder
from eca_server.agent.mcp.authorization.discovery import canonical_url, parse_bearer_challenge
from eca_server.agent.mcp.authorization.login import MAX_STEP_UPS, Login
from eca_server.agent.mcp.errors import MCPError
from eca_server.models.credentials.logins import Logins
from eca_server.secret import Secret
from tests.eca_server.agent.mcp.web import Exchange, WebServer, session_at, web_server

RESOURCE = "/.well-known/oauth-protected-resource/mcp"
OAUTH = "/.well-known/oauth-authorization-server"


class Guarded:
    """A server that wants a token, and gives tokens out itself."""

    def __init__(self, server: WebServer, folder: Path, nursery: trio.Nursery) -> None:
        self.server = server
        self.http = HTTPClient()
        self.logins = Logins({"XDG_DATA_HOME": str(folder), "HOME": str(folder)})
        self.asked: list[tuple[str, Any]] = []
        self.good = "token-1"  # what is given out
        self.accepted: str | None = None  # in place of that
        self.registered: dict[str, str] = {}  # what a registration is answered beside the id
        self.proofs: list[str | None] = []  # headers with which tokens were asked for
        self.nursery = nursery
        self.scopes = "read"
        self.returned = trio.Event()
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
        self.login = self.new_login(nursery)
        self._be_decent = server.handle
        server.handle = self.handle  # type: ignore[method-assign]

    def new_login(self, nursery: trio.Nursery, url: str | None = None, **changes: Any) -> Login:
        return Login(
            url or self.server.url,
            http=self.http,
            logins=self.logins,
            nursery=nursery,
            on_login=self.has_returned,
            **changes,
        )

    def has_returned(self) -> None:
        self.returned.set()

    async def handle(self, request: HTTPRequest, responder: Responder) -> None:
        exchange = Exchange(HTTPRequest(**{**_fields(request), "body": b""}), responder)
        path = request.path
        if path == "/mcp":
            if request.headers.get("authorization") == f"Bearer {self.accepted or self.good}":
                await self._be_decent(request, responder)
            else:
                wanted = f'Basic realm="a, b", Bearer error="invalid_token", scope="{self.scopes}"'
                await exchange.text(401, "no token", www_authenticate=wanted)
        elif path in self.documents:
            await exchange.json(self.documents[path])
        elif path == "/register":
            self.asked.append((path, json.loads(request.body)))
            await exchange.json({"client_id": "client-7", **self.registered}, 201)
        elif path == "/token":
            form = dict(parse_qsl(request.body.decode()))
            self.asked.append((path, form))
            self.proofs.append(request.headers.get("authorization"))
            if form.get("refresh_token", "refresh-1") != "refresh-1":
                await exchange.json({"error": "invalid_grant"}, 400)
            else:
                access = f"{self.good}-{len(self.asked)}" if self.accepted else self.good
                tokens = {"access_token": access, "refresh_token": "refresh-1"}
                await exchange.json({**tokens, "expires_in": 3600, "token_type": "bearer"})
        else:
            await exchange.text(404)

    def forms(self) -> list[dict[str, str]]:
        return [sent for path, sent in self.asked if path == "/token"]

    @asynccontextmanager
    async def session(self, url: str | None = None) -> AsyncIterator[Any]:
        async with session_at(url or self.server.url, http=self.http, login=self.login) as session:
            yield session

    async def error(self, url: str | None = None) -> MCPError:
        with pytest.raises(MCPError) as raised:
            async with self.session(url):
                pass
        return raised.value

    async def come_back(self, page: str, **changes: str) -> int:
        """Send the browser's redirect after the user's approval."""
        query = dict(parse_qsl(urlsplit(page).query))
        fields = {"code": "the-code", "state": query["state"], **changes}
        url = f"{query['redirect_uri']}?{urlencode(fields)}"
        async with self.http.stream("GET", url) as response:
            return response.status

    async def log_in(self, url: str | None = None) -> dict[str, str]:
        """From the refusal to the stored tokens; what the page was asked with."""
        error = await self.error(url)
        assert error.kind == "login"
        assert error.url is not None
        assert await self.come_back(error.url) == 200
        with trio.fail_after(5):
            await self.returned.wait()
        return dict(parse_qsl(urlsplit(error.url).query))


def _fields(request: HTTPRequest) -> dict[str, Any]:
    return {"method": request.method, "target": request.target, "headers": request.headers}


@pytest.fixture
async def guarded(tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[Guarded]:
    async with web_server() as server:
        guarded = Guarded(server, tmp_path, nursery)
        async with guarded.http:
            yield guarded
            nursery.cancel_scope.cancel()


async def test_a_login_begins_with_a_link_and_ends_with_a_session(guarded):
    query = await guarded.log_in()
    async with guarded.session() as session:
        assert [tool.name for tool in await session.list_tools()] == ["echo"]
    (_, registration), (_, form) = guarded.asked
    assert registration["redirect_uris"] == [query["redirect_uri"]]
    assert registration["token_endpoint_auth_method"] == "none"
    assert query["redirect_uri"].startswith("http://127.0.0.1:")
    assert query["tenant"] == "1"
    assert query["scope"] == "read"
    assert query["resource"] == form["resource"] == guarded.server.url
    assert query["client_id"] == form["client_id"] == "client-7"
    assert query["code_challenge_method"] == "S256"
    digest = hashlib.sha256(form["code_verifier"].encode()).digest()
    assert base64.urlsafe_b64encode(digest).decode().rstrip("=") == query["code_challenge"]
    assert form["code"] == "the-code"
    assert form["redirect_uri"] == query["redirect_uri"]


async def test_a_login_is_stored_for_the_next_start(guarded, nursery):
    await guarded.log_in()
    guarded.login = guarded.new_login(nursery)
    async with guarded.session() as session:
        await session.list_tools()
    assert len(guarded.forms()) == 1


async def test_a_start_that_waits_for_the_keyring_can_be_stopped(guarded, monkeypatch):
    is_open, asked, waited = threading.Event(), trio.Event(), []

    def ask(_: Logins) -> bool:
        trio.from_thread.run_sync(asked.set)
        waited.append(is_open.wait(3))
        return False

    monkeypatch.setattr(Logins, "is_locked", property(ask))
    try:
        async with trio.open_nursery() as starting:
            starting.start_soon(guarded.login.token)
            await asked.wait()
            starting.cancel_scope.cancel()
        assert waited == []
    finally:
        is_open.set()


async def test_a_token_that_is_refused_is_renewed_and_the_request_made_again(guarded):
    await guarded.log_in()
    async with guarded.session() as session:
        guarded.good = "token-2"
        assert [tool.name for tool in await session.list_tools()] == ["echo"]
    first, second = guarded.forms()
    assert second["grant_type"] == "refresh_token"
    assert second["refresh_token"] == "refresh-1"
    assert second["resource"] == first["resource"]


async def test_a_token_that_is_refused_right_after_its_renewal_is_not_renewed_again(guarded):
    await guarded.log_in()
    guarded.accepted = "nothing"
    assert (await guarded.error()).kind == "login"
    assert len(guarded.forms()) == 2


async def test_a_login_that_is_over_is_asked_for_again(guarded):
    await guarded.log_in()
    guarded.good, guarded.returned = "token-2", trio.Event()
    stored = json.loads(guarded.logins.path.read_text())
    (login,) = stored["providers"].values()
    login["refresh"] = "refresh-0"
    guarded.logins.path.write_text(json.dumps(stored))
    await guarded.log_in()
    async with guarded.session() as session:
        await session.list_tools()


async def test_one_login_waits_however_often_the_server_is_started(guarded):
    first, second = await guarded.error(), await guarded.error()
    assert first.url == second.url
    guarded.scopes = "read write"
    third = await guarded.error()
    assert third.url is not None
    assert parse_qs(urlsplit(third.url).query)["scope"] == ["read write"]


async def test_a_cancelled_login_frees_its_port(guarded, nursery):
    first = await guarded.error()
    query = dict(parse_qsl(urlsplit(first.url or "").query))
    port = urlsplit(query["redirect_uri"]).port
    guarded.login.give_up()
    guarded.login = guarded.new_login(nursery, port=port)
    second = await guarded.error()
    assert (second.kind, str(port) in (second.url or "")) == ("login", True)
    assert second.url != first.url


async def test_a_logout_during_the_storing_of_a_login_wins(guarded, monkeypatch):
    begun, store = trio.Event(), guarded.logins.store

    def slowly(*given: Any) -> Any:
        trio.from_thread.run_sync(begun.set)
        return store(*given)

    monkeypatch.setattr(guarded.logins, "store", slowly)
    error = await guarded.error()
    assert error.url is not None
    assert await guarded.come_back(error.url) == 200
    await begun.wait()
    await guarded.login.forget()
    assert guarded.logins.read().tokens == {}
    assert await guarded.login.token() is None
    assert not guarded.returned.is_set()


async def test_more_is_asked_for_where_a_token_is_not_enough(guarded):
    await guarded.log_in()
    async with guarded.session() as session:
        challenge = 'Bearer error="insufficient_scope", scope="write"'
        guarded.server.on["tools/call"] = lambda e: e.text(403, www_authenticate=challenge)
        with pytest.raises(MCPError) as raised:
            await session.call_tool("echo", {}, deadline=5)
    assert raised.value.kind == "login"
    assert raised.value.url is not None
    assert parse_qs(urlsplit(raised.value.url).query)["scope"] == ["read write"]


METHODS = "token_endpoint_auth_methods_supported"
BASIC = f"Basic {base64.b64encode(b'my+id:client%2Fsecret').decode()}"


@pytest.mark.parametrize(
    ("methods", "in_form", "in_header"),
    [
        (None, {}, BASIC),
        (["client_secret_post", "client_secret_basic"], {}, BASIC),
        (["client_secret_post"], {"client_id": "my id", "client_secret": "client/secret"}, None),
    ],
)
async def test_a_configured_client_is_not_registered_and_authenticates(
    guarded, nursery, methods, in_form, in_header
):
    _of(guarded, OAUTH, **{METHODS: methods})
    secret = Secret("client/secret")
    guarded.login = guarded.new_login(nursery, client_id="my id", client_secret=secret)
    assert (await guarded.log_in())["client_id"] == "my id"
    guarded.login = guarded.new_login(nursery)  # of a later process, which only renews
    guarded.good = "token-2"
    async with guarded.session() as session:
        await session.list_tools()
    assert [path for path, _ in guarded.asked] == ["/token", "/token"]
    assert guarded.proofs == [in_header] * 2
    for form in guarded.forms():
        assert {name: form[name] for name in form if name.startswith("client")} == in_form


@pytest.mark.parametrize(
    ("methods", "answered", "asked_for", "proof"),
    [
        (None, {}, "none", None),
        (["none"], {}, "none", None),
        (["client_secret_post"], {"client_secret": "s" * 9}, "client_secret_post", None),
        (
            ["client_secret_basic"],
            {"client_secret": "s" * 9},
            "client_secret_basic",
            f"Basic {base64.b64encode(b'client-7:sssssssss').decode()}",
        ),
        (
            None,
            {"client_secret": "s" * 9, "token_endpoint_auth_method": "client_secret_post"},
            "none",
            None,
        ),
    ],
)
async def test_a_client_is_registered_for_the_servers_authentication_method(
    guarded, methods, answered, asked_for, proof
):
    _of(guarded, OAUTH, **{METHODS: methods})
    guarded.registered = answered
    await guarded.log_in()
    (_, registration), (_, form) = guarded.asked
    assert registration["token_endpoint_auth_method"] == asked_for
    assert guarded.proofs == [proof]
    assert ("client_secret" in form) == (bool(answered) and proof is None)


DOCUMENT = "https://me.example/client.json"


@pytest.mark.parametrize("reads_documents", [True, False, "true"])
async def test_a_metadata_document_is_the_client_id_where_servers_read_it(
    guarded, nursery, reads_documents
):
    _of(guarded, OAUTH, client_id_metadata_document_supported=reads_documents)
    guarded.login = guarded.new_login(nursery, client_metadata_url=DOCUMENT)
    query = await guarded.log_in()
    reads = reads_documents is True
    assert (query["client_id"] == DOCUMENT) is reads
    assert [path for path, _ in guarded.asked] == (["/token"] if reads else ["/register", "/token"])
    form = guarded.forms()[-1]
    assert (form["client_id"] == DOCUMENT) is reads
    assert "client_secret" not in form
    assert guarded.proofs == [None]


async def test_a_server_that_is_never_content_is_not_believed_for_ever(guarded):
    challenge = 'Bearer error="insufficient_scope", scope="write"'
    guarded.server.on["tools/call"] = lambda e: e.text(403, "never", www_authenticate=challenge)
    await guarded.log_in()
    for _ in range(MAX_STEP_UPS):
        async with guarded.session() as session:
            with pytest.raises(MCPError) as raised:
                await session.call_tool("echo", {}, deadline=5)
        assert raised.value.url is not None
        guarded.returned = trio.Event()
        await guarded.come_back(raised.value.url)
        await guarded.returned.wait()
    async with guarded.session() as session:
        result = await session.call_tool("echo", {}, deadline=5)
        assert result.is_error
        assert "never" in str(result.content)
        assert [tool.name for tool in await session.list_tools()] == ["echo"]


async def test_a_login_is_shared_by_those_of_one_scope(guarded, nursery):
    guarded.login = guarded.new_login(nursery, shared_by="work")
    await guarded.log_in()
    guarded.login = guarded.new_login(nursery, shared_by="home")
    assert (await guarded.error()).kind == "login"
    guarded.login = guarded.new_login(nursery, shared_by="work")
    async with guarded.session() as session:
        await session.list_tools()


async def test_a_login_is_had_of_this_machine_however_it_is_called(guarded):
    for place in (RESOURCE, OAUTH):
        text = json.dumps(guarded.documents[place])
        guarded.documents[place] = json.loads(text.replace("127.0.0.1", "localhost"))
    url = guarded.server.url.replace("127.0.0.1", "localhost")
    guarded.login = guarded.new_login(guarded.nursery, url=url)
    await guarded.log_in(url)
    async with guarded.session(url) as session:
        await session.list_tools()


@pytest.mark.parametrize("issuer", ["127.0.0.1", "localhost"])
async def test_the_client_certificate_is_shown_to_the_servers_own_origin_only(
    guarded, monkeypatch, issuer
):
    shown: list[tuple[str | None, bool]] = []
    stream = HTTPClient.stream

    def record(http: HTTPClient, method: str, url: str, **options: Any) -> Any:
        if urlsplit(url).path != "/callback":
            shown.append((urlsplit(url).hostname, options.get("shows_certificate", False)))
        return stream(http, method, url, **options)

    monkeypatch.setattr(HTTPClient, "stream", record)
    own = guarded.server.at.url
    issuer_url = own.replace("127.0.0.1", issuer)
    guarded.documents[RESOURCE]["authorization_servers"] = [issuer_url]
    metadata = json.dumps(guarded.documents[OAUTH]).replace(own, issuer_url)
    guarded.documents[OAUTH] = json.loads(metadata)
    await guarded.log_in()
    async with guarded.session() as session:
        guarded.good = "token-2"  # so that the token is renewed
        await session.list_tools()
    assert len(guarded.forms()) == 2
    assert set(shown) == {("127.0.0.1", True), (issuer, issuer == "127.0.0.1")}


async def test_a_redirect_of_a_different_server_is_refused(guarded, caplog):
    error = await guarded.error()
    assert error.url is not None
    await guarded.come_back(error.url, iss="https://evil.example")
    while (await guarded.error()).url == error.url:  # until the login has ended
        await trio.lowlevel.checkpoint()
    assert guarded.forms() == []
    assert "a different authorization server" in caplog.text


async def test_a_redirect_without_the_state_is_refused(guarded):
    error = await guarded.error()
    assert error.url is not None
    assert await guarded.come_back(error.url, state="guessed") == 404
    assert guarded.forms() == []


def _of(guarded: Guarded, place: str, **changes: Any) -> None:
    guarded.documents[place] = {**guarded.documents[place], **changes}


@pytest.mark.parametrize(
    ("place", "changes", "words"),
    [
        (RESOURCE, {"resource": "https://other.example/mcp"}, "a different resource"),
        (RESOURCE, {"resource": "http://127.0.0.1:1/mcp"}, "a different resource"),
        (RESOURCE, {"authorization_servers": []}, "no authorization server"),
        (RESOURCE, {"authorization_servers": ["http://plain.example"]}, "expected an https URL"),
        (RESOURCE, {"authorization_servers": ["https://["]}, "is invalid"),
        (OAUTH, {"issuer": "https://other.example"}, "names a different"),
        (OAUTH, {"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        (OAUTH, {"token_endpoint": "http://plain.example/token"}, "expected an https URL"),
        (OAUTH, {"authorization_endpoint": None}, "no authorization_endpoint"),
        (OAUTH, {"registration_endpoint": None}, "set `clientId`"),
    ],
)
async def test_metadata_that_lies_or_lacks_something_ends_the_login(guarded, place, changes, words):
    _of(guarded, place, **changes)
    error = await guarded.error()
    assert error.kind == "start"
    assert words in error.message
    assert guarded.forms() == []


async def test_a_server_without_metadata_is_its_own_authorization_server(guarded):
    guarded.documents.clear()
    error = await guarded.error()
    assert error.url is not None
    assert error.url.startswith(f"{guarded.server.at.url}/authorize?")


async def test_no_login_is_begun_where_an_authorization_is_configured(guarded):
    with pytest.raises(MCPError) as raised:
        async with session_at(
            guarded.server.url,
            http=guarded.http,
            login=guarded.login,
            headers={"authorization": "Bearer wrong-1234"},
        ):
            pass
    assert raised.value.kind == "start"
    assert raised.value.url is None


async def test_no_secret_of_a_login_is_in_the_log(guarded, caplog):
    caplog.set_level("DEBUG", logger="eca_server")
    query = await guarded.log_in()
    async with guarded.session() as session:
        await session.list_tools()
    (form,) = guarded.forms()
    secrets = {guarded.good, "refresh-1", form["code"], form["code_verifier"], query["state"]}
    assert [secret for secret in secrets if secret in caplog.text] == []


@pytest.mark.parametrize(
    ("header", "metadata_url", "scopes", "error"),
    [
        ("", None, (), None),
        ('Basic realm="x"', None, (), None),
        ('Bearer resource_metadata="https://a/b", scope="a b"', "https://a/b", ("a", "b"), None),
        ('bearer error=invalid_token,scope="a"', None, ("a",), "invalid_token"),
        ('Basic realm="a, scope=no", Bearer scope="x\\"y"', None, ('x"y',), None),
    ],
)
async def test_a_challenge_is_read_in_every_spelling(header, metadata_url, scopes, error):
    demand = parse_bearer_challenge(header)
    assert (demand.metadata_url, demand.scopes, demand.error) == (metadata_url, scopes, error)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("HTTPS://Example.COM/Path/", "https://example.com/Path"),
        ("https://example.com", "https://example.com"),
        ("https://example.com/mcp#part", "https://example.com/mcp"),
    ],
)
async def test_a_resource_has_one_name(url, name):
    assert canonical_url(url) == name

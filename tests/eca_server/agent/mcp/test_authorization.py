"""Logins at servers over HTTP: found out, begun by a link, stored, renewed, asked for again."""

import base64
import hashlib
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio

from eca_protocol.http import HTTPClient
from eca_server.agent.mcp.authorization.discovery import canonical_url, parse_bearer_challenge
from eca_server.agent.mcp.authorization.login import MAX_STEP_UPS
from eca_server.config.mcp_settings import OAuthClient
from eca_server.models.credentials.logins import Logins
from eca_server.models.credentials.oauth import TokenSet
from eca_server.secret import Secret
from tests.eca_server.agent.mcp.guarded import OAUTH, RESOURCE, Guarded, query_of
from tests.eca_server.agent.mcp.scripted import error_of
from tests.eca_server.agent.mcp.web import names_of_tools, text_of, web_server
from tests.eca_server.models.credentials.login_server import tokens_of


@pytest.fixture
async def guarded(tmp_path: Path, nursery: trio.Nursery) -> AsyncIterator[Guarded]:
    logins = Logins({"XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)})
    async with web_server() as server, HTTPClient() as http:
        guarded = Guarded(server, http, logins)
        guarded.renew_login(nursery)
        yield guarded
        nursery.cancel_scope.cancel()


async def test_a_login_begins_with_a_link_and_ends_with_a_session_and_is_stored(
    guarded, nursery, caplog
):
    caplog.set_level("DEBUG", logger="eca_server")
    hidden: list[Secret] = []
    guarded.renew_login(nursery, hide=hidden.extend)
    query = await guarded.log_in()
    assert await guarded.tools() == ["echo"]
    (_, registration), (_, form) = guarded.requests
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
    guarded.renew_login(nursery)
    assert await guarded.tools() == ["echo"]
    assert len(guarded.forms()) == 1
    secrets = {guarded.good, "refresh-1", form["code"], form["code_verifier"], query["state"]}
    assert [secret for secret in secrets if secret in caplog.text] == []
    assert Secret(query["state"]) in hidden  # the log has the link to the page


async def test_a_start_that_waits_for_the_keyring_can_be_stopped(guarded, monkeypatch):
    is_open, waiting, waited = threading.Event(), trio.Event(), []

    def ask(_: Logins) -> bool:
        trio.from_thread.run_sync(waiting.set)
        waited.append(is_open.wait(3))
        return False

    monkeypatch.setattr(Logins, "is_locked", property(ask))
    try:
        async with trio.open_nursery() as starting:
            starting.start_soon(guarded.login.token)
            await waiting.wait()
            starting.cancel_scope.cancel()
        assert waited == []
    finally:
        is_open.set()


async def test_a_token_that_is_refused_is_renewed_and_the_request_made_again(guarded):
    await guarded.log_in()
    async with guarded.session() as session:
        guarded.good = "token-2"
        assert await names_of_tools(session) == ["echo"]
    first, second = guarded.forms()
    assert second["grant_type"] == "refresh_token"
    assert second["refresh_token"] == "refresh-1"
    assert second["resource"] == first["resource"]
    guarded.accepted = "nothing"
    assert (await guarded.error()).kind == "login"
    assert len(guarded.forms()) == 3  # what is refused right after its renewal is not renewed


@pytest.mark.parametrize("why", ["invalid_grant", "invalid_client", "unauthorized_client"])
async def test_a_login_that_is_over_is_asked_for_again(guarded, why):
    await guarded.log_in()
    guarded.good, guarded.returned = "token-2", trio.Event()
    stored = json.loads(guarded.logins.path.read_text())
    (login,) = stored["providers"].values()
    login["refresh"] = "refresh-0"
    guarded.logins.path.write_text(json.dumps(stored))
    guarded.refusal = why
    await guarded.log_in()
    assert await guarded.tools() == ["echo"]


async def test_one_login_waits_however_often_the_server_is_started_and_frees_its_port(
    guarded, nursery
):
    page = await guarded.asks()
    assert await guarded.asks() == page
    guarded.scopes = "read write"
    page = await guarded.asks()
    assert query_of(page)["scope"] == "read write"
    port = urlsplit(query_of(page)["redirect_uri"]).port
    guarded.login.give_up()
    guarded.renew_login(nursery, client=OAuthClient(oauth_port=port))
    second = await guarded.asks()
    assert str(port) in second
    assert second != page


async def test_a_port_that_a_different_program_uses_leaves_the_login_required(guarded, nursery):
    port = urlsplit(guarded.server.url).port
    guarded.renew_login(nursery, client=OAuthClient(oauth_port=port))
    error = await guarded.login.login_error("Bearer")
    assert (error.kind, error.url) == ("login", None)
    assert "is in use" in str(error)
    assert "then log in again" in str(error)


async def test_a_logout_during_the_storing_of_a_login_wins(guarded, monkeypatch):
    begun, store = trio.Event(), guarded.logins.store

    def slowly(*arguments: Any) -> Any:
        trio.from_thread.run_sync(begun.set)
        return store(*arguments)

    monkeypatch.setattr(guarded.logins, "store", slowly)
    assert await guarded.come_back(await guarded.asks()) == 200
    await begun.wait()
    await guarded.login.forget()
    assert guarded.logins.read().tokens == {}
    assert await guarded.login.token() is None
    assert not guarded.returned.is_set()


async def test_more_is_asked_for_where_a_token_is_not_enough_but_not_for_ever(guarded):
    challenge = 'Bearer error="insufficient_scope", scope="write"'
    guarded.server.on["tools/call"] = lambda e: e.text(
        403, "token-1: never", www_authenticate=challenge
    )
    await guarded.log_in()
    for _ in range(MAX_STEP_UPS):
        async with guarded.session() as session:
            error = await error_of(session.call_tool("echo", {}, deadline=5))
        assert error.kind == "login"
        assert query_of(error.url)["scope"] == "read write"
        guarded.returned = trio.Event()
        await guarded.come_back(error.url)
        await guarded.returned.wait()
    async with guarded.session() as session:
        result = await session.call_tool("echo", {}, deadline=5)
        assert result.is_error
        assert "403: ***: never" in text_of(result)
        assert await names_of_tools(session) == ["echo"]


METHODS = "token_endpoint_auth_methods_supported"
BASIC = f"Basic {base64.b64encode(b'my+id:client%2Fsecret').decode()}"
REGISTERED = f"Basic {base64.b64encode(b'client-7:sssssssss').decode()}"
SECRET = {"client_secret": "s" * 9}
POSTED = {"token_endpoint_auth_method": "client_secret_post"}


@pytest.mark.parametrize(
    ("methods", "in_form", "in_header"),
    [
        (None, {}, BASIC),
        (["client_secret_post", "client_secret_basic"], {}, BASIC),
        (["client_secret_post"], {"client_secret": "client/secret"}, None),
    ],
)
async def test_a_configured_client_is_not_registered_and_authenticates(
    guarded, nursery, methods, in_form, in_header
):
    guarded.change(OAUTH, **{METHODS: methods})
    secret = Secret("client/secret")
    guarded.renew_login(nursery, client=OAuthClient(client_id="my id", client_secret=secret))
    assert (await guarded.log_in())["client_id"] == "my id"
    guarded.renew_login(nursery)  # of a later process, which only renews
    guarded.good = "token-2"
    assert await guarded.tools() == ["echo"]
    assert [path for path, _ in guarded.requests] == ["/token", "/token"]
    assert guarded.proofs == [in_header] * 2
    for form in guarded.forms():
        sent = {name: form[name] for name in form if name.startswith("client")}
        assert sent == {"client_id": "my id", **in_form}


async def test_a_configured_client_stays_with_its_authorization_server(guarded, nursery):
    """A server that is taken over names a server that collects client secrets."""
    ours = OAuthClient(client_id="my id", client_secret=Secret("client/secret"))
    guarded.renew_login(nursery, client=ours)
    await guarded.log_in()
    url = guarded.server.at.url
    guarded.change(RESOURCE, authorization_servers=[f"{url}/new"])
    guarded.documents[f"{OAUTH}/new"] = {**guarded.documents[OAUTH], "issuer": f"{url}/new"}
    guarded.good, guarded.accepted = "token-2", "token-3"
    for _ in range(2):  # also in a later process
        error = await guarded.error()
        assert error.kind == "start"
        assert f"belongs to {url}, and the server now names {url}/new" in error.message
        guarded.renew_login(nursery, client=ours)
    assert [form["grant_type"] for form in guarded.forms()][1:] == ["refresh_token"] * 2
    guarded.renew_login(nursery, client=OAuthClient(client_id="its id"))
    assert query_of(await guarded.asks())["client_id"] == "its id"
    guarded.renew_login(nursery, client=ours)
    await guarded.login.forget()
    assert query_of(await guarded.asks())["client_id"] == "my id"


@pytest.mark.parametrize(
    ("methods", "answered", "asked_for", "proof"),
    [
        (None, {}, "none", None),
        (["none"], {}, "none", None),
        (["client_secret_post"], SECRET, "client_secret_post", None),
        (["client_secret_basic"], SECRET, "client_secret_basic", REGISTERED),
        (None, {**SECRET, **POSTED}, "none", None),
    ],
)
async def test_a_client_is_registered_for_the_servers_authentication_method(
    guarded, methods, answered, asked_for, proof
):
    guarded.change(OAUTH, **{METHODS: methods})
    guarded.registered = answered
    await guarded.log_in()
    (_, registration), (_, form) = guarded.requests
    assert registration["token_endpoint_auth_method"] == asked_for
    assert guarded.proofs == [proof]
    assert ("client_secret" in form) == (bool(answered) and proof is None)


DOCUMENT = "https://me.example/client.json"


@pytest.mark.parametrize("reads", [True, False, "true"])
async def test_a_metadata_document_is_the_client_id_where_servers_read_it(guarded, nursery, reads):
    guarded.change(OAUTH, client_id_metadata_document_supported=reads)
    guarded.renew_login(nursery, client=OAuthClient(client_metadata_url=DOCUMENT))
    query = await guarded.log_in()
    paths = ["/token"] if reads is True else ["/register", "/token"]
    assert [path for path, _ in guarded.requests] == paths
    (form,) = guarded.forms()
    assert (query["client_id"] == DOCUMENT) is (form["client_id"] == DOCUMENT) is (reads is True)
    assert "client_secret" not in form
    assert guarded.proofs == [None]


async def test_a_login_is_shared_by_those_of_one_scope(guarded, nursery):
    guarded.renew_login(nursery, shared_by="work")
    await guarded.log_in()
    guarded.renew_login(nursery, shared_by="home")
    assert (await guarded.error()).kind == "login"
    guarded.renew_login(nursery, shared_by="work")
    assert await guarded.tools() == ["echo"]


async def test_a_login_is_had_of_this_machine_however_it_is_called(guarded, nursery):
    for place in (RESOURCE, OAUTH):
        text = json.dumps(guarded.documents[place])
        guarded.documents[place] = json.loads(text.replace("127.0.0.1", "localhost"))
    url = guarded.server.url.replace("127.0.0.1", "localhost")
    guarded.renew_login(nursery, url=url)
    await guarded.log_in(url)
    assert await guarded.tools(url) == ["echo"]


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


async def test_a_redirect_of_a_different_server_or_without_the_state_is_refused(guarded):
    page = await guarded.asks()
    assert await guarded.come_back(page, state="guessed") == 404
    await guarded.come_back(page, iss="https://evil.example")
    while await guarded.asks() == page:  # until the login has ended
        await trio.lowlevel.checkpoint()
    assert guarded.forms() == []
    (failure,) = guarded.failures
    assert "a different authorization server" in failure


@pytest.mark.parametrize(
    ("place", "changes", "words"),
    [
        (RESOURCE, {"resource": "https://other.example/mcp"}, "a different resource"),
        (RESOURCE, {"resource": "http://127.0.0.1:1/mcp"}, "a different resource"),
        (RESOURCE, {"resource": "https://x/\u202e"}, "a different resource: https://x/\\u202e"),
        (RESOURCE, {"authorization_servers": []}, "no authorization server"),
        (RESOURCE, {"authorization_servers": ["http://plain.example"]}, "expected an https URL"),
        (RESOURCE, {"authorization_servers": ["https://["]}, "is invalid"),
        (OAUTH, {"issuer": "https://other.example"}, "names a different"),
        (OAUTH, {"code_challenge_methods_supported": ["plain"]}, "PKCE"),
        (OAUTH, {"token_endpoint": "http://plain.example/token"}, "expected an https URL"),
        (OAUTH, {"authorization_endpoint": None}, "no authorization_endpoint"),
        *(
            (OAUTH, {"authorization_endpoint": url}, "of a login page")
            for url in (
                "https://evil.example\\@login.example/",
                "https://login.example@evil.example/",
                "https://login.example/\nLog in",
                "https://l\u043egin.example/",
            )
        ),
        (OAUTH, {"registration_endpoint": None}, "set `clientId`, or a key in `headers`"),
    ],
)
async def test_metadata_that_lies_or_lacks_something_ends_the_login(guarded, place, changes, words):
    guarded.change(place, **changes)
    error = await guarded.error()
    assert error.kind == "start"
    assert words in error.message
    assert guarded.forms() == []


@pytest.mark.parametrize("methods", [["S256"], [], None])
async def test_pkce_is_used_where_the_metadata_does_not_name_it_and_the_log_says_so(
    guarded, caplog, methods
):
    guarded.change(OAUTH, code_challenge_methods_supported=methods)
    page = await guarded.asks()
    assert query_of(page)["code_challenge_method"] == "S256"
    assert ("does not say that it supports PKCE" in caplog.text) is (not methods)


@pytest.mark.parametrize("token_host", ["127.0.0.1", "localhost"])
async def test_the_user_reads_which_other_host_gets_a_configured_secret(
    guarded, nursery, token_host
):
    url = guarded.documents[OAUTH]["token_endpoint"].replace("127.0.0.1", token_host)
    guarded.change(OAUTH, token_endpoint=url)
    ours = OAuthClient(client_id="my id", client_secret=Secret("client/secret"))
    unused = OAuthClient(client_secret=Secret("client/secret"))  # of no `clientId`
    for client, is_shown in ((ours, token_host != "127.0.0.1"), (unused, False)):
        guarded.renew_login(nursery, client=client)
        message = (await guarded.error()).message
        assert message.startswith("it requires a login at 127.0.0.1")
        assert ("sends your `clientSecret` to localhost" in message) is is_shown


async def test_without_metadata_or_with_a_configured_authorization(guarded):
    error = await guarded.error(headers={"authorization": "Bearer wrong-1234"})
    assert (error.kind, error.url) == ("start", None)  # no login is begun
    guarded.documents.clear()
    assert (await guarded.asks()).startswith(f"{guarded.server.at.url}/authorize?")


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
def test_a_challenge_is_read_in_every_spelling(header, metadata_url, scopes, error):
    demand = parse_bearer_challenge(header)
    assert (demand.metadata_url, demand.scopes, demand.error) == (metadata_url, scopes, error)


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("HTTPS://Example.COM/Path/", "https://example.com/Path"),
        ("https://example.com", "https://example.com"),
        ("https://example.com/mcp#part", "https://example.com/mcp"),
        ("https://me:p%40ss@Example.com:8443/mcp", "https://example.com:8443/mcp"),
    ],
)
def test_a_resource_has_one_name(url, name):
    assert canonical_url(url) == name


async def test_a_login_that_another_process_makes_replaces_a_refused_one(
    guarded, monkeypatch, tmp_path
):
    login, elsewhere = guarded.login, Logins({"XDG_DATA_HOME": str(tmp_path)})
    assert await login.token() is None
    assert not login.is_known
    with monkeypatch.context() as patched:
        reads, read = [], Logins.read
        patched.setattr(Logins, "read", lambda logins: reads.append(1) or read(logins))
        elsewhere.store("another", token_set("access-0"))
        for _ in range(9):
            assert await login.token() is None
        assert len(reads) == 1  # and not again, as long as the file is unchanged
    elsewhere.store(login.key, token_set("access-1"))
    assert await login.token() == Secret("access-1")
    assert login.is_known
    assert not await login.renew_refused(Secret("access-1"))
    elsewhere.store(login.key, token_set("access-2"))
    assert await login.renew_refused(Secret("access-1"))
    assert await login.token() == Secret("access-2")


def token_set(access: str) -> TokenSet:
    return tokens_of(access=Secret(access), refresh=None)


async def test_a_logout_wins_over_a_concurrent_read_of_the_file(guarded, monkeypatch):
    login = guarded.login
    guarded.logins.store(login.key, token_set("access-1"))
    is_read, may_continue, read = trio.Event(), trio.Event(), Logins.read

    def slowly(logins: Logins) -> object:
        stored = read(logins)
        trio.from_thread.run_sync(is_read.set)
        trio.from_thread.run(may_continue.wait)
        return stored

    monkeypatch.setattr(Logins, "read", slowly)
    async with trio.open_nursery() as reading:
        reading.start_soon(login.token)
        await is_read.wait()
        assert await login.forget()
        may_continue.set()
    assert not login.is_known

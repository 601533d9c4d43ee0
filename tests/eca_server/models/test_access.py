"""Access to providers: tokens are renewed, and no error shows a key."""

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from eca_protocol.http import HTTPClient
from eca_protocol.testing.provider import Provider, Reply, chunk, raw, reply
from eca_server.models.access import KeyAccess, TokenAccess
from eca_server.models.backend import BackendError
from eca_server.models.credentials.logins import Logins
from eca_server.models.credentials.tokens import Tokens
from eca_server.models.http_backend import HTTPBackend
from eca_server.secret import Secret
from tests.eca_server.models.credentials.login_server import (
    LoginServer,
    login_server,
    tokens_of,
)
from tests.eca_server.models.reading import ask, backend_of, failure

KEY = "planted in a way that looks like no key"
REFUSED = Reply(status=401, body={"error": {"message": "old"}})


@asynccontextmanager
async def logged_in(
    script, tmp_path: Path, *, lasts: float = 3600, **others: Reply
) -> AsyncIterator[tuple[Provider, LoginServer, HTTPBackend]]:
    async with (
        Provider(script, others=others) as provider,
        login_server() as server,
        HTTPClient() as http,
    ):
        logins = Logins({"XDG_DATA_HOME": str(tmp_path)})
        now = time.time()
        tokens = tokens_of(server.url, expires_at=now + lasts, obtained_at=now)
        logins.store("p", tokens)
        renewing = Tokens("p", tokens, logins=logins, http=http)
        access = TokenAccess(url=provider.url, tokens=renewing)
        yield provider, server, backend_of("openai-chat", http=http, access=access)


def carried(provider: Provider) -> list[str]:
    requests = [*provider.requests, *provider.other_requests]
    return [request.headers["authorization"] for request in requests]


async def test_a_login_is_renewed_before_its_end(tmp_path) -> None:
    async with logged_in([reply("Hi")], tmp_path, lasts=0) as (provider, _, backend):
        assert (await ask(backend))[0].text == "Hi"
        assert carried(provider) == ["Bearer access-1"]


async def test_a_refused_token_is_renewed_once(tmp_path) -> None:
    script = [REFUSED, reply("Hi"), REFUSED, REFUSED]
    async with logged_in(script, tmp_path) as (provider, _, backend):
        assert (await ask(backend))[0].text == "Hi"
        assert carried(provider) == ["Bearer access-0", "Bearer access-1"]
        assert (await failure(backend)).kind == "auth"
        assert len(provider.requests) == 4


@pytest.mark.parametrize(
    ("refusal", "kind", "retryable", "words"),
    [
        (None, "auth", False, "log in again with `/login`"),
        ((500, {"error": "server_error"}), "overloaded", True, "cannot be renewed"),
        ((400, {"error": "server_error"}), "auth", False, "cannot be renewed"),
        ((429, {"error": "slow"}), "overloaded", True, "cannot be renewed: slow"),
        *(
            ((status, b"<html>Log in</html>"), "network", False, "require a login in the browser")
            for status in (200, 302, 403, 511)
        ),
    ],
)
async def test_a_login_that_is_over_or_not_renewed_is_reported_with_what_to_do(
    tmp_path, refusal, kind, retryable, words
) -> None:
    async with logged_in([reply("Hi")], tmp_path, lasts=0) as (provider, server, backend):
        server.valid.clear()
        server.says["/token"] = [refusal] if refusal else []
        error = await failure(backend)
        assert (error.kind, error.retryable) == (kind, retryable)
        assert words in error.message
        assert provider.requests == []


@pytest.mark.parametrize(
    "answer",
    [
        Reply(status=401, body={"error": {"message": f"wrong key: {KEY}!"}}),
        Reply(status=500, body=f"<title>{KEY}</title>".encode()),
        reply("Hi", chunk({"error": {"message": f"wrong key: {KEY}!"}})),
        reply("Hi", raw(f"data: {KEY}\n\n")),
    ],
)
@pytest.mark.parametrize("header", ["authorization", "x-own-token"])
async def test_a_key_that_a_provider_quotes_is_in_no_error(answer, header) -> None:
    async with Provider([answer]) as provider, HTTPClient() as http:
        own = header == "x-own-token"
        access = KeyAccess(url=provider.url, key=None if own else Secret(KEY))
        headers = {header: KEY} if own else {}
        backend = backend_of("openai-chat", http=http, access=access, extra_headers=headers)
        error = await failure(backend)
    assert KEY not in f"{error} {error!r} {error.message} {error.raw} {error.args}"


async def test_a_listing_renews_a_refused_token_and_shows_no_key(tmp_path) -> None:
    quoting = Reply(status=403, body=["access-0", "access-1", "more"])
    async with logged_in([], tmp_path, models=quoting) as (provider, _, backend):
        with pytest.raises(BackendError) as caught:
            await backend.models()
        assert carried(provider) == ["Bearer access-0", "Bearer access-1"]
    assert "access-1" not in caught.value.raw


async def test_a_base_that_is_no_url_is_an_error_of_the_configuration() -> None:
    with pytest.raises(BackendError, match="expected a url") as caught:
        await KeyAccess(url="http://user:planted@[::1/v1").target("/chat")
    assert caught.value.kind == "configuration"
    assert "planted" not in str(caught.value)

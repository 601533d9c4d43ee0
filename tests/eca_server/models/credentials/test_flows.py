"""Logins without pasting a key: the messages to browser and provider, and the results."""

import base64
import contextlib
import hashlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import trio

from eca_protocol.errors import HTTPError
from eca_protocol.http import HTTPClient
from eca_protocol.http_server import HTTPRequest
from eca_server.config.login_settings import Auth
from eca_server.models.credentials import flows
from eca_server.models.credentials.flows import (
    BrowserLogin,
    DeviceLogin,
    Flow,
    KeyFromBrowser,
    LoginInstructions,
    flow_of,
)
from eca_server.models.credentials.oauth import Client, OAuthError, TokenSet
from eca_server.models.credentials.redirect import PortInUse, Redirect, redirect_page
from eca_server.secret import Secret
from tests.eca_server.models.credentials.login_server import DEVICE, LoginServer
from tests.eca_server.models.credentials.login_server import server as server  # noqa: PLC0414
from tests.tasks import run_in


class User:
    """The user who logs in: reads instructions, and opens pages in a browser."""

    def __init__(self, http: HTTPClient) -> None:
        self.http = http
        self.shown: list[str] = []
        self._is_told = trio.Event()

    def tell(self, invitation: LoginInstructions) -> None:
        self.shown.append(invitation.text)
        self._is_told.set()

    async def page(self) -> tuple[str, dict[str, str]]:
        """Return the page to open, without its query, and the query."""
        await self._is_told.wait()
        link = urlsplit(self.shown[-1].split()[-1])
        fields = {name: values[0] for name, values in parse_qs(link.query).items()}
        return f"{link.scheme}://{link.netloc}{link.path}", fields

    async def open(
        self, url: str, method: str = "GET", *, body: bytes = b"", **headers: str
    ) -> tuple[int, str]:
        async with self.http.stream(method, url, headers=headers, content=body) as response:
            return response.status, (await response.read()).decode()


@pytest.fixture
async def user() -> AsyncIterator[User]:
    async with HTTPClient() as http:
        with trio.fail_after(20):
            yield User(http)


def client_of(server: LoginServer) -> Client:
    return Client(id="ours", token_url=f"{server.url}/token")


def browser_login(server: LoginServer) -> BrowserLogin:
    return BrowserLogin(
        client=client_of(server),
        authorize_url="https://login.example/authorize?prompt=consent",
        scope="models offline",
    )


async def outcome(flow: Flow, user: User, meanwhile) -> Secret | TokenSet:
    try:
        async with trio.open_nursery() as nursery:
            got = run_in(nursery, flow.run, user.http, user.tell)
            await meanwhile()
    except ExceptionGroup as group:
        raise group.exceptions[0] from None
    return got[0]


async def test_a_browser_login_is_a_code_grant_with_pkce(user, server):
    sent: dict[str, str] = {}

    async def meanwhile() -> None:
        url, fields = await user.page()
        assert url == "https://login.example/authorize"
        sent.update(fields)
        back = f"{fields['redirect_uri']}?state={fields['state']}&code=the-code"
        status, page = await user.open(back)
        assert status == 200
        assert "can close" in page
        assert "the-code" not in page

    tokens = await outcome(browser_login(server), user, meanwhile)
    assert tokens.access == Secret("access-1")
    assert tokens.client == client_of(server)
    [(path, request)] = server.requests
    digest = hashlib.sha256(request["code_verifier"].encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).decode().rstrip("=")
    assert (path, request["grant_type"]) == ("/token", "authorization_code")
    assert request["code"] == "the-code"
    assert request["redirect_uri"] == sent["redirect_uri"]
    assert sent["code_challenge"] == challenge
    assert sent["code_challenge_method"] == "S256"
    assert 43 <= len(request["code_verifier"]) <= 128
    assert (sent["scope"], sent["prompt"]) == ("models offline", "consent")
    assert sent["client_id"] == "ours"
    assert sent["redirect_uri"].startswith("http://127.0.0.1:")


async def test_only_the_logins_own_state_is_let_in_and_only_once(user, server):
    async with redirect_page() as page:
        for strange in ("?code=x", "?state=&code=x", "?state=guess&code=x", "/x?code=x"):
            assert (await user.open(page.url + strange))[0] == 404
        good = f"{page.url}?state={page.state}&code=right"
        assert (await user.open(good, "POST"))[0] == 404
        assert (await user.open(good, "POST", body=b"x" * 2000))[0] == 413
        assert (await user.open(good, host="attacker.example"))[0] == 403
        assert (await user.open(good))[0] == 200
        assert (await user.open(good.replace("right", "later")))[0] == 410
        assert await page.code() == Secret("right")


async def test_two_logins_are_apart_and_an_abandoned_one_ends(autojump_clock):
    async with redirect_page() as page, redirect_page() as other:
        assert page.state != other.state
        assert page.url != other.url
        began = trio.current_time()
        with pytest.raises(OAuthError, match="in 5 minutes"):
            await page.code()
        assert trio.current_time() - began == pytest.approx(300)


async def test_a_taken_port_is_reported_with_the_next_step(server):
    port = urlsplit(server.url).port
    with pytest.raises(PortInUse, match=f"port {port}.*then log in again; or configure"):
        async with redirect_page(port=port or 0):
            raise AssertionError("it is taken")


async def test_a_login_that_cannot_listen_after_an_earlier_one_fails_while_it_waits(server):
    port = urlsplit(server.url).port or 0
    errors: list[str] = []

    async def log_in(when: str) -> None:
        try:
            async with redirect_page(port=port) as page:
                when = "while it waits"
                await page.code()
        except PortInUse:
            errors.append(when)

    async with trio.open_nursery() as nursery:
        for _ in range(2):
            nursery.start_soon(log_in, "at once")
    assert errors == ["at once", "while it waits"]


async def test_several_logins_wait_at_one_port_and_each_gets_its_own_code(user):
    async with redirect_page() as free:
        port = urlsplit(free.url).port or 0
    has_left = trio.Event()

    async def first(task_status: Any) -> None:
        async with redirect_page(port=port) as page:
            task_status.started(page)
            assert await page.code() == Secret("first")
        has_left.set()

    async def come_back(page: Redirect, code: str) -> int:
        return (await user.open(f"{page.url}?state={page.state}&code={code}"))[0]

    async with trio.open_nursery() as nursery:
        listening = await nursery.start(first)
        async with (
            redirect_page(port=port, path="/second") as second,
            redirect_page(port=port) as third,
        ):
            assert (await user.open(f"{second.url}?state={third.state}&code=x"))[0] == 404
            assert await come_back(second, "second") == 200
            assert await second.code() == Secret("second")
            assert await come_back(listening, "first") == 200
            await has_left.wait()
            status = 0
            while not status:  # until one of the others listens
                with contextlib.suppress(HTTPError):
                    status = await come_back(third, "third")
            assert (status, await third.code()) == (200, Secret("third"))
    async with redirect_page(port=port):
        pass


async def test_a_login_that_fails_while_it_is_cancelled_has_its_own_error():
    async def fail() -> None:
        async with redirect_page():
            scope.cancel()
            raise OAuthError("refused")

    with trio.CancelScope() as scope, pytest.raises(OAuthError, match="refused"):
        await fail()


async def test_a_login_succeeds_even_if_the_page_cannot_be_sent(autojump_clock):
    async with redirect_page() as page:
        target = f"{page.path}?state={page.state}&code=c"

        class Stuck:
            async def respond(self, *_: Any) -> None:
                await trio.sleep_forever()

        with trio.CancelScope() as scope:
            scope.cancel()
            request = HTTPRequest(method="GET", target=target, headers={}, body=b"")
            await page.handle(request, Stuck())  # type: ignore[arg-type]
        with trio.fail_after(1):
            assert await page.code() == Secret("c")


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("error=access_denied", "access_denied"),
        ("error=x&error_description=You+said+no", "You said no"),
        ("", "expected a code"),
        ("code=a%0Ab", "control character"),
    ],
)
async def test_what_is_no_code_ends_the_login(user, server, query, words):
    async def meanwhile() -> None:
        _, fields = await user.page()
        url = f"{fields['redirect_uri']}?state={fields['state']}&{query}"
        assert "The login failed" in (await user.open(url))[1]

    with pytest.raises(OAuthError, match=words):
        await outcome(browser_login(server), user, meanwhile)
    assert server.requests == []


async def test_a_key_from_the_browser_comes_back_with_its_state_in_the_path(user, server):
    server.says["/keys"] = [(200, {"key": "sk-or-planted", "user_id": "u"})]
    flow = KeyFromBrowser(authorize_url="https://or.example/auth", key_url=f"{server.url}/keys")

    async def meanwhile() -> None:
        url, fields = await user.page()
        assert url == "https://or.example/auth"
        back = fields["callback_url"]
        assert (await user.open(f"{back.rpartition('/')[0]}/guess?code=x"))[0] == 404
        assert (await user.open(f"{back}?code=the-code"))[0] == 200

    assert await outcome(flow, user, meanwhile) == Secret("sk-or-planted")
    [(_, request)] = server.requests
    assert request.keys() == {"code", "code_verifier", "code_challenge_method"}
    assert server.headers[0]["content-type"] == "application/json"


async def test_a_refusal_of_a_code_from_the_browser_is_shown_without_the_code(user, server):
    quoted = {"error": "invalid_grant", "error_description": "no such code: planted-code-1"}
    server.says["/keys"] = [(400, quoted)]
    flow = KeyFromBrowser(authorize_url="https://or.example/auth", key_url=f"{server.url}/keys")

    async def meanwhile() -> None:
        _, fields = await user.page()
        await user.open(f"{fields['callback_url']}?code=planted-code-1")

    with pytest.raises(OAuthError, match=r"no such code: \*\*\*"):
        await outcome(flow, user, meanwhile)


def device_login(server: LoginServer) -> DeviceLogin:
    return DeviceLogin(
        client=client_of(server), device_url=f"{server.url}/device", scope="read:user"
    )


def pending(code: str) -> tuple[int, dict[str, str]]:
    return 200, {"error": code, "error_description": f"it is {code}"}


async def test_a_device_login_shows_its_code_and_asks_until_it_was_entered(
    user, server, monkeypatch
):
    waits: list[float] = []
    sleep = trio.sleep

    async def note(seconds: float) -> None:
        waits.append(seconds)
        await sleep(0)

    monkeypatch.setattr(flows.trio, "sleep", note)
    server.says["/device"] = [(200, DEVICE | {"expires_in": 900, "interval": 5})]
    server.says["/token"] = [
        pending("authorization_pending"),
        pending("slow_down"),
        (200, {"access_token": "ghu_planted", "token_type": "bearer", "scope": "read:user"}),
    ]
    assert await device_login(server).run(user.http, user.tell) == Secret("ghu_planted")
    assert waits == [5, 5, 10]
    assert "https://login.example/device" in user.shown[0]
    assert "`ABCD-1234`" in user.shown[0]
    assert "device-code" not in user.shown[0]
    assert server.requests[1][1] == {
        "grant_type": "urn:ietf:params:oauth:grant-type:device_code",
        "device_code": "device-code-planted",
        "client_id": "ours",
    }


ODD = {"device_code": "x", "user_code": 7}
AT_CUT = {"error": "expired_token", "error_description": f"{'x' * 492} device-code-planted"}


@pytest.mark.parametrize(
    ("begun", "answers", "words"),
    [
        *(
            (DEVICE, [pending(code)], f"it is {code}")
            for code in ("expired_token", "access_denied", "incorrect_device_code", "other")
        ),
        (DEVICE, [(400, AT_CUT)], "x+"),
        (
            DEVICE | {"expires_in": 0.05},
            [pending("authorization_pending")] * 99,
            "not entered in t",
        ),
        (ODD, [], "verification_uri"),
        (DEVICE | {"verification_uri": "file:///odd"}, [], "of a login page"),
    ],
)
async def test_a_refused_or_late_device_login_is_over(user, server, begun, answers, words):
    server.says = {"/device": [(200, begun)], "/token": answers}
    with pytest.raises(OAuthError, match=words) as caught:
        await device_login(server).run(user.http, user.tell)
    assert "dev" not in str(caught.value).replace("device_code", ""), "no secret, not in part"


FRESH = {"access_token": "access-1", "refresh_token": "refresh-1"}
WAITING = pending("authorization_pending")


@pytest.mark.parametrize(
    ("answers", "seconds"),
    [
        ([(200, FRESH)], None),
        ([(200, FRESH | {"expires_in": "3600"})], 3600),
        ([(200, FRESH | {"expires_in": "soon"})], None),
        ([WAITING, (502, b"<html>Bad gateway</html>")], 3600),
        ([WAITING, (200, b"<html>Log in to the network</html>"), (429, {"error": "slow"})], 3600),
        ([WAITING, (503, {"error": "temporarily_unavailable"})], 3600),
        ([WAITING, None, None], 3600),
    ],
)
async def test_a_device_login_outlives_errors_and_stores_what_renews_it(
    user, server, monkeypatch, answers, seconds
):
    monkeypatch.setattr(flows, "_SLOWER", 0)
    server.says = {"/device": [(200, DEVICE)], "/token": answers}
    tokens = await device_login(server).run(user.http, user.tell)
    assert tokens.refresh == Secret("refresh-1")
    lasts = tokens.expires_at and tokens.expires_at - tokens.obtained_at
    assert lasts == seconds


@pytest.mark.parametrize(
    "number",
    [10**400, -(10**400), 0, True, "soon", "9" * 400],
    ids=["huge", "below", "none", "true", "text", "digits"],
)
async def test_whatever_an_answer_calls_a_number_of_seconds_the_login_continues(
    user, server, number
):
    server.says["/device"] = [(200, DEVICE | {"expires_in": number})]
    server.says["/token"] = [(200, {"access_token": "a", "expires_in": number})]
    assert await device_login(server).run(user.http, user.tell)


async def test_flows_are_what_is_documented_for_others_and_what_is_configured():
    assert isinstance(flow_of("openrouter", Auth()), KeyFromBrowser)
    for name in ("anthropic", "openai", "github-copilot", "own"):
        assert flow_of(name, Auth()) is None
    configured = Auth(client_id="c", authorize_url="https://a/", token_url="https://t/")
    assert isinstance(flow_of("own", configured), BrowserLogin)
    assert flow_of("own", Auth(client_id="c", token_url="https://t/")) is None
    assert flow_of("own", Auth(client_id="c")) is None


@pytest.mark.parametrize("host", ["https://github.com", "https://git.corp.example"])
async def test_github_is_known_on_every_host(host):
    url = None if host == "https://github.com" else f"{host}/"
    flow = flow_of("github-copilot", Auth(client_id="c", url=url))
    assert flow == DeviceLogin(
        client=Client(id="c", token_url=f"{host}/login/oauth/access_token"),
        device_url=f"{host}/login/device/code",
        scope="read:user",
    )

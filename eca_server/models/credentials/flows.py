"""Logins without pasting a key: in the browser, or with a code on another device.

A built-in flow is one that its provider documents for third-party programs. A vendor's private
client is not used. A user with a client of their own configures it (`providers.<name>.auth`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import ClassVar, Final, Protocol

import attrs
import trio

from eca_protocol import json
from eca_protocol.errors import HTTPError
from eca_protocol.http import HTTPClient
from eca_server.config.login_settings import Auth
from eca_server.models.credentials.oauth import (
    Challenge,
    Client,
    OAuthError,
    TokenSet,
    ask,
    checked_page,
    code_query,
    page_url,
    post_form,
    seconds_in,
    secret_in,
    tokens_for_code,
    tokens_in,
)
from eca_server.secret import Secret

_DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_LONGEST_DEVICE_LOGIN: Final = 1800.0
_SLOWER: Final = 5.0  # seconds, as the standard says


@attrs.frozen(kw_only=True)
class LoginInstructions:
    """The next step that the user has to take.

    Attributes:
        url: the page to open in a browser.
        code: the code to enter on that page; None: no code is needed.
    """

    url: str
    code: str | None = None

    @property
    def text(self) -> str:
        """The step as text for the user."""
        if self.code is None:
            return f"Open this page in your browser and log in:\n\n{self.url}"
        return f"Open {self.url} in a browser and enter this code: `{self.code}`"


ShowInstructions = Callable[[LoginInstructions], None]
"""A function that shows the instructions to the user."""


class Flow(Protocol):
    """A way to log in to a provider."""

    @property
    def starts_directly(self) -> bool:
        """True: a plain login uses this flow; False: it is offered next to pasting a key."""
        ...

    async def run(self, http: HTTPClient, show: ShowInstructions) -> Secret | TokenSet:
        """Log in and return the key or tokens to store. Cancellation stops the login.

        Raises:
            OAuthError: the provider refused, or the login was not finished in time.
            HTTPError: the provider cannot be reached.
        """
        ...


@attrs.frozen(kw_only=True)
class BrowserLogin:
    """OAuth's authorization code grant with PKCE; the browser is redirected to a local page.

    Attributes:
        redirect_port: the port of the local page; 0: any free port.
    """

    client: Client
    authorize_url: str
    scope: str | None = None
    redirect_port: int = 0
    redirect_path: str = "/callback"

    starts_directly: ClassVar[bool] = True

    async def run(self, http: HTTPClient, show: ShowInstructions) -> TokenSet:
        """Log in through the browser and exchange the code for tokens."""
        from eca_server.models.credentials.redirect import redirect_page  # noqa: PLC0415 - it loads h11

        challenge = Challenge()
        async with redirect_page(port=self.redirect_port, path=self.redirect_path) as page:
            query = code_query(
                self.client, challenge, redirect=page.url, state=page.state, scope=self.scope
            )
            show(LoginInstructions(url=page_url(self.authorize_url, query)))
            code = await page.code()
            return await tokens_for_code(
                http, self.client, code=code, redirect=page.url, challenge=challenge
            )


@attrs.frozen(kw_only=True)
class KeyFromBrowser:
    """OpenRouter's login: the browser brings a code, which is exchanged for an API key."""

    authorize_url: str
    key_url: str

    starts_directly: ClassVar[bool] = False

    async def run(self, http: HTTPClient, show: ShowInstructions) -> Secret:
        """Log in through the browser and return the key."""
        from eca_server.models.credentials.redirect import redirect_page  # noqa: PLC0415 - it loads h11

        challenge = Challenge()
        async with redirect_page(state_in_path=True) as page:
            query: dict[str, str | None] = {
                "callback_url": page.url,
                "code_challenge": challenge.text,
                "code_challenge_method": "S256",
            }
            show(LoginInstructions(url=page_url(self.authorize_url, query)))
            code = await page.code()
        payload = {
            "code": code.reveal(),
            "code_verifier": challenge.verifier.reveal(),
            "code_challenge_method": "S256",
        }
        answer = await ask(
            http,
            "POST",
            self.key_url,
            headers={"content-type": "application/json"},
            content=json.dumps(payload),
            hide=(code, challenge.verifier),
            shows_certificate=True,
        )
        return secret_in(answer, "key")


@attrs.frozen(kw_only=True)
class DeviceLogin:
    """OAuth's device grant: the user enters a code on a page of the provider."""

    client: Client
    device_url: str
    scope: str | None = None

    starts_directly: ClassVar[bool] = True

    async def run(self, http: HTTPClient, show: ShowInstructions) -> Secret | TokenSet:
        """Log in with a device code; a token without expiry and renewal is returned as a key."""
        fields = {"client_id": self.client.id, **({"scope": self.scope} if self.scope else {})}
        start = await post_form(http, self.client, fields, url=self.device_url)
        device = secret_in(start, "device_code")
        page, user_code = start.get("verification_uri"), start.get("user_code")
        if not isinstance(page, str) or not isinstance(user_code, str):
            raise OAuthError("expected verification_uri and user_code in the answer")
        show(LoginInstructions(url=checked_page(page), code=user_code))
        lifetime = min(seconds_in(start, "expires_in") or 900.0, _LONGEST_DEVICE_LOGIN)
        with trio.move_on_after(lifetime):
            answer = await self._answer(http, device, seconds_in(start, "interval") or 5.0)
            tokens = tokens_in(answer, self.client, now=time.time())
            return tokens if tokens.refresh or tokens.expires_at is not None else tokens.access
        raise OAuthError("the code was not entered in time")

    async def _answer(
        self, http: HTTPClient, device: Secret, interval: float
    ) -> Mapping[str, object]:
        fields: dict[str, str | Secret] = {
            "grant_type": _DEVICE_GRANT,
            "device_code": device,
            "client_id": self.client.id,
        }
        while True:
            await trio.sleep(interval)
            try:
                return await post_form(http, self.client, fields)
            except OAuthError as error:
                if error.code == "slow_down":
                    interval += _SLOWER
                elif error.is_temporary or error.is_foreign:
                    interval += _SLOWER  # as below
                elif error.code != "authorization_pending":
                    raise
            except HTTPError:
                interval += _SLOWER  # keep polling: the user may be entering the code


_KEYS_FROM_BROWSER: Mapping[str, KeyFromBrowser] = {
    "openrouter": KeyFromBrowser(
        authorize_url="https://openrouter.ai/auth",
        key_url="https://openrouter.ai/api/v1/auth/keys",
    ),
}
"""Logins that a provider documents for any program, by provider."""


KEY_HINTS: Mapping[str, str] = {
    "github-copilot": (
        "The key is a GitHub token that may use Copilot. To log in with a code instead, set "
        "`providers.github-copilot.auth.clientId` to the client id of an app that you may use."
    ),
}
"""Advice on the key of a provider, by provider."""


def flow_of(provider: str, auth: Auth) -> Flow | None:
    """Return the login flow of a provider; None: the user pastes a key.

    `auth`: its configured login settings.
    """
    if auth.client_id is None:
        return _KEYS_FROM_BROWSER.get(provider)
    client_id = auth.client_id
    if provider == "github-copilot":
        auth = _github(auth)
    if auth.token_url is None:
        return None
    client = Client(id=client_id, token_url=auth.token_url)
    if auth.device_url is not None:
        return DeviceLogin(client=client, device_url=auth.device_url, scope=auth.scope)
    if auth.authorize_url is None:
        return None
    return BrowserLogin(
        client=client,
        authorize_url=auth.authorize_url,
        scope=auth.scope,
        redirect_port=auth.redirect_port,
        redirect_path=auth.redirect_path,
    )


def _github(auth: Auth) -> Auth:
    """Add the defaults for a login to GitHub or a GitHub Enterprise host."""
    host = (auth.url or "https://github.com").rstrip("/")
    return attrs.evolve(
        auth,
        device_url=auth.device_url or f"{host}/login/device/code",
        token_url=auth.token_url or f"{host}/login/oauth/access_token",
        scope=auth.scope or "read:user",
    )

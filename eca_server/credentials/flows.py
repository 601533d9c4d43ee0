"""How a login is done without pasting a key: in the browser, or with a code on another device.

The rule it keeps: a flow is what a provider documents for programs of others. What a vendor keeps
for its own programs is not here; who has a client of his own with it configures that
(`providers.<name>.auth`), under whatever name he was given.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import ClassVar, Final, Protocol
from urllib.parse import urlencode, urlsplit

import attrs
import trio

from eca_protocol import json
from eca_protocol.errors import HTTPError
from eca_protocol.http import HTTPClient
from eca_server.config.login_settings import Auth
from eca_server.credentials.oauth import (
    Challenge,
    Client,
    OAuthFault,
    TokenSet,
    ask,
    post_form,
    seconds_in,
    secret_in,
    tokens_for_code,
    tokens_in,
)
from eca_server.secret import Secret

__all__ = [
    "KEY_HINTS",
    "BrowserLogin",
    "DeviceLogin",
    "Flow",
    "Invitation",
    "KeyFromBrowser",
    "Tell",
    "flow_of",
]

_DEVICE_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_LONGEST_DEVICE_LOGIN: Final = 1800.0
_SLOWER: Final = 5.0  # seconds, as the standard says


@attrs.frozen(kw_only=True)
class Invitation:
    """What the user is to do now.

    Attributes:
        url: the page to open in a browser.
        code: what is to be entered there; None: nothing.
    """

    url: str
    code: str | None = None

    @property
    def text(self) -> str:
        """The same in words."""
        if self.code is None:
            return f"Open this page in your browser and log in:\n\n{self.url}"
        return f"Open {self.url} in a browser and enter this code: `{self.code}`"


Tell = Callable[[Invitation], None]
"""Shows it to the user."""


class Flow(Protocol):
    """One way to log in."""

    @property
    def begins_at_once(self) -> bool:
        """Whether it is what is meant by a login, and not one way beside a pasted key."""
        ...

    async def run(self, http: HTTPClient, tell: Tell) -> Secret | TokenSet:
        """Log in; what is to be stored. Cancelling ends it at once.

        Raises:
            OAuthFault: it was refused, or not done in time.
            HTTPError: the provider cannot be reached.
        """
        ...


@attrs.frozen(kw_only=True)
class BrowserLogin:
    """OAuth's code grant with PKCE; the browser comes back to a page of ours.

    Attributes:
        client: who logs in.
        authorize_url: where the browser is sent.
        scope: what is asked for.
        redirect_port: where it comes back to; 0: anywhere.
        redirect_path: likewise.
    """

    client: Client
    authorize_url: str
    scope: str | None = None
    redirect_port: int = 0
    redirect_path: str = "/callback"

    begins_at_once: ClassVar[bool] = True

    async def run(self, http: HTTPClient, tell: Tell) -> TokenSet:
        """As `Flow.run`."""
        from eca_server.credentials.redirect import redirect_page  # noqa: PLC0415 - it loads h11

        challenge = Challenge()
        async with redirect_page(port=self.redirect_port, path=self.redirect_path) as page:
            query = {
                "response_type": "code",
                "client_id": self.client.id,
                "redirect_uri": page.url,
                "state": page.state,
                "code_challenge": challenge.text,
                "code_challenge_method": "S256",
                **({"scope": self.scope} if self.scope else {}),
            }
            tell(_invitation(self.authorize_url, query))
            code = await page.code()
            return await tokens_for_code(
                http,
                self.client,
                code=code,
                redirect=page.url,
                challenge=challenge,
                now=time.time(),
            )


@attrs.frozen(kw_only=True)
class KeyFromBrowser:
    """OpenRouter's: the browser brings a code, and for the code there is an ordinary key.

    Attributes:
        authorize_url: where the browser is sent.
        key_url: where the code is exchanged.
    """

    authorize_url: str
    key_url: str

    begins_at_once: ClassVar[bool] = False

    async def run(self, http: HTTPClient, tell: Tell) -> Secret:
        """As `Flow.run`."""
        from eca_server.credentials.redirect import redirect_page  # noqa: PLC0415 - it loads h11

        challenge = Challenge()
        async with redirect_page(state_in_path=True) as page:
            query = {
                "callback_url": page.url,
                "code_challenge": challenge.text,
                "code_challenge_method": "S256",
            }
            tell(_invitation(self.authorize_url, query))
            code = await page.code()
        sent = {
            "code": code.reveal(),
            "code_verifier": challenge.verifier.reveal(),
            "code_challenge_method": "S256",
        }
        answer = await ask(
            http,
            "POST",
            self.key_url,
            headers={"content-type": "application/json"},
            content=json.dumps(sent),
            hide=(code, challenge.verifier),
        )
        return secret_in(answer, "key")


@attrs.frozen(kw_only=True)
class DeviceLogin:
    """OAuth's device grant: a code is shown, which the user enters on a page of the provider.

    Attributes:
        client: who logs in.
        device_url: where the code is had.
        scope: what is asked for.
    """

    client: Client
    device_url: str
    scope: str | None = None

    begins_at_once: ClassVar[bool] = True

    async def run(self, http: HTTPClient, tell: Tell) -> Secret | TokenSet:
        """As `Flow.run`; a token that never ends is a key."""
        fields = {"client_id": self.client.id, **({"scope": self.scope} if self.scope else {})}
        begun = await post_form(http, self.device_url, fields)
        device = secret_in(begun, "device_code")
        page, user_code = begun.get("verification_uri"), begun.get("user_code")
        if not isinstance(page, str) or not isinstance(user_code, str):
            raise OAuthFault("expected verification_uri and user_code in the answer")
        tell(Invitation(url=page, code=user_code))
        lasts = min(seconds_in(begun, "expires_in") or 900.0, _LONGEST_DEVICE_LOGIN)
        with trio.move_on_after(lasts):
            answer = await self._answer(http, device, seconds_in(begun, "interval") or 5.0)
            tokens = tokens_in(answer, self.client, now=time.time())
            return tokens.access if tokens.expires_at is None else tokens
        raise OAuthFault("the code was not entered in time")

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
                return await post_form(http, self.client.token_url, fields)
            except OAuthFault as fault:
                if fault.code == "slow_down":
                    interval += _SLOWER
                elif fault.code != "authorization_pending":
                    raise
            except HTTPError:
                interval += _SLOWER  # the user is in the middle of it: better late than not


_KEYS_FROM_BROWSER: Mapping[str, KeyFromBrowser] = {
    "openrouter": KeyFromBrowser(
        authorize_url="https://openrouter.ai/auth",
        key_url="https://openrouter.ai/api/v1/auth/keys",
    ),
}
"""By provider; documented for any program."""


KEY_HINTS: Mapping[str, str] = {
    "github-copilot": (
        "The key is a GitHub token that may use Copilot. To log in with a code instead, set "
        "`providers.github-copilot.auth.clientId` to the client id of an app that you may use."
    ),
}
"""By provider: what a user has to know of its key."""


def flow_of(provider: str, auth: Auth) -> Flow | None:
    """How one logs in to a provider; None: by pasting a key.

    Args:
        provider: its name.
        auth: what is configured for it.
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
    """What need not be configured of GitHub's logins, on whichever host."""
    host = (auth.url or "https://github.com").rstrip("/")
    return attrs.evolve(
        auth,
        device_url=auth.device_url or f"{host}/login/device/code",
        token_url=auth.token_url or f"{host}/login/oauth/access_token",
        scope=auth.scope or "read:user",
    )


def _invitation(url: str, query: Mapping[str, str]) -> Invitation:
    return Invitation(url=f"{url}{'&' if urlsplit(url).query else '?'}{urlencode(query)}")

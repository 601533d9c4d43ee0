"""ACP's `authenticate` and `logout`, by the logins of an ECA server."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from typing import Final

import trio

from eca_protocol import messages as eca
from eca_protocol.acp import AUTHENTICATION_REQUIRED
from eca_protocol.client import Client
from eca_protocol.errors import RequestFailed, RPCError
from eca_protocol.jsonrpc import ErrorCode
from eca_protocol.methods import PROVIDERS_LIST, PROVIDERS_LOGIN, PROVIDERS_LOGOUT
from eca_server.system.browser import open_page
from eca_server.system.child_process import harden_environment

_BROWSER: Final = "browser"
_LOGIN_SECONDS: Final = 600.0


async def _providers(client: Client) -> Sequence[eca.ProviderStatus] | None:
    """Return the providers of a server; None: it cannot list them."""
    try:
        listed = await client.request(PROVIDERS_LIST, eca.ProvidersListParams())
    except RequestFailed as error:
        if error.code == ErrorCode.METHOD_NOT_FOUND:
            return None
        raise
    return listed.providers


async def check_keys(client: Client) -> None:
    """Check that a provider has a key, or needs none.

    Raises:
        RPCError: no provider can be used.
    """
    providers = await _providers(client)
    usable = {"authenticated", "expiring", "local"}
    others = (each for each in providers or () if each.id != "simulator")
    if providers is not None and not any(each.auth.status in usable for each in others):
        raise RPCError(
            AUTHENTICATION_REQUIRED,
            "no key was found: set a variable such as ANTHROPIC_API_KEY where the editor starts, "
            "configure `providers`, or choose a different login",
        )


async def log_in(client: Client) -> None:
    """Log in to a provider in the user's browser, and wait until the login is stored.

    The provider is the first that has such a login, configured ones before known ones.

    Raises:
        RPCError: there is no such login, or it failed.
    """
    providers = await _providers(client)
    named = [each for each in providers or () if _has_browser_login(each)]
    target = next(iter(sorted(named, key=lambda each: not each.configured)), None)
    if target is None:
        raise RPCError(
            ErrorCode.INVALID_PARAMS, "no provider has a login in the browser: use a key"
        )
    ended = trio.Event()
    failures: list[str] = []

    def updated(status: eca.ProviderStatus) -> None:
        if status.id == target.id and status.auth.status == "authenticated":
            ended.set()

    def shown(message: eca.ShowMessageParams) -> None:
        if target.id in message.message and message.type != "info":
            failures.append(message.message)
            ended.set()

    client.on(eca.ProviderStatus, updated)
    client.on(eca.ShowMessageParams, shown)
    params = eca.ProvidersLoginParams(provider=target.id, method=_BROWSER)
    begun = await client.request(PROVIDERS_LOGIN, params)
    if begun.url is not None:
        async with trio.open_nursery() as nursery:
            environ = harden_environment(os.environ)
            nursery.start_soon(partial(open_page, begun.url, environ))
            os.write(2, f"Log in to {target.id} on this page: {begun.url}\n".encode())
            with trio.move_on_after(_LOGIN_SECONDS):
                await ended.wait()
            nursery.cancel_scope.cancel()
    if failures or not ended.is_set():
        text = failures[0] if failures else f"the login to {target.id} took too long"
        raise RPCError(ErrorCode.INTERNAL_ERROR, text)


def _has_browser_login(provider: eca.ProviderStatus) -> bool:
    methods = () if provider.login is None else provider.login.methods
    return any(each.key == _BROWSER for each in methods)


async def log_out(client: Client) -> None:
    """Remove every stored login; keys of the environment and the configuration stay."""
    for provider in await _providers(client) or ():
        if provider.auth.source == "login":
            await client.request(PROVIDERS_LOGOUT, eca.ProvidersLogoutParams(provider=provider.id))

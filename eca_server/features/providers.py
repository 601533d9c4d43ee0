"""The providers of models, and logins to them (chapter "Provider Management" of CURRENT).

Logins are those of `/login`, stored in the same place. Answers never contain a key or a token.
Changed providers are announced to a client that has requested the list.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from typing import Final

import trio

from eca_protocol import messages as m
from eca_protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, ECAError, HTTPError, RPCError
from eca_protocol.peer import Handler
from eca_server.commands.login import key_problem, login_flows
from eca_server.credentials import LOGIN, Credential, LoginsError, OAuthError, TokenSet
from eca_server.credentials.flows import KEY_HINTS, DeviceLogin, Flow, LoginInstructions
from eca_server.features.configuration import tell_changes
from eca_server.features.connection import Connection
from eca_server.llm.known_providers import KNOWN_PROVIDERS
from eca_server.llm.provider import Provider, is_local
from eca_server.llm.simulator import PROVIDER as EMBEDDED
from eca_server.secret import Secret

__all__ = ["make_handlers", "tell_providers"]

_log = logging.getLogger("eca_server")

_WITH_A_KEY: Final = "api-key"
_EXPIRING: Final = 300.0
"""Seconds before the end of a token that cannot be renewed, in which its status is `expiring`."""


def make_handlers(connection: Connection) -> Mapping[str, Handler]:
    """Return the handlers of providers."""

    def list_(_: m.ProvidersListParams) -> m.ProvidersListResult:
        connection.announced.providers = {each.id: each for each in _statuses(connection)}
        return m.ProvidersListResult(providers=tuple(connection.announced.providers.values()))

    async def login(params: m.ProvidersLoginParams) -> m.ProvidersLoginResult:
        flow = _flow_of(connection, params.provider)
        methods = _methods(flow)
        if params.method is None and flow is not None:
            return m.ProvidersLoginResult(action="choose-method", methods=methods)
        if params.method not in (None, *(method.key for method in methods)):
            known = ", ".join(method.key for method in methods)
            raise RPCError(INVALID_PARAMS, f"method: expected one of {known}")
        if flow is None or params.method == _WITH_A_KEY:
            return m.ProvidersLoginResult(
                action="input",
                fields=(_key_field(params.provider),),
                message=KEY_HINTS.get(params.provider),
            )
        _cancel_login(connection, params.provider)
        return await _begin(connection, params.provider, flow)

    async def login_input(params: m.ProvidersLoginInputParams) -> m.ProvidersLoginResult:
        _flow_of(connection, params.provider)
        key = _key_in(params.data)
        _cancel_login(connection, params.provider)
        await _store(connection, params.provider, key)
        return m.ProvidersLoginResult(action="done")

    async def logout(params: m.ProvidersLogoutParams) -> m.ProvidersLogoutResult:
        _flow_of(connection, params.provider)
        _cancel_login(connection, params.provider)
        await _forget(connection, params.provider)
        return m.ProvidersLogoutResult()

    return {
        "providers/list": list_,
        "providers/login": login,
        "providers/loginInput": login_input,
        "providers/logout": logout,
    }


def tell_providers(connection: Connection) -> None:
    """Announce the providers that changed since the last announcement."""
    announced = connection.announced.providers
    if announced is None:
        return
    for status in _statuses(connection):
        if announced.get(status.id) != status:
            announced[status.id] = status
            connection.session.notify("providers/updated", status)


def _flow_of(connection: Connection, provider: str) -> Flow | None:
    """Return the login flow of a provider, or None if it takes keys alone.

    Raises:
        RPCError: the provider is unknown.
    """
    flows = login_flows(connection.config.providers)
    if provider not in flows:
        known = ", ".join(flows)
        raise RPCError(INVALID_PARAMS, f"provider: expected one of {known}, got a different name")
    return flows[provider]


def _methods(flow: Flow | None) -> tuple[m.LoginMethod, ...]:
    with_a_key = m.LoginMethod(key=_WITH_A_KEY, label="Paste an API key")
    if flow is None:
        return (with_a_key,)
    if isinstance(flow, DeviceLogin):
        return m.LoginMethod(key="device-code", label="With a code in the browser"), with_a_key
    return m.LoginMethod(key="browser", label="In the browser"), with_a_key


def _key_field(provider: str) -> m.InputField:
    return m.InputField(key=_WITH_A_KEY, label=f"API key of {provider}", type="secret")


def _key_in(data: Mapping[str, object]) -> Secret:
    text = data.get(_WITH_A_KEY)
    if not isinstance(text, str) or not text.strip():
        raise RPCError(INVALID_PARAMS, f"data.{_WITH_A_KEY}: expected a key")
    key = Secret(text.strip())
    error = key_problem(key)
    if error is not None:
        raise RPCError(INVALID_PARAMS, f"data.{_WITH_A_KEY}: {error}")
    return key


def _cancel_login(connection: Connection, provider: str) -> None:
    """Cancel a pending login to a provider."""
    scope = connection.logging_in.pop(provider, None)
    if scope is not None:
        scope.cancel()


async def _begin(connection: Connection, provider: str, flow: Flow) -> m.ProvidersLoginResult:
    """Begin a login, which continues after the answer, and return the user's next step."""
    scope = connection.logging_in[provider] = trio.CancelScope()
    try:
        invitation: LoginInstructions = await connection.nursery.start(
            _log_in, connection, provider, flow, scope
        )
    except ECAError as error:
        raise RPCError(INTERNAL_ERROR, f"The login with {provider} failed: {error}") from error
    if invitation.code is None:
        return m.ProvidersLoginResult(
            action="authorize", url=invitation.url, message="Log in on the page in your browser."
        )
    return m.ProvidersLoginResult(
        action="device-code",
        url=invitation.url,
        code=invitation.code,
        message="Enter this code on the page in your browser.",
    )


async def _log_in(
    connection: Connection,
    provider: str,
    flow: Flow,
    scope: trio.CancelScope,
    task_status: trio.TaskStatus[LoginInstructions] = trio.TASK_STATUS_IGNORED,
) -> None:
    has_begun = False

    def tell(invitation: LoginInstructions) -> None:
        nonlocal has_begun
        has_begun = True
        task_status.started(invitation)

    with scope:
        try:
            login = await flow.run(connection.http, tell)
            await _store(connection, provider, login)
        except (OAuthError, HTTPError, RPCError) as error:
            if not has_begun:
                raise
            connection.session.show("warning", f"The login with {provider} failed: {error}")
        except Exception as error:  # a bug must not end the connection
            if not has_begun:
                raise
            _log.error("the login with %s failed", provider, exc_info=error)
            connection.session.show("error", f"The login with {provider} failed; see the log.")
        finally:
            if connection.logging_in.get(provider) is scope:
                del connection.logging_in[provider]
    if not has_begun:
        raise OAuthError("it was cancelled, or started again")


async def _store(connection: Connection, provider: str, login: Secret | TokenSet) -> None:
    """Store a login, and use it."""
    secrets = [login] if isinstance(login, Secret) else [login.access, login.refresh]
    connection.options.hide(secret for secret in secrets if secret is not None)
    try:
        await trio.to_thread.run_sync(connection.logins.store, provider, login)
    except LoginsError as error:
        raise RPCError(INTERNAL_ERROR, f"The login cannot be stored: {error}") from error
    connection.renew_models()
    tell_changes(connection)


async def _forget(connection: Connection, provider: str) -> None:
    """Remove a stored login; a key from another place cannot be removed."""
    try:
        had_one = await trio.to_thread.run_sync(connection.logins.remove, provider)
    except LoginsError as error:
        raise RPCError(INTERNAL_ERROR, f"The login cannot be removed: {error}") from error
    connection.renew_models()
    tell_changes(connection)
    credential = _credential(connection, provider)
    if not had_one and credential is not None and credential.source is not None:
        raise RPCError(
            INVALID_PARAMS,
            f"provider: no login of {provider} is stored; its key is in {credential.source}",
        )


def _credential(connection: Connection, provider: str) -> Credential | None:
    credentials = (each.credential for each in connection.models.providers if each.name == provider)
    return next(credentials, None)


def _statuses(connection: Connection) -> Iterator[m.ProviderStatus]:
    models = connection.models
    facts = {each.name: each for each in models.providers}
    ways: Mapping[str, Flow | None] = login_flows(connection.config.providers)
    for name in dict.fromkeys((*ways, *facts)):
        methods = _methods(ways[name]) if name in ways else ()
        yield m.ProviderStatus(
            id=name,
            configured=name in facts,
            auth=_auth(connection, name, facts.get(name)),
            login=m.LoginMethods(methods=methods) if methods else None,
            models=tuple(
                _model(connection, each) for each in models.names if each.partition("/")[0] == name
            ),
        )


def _auth(connection: Connection, name: str, facts: Provider | None) -> m.ProviderAuth:
    credential = facts.credential if facts is not None else None
    if credential is not None and credential.key is not None:
        return _with_key(connection, credential)
    if name == EMBEDDED:
        return m.ProviderAuth(status="local")
    if facts is None:
        known = KNOWN_PROVIDERS.get(name)
        is_here = known is not None and known.url is not None and is_local(known.url)
        return m.ProviderAuth(status="not-running" if is_here else "unauthenticated")
    url = facts.location.url if facts.location is not None else None
    return m.ProviderAuth(status="local" if url and is_local(url) else "unauthenticated")


def _with_key(connection: Connection, credential: Credential) -> m.ProviderAuth:
    if credential.source == LOGIN:
        tokens = connection.models.tokens_of(credential.provider)
        if tokens is not None:
            return _with_tokens(tokens)
        return m.ProviderAuth(status="authenticated", type="api-key", source="login")
    if credential.source in credential.variables:
        return m.ProviderAuth(
            status="authenticated", type="api-key", source="env", env_var=credential.source
        )
    return m.ProviderAuth(status="authenticated", type="api-key", source="config")


def _with_tokens(tokens: TokenSet) -> m.ProviderAuth:
    """Return the status of a token; one that can be renewed is neither expiring nor expired."""
    seconds_left = None if tokens.expires_at is None else tokens.expires_at - time.time()
    status: m.ProviderAuthStatus = "authenticated"
    if seconds_left is not None and tokens.refresh is None and seconds_left < _EXPIRING:
        status = "expiring" if seconds_left > 0 else "expired"
    return m.ProviderAuth(status=status, type="oauth", source="login", expires_at=tokens.expires_at)


def _model(connection: Connection, name: str) -> m.ProviderModel:
    facts, known = connection.models.facts_and_capabilities(name)
    price = facts.price
    return m.ProviderModel(
        id=name.partition("/")[2],
        capabilities=m.ModelCapabilities(
            reason=known.reasoning,
            vision=known.images,
            tools=known.tools,
            web_search=known.web_search,
        ),
        cost=None
        if price is None
        else m.ModelCost(input=float(price.input), output=float(price.output)),
    )

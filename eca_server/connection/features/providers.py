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
from eca_protocol import methods
from eca_protocol.errors import INTERNAL_ERROR, INVALID_PARAMS, ECAError, HTTPError, RPCError
from eca_protocol.peer import Handler
from eca_server.agent.commands.login import key_problem, login_flows
from eca_server.connection.features.composition import Composition, Feature
from eca_server.models.credentials.flows import KEY_HINTS, DeviceLogin, Flow, LoginInstructions
from eca_server.models.credentials.logins import LoginsError
from eca_server.models.credentials.lookup import LOGIN, Credential
from eca_server.models.credentials.oauth import OAuthError, TokenSet
from eca_server.models.credentials.tokens import Tokens
from eca_server.models.known_providers import KNOWN_PROVIDERS
from eca_server.models.provider import Provider, is_local
from eca_server.models.simulator import PROVIDER as EMBEDDED
from eca_server.secret import Secret

_log = logging.getLogger("eca_server")

_WITH_A_KEY: Final = "api-key"
_KEY_IN_CAMEL_CASE: Final = "apiKey"  # IntelliJ's plugin writes every name in camel case
_EXPIRING: Final = 300.0
"""Seconds before the end of a token that cannot be renewed, in which its status is `expiring`."""


class Providers(Feature):
    """The requests about providers."""

    def __init__(self, parts: Composition) -> None:
        super().__init__(parts)
        parts.on_close.append(self.close)
        self._logging_in: dict[str, tuple[trio.CancelScope, trio.Event]] = {}

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers of providers."""
        return methods.handlers(
            methods.PROVIDERS_LIST.handled_by(self._list),
            methods.PROVIDERS_LOGIN.handled_by(self._login),
            methods.PROVIDERS_LOGIN_INPUT.handled_by(self._login_input),
            methods.PROVIDERS_LOGOUT.handled_by(self._logout),
        )

    async def _list(self, _: m.ProvidersListParams) -> m.ProvidersListResult:
        if self.host.options.only_answers and self.settings.config.keyring:
            await self._unlock_logins()  # any other server does so in its introduction
        self.announcer.providers = self._statuses
        providers = tuple(self._statuses())
        self.announcer.note_providers(providers)
        return m.ProvidersListResult(providers=providers)

    async def _unlock_logins(self) -> None:
        try:
            await trio.to_thread.run_sync(self.logins.unlock, abandon_on_cancel=True)
        except ECAError as error:
            _log.warning("Logins cannot be read: %s", error)
        self.models.renew()

    async def _login(self, params: m.ProvidersLoginParams) -> m.ProvidersLoginResult:
        flow = self._flow_of(params.provider)
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
        await self._end_login(params.provider)
        return await self._begin(params.provider, flow)

    async def _login_input(self, params: m.ProvidersLoginInputParams) -> m.ProvidersLoginResult:
        self._flow_of(params.provider)
        key = _key_in(params.data)
        await self._end_login(params.provider)
        await self._store(params.provider, key)
        return m.ProvidersLoginResult(action="done")

    async def _logout(self, params: m.ProvidersLogoutParams) -> m.ProvidersLogoutResult:
        self._flow_of(params.provider)
        await self._end_login(params.provider)
        await self._forget(params.provider)
        return m.ProvidersLogoutResult()

    def close(self) -> None:
        """Cancel all pending logins."""
        for scope, _ in self._logging_in.values():
            scope.cancel()

    def _flow_of(self, provider: str) -> Flow | None:
        """Return the login flow of a provider, or None if it takes keys alone.

        Raises:
            RPCError: the provider is unknown.
        """
        flows = login_flows(self.settings.config.providers)
        if provider not in flows:
            known = ", ".join(flows)
            raise RPCError(
                INVALID_PARAMS, f"provider: expected one of {known}, got a different name"
            )
        return flows[provider]

    async def _end_login(self, provider: str) -> None:
        """Cancel a pending login, and wait until its port is free and it stores nothing."""
        while provider in self._logging_in:
            scope, ended = self._logging_in[provider]
            scope.cancel()
            await ended.wait()

    async def _begin(self, provider: str, flow: Flow) -> m.ProvidersLoginResult:
        """Begin a login, which continues after the answer, and return the user's next step."""
        scope, _ = self._logging_in[provider] = trio.CancelScope(), trio.Event()
        try:
            invitation: LoginInstructions = await self.host.nursery.start(
                self._log_in, provider, flow, scope
            )
        except ECAError as error:
            raise RPCError(INTERNAL_ERROR, f"The login with {provider} failed: {error}") from error
        if invitation.code is None:
            return m.ProvidersLoginResult(
                action="authorize",
                url=invitation.url,
                message="Log in on the page in your browser.",
            )
        return m.ProvidersLoginResult(
            action="device-code",
            url=invitation.url,
            code=invitation.code,
            message="Enter this code on the page in your browser.",
        )

    async def _log_in(
        self,
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
                login = await flow.run(self.host.http, tell)
                await self._store(provider, login)
            except (OAuthError, HTTPError, RPCError) as error:
                if not has_begun:
                    raise
                self.session.show("warning", f"The login with {provider} failed: {error}")
            except Exception as error:  # a bug must not end the connection
                if not has_begun:
                    raise
                _log.error("the login with %s failed", provider, exc_info=error)
                self.session.show("error", f"The login with {provider} failed; see the log.")
            finally:
                self._logging_in.pop(provider)[1].set()
        if not has_begun:
            raise OAuthError("it was cancelled, or started again")

    async def _store(self, provider: str, login: Secret | TokenSet) -> None:
        self.host.options.hide([login] if isinstance(login, Secret) else login.secrets)
        try:
            await trio.to_thread.run_sync(self.logins.store, provider, login)
        except LoginsError as error:
            raise RPCError(INTERNAL_ERROR, f"The login cannot be stored: {error}") from error
        self.models.renew()
        self.announcer.announce_changes()

    async def _forget(self, provider: str) -> None:
        """Remove a stored login; a key from another place cannot be removed."""
        try:
            had_one = await trio.to_thread.run_sync(self.logins.remove, provider)
        except LoginsError as error:
            raise RPCError(INTERNAL_ERROR, f"The login cannot be removed: {error}") from error
        self.models.renew()
        self.announcer.announce_changes()
        credential = self._credential(provider)
        if not had_one and credential is not None and credential.source is not None:
            raise RPCError(
                INVALID_PARAMS,
                f"provider: no login of {provider} is stored; its key is in {credential.source}",
            )

    def _credential(self, provider: str) -> Credential | None:
        credentials = (
            each.credential for each in self.models.current.providers if each.name == provider
        )
        return next(credentials, None)

    def _statuses(self) -> Iterator[m.ProviderStatus]:
        models = self.models.current
        facts = {each.name: each for each in models.providers}
        ways: Mapping[str, Flow | None] = login_flows(self.settings.config.providers)
        for name in dict.fromkeys((*ways, *facts)):
            methods = _methods(ways[name]) if name in ways else ()
            yield m.ProviderStatus(
                id=name,
                configured=name in facts,
                auth=self._auth(name, facts.get(name)),
                login=m.LoginMethods(methods=methods) if methods else None,
                models=tuple(
                    self._model(each) for each in models.names if each.partition("/")[0] == name
                ),
            )

    def _auth(self, name: str, facts: Provider | None) -> m.ProviderAuth:
        credential = facts.credential if facts is not None else None
        if credential is not None and credential.key is not None:
            return self._with_key(credential)
        if name == EMBEDDED:
            return m.ProviderAuth(status="local")
        if facts is None:
            known = KNOWN_PROVIDERS.get(name)
            is_here = known is not None and known.url is not None and is_local(known.url)
            return m.ProviderAuth(status="not-running" if is_here else "unauthenticated")
        url = facts.location.url if facts.location is not None else None
        return m.ProviderAuth(status="local" if url and is_local(url) else "unauthenticated")

    def _with_key(self, credential: Credential) -> m.ProviderAuth:
        if credential.source == LOGIN:
            tokens = self.models.current.tokens_of(credential.provider)
            if tokens is not None:
                return _with_tokens(tokens)
            return m.ProviderAuth(status="authenticated", type="api-key", source="login")
        if credential.source in credential.variables:
            return m.ProviderAuth(
                status="authenticated", type="api-key", source="env", env_var=credential.source
            )
        return m.ProviderAuth(status="authenticated", type="api-key", source="config")

    def _model(self, name: str) -> m.ProviderModel:
        facts, known = self.models.current.facts_and_capabilities(name)
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
    text = data.get(_WITH_A_KEY, data.get(_KEY_IN_CAMEL_CASE))
    if not isinstance(text, str) or not text.strip():
        raise RPCError(INVALID_PARAMS, f"data.{_WITH_A_KEY}: expected a key")
    key = Secret(text.strip())
    error = key_problem(key)
    if error is not None:
        raise RPCError(INVALID_PARAMS, f"data.{_WITH_A_KEY}: {error}")
    return key


def _with_tokens(tokens: Tokens) -> m.ProviderAuth:
    """Return the status of a login; one that can be renewed is neither expiring nor expired."""
    expires_at, refresh = tokens.latest.expires_at, tokens.latest.refresh
    seconds_left = None if expires_at is None else expires_at - time.time()
    status: m.ProviderAuthStatus = "expired" if tokens.have_ended else "authenticated"
    if seconds_left is not None and refresh is None and seconds_left < _EXPIRING:
        status = "expiring" if seconds_left > 0 else "expired"
    return m.ProviderAuth(status=status, type="oauth", source="login", expires_at=expires_at)

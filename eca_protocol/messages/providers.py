"""The providers of models and the logins to them (chapter "Provider Management", of CURRENT)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs

from eca_protocol.messages.marks import UnknownValue, lenient, marked

ProviderAuthStatus: TypeAlias = (
    Literal["authenticated", "expiring", "expired", "unauthenticated", "local", "not-running"]
    | UnknownValue
)
ProviderAuthType: TypeAlias = Literal["oauth", "api-key"] | UnknownValue
ProviderAuthSource: TypeAlias = Literal["config", "login", "env"] | UnknownValue
LoginAction: TypeAlias = (
    Literal["choose-method", "authorize", "device-code", "input", "done"] | UnknownValue
)
InputFieldType: TypeAlias = Literal["secret", "text"] | UnknownValue


@attrs.frozen(kw_only=True)
class LoginMethod:
    """A login method."""

    key: str
    label: str = marked(lenient("W-60"), default="")


@attrs.frozen(kw_only=True)
class LoginMethods:
    """The login methods of a provider."""

    methods: tuple[LoginMethod, ...]


@attrs.frozen(kw_only=True)
class ProviderAuth:
    """The status and source of a provider's key.

    `expires_at` is in seconds since 1970, `env_var` the variable that contains the key.
    """

    status: ProviderAuthStatus
    type: ProviderAuthType | None = None
    source: ProviderAuthSource | None = None
    mode: str | None = None
    expires_at: float | None = None
    env_var: str | None = None


@attrs.frozen(kw_only=True)
class ModelCapabilities:
    """The capabilities of a model."""

    reason: bool = marked(lenient("W-60"), default=False)
    vision: bool = marked(lenient("W-60"), default=False)
    tools: bool = marked(lenient("W-60"), default=False)
    web_search: bool = marked(lenient("W-60"), default=False)


@attrs.frozen(kw_only=True)
class ModelCost:
    """The costs of a million tokens, in US dollars."""

    input: float
    output: float


@attrs.frozen(kw_only=True)
class ProviderModel:
    """A model of a provider; `settings` is the user's configuration of it."""

    id: str
    capabilities: ModelCapabilities = marked(lenient("W-60"), factory=ModelCapabilities)
    cost: ModelCost | None = None
    settings: Mapping[str, Any] | None = None


@attrs.frozen(kw_only=True)
class ProviderStatus:
    """The status of a provider, and the params of `providers/updated`."""

    id: str
    label: str | None = None
    configured: bool = marked(lenient("W-60"), default=False)
    auth: ProviderAuth
    login: LoginMethods | None = None
    models: tuple[ProviderModel, ...] = marked(lenient("W-60"), default=())
    settings: Mapping[str, Any] | None = None


@attrs.frozen(kw_only=True)
class ProvidersListParams:
    """`providers/list`: all known providers; without members."""


@attrs.frozen(kw_only=True)
class ProvidersListResult:
    """The answer to `providers/list`."""

    providers: tuple[ProviderStatus, ...]


@attrs.frozen(kw_only=True)
class ProvidersLoginParams:
    """`providers/login`: begin a login; without a `method` the answer lists the methods."""

    provider: str
    method: str | None = None


@attrs.frozen(kw_only=True)
class InputField:
    """A field for the user's input; a `secret` is not shown."""

    key: str
    label: str = marked(lenient("W-60"), default="")
    type: InputFieldType


@attrs.frozen(kw_only=True)
class ProvidersLoginResult:
    """The answer to `providers/login` and `providers/loginInput`: the client's next step.

    `choose-method`: repeat the request with one of `methods`. `authorize`: let the user visit
    `url` and fill in `fields`, if any. `device-code`: let the user visit `url` and enter `code`.
    `input`: let the user fill in `fields`. `done`: the user is logged in.
    """

    action: LoginAction
    methods: tuple[LoginMethod, ...] | None = None
    url: str | None = None
    code: str | None = None
    message: str | None = None
    fields: tuple[InputField, ...] | None = None


@attrs.frozen(kw_only=True)
class ProvidersLoginInputParams:
    """`providers/loginInput`: the user's input by the fields' keys."""

    provider: str
    data: Mapping[str, Any] = marked(lenient("W-3"), factory=dict, repr=False)


@attrs.frozen(kw_only=True)
class ProvidersLogoutParams:
    """`providers/logout`: delete the login."""

    provider: str


@attrs.frozen(kw_only=True)
class ProvidersLogoutResult:
    """The answer to `providers/logout`, without members."""

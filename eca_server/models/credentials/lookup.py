"""Lookup of a provider's key and URL.

Order for a key: the configured `key`, the key stored by `/login`, the variable named by `keyEnv`,
`<PROVIDER>_API_KEY`, the entry of the netrc file named by `keyRc`. So a login overrides the
environment of the editor.

Order for a URL: the configured `url`, the variable named by `urlEnv`, `<PROVIDER>_API_URL`.

A blank value counts as absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from eca_server.config.problems import Problem
from eca_server.config.settings import Provider
from eca_server.models.credentials.netrc import NetrcError, password_in
from eca_server.secret import Secret, mask, parse_key
from eca_server.system.child_process import harden_environment

LOGIN = "a stored login"
"""The source of a key that was stored by `/login`."""

_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_LONG = 8  # keys of this length are not found in other variables by chance


@attrs.frozen(kw_only=True)
class Credential:
    """A provider's key and its source.

    Attributes:
        key: the key; None if there is none, or none that can be used.
        source: `providers.<name>.key`, `LOGIN`, the variable's name, the entry of the netrc file;
            None if no key is set.
        variables: the variables that may hold the key, in order.
        problem: the reason why the key cannot be used.
    """

    provider: str
    key: Secret | None = None
    source: str | None = None
    variables: tuple[str, ...] = ()
    problem: Problem | None = None


@attrs.frozen(kw_only=True)
class Location:
    """A provider's base URL and its source, as in `Credential`.

    An unreadable URL is not replaced by a fallback: the key would go to a different server.
    """

    url: str | None = attrs.field(default=None, repr=lambda url: repr(url and mask(url)))
    source: str | None = None
    problem: Problem | None = None


def variable_of(provider: str, what: str) -> str:
    """Return the variable of a provider: `my-corp` and `myCorp` give `MY_CORP_API_KEY`.

    `what`: `KEY` or `URL`.
    """
    return f"{_WORD_BREAK.sub('_', provider).strip('_').upper()}_API_{what}"


def find_key(
    name: str,
    provider: Provider,
    environ: Mapping[str, str],
    *,
    stored: Secret | None = None,
    netrc: Path | None = None,
) -> Credential:
    """Return the key of a provider. An unusable key is reported as a problem, not raised.

    A variable with an unusable key ends the search: falling back would hide the error.

    `netrc`: the file for `keyRc`; read only if needed.
    """
    variables = _variables(provider.key_env, variable_of(name, "KEY"))
    credential = Credential(provider=name, variables=variables)
    if provider.key is not None:
        return attrs.evolve(credential, key=provider.key, source=f"providers.{name}.key")
    if stored is not None:
        return attrs.evolve(credential, key=stored, source=LOGIN)
    for variable in variables:
        try:
            key = parse_key(environ.get(variable, ""))
        except ValueError as error:
            problem = Problem(source="environment", key=variable, message=str(error))
            return attrs.evolve(credential, source=variable, problem=problem)
        if key is not None:
            return attrs.evolve(credential, key=key, source=variable)
    if provider.key_rc is not None and netrc is not None:
        return _in_netrc(credential, netrc, provider.key_rc)
    return credential


def _in_netrc(credential: Credential, file: Path, entry: str) -> Credential:
    source = f"{entry} in {file}"
    try:
        return attrs.evolve(credential, key=password_in(file, entry), source=source)
    except NetrcError as error:
        problem = Problem(source=str(file), line=error.line, key=entry, message=str(error))
        return attrs.evolve(credential, source=source, problem=problem)


def find_url(name: str, provider: Provider, environ: Mapping[str, str]) -> Location:
    """Return the base URL of a provider, if one is set."""
    if provider.url is not None:
        return _located(provider.url, f"providers.{name}.url", "configuration")
    for variable in _variables(provider.url_env, variable_of(name, "URL")):
        if url := environ.get(variable, "").strip():
            return _located(url, variable, "environment")
    return Location()


def _located(url: str, source: str, kind: str) -> Location:
    error = url_problem(url)
    problem = None if error is None else Problem(source=kind, key=source, message=error)
    return Location(url=url, source=source, problem=problem)


def url_problem(url: str) -> str | None:
    """Return why a URL is unusable, without quoting it; None: it is one of HTTP with a host."""
    expected = "expected a url like https://host:8080/v1, got one"
    try:
        parts = urlsplit(url.strip())
        is_port = parts.port != 0
    except ValueError:
        return f"{expected} whose host or port cannot be read"
    if not is_port:
        return f"{expected} with port 0 (a port is 1 to 65535)"
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        return f"{expected} that does not begin with http:// or https:// and a host"
    return None


def child_environment(
    environ: Mapping[str, str],
    credentials: Iterable[Credential],
    secrets: Iterable[Secret] = (),
) -> dict[str, str]:
    """Return the environment for a child process: hardened, and without our keys.

    A variable is removed if it may hold a provider's key, or if it contains one of our keys.
    """
    listed = list(credentials)
    names = {variable for credential in listed for variable in credential.variables}
    keys = [credential.key.reveal() for credential in listed if credential.key is not None]
    keys += [secret.reveal() for secret in secrets]
    return harden_environment(
        {
            name: value
            for name, value in environ.items()
            if name not in names and not any(_holds(value, key) for key in keys)
        }
    )


def _variables(*names: str | None) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for name in names if name))


def _holds(value: str, key: str) -> bool:
    return key in value if len(key) >= _LONG else value.strip() == key

"""The order in which a provider's key and URL are looked for.

Key: the configured `key`, the one stored by `/login`, the variable named by `keyEnv`,
`<PROVIDER>_API_KEY`, the entry of the netrc file named by `keyRc`: a login counts whatever
variables the editor was started with. URL: the configured `url`, the variable named by `urlEnv`,
`<PROVIDER>_API_URL`. What is blank is absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from eca_server.child_process import harden_environment
from eca_server.config import Problem, Provider
from eca_server.credentials.netrc import NetrcFault, password_in
from eca_server.secret import Secret, mask, parse_key

__all__ = [
    "LOGIN",
    "Credential",
    "Location",
    "child_environment",
    "find_key",
    "find_url",
    "url_fault",
    "variable_of",
]

LOGIN = "a stored login"
"""Where a key comes from that `/login` stored."""

_WORD_BREAK = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[^A-Za-z0-9]+")
_LONG = 8  # so long a key is no chance match inside another variable


@attrs.frozen(kw_only=True)
class Credential:
    """A provider's key, and where it came from.

    Attributes:
        provider: the provider's name.
        key: None if there is none, or none that can be used.
        source: `providers.<name>.key`, `LOGIN`, the variable's name, the entry of the netrc file;
            None if none is set.
        looked_for: the variables a key would be taken from, in order.
        problem: why what was found cannot be used.
    """

    provider: str
    key: Secret | None = None
    source: str | None = None
    looked_for: tuple[str, ...] = ()
    problem: Problem | None = None


@attrs.frozen(kw_only=True)
class Location:
    """A provider's base URL, and where it came from: as in `Credential`.

    One that cannot be read stays what it is: another one in its place would be sent the key.
    """

    provider: str
    url: str | None = attrs.field(default=None, repr=lambda url: repr(url and mask(url)))
    source: str | None = None
    problem: Problem | None = None


def variable_of(provider: str, what: str) -> str:
    """The variable of a provider by its name: `my-corp` and `myCorp` give `MY_CORP_API_KEY`.

    Args:
        provider: the provider's name.
        what: `KEY` or `URL`.
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
    """The key of a provider; raises nothing: one that cannot be sent is told as a problem.

    A variable with such a key ends the search: to go on with another key would hide the fault.

    Args:
        name: the provider's.
        provider: its configuration.
        environ: the environment variables.
        stored: its stored login.
        netrc: the file that `keyRc` means; read only if it is needed.
    """
    variables = _variables(provider.key_env, variable_of(name, "KEY"))
    found = Credential(provider=name, looked_for=variables)
    if provider.key is not None:
        return attrs.evolve(found, key=provider.key, source=f"providers.{name}.key")
    if stored is not None:
        return attrs.evolve(found, key=stored, source=LOGIN)
    for variable in variables:
        try:
            key = parse_key(environ.get(variable, ""))
        except ValueError as fault:
            problem = Problem(source="environment", key=variable, message=str(fault))
            return attrs.evolve(found, source=variable, problem=problem)
        if key is not None:
            return attrs.evolve(found, key=key, source=variable)
    if provider.key_rc is not None and netrc is not None:
        return _in_netrc(found, netrc, provider.key_rc)
    return found


def _in_netrc(found: Credential, file: Path, entry: str) -> Credential:
    source = f"{entry} in {file}"
    try:
        return attrs.evolve(found, key=password_in(file, entry), source=source)
    except NetrcFault as fault:
        problem = Problem(source=str(file), line=fault.line, key=entry, message=str(fault))
        return attrs.evolve(found, source=source, problem=problem)


def find_url(name: str, provider: Provider, environ: Mapping[str, str]) -> Location:
    """The base URL of a provider, if one is set anywhere."""
    found = Location(provider=name)
    if provider.url is not None:
        return _located(found, provider.url, f"providers.{name}.url", "configuration")
    for variable in _variables(provider.url_env, variable_of(name, "URL")):
        if url := environ.get(variable, "").strip():
            return _located(found, url, variable, "environment")
    return found


def _located(found: Location, url: str, source: str, kind: str) -> Location:
    fault = url_fault(url)
    problem = None if fault is None else Problem(source=kind, key=source, message=fault)
    return attrs.evolve(found, url=url, source=source, problem=problem)


def url_fault(url: str) -> str | None:
    """Why requests cannot go to a URL, without a word of it; None: its host and port are clear."""
    try:
        _ = urlsplit(url.strip()).port
    except ValueError:
        return "expected a url like https://host:8080/v1, got one whose host or port cannot be read"
    return None


def child_environment(
    environ: Mapping[str, str],
    credentials: Iterable[Credential],
    secrets: Iterable[Secret] = (),
) -> dict[str, str]:
    """Return the environment for a child process: hardened, and without our keys.

    A variable is left out if a key would be taken from it, or if it holds a key we have under
    whatever name.

    Args:
        environ: our own.
        credentials: those of the providers.
        secrets: what else must not be in it.
    """
    ours = list(credentials)
    names = {variable for found in ours for variable in found.looked_for}
    keys = [found.key.reveal() for found in ours if found.key is not None]
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

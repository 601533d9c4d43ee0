"""Lookup of a provider's key and URL.

Order for a key: the configured `key`, the key stored by `/login`, the variable named by `keyEnv`,
`<PROVIDER>_API_KEY`, the entry of the netrc file named by `keyRc`. So a login overrides the
environment of the editor.

Order for a URL: the configured `url`, the variable named by `urlEnv`, `<PROVIDER>_API_URL`.

A blank value counts as absent.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

import attrs

from eca_protocol.errors import ECAError
from eca_server.config.directories import home_directory
from eca_server.config.files import Unreadable, read_text
from eca_server.config.problems import Problem
from eca_server.config.settings import Provider
from eca_server.secret import Secret, mask, parse_key
from eca_server.system.child_process import harden_environment

_TOKEN = re.compile(r'"((?:[^"\\]|\\.)*)"|(\S+)', re.DOTALL)
_WITH_VALUE = frozenset({"machine", "login", "password", "account", "port"})
_BEGINNINGS = frozenset({"machine", "default"})
_ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}


class NetrcError(ECAError):
    """The file, or its entry, cannot be used.

    Attributes:
        line: the line of the problem, counted from 1; None: no single line.
    """

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


def netrc_file(environ: Mapping[str, str]) -> Path:
    """Return the user's netrc file: `$NETRC`, else `.netrc` in the home directory."""
    path = environ.get("NETRC", "")
    return Path(path) if path else home_directory(environ) / ".netrc"


def password_in(file: Path, entry: str) -> Secret:
    """Return the password of an entry.

    `entry`: `[LOGIN@]MACHINE[:PORT]`; the first matching entry counts.

    Raises:
        NetrcError: there is no such entry, or its password cannot be sent.
    """
    login, _, address = entry.rpartition("@")
    machine, _, port = address.partition(":")
    expected = {"machine": machine.lower(), "login": login, "port": port}
    try:
        text = read_text(file)
    except Unreadable as error:
        raise NetrcError(error.message, line=error.line) from None
    for line, fields in _entries(text):
        names = {**fields, "machine": fields.get("machine", "").lower()}
        if "password" in fields and all(names.get(k) == v for k, v in expected.items() if v):
            try:
                key = parse_key(fields["password"])
            except ValueError as error:
                raise NetrcError(str(error), line=line) from None
            if key is not None:
                return key
    raise NetrcError("expected such an entry with a password, found none")


def _entries(text: str) -> Iterator[tuple[int, Mapping[str, str]]]:
    """Yield each entry with its first line; the `default` entry has no machine."""
    entry: dict[str, str] | None = None
    first_line = 0
    tokens = _tokens(text)
    for line, word in tokens:
        if word in _BEGINNINGS:
            if entry is not None:
                yield first_line, entry
            entry, first_line = {}, line
            if word not in _WITH_VALUE:
                continue
        if word not in _WITH_VALUE or entry is None:
            raise NetrcError("expected machine, default, or a field of an entry", line=line)
        value = next(tokens, None)
        if value is None:
            raise NetrcError(f"expected a value after {word}", line=line)
        entry[word] = value[1]
    if entry is not None:
        yield first_line, entry


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    """Yield each word with its line; skip comments and macros."""
    in_macro = False
    for number, line in enumerate(text.splitlines(), start=1):
        if in_macro:
            in_macro = bool(line.strip())
            continue
        for match in _TOKEN.finditer(line):
            quoted, plain = match.groups()
            if plain is not None and plain.startswith("#") and _is_comment(line, match.start()):
                break
            if plain == "macdef":
                in_macro = True
                break
            yield number, plain if quoted is None else _unescaped(quoted)


def _is_comment(line: str, start: int) -> bool:
    """Return whether a `#` starts a comment: at a line's start, or after complete pairs."""
    return len(line[:start].split()) % 2 == 0


def _unescaped(quoted: str) -> str:
    return re.sub(r"\\(.)", lambda match: _ESCAPES.get(match[1], match[1]), quoted)


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
        _ = parts.port
    except ValueError:
        return f"{expected} whose host or port cannot be read"
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

"""The settings of MCP servers.

Invariant: a server with an unreadable setting does not start, because without that argument or
header it might do something other than the user meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal
from urllib.parse import urlsplit

import attrs

from eca_server.config.interpolation import (
    ReferenceResolver,
    ResolvedText,
    UnresolvedReference,
    references_in,
)
from eca_server.config.problems import dotted
from eca_server.config.reading import (
    COUNT,
    FLAG,
    KEY,
    SECONDS,
    Place,
    Reader,
    choice,
    each,
    listing,
    record,
    setting,
    settings_of,
)
from eca_server.secret import Secret

_OURS = "eca"
_SHORTEST_SECRET = 8  # masking shorter ones would hide ordinary text
_IS_SECRET = re.compile(r"key|token|secret|pass|auth(?!or\b|or_)|credential", re.IGNORECASE)
_NO_URL = "expected a url that begins with http:// or https:// and names a host"
_HINDERS = "(until this is fixed the MCP server does not start)"


def _read_text(
    value: object, place: Place, *, shell_like: bool = True, strips: bool = False
) -> str:
    place.expect(isinstance(value, str), "a string", value)
    replacements: list[str] = []
    resolver = attrs.evolve(place.resolver, on_value=replacements.append)
    try:
        text = resolver.resolve(str(value), shell_like=shell_like)
    except UnresolvedReference as error:
        place.refuse(str(error))
    text = text.strip() if strips else text
    return (
        ResolvedText(text, written=str(value), replacements=replacements) if replacements else text
    )


def _read_name(value: object, place: Place) -> str | None:
    return _read_text(value, place, strips=True) or None


# These replace `$NAME` and `${NAME}` as well, as the upstream server does.
_TEXT = Reader(read=_read_text, schema={"type": "string"})
_NAME = Reader(read=_read_name, schema={"type": "string"})
_VALUE = Reader(read=partial(_read_text, shell_like=False), schema={"type": "string"})
_VARIABLES = Reader(
    read=each(_VALUE).read,
    build=dict,  # a null stays: it removes the variable
    schema={"type": "object"},
    members=_VALUE,
)


@attrs.frozen(kw_only=True, repr=False)
class OAuthClient:
    """The client that an authorization server of an MCP server sees.

    Attributes:
        client_id: this client's id at the authorization server.
        client_secret: the secret of that id, if it has one.
        client_name: the name for dynamic registration at the authorization server.
        client_metadata_url: the URL of this client's metadata document, used as the id at
            authorization servers that support such documents.
        oauth_port: the port of the redirect URL after a login; 0: any.
        auth_scope: the workspaces that share a login: all, this one, or those with the same name
            here.
    """

    client_id: str | None = setting(_NAME)
    client_secret: Secret | None = setting(KEY)
    client_name: str | None = setting(_NAME)
    client_metadata_url: str | None = setting(_NAME)
    oauth_port: int = setting(COUNT, default=0)
    auth_scope: str = setting(_NAME, default="global")


@attrs.frozen(kw_only=True, repr=False)
class MCPServer(OAuthClient):
    """`mcpServers.<name>`: a program to start, or an address.

    Attributes:
        command: the program; its arguments are in `args`.
        args: the program's arguments.
        env: variables added to the program's environment; null removes one.
        cwd: the program's directory, absolute or relative to the first workspace root; default:
            that root.
        url: the address of an HTTP server, in place of `command`.
        headers: HTTP headers of each request to `url`.
        type: the transport; default: from `command` or `url`.
        protocol: the family of protocol revisions to use; `auto`: negotiated.
        disabled: whether it starts only on the user's request.
        start_timeout: limit until the server is ready; default: `mcpTimeoutSeconds`.
        call_timeout: limit of a call without progress.
        tool_timeouts: the same limit by the name of the tool.
        max_calls: the number of concurrent calls; further ones wait.
        is_damaged: whether a setting could not be read; then the server does not start.
        awaits_trust: whether a workspace folder configures the server without the user's
            acceptance; then it does not start, and its texts are unresolved.
    """

    command: str | None = setting(_NAME)
    args: tuple[str, ...] = setting(listing(_TEXT), default=())
    env: Mapping[str, str | None] = setting(_VARIABLES, factory=dict)
    cwd: str | None = setting(_NAME)
    url: str | None = setting(_NAME)
    headers: Mapping[str, str] = setting(each(_TEXT), factory=dict)
    type: Literal["stdio", "http", "streamable-http", "sse"] | None = setting(
        choice("stdio", "http", "streamable-http", "sse")
    )
    protocol: Literal["auto", "legacy", "2026-07-28"] = setting(
        choice("auto", "legacy", "2026-07-28"), default="auto"
    )
    disabled: bool = setting(FLAG, default=False)
    start_timeout: float | None = setting(SECONDS, "startTimeoutSeconds")
    call_timeout: float = setting(SECONDS, "callTimeoutSeconds", default=60)
    tool_timeouts: Mapping[str, float] = setting(each(SECONDS), "toolTimeoutSeconds", factory=dict)
    max_calls: int = setting(COUNT, "maxConcurrency", default=8)
    is_damaged: bool = False
    awaits_trust: bool = False

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """The texts to mask: headers, what has a telling name, and replaced references."""
        headers = self.headers.values()
        known = [*headers, *(part for header in headers for part in header.split()[-1:])]
        known += [*secret_arguments(self.args), *secret_parts(self.url or "")]
        known += [value for name, value in self.env.items() if value and _IS_SECRET.search(name)]
        texts: list[object] = [*attrs.astuple(self, recurse=False), *self.args, *self.env.values()]
        for text in (*texts, *headers):
            known += text.replacements if isinstance(text, ResolvedText) else ()
        long = dict.fromkeys(text for text in known if len(text) >= _SHORTEST_SECRET)
        return (*map(Secret, long), *([self.client_secret] if self.client_secret else []))

    @property
    def secret_variables(self) -> frozenset[str]:
        """The environment variables with secrets of this server, by their names or their use."""
        named = [(text, name) for name, text in (*self.env.items(), *self.headers.items())]
        named += [(text, "") for text in (self.command, self.url, self.cwd, *self.args)]
        written = [(text.written, name) for text, name in named if isinstance(text, ResolvedText)]
        url = original_text(self.url or "")
        parts = (
            *secret_arguments([*map(original_text, self.args)]),
            *secret_parts(url),
            user_in(url),
        )
        written += [(part, "secret") for part in parts]
        return frozenset(
            variable
            for text, name in written
            for kind, variable in references_in(text, shell_like=True)
            if kind == "env" and (is_secret(name) or is_secret(variable))
        )

    @property
    def config_error(self) -> str | None:
        """The reason, for the user, why the server cannot start as configured, or None."""
        if self.awaits_trust:
            return "the opened folder configures this server; accept it with `/trust` first"
        if self.is_damaged:
            return "its configuration has errors (`/config` shows them)"
        if self.command and self.url:
            return "expected a command or a url, got both"
        if self.url and not _is_http(self.url):
            return _NO_URL
        return None if self.command or self.url else "expected a command or a url, got neither"


def secret_arguments(args: Sequence[str]) -> Iterator[str]:
    """Yield the values of options with telling names: `--token VALUE`, `--token=VALUE`."""
    for before, text in zip(("", *args), args, strict=False):
        option, _, value = text.partition("=")
        if option.startswith("-"):
            yield from (value,) if is_secret(option) else ()
        elif before.startswith("-") and "=" not in before and is_secret(before):
            yield text


def secret_parts(url: str) -> Iterator[str]:
    """Yield the user's key in an address, and the values of query parameters with telling names."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return
    user, _, password = user_in(url).partition(":")
    yield password or user
    for parameter in parts.query.split("&"):
        name, _, value = parameter.partition("=")
        if is_secret(name) or "sig" in name.lower():
            yield value


def user_in(url: str) -> str:
    """Return the user information of an address, or an empty text."""
    try:
        return urlsplit(url).netloc.rpartition("@")[0]
    except ValueError:
        return ""


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


_KEYS = record(MCPServer)


def _read_server(value: object, place: Place) -> dict[str, Any]:
    before = len(place.errors)
    layer: dict[str, Any] = _KEYS.read(value, place)
    new = list(place.errors)[before:]
    for path in new:
        place.errors[path] += f" {_HINDERS}"
    return layer | {"is_damaged": True} if new else layer


def _build_server(merged: Mapping[str, Any]) -> MCPServer:
    settings = {name: value for name, value in merged.items() if name != "is_damaged"}
    server: MCPServer = _KEYS.build(settings)
    return attrs.evolve(server, is_damaged=merged.get("is_damaged", False))


_SERVER = Reader(read=_read_server, build=_build_server, record=MCPServer)
_NAMED = each(_SERVER)


def _read_servers(value: object, place: Place) -> dict[str, Any]:
    servers: dict[str, Any] = _NAMED.read(value, place)
    for name in [name for name in servers if not name.strip() or name.strip().lower() == _OURS]:
        place.errors[place.at(name).path] = (
            "expected a different name: this one is reserved or blank"
        )
        del servers[name]
    return servers


MCP_SERVERS = attrs.evolve(_NAMED, read=_read_servers)
"""Reader of `mcpServers`, by the user's name for each."""


def find_errors(name: str, settings: object, resolver: ReferenceResolver) -> str | None:
    """Return the errors in a server's settings, given as JSON, or None."""
    place = Place(resolver)
    layer = _read_servers({name: settings}, place)
    url = layer.get(name, {}).get("url")
    if not place.errors and url and not _is_http(url):
        place.errors[(name, "url")] = _NO_URL
    messages = (f"{dotted(path[1:])}: {error}" for path, error in place.errors.items())
    return "; ".join(text.strip(": ").removesuffix(f" {_HINDERS}") for text in messages) or None


def original_text(text: str) -> str:
    """Return a text of a server as configured, its references unresolved."""
    return text.written if isinstance(text, ResolvedText) else text


def server_keys() -> tuple[str, ...]:
    """Return every key that a server's settings can have."""
    return tuple(key[0] for each in settings_of(MCPServer) for key in each.keys)


def is_secret(name: str) -> bool:
    """Return whether a variable, an option or a parameter of this name holds a secret."""
    return _IS_SECRET.search(name) is not None

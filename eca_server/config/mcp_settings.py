"""The part of the configuration that is about MCP servers.

The rule it keeps: a server of which anything could not be read does not start, for with an argument
or a header less it might do something else than the user meant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal
from urllib.parse import urlsplit

import attrs

from eca_server.config.interpolation import Resolved, Surroundings, Unresolved
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
from eca_server.secret import Secret, mask

__all__ = ["MCP_SERVERS", "MCPServer", "as_written", "fault_in", "is_secret", "keys_of_servers"]

_OURS = "eca"
_SHORTEST_SECRET = 8  # of shorter ones too much else would be hidden
_IS_SECRET = re.compile(r"key|token|secret|pass|auth|credential", re.IGNORECASE)
_NO_URL = "expected a url that begins with http:// or https:// and names a host"
_HINDERS = "(until this is mended the MCP server does not start)"


def _read_text(
    value: object, place: Place, *, shell_like: bool = True, strips: bool = False
) -> str:
    place.expect(isinstance(value, str), "a string", value)
    found: list[str] = []
    surroundings = attrs.evolve(place.surroundings, on_value=found.append)
    try:
        text = surroundings.resolve(str(value), shell_like=shell_like)
    except Unresolved as fault:
        place.refuse(str(fault))
    text = text.strip() if strips else text
    return Resolved(text, written=str(value), stands_for=found) if found else text


def _read_name(value: object, place: Place) -> str | None:
    return _read_text(value, place, strips=True) or None


# With `$NAME` and `${NAME}` replaced as well, as the upstream server does.
_TEXT = Reader(read=_read_text, schema={"type": "string"})
_NAME = Reader(read=_read_name, schema={"type": "string"})
_VALUE = Reader(read=partial(_read_text, shell_like=False), schema={"type": "string"})
_VARIABLES = Reader(
    read=each(_VALUE).read,
    build=dict,  # a null is no value left out: it takes the variable away
    schema={"type": "object"},
    members=_VALUE,
)


def _masked(text: str | None) -> str:
    return repr(text and mask(text))


@attrs.frozen(kw_only=True)
class MCPServer:
    """`mcpServers.<name>`: a program that is started, or an address.

    Attributes:
        command: the program; its arguments stand in `args`.
        args: of the program.
        env: variables of the program beside ours; null takes one away.
        cwd: the folder it starts in, absolute or relative to the first workspace root; None: that
            root itself.
        url: where it is reached over HTTP, in place of `command`.
        headers: sent with each request to `url`.
        type: how it is talked to, where that does not follow from `command` or `url`.
        protocol: which family of the protocol's editions is spoken; `auto`: what it understands.
        disabled: it starts only when the user says so.
        client_id: the name by which we are known to its authorization server.
        client_secret: what goes with that name, if anything.
        client_name: the name under which we ask its authorization server for an id.
        client_metadata_url: where a document about this client is, which is its id at authorization
            servers that read such documents; others are asked for an id.
        oauth_port: the port that the browser comes back to after a login; 0: any.
        auth_scope: who shares a login: all workspaces, this one, or those that give this name.
        start_timeout: until it is ready; None: as `mcpTimeoutSeconds` says.
        call_timeout: how long a call may go on without a sign of progress.
        tool_timeouts: the same by the name of the tool.
        most_calls: calls that run at the same time; more of them wait.
        is_damaged: some of it could not be read, so it does not start.
        awaits_trust: an opened folder configures it, and the user has not accepted that yet; so it
            does not start, and its texts are as written.
    """

    command: str | None = attrs.field(default=None, metadata=setting(_NAME, "command"))
    args: tuple[str, ...] = attrs.field(
        default=(), repr=False, metadata=setting(listing(_TEXT), "args")
    )
    env: Mapping[str, str | None] = attrs.field(
        factory=dict, repr=False, metadata=setting(_VARIABLES, "env")
    )
    cwd: str | None = attrs.field(default=None, metadata=setting(_NAME, "cwd"))
    url: str | None = attrs.field(default=None, repr=_masked, metadata=setting(_NAME, "url"))
    headers: Mapping[str, str] = attrs.field(
        factory=dict, repr=False, metadata=setting(each(_TEXT), "headers")
    )
    type: Literal["stdio", "http", "streamable-http", "sse"] | None = attrs.field(
        default=None, metadata=setting(choice("stdio", "http", "streamable-http", "sse"), "type")
    )
    protocol: Literal["auto", "legacy", "2026-07-28"] = attrs.field(
        default="auto", metadata=setting(choice("auto", "legacy", "2026-07-28"), "protocol")
    )
    disabled: bool = attrs.field(default=False, metadata=setting(FLAG, "disabled"))
    client_id: str | None = attrs.field(default=None, metadata=setting(_NAME, "clientId"))
    client_secret: Secret | None = attrs.field(default=None, metadata=setting(KEY, "clientSecret"))
    client_name: str | None = attrs.field(default=None, metadata=setting(_NAME, "clientName"))
    client_metadata_url: str | None = attrs.field(
        default=None, metadata=setting(_NAME, "clientMetadataUrl")
    )
    oauth_port: int = attrs.field(default=0, metadata=setting(COUNT, "oauthPort"))
    auth_scope: str = attrs.field(default="global", metadata=setting(_NAME, "authScope"))
    start_timeout: float | None = attrs.field(
        default=None, metadata=setting(SECONDS, "startTimeoutSeconds")
    )
    call_timeout: float = attrs.field(default=60, metadata=setting(SECONDS, "callTimeoutSeconds"))
    tool_timeouts: Mapping[str, float] = attrs.field(
        factory=dict, metadata=setting(each(SECONDS), "toolTimeoutSeconds")
    )
    most_calls: int = attrs.field(default=8, metadata=setting(COUNT, "maxConcurrency"))
    is_damaged: bool = False
    awaits_trust: bool = False

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """What must not be shown: headers, variables whose names say so, what references mean."""
        known = [*self.headers.values()]
        known += [value for name, value in self.env.items() if value and _IS_SECRET.search(name)]
        texts: list[object] = [*attrs.astuple(self, recurse=False), *self.args, *self.env.values()]
        for text in (*texts, *self.headers.values()):
            known += text.stands_for if isinstance(text, Resolved) else ()
        long = dict.fromkeys(text for text in known if len(text) >= _SHORTEST_SECRET)
        return (*map(Secret, long), *([self.client_secret] if self.client_secret else []))

    @property
    def fault(self) -> str | None:
        """Why it cannot be started as configured, for the user; None: it can."""
        if self.awaits_trust:
            return "the opened folder configures it, and that is not accepted yet (`/trust`)"
        if self.is_damaged:
            return "a part of its configuration cannot be read"
        if self.command and self.url:
            return "expected a command or a url, got both"
        if self.url and not _is_http(self.url):
            return _NO_URL
        return None if self.command or self.url else "expected a command or a url, got neither"


def _is_http(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


_KEYS = record(MCPServer)


def _read_server(value: object, place: Place) -> dict[str, Any]:
    before = len(place.faults)
    layer: dict[str, Any] = _KEYS.read(value, place)
    new = list(place.faults)[before:]
    for path in new:
        place.faults[path] += f" {_HINDERS}"
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
        place.faults[place.at(name).path] = "expected another name: this one is taken or blank"
        del servers[name]
    return servers


MCP_SERVERS = attrs.evolve(_NAMED, read=_read_servers)
"""`mcpServers`, by the name the user gives each."""


def fault_in(name: str, settings: object, surroundings: Surroundings) -> str | None:
    """What of a server's settings, as JSON, cannot be read; None: nothing."""
    place = Place(surroundings)
    layer = _read_servers({name: settings}, place)
    url = layer.get(name, {}).get("url")
    if not place.faults and url and not _is_http(url):
        place.faults[(name, "url")] = _NO_URL
    told = (f"{dotted(path[1:])}: {fault}" for path, fault in place.faults.items())
    return "; ".join(text.strip(": ").removesuffix(f" {_HINDERS}") for text in told) or None


def as_written(text: str) -> str:
    """A text of a server as it was configured, its references as such."""
    return text.written if isinstance(text, Resolved) else text


def keys_of_servers() -> tuple[str, ...]:
    """Every key that a server's settings can have."""
    return tuple(key[0] for each in settings_of(MCPServer) for key in each.keys)


def is_secret(variable: str) -> bool:
    """Whether the value of a variable of that name is a secret."""
    return _IS_SECRET.search(variable) is not None

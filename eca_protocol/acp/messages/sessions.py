"""The agent's requests: the start of a connection, and sessions with their settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from eca_protocol.acp.messages.blocks import ContentBlock, Empty, Extensible
from eca_protocol.messages.marks import Unknown, UnknownValue

StopReason: TypeAlias = (
    Literal["end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"] | UnknownValue
)


@attrs.frozen(kw_only=True)
class Implementation(Extensible):
    """The name and version of a program."""

    name: str
    version: str
    title: str | None = None


@attrs.frozen(kw_only=True)
class FileSystemCapabilities(Extensible):
    """The file requests that a client answers."""

    read_text_file: bool = False
    write_text_file: bool = False


@attrs.frozen(kw_only=True)
class SessionConfigOptionsCapabilities(Extensible):
    """The config options that a client shows beyond selections."""

    boolean: Empty | None = None


@attrs.frozen(kw_only=True)
class ClientSessionCapabilities(Extensible):
    """The abilities of a client in a session."""

    config_options: SessionConfigOptionsCapabilities | None = None


@attrs.frozen(kw_only=True)
class AuthCapabilities(Extensible):
    """The ways of authentication that a client offers."""

    terminal: bool = False


@attrs.frozen(kw_only=True)
class ElicitationCapabilities(Extensible):
    """The kinds of questions that a client shows."""

    form: Empty | None = None
    url: Empty | None = None


@attrs.frozen(kw_only=True)
class ClientCapabilities(Extensible):
    """The abilities of a client."""

    fs: FileSystemCapabilities = attrs.field(factory=FileSystemCapabilities)
    terminal: bool = False
    session: ClientSessionCapabilities | None = None
    auth: AuthCapabilities = attrs.field(factory=AuthCapabilities)
    elicitation: ElicitationCapabilities | None = None


@attrs.frozen(kw_only=True)
class InitializeRequest(Extensible):
    """The first request of a client."""

    protocol_version: int
    client_capabilities: ClientCapabilities = attrs.field(factory=ClientCapabilities)
    client_info: Implementation | None = None


@attrs.frozen(kw_only=True)
class PromptCapabilities(Extensible):
    """The blocks that an agent takes, beside texts and resource links."""

    image: bool = False
    audio: bool = False
    embedded_context: bool = False


@attrs.frozen(kw_only=True)
class McpCapabilities(Extensible):
    """The transports of MCP that an agent has, beside stdio."""

    http: bool = False
    sse: bool = False


@attrs.frozen(kw_only=True)
class SessionCapabilities(Extensible):
    """The methods and params of sessions that an agent has."""

    list: Empty | None = None
    delete: Empty | None = None
    additional_directories: Empty | None = None
    resume: Empty | None = None
    close: Empty | None = None


@attrs.frozen(kw_only=True)
class AgentAuthCapabilities(Extensible):
    """The methods of authentication that an agent has."""

    logout: Empty | None = None


@attrs.frozen(kw_only=True)
class AgentCapabilities(Extensible):
    """The abilities of an agent."""

    load_session: bool = False
    prompt_capabilities: PromptCapabilities = attrs.field(factory=PromptCapabilities)
    mcp_capabilities: McpCapabilities = attrs.field(factory=McpCapabilities)
    session_capabilities: SessionCapabilities = attrs.field(factory=SessionCapabilities)
    auth: AgentAuthCapabilities = attrs.field(factory=AgentAuthCapabilities)


@attrs.frozen(kw_only=True)
class AuthMethod(Extensible):
    """A login: by `authenticate`, or with the type `terminal` by a command in a terminal."""

    id: str
    name: str
    type: Literal["terminal"] | UnknownValue | None = None
    description: str | None = None
    args: tuple[str, ...] | None = None
    env: Mapping[str, Any] | None = None


@attrs.frozen(kw_only=True)
class InitializeResponse(Extensible):
    """The agent's answer to `initialize`."""

    protocol_version: int
    agent_capabilities: AgentCapabilities = attrs.field(factory=AgentCapabilities)
    auth_methods: tuple[AuthMethod, ...] = ()
    agent_info: Implementation | None = None


@attrs.frozen(kw_only=True)
class AuthenticateRequest(Extensible):
    """The params of `authenticate`."""

    method_id: str


@attrs.frozen(kw_only=True)
class HttpHeader(Extensible):
    """A header of requests to an MCP server."""

    name: str
    value: str


@attrs.frozen(kw_only=True)
class EnvVariable(Extensible):
    """A variable of a command's environment."""

    name: str
    value: str


@attrs.frozen(kw_only=True)
class McpServer(Extensible):
    """An MCP server: `type` http or sse with a URL and headers; no type and a command for stdio."""

    name: str
    type: Literal["http", "sse"] | UnknownValue | None = None
    url: str | None = None
    headers: tuple[HttpHeader, ...] | None = None
    command: str | None = None
    args: tuple[str, ...] | None = None
    env: tuple[EnvVariable, ...] | None = None


@attrs.frozen(kw_only=True)
class NewSessionRequest(Extensible):
    """The params of `session/new`; paths are absolute."""

    cwd: str
    mcp_servers: tuple[McpServer, ...]
    additional_directories: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class LoadSessionRequest(NewSessionRequest):
    """The params of `session/load`, which replays the session before its answer."""

    session_id: str


@attrs.frozen(kw_only=True)
class ResumeSessionRequest(Extensible):
    """The params of `session/resume`, which replays nothing."""

    session_id: str
    cwd: str
    mcp_servers: tuple[McpServer, ...] = ()
    additional_directories: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class SessionReference(Extensible):
    """The params of the methods that need only a session."""

    session_id: str


@attrs.frozen(kw_only=True)
class SessionMode(Extensible):
    """A mode in which an agent works."""

    id: str
    name: str
    description: str | None = None


@attrs.frozen(kw_only=True)
class SessionModeState(Extensible):
    """The modes of a session, and the current one."""

    current_mode_id: str
    available_modes: tuple[SessionMode, ...]


@attrs.frozen(kw_only=True)
class SelectValue(Extensible):
    """A value of a selection."""

    value: str
    name: str
    description: str | None = None


@attrs.frozen(kw_only=True)
class SelectEntry(Extensible):
    """A value of a selection, or with `group` and `options` a group of values."""

    name: str
    value: str | None = None
    description: str | None = None
    group: str | None = None
    options: tuple[SelectValue, ...] | None = None


@attrs.frozen(kw_only=True)
class SelectConfigOption(Extensible):
    """A setting of a session with a list of values."""

    type: ClassVar[Literal["select"]] = "select"
    id: str
    name: str
    current_value: str
    options: tuple[SelectEntry, ...]
    description: str | None = None
    category: str | None = None


@attrs.frozen(kw_only=True)
class BooleanConfigOption(Extensible):
    """A setting of a session that is on or off."""

    type: ClassVar[Literal["boolean"]] = "boolean"
    id: str
    name: str
    current_value: bool
    description: str | None = None
    category: str | None = None


@attrs.frozen(kw_only=True)
class UnknownConfigOption(Unknown):
    """A setting of an unknown type; `raw` is written unchanged."""


ConfigOption: TypeAlias = SelectConfigOption | BooleanConfigOption | UnknownConfigOption


@attrs.frozen(kw_only=True)
class SessionState(Extensible):
    """The modes and settings of a session."""

    modes: SessionModeState | None = None
    config_options: tuple[ConfigOption, ...] | None = None


@attrs.frozen(kw_only=True)
class NewSessionResponse(SessionState):
    """The answer to `session/new`."""

    session_id: str


@attrs.frozen(kw_only=True)
class ListSessionsRequest(Extensible):
    """The params of `session/list`."""

    cwd: str | None = None
    cursor: str | None = None


@attrs.frozen(kw_only=True)
class SessionInfo(Extensible):
    """A session in a list."""

    session_id: str
    cwd: str
    additional_directories: tuple[str, ...] = ()
    title: str | None = None
    updated_at: str | None = None


@attrs.frozen(kw_only=True)
class ListSessionsResponse(Extensible):
    """A page of sessions."""

    sessions: tuple[SessionInfo, ...]
    next_cursor: str | None = None


@attrs.frozen(kw_only=True)
class SetSessionModeRequest(Extensible):
    """The params of `session/set_mode`."""

    session_id: str
    mode_id: str


@attrs.frozen(kw_only=True)
class SetSessionConfigOptionRequest(Extensible):
    """The params of `session/set_config_option`; a boolean has the type `boolean`."""

    session_id: str
    config_id: str
    value: str | bool
    type: str | None = None


@attrs.frozen(kw_only=True)
class SetSessionConfigOptionResponse(Extensible):
    """All settings of the session after the change."""

    config_options: tuple[ConfigOption, ...]


@attrs.frozen(kw_only=True)
class PromptRequest(Extensible):
    """The params of `session/prompt`."""

    session_id: str
    prompt: tuple[ContentBlock, ...]


@attrs.frozen(kw_only=True)
class PromptResponse(Extensible):
    """The end of a turn."""

    stop_reason: StopReason

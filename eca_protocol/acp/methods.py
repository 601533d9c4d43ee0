"""ACP's method table for a `Peer`, its dialect and its codec."""

from __future__ import annotations

from typing import Any, Final

from eca_protocol.acp import messages as m
from eca_protocol.codec import Codec
from eca_protocol.endpoint import Dialect, Direction, Method, Table
from eca_protocol.revisions import Revision

__all__ = [
    "ACP",
    "ACP_CODEC",
    "ACP_DIALECT",
    "AUTHENTICATION_REQUIRED",
    "PROTOCOL_VERSION",
    "RESOURCE_NOT_FOUND",
]

PROTOCOL_VERSION: Final = 1
"""The wire version of this table."""

AUTHENTICATION_REQUIRED: Final = -32000
"""The error code of a session that needs `authenticate` first."""

RESOURCE_NOT_FOUND: Final = -32002
"""The error code of an unknown session or file."""


def _request(name: str, direction: Direction, params: Any, result: Any) -> Method:
    return Method(name=name, kind="request", direction=direction, types=lambda: (params, result))


def _agent(name: str, params: Any, result: Any) -> Method:
    return _request(name, "client_to_server", params, result)


def _client(name: str, params: Any, result: Any) -> Method:
    return _request(name, "server_to_client", params, result)


def _notification(name: str, direction: Direction, params: Any) -> Method:
    return Method(name=name, kind="notification", direction=direction, types=lambda: (params, None))


ACP: Final = Table(
    [
        _agent("initialize", m.InitializeRequest, m.InitializeResponse),
        _agent("authenticate", m.AuthenticateRequest, m.Empty),
        _agent("logout", m.Empty, m.Empty),
        _agent("session/new", m.NewSessionRequest, m.NewSessionResponse),
        _agent("session/load", m.LoadSessionRequest, m.SessionState),
        _agent("session/resume", m.ResumeSessionRequest, m.SessionState),
        _agent("session/list", m.ListSessionsRequest, m.ListSessionsResponse),
        _agent("session/delete", m.SessionReference, m.Empty),
        _agent("session/close", m.SessionReference, m.Empty),
        _agent("session/set_mode", m.SetSessionModeRequest, m.Empty),
        _agent(
            "session/set_config_option",
            m.SetSessionConfigOptionRequest,
            m.SetSessionConfigOptionResponse,
        ),
        _agent("session/prompt", m.PromptRequest, m.PromptResponse),
        _notification("session/cancel", "client_to_server", m.SessionReference),
        _notification("session/update", "server_to_client", m.SessionNotification),
        _client(
            "session/request_permission", m.RequestPermissionRequest, m.RequestPermissionResponse
        ),
        _client("fs/read_text_file", m.ReadTextFileRequest, m.ReadTextFileResponse),
        _client("fs/write_text_file", m.WriteTextFileRequest, m.Empty),
        _client("terminal/create", m.CreateTerminalRequest, m.CreateTerminalResponse),
        _client("terminal/output", m.TerminalReference, m.TerminalOutputResponse),
        _client("terminal/release", m.TerminalReference, m.Empty),
        _client("terminal/wait_for_exit", m.TerminalReference, m.TerminalExitStatus),
        _client("terminal/kill", m.TerminalReference, m.Empty),
        _client("elicitation/create", m.CreateElicitationRequest, m.CreateElicitationResponse),
        _notification("elicitation/complete", "server_to_client", m.CompleteElicitation),
    ]
)

ACP_DIALECT: Final = Dialect(cancel_method="$/cancel_request", cancel_key="requestId")
"""The dialect of ACP: a cancelled request is answered with -32800."""

ACP_CODEC: Final = Codec(ACP, Revision.CURRENT)
"""The codec of ACP; its models have no editions of ECA."""

"""ACP's method table for a `Peer`, its dialect and its codec."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from eca_protocol.acp import messages as m
from eca_protocol.codec import Codec
from eca_protocol.endpoint import Dialect, Direction, Method, Table
from eca_protocol.revisions import Revision

PROTOCOL_VERSION: Final = 1
"""The wire version of this table."""

AUTHENTICATION_REQUIRED: Final = -32000
"""The error code of a session that needs `authenticate` first."""

RESOURCE_NOT_FOUND: Final = -32002
"""The error code of an unknown session or file."""


_Types = Callable[[], tuple[Any, Any]]


def _agent(name: str, types: _Types) -> Method:
    return Method(name=name, kind="request", direction="client_to_server", types=types)


def _client(name: str, types: _Types) -> Method:
    return Method(name=name, kind="request", direction="server_to_client", types=types)


def _notification(name: str, direction: Direction, types: _Types) -> Method:
    return Method(name=name, kind="notification", direction=direction, types=types)


ACP: Final = Table(
    [
        _agent("initialize", lambda: (m.InitializeRequest, m.InitializeResponse)),
        _agent("authenticate", lambda: (m.AuthenticateRequest, m.Empty)),
        _agent("logout", lambda: (m.Empty, m.Empty)),
        _agent("session/new", lambda: (m.NewSessionRequest, m.NewSessionResponse)),
        _agent("session/load", lambda: (m.LoadSessionRequest, m.SessionState)),
        _agent("session/resume", lambda: (m.ResumeSessionRequest, m.SessionState)),
        _agent("session/list", lambda: (m.ListSessionsRequest, m.ListSessionsResponse)),
        _agent("session/delete", lambda: (m.SessionReference, m.Empty)),
        _agent("session/close", lambda: (m.SessionReference, m.Empty)),
        _agent("session/set_mode", lambda: (m.SetSessionModeRequest, m.Empty)),
        _agent(
            "session/set_config_option",
            lambda: (m.SetSessionConfigOptionRequest, m.SetSessionConfigOptionResponse),
        ),
        _agent("session/prompt", lambda: (m.PromptRequest, m.PromptResponse)),
        _notification("session/cancel", "client_to_server", lambda: (m.SessionReference, None)),
        _notification("session/update", "server_to_client", lambda: (m.SessionNotification, None)),
        _client(
            "session/request_permission",
            lambda: (m.RequestPermissionRequest, m.RequestPermissionResponse),
        ),
        _client("fs/read_text_file", lambda: (m.ReadTextFileRequest, m.ReadTextFileResponse)),
        _client("fs/write_text_file", lambda: (m.WriteTextFileRequest, m.Empty)),
        _client("terminal/create", lambda: (m.CreateTerminalRequest, m.CreateTerminalResponse)),
        _client("terminal/output", lambda: (m.TerminalReference, m.TerminalOutputResponse)),
        _client("terminal/release", lambda: (m.TerminalReference, m.Empty)),
        _client("terminal/wait_for_exit", lambda: (m.TerminalReference, m.TerminalExitStatus)),
        _client("terminal/kill", lambda: (m.TerminalReference, m.Empty)),
        _client(
            "elicitation/create", lambda: (m.CreateElicitationRequest, m.CreateElicitationResponse)
        ),
        _notification(
            "elicitation/complete", "server_to_client", lambda: (m.CompleteElicitation, None)
        ),
    ]
)

ACP_DIALECT: Final = Dialect(cancel_method="$/cancel_request", cancel_key="requestId")
"""The dialect of ACP: a cancelled request is answered with -32800."""

ACP_CODEC: Final = Codec(ACP, Revision.CURRENT)
"""The codec of ACP; its models have no editions of ECA."""

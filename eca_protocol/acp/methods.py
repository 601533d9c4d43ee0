"""ACP's method table for a `Peer`, its dialect and its codec."""

from __future__ import annotations

from typing import Final

from eca_protocol.acp import messages as m
from eca_protocol.codec import Codec
from eca_protocol.endpoint import Dialect, Table
from eca_protocol.methods import (
    ClientNotification,
    ClientRequest,
    ServerNotification,
    ServerRequest,
)
from eca_protocol.revisions import Revision

PROTOCOL_VERSION: Final = 1
"""The wire version of this table."""

AUTHENTICATION_REQUIRED: Final = -32000
"""The error code of a session that needs `authenticate` first."""

RESOURCE_NOT_FOUND: Final = -32002
"""The error code of an unknown session or file."""

ACP: Final = Table(
    [
        ClientRequest("initialize", lambda: (m.InitializeRequest, m.InitializeResponse)),
        ClientRequest("authenticate", lambda: (m.AuthenticateRequest, m.Empty)),
        ClientRequest("logout", lambda: (m.Empty, m.Empty)),
        ClientRequest("session/new", lambda: (m.NewSessionRequest, m.NewSessionResponse)),
        ClientRequest("session/load", lambda: (m.LoadSessionRequest, m.SessionState)),
        ClientRequest("session/resume", lambda: (m.ResumeSessionRequest, m.SessionState)),
        ClientRequest("session/list", lambda: (m.ListSessionsRequest, m.ListSessionsResponse)),
        ClientRequest("session/delete", lambda: (m.SessionReference, m.Empty)),
        ClientRequest("session/close", lambda: (m.SessionReference, m.Empty)),
        ClientRequest("session/set_mode", lambda: (m.SetSessionModeRequest, m.Empty)),
        ClientRequest(
            "session/set_config_option",
            lambda: (m.SetSessionConfigOptionRequest, m.SetSessionConfigOptionResponse),
        ),
        ClientRequest("session/prompt", lambda: (m.PromptRequest, m.PromptResponse)),
        ClientNotification("session/cancel", lambda: m.SessionReference),
        ServerNotification("session/update", lambda: m.SessionNotification),
        ServerRequest(
            "session/request_permission",
            lambda: (m.RequestPermissionRequest, m.RequestPermissionResponse),
        ),
        ServerRequest("fs/read_text_file", lambda: (m.ReadTextFileRequest, m.ReadTextFileResponse)),
        ServerRequest("fs/write_text_file", lambda: (m.WriteTextFileRequest, m.Empty)),
        ServerRequest(
            "terminal/create", lambda: (m.CreateTerminalRequest, m.CreateTerminalResponse)
        ),
        ServerRequest("terminal/output", lambda: (m.TerminalReference, m.TerminalOutputResponse)),
        ServerRequest("terminal/release", lambda: (m.TerminalReference, m.Empty)),
        ServerRequest(
            "terminal/wait_for_exit", lambda: (m.TerminalReference, m.TerminalExitStatus)
        ),
        ServerRequest("terminal/kill", lambda: (m.TerminalReference, m.Empty)),
        ServerRequest(
            "elicitation/create", lambda: (m.CreateElicitationRequest, m.CreateElicitationResponse)
        ),
        ServerNotification("elicitation/complete", lambda: m.CompleteElicitation),
    ]
)

ACP_DIALECT: Final = Dialect(cancel_method="$/cancel_request", cancel_key="requestId")
"""The dialect of ACP: a cancelled request is answered with -32800."""

ACP_CODEC: Final = Codec(ACP, Revision.CURRENT)
"""The codec of ACP; its models have no editions of ECA."""

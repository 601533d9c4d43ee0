"""The draft's method table: the messages of June 2025 with the draft's types."""

from __future__ import annotations

from eca_protocol.draft import models as d
from eca_protocol.draft.models import IN_DRAFT
from eca_protocol.endpoint import Table
from eca_protocol.methods import ClientNotification, ClientRequest, ServerNotification

DRAFT = Table(
    [
        ClientRequest("initialize", lambda: (d.InitializeParams, d.InitializedResult), IN_DRAFT),
        ClientNotification("initialized", lambda: d.InitializedParams, IN_DRAFT),
        ClientRequest("shutdown", lambda: (None, None), IN_DRAFT),
        ClientNotification("exit", lambda: None, IN_DRAFT),
        ClientRequest("chat/prompt", lambda: (d.ChatPromptParams, d.ChatPromptResponse), IN_DRAFT),
        ServerNotification("chat/contentReceived", lambda: d.ChatContentReceivedParams, IN_DRAFT),
    ]
)

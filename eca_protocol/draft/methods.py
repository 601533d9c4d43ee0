"""The draft's method table: the messages of June 2025 with the draft's types."""

from __future__ import annotations

from typing import Any, Literal

from eca_protocol.draft import models as d
from eca_protocol.endpoint import Direction, Method, Table


def _row(
    name: str,
    kind: Literal["request", "notification"],
    params: Any = None,
    result: Any = None,
    *,
    direction: Direction = "client_to_server",
) -> Method:
    return Method(
        name=name, kind=kind, direction=direction, types=lambda: (params, result), window=d.IN_DRAFT
    )


DRAFT = Table(
    [
        _row("initialize", "request", d.InitializeParams, d.InitializedResult),
        _row("initialized", "notification", d.InitializedParams),
        _row("shutdown", "request"),
        _row("exit", "notification"),
        _row("chat/prompt", "request", d.ChatPromptParams, d.ChatPromptResponse),
        _row(
            "chat/contentReceived",
            "notification",
            d.ChatContentReceivedParams,
            direction="server_to_client",
        ),
    ]
)

"""Rows of the arrows in the diagrams, with the numbers of the diagrams."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from eca_protocol.testing.requirements.row import Requirement, Side

_CLIENT: Final[Side] = "client"
_SERVER: Final[Side] = "server"

_DIAGRAMS: Final[dict[str, tuple[str, tuple[tuple[Side, str], ...]]]] = {
    "initialization": (
        "Lifecycle Messages",
        (
            (_CLIENT, "sends the request `initialize`"),
            (_SERVER, "responds to `initialize`"),
            (_CLIENT, "sends the notification `initialized`"),
            (_SERVER, "sends the notification `config/updated`"),
            (_SERVER, "sends the notification `tool/serverUpdated`"),
        ),
    ),
    "shutdown": (
        "Lifecycle Messages",
        (
            (_CLIENT, "sends the request `shutdown`"),
            (_SERVER, "responds to `shutdown`"),
            (_CLIENT, "sends the notification `exit`"),
        ),
    ),
    "chat-text": (
        "Code Assistant Features",
        (
            (_CLIENT, "sends the request `chat/prompt`"),
            (_SERVER, "announces the start of the turn"),
            (_SERVER, "echoes the prompt"),
            (_SERVER, "sends the prompt to the model"),
            (_SERVER, "responds to `chat/prompt` after its request to the model"),
            (_SERVER, "receives the model's stream in pieces"),
            (_SERVER, "sends each piece as text of the assistant"),
            (_SERVER, "receives the end of the model's answer"),
            (_SERVER, "announces the end of the turn"),
        ),
    ),
    "chat-tool-call": (
        "Code Assistant Features",
        (
            (_CLIENT, "sends the request `chat/prompt`"),
            (_SERVER, "sends prompt and tools to the model"),
            (_SERVER, "receives the model's stream"),
            (_SERVER, "sends text also while tools are offered"),
            (_SERVER, "announces the call's name and the pieces of its arguments"),
            (_SERVER, "receives the end of an answer with a tool call"),
            (_SERVER, "announces the call and asks for approval"),
            (_CLIENT, "sends the notification `chat/toolCallApprove`"),
            (_SERVER, "announces that the call runs"),
            (_SERVER, "announces the call's result"),
            (_SERVER, "sends the prompt with answer and result to the model"),
            (_SERVER, "receives the end of the last answer"),
            (_SERVER, "announces the end of the turn"),
        ),
    ),
}


def _rows() -> Iterator[Requirement]:
    for diagram, (section, arrows) in _DIAGRAMS.items():
        for number, (side, what) in enumerate(arrows, 1):
            yield Requirement(
                id=f"ARROW:{diagram}-{number}",
                section=section,
                statement=f"The {side} {what}.",
                side=side,
            )


ROWS = tuple(_rows())

"""Rows of the diagrams' arrows, numbered as the diagrams number them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from eca_protocol.testing.requirements.row import Later, Requirement, Side

_CLIENT: Final[Side] = "client"
_SERVER: Final[Side] = "server"

_DIAGRAMS: Final[dict[str, tuple[str, Later | None, tuple[tuple[Side, str], ...]]]] = {
    "initialization": (
        "Lifecycle Messages",
        None,
        (
            (_CLIENT, "asks with `initialize`"),
            (_SERVER, "answers `initialize`"),
            (_CLIENT, "tells `initialized`"),
            (_SERVER, "tells `config/updated`"),
            (_SERVER, "tells `tool/serverUpdated`"),
        ),
    ),
    "shutdown": (
        "Lifecycle Messages",
        None,
        (
            (_CLIENT, "asks with `shutdown`"),
            (_SERVER, "answers `shutdown`"),
            (_CLIENT, "tells `exit`"),
        ),
    ),
    "chat-text": (
        "Code Assistant Features",
        None,
        (
            (_CLIENT, "asks with `chat/prompt`"),
            (_SERVER, "tells that the turn starts"),
            (_SERVER, "sends the user's words back"),
            (_SERVER, "sends the prompt to the model"),
            (_SERVER, "answers `chat/prompt`, when the model has been asked"),
            (_SERVER, "takes the model's stream, piece by piece"),
            (_SERVER, "passes each piece on as the assistant's text"),
            (_SERVER, "takes the end of the model's answer"),
            (_SERVER, "tells that the turn is finished"),
        ),
    ),
    "chat-tool-call": (
        "Code Assistant Features",
        None,
        (
            (_CLIENT, "asks with `chat/prompt`"),
            (_SERVER, "sends prompt and tools to the model"),
            (_SERVER, "takes the model's stream"),
            (_SERVER, "passes text on while tools are in play"),
            (_SERVER, "tells the call's name and its arguments as they grow"),
            (_SERVER, "takes the end of an answer that wants a tool"),
            (_SERVER, "tells that the call will run, and asks the user"),
            (_CLIENT, "tells `chat/toolCallApprove`"),
            (_SERVER, "tells that the call runs"),
            (_SERVER, "tells the call's result"),
            (_SERVER, "sends the prompt again with answer and result"),
            (_SERVER, "takes the end of the last answer"),
            (_SERVER, "tells that the turn is finished"),
        ),
    ),
}


def _rows() -> Iterator[Requirement]:
    for diagram, (section, later, arrows) in _DIAGRAMS.items():
        for number, (side, what) in enumerate(arrows, 1):
            yield Requirement(
                id=f"ARROW:{diagram}-{number}",
                section=section,
                duty=f"The {side} {what}.",
                side=side,
                later=later,
            )


ROWS = tuple(_rows())

"""What a model is told about its part, once per chat and behaviour (design decision 20)."""

from __future__ import annotations

from collections.abc import Sequence

from eca_server.workspace import Root

__all__ = ["instructions"]

_COMMON = (
    "You are ECA, a coding assistant inside the user's editor. Answer in Markdown. Be concise and "
    "exact; show code in fenced blocks with the language named. Say so when you do not know."
)
_BEHAVIORS = {
    "agent": "Help the user reach the goal of the conversation.",
    "plan": (
        "Make a plan before anything is changed: name the steps, the files they touch and what "
        "could go wrong. Do not write the final change until the user asks for it."
    ),
}


def instructions(behavior: str, roots: Sequence[Root]) -> str:
    """The system prompt of a chat with that behaviour in that workspace."""
    parts = [_COMMON, _BEHAVIORS[behavior]]
    if roots:
        folders = "\n".join(f"- {root.path}" for root in roots)
        parts.append(f"The user's workspace:\n{folders}")
    return "\n\n".join(parts)

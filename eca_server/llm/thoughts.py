"""Which thoughts of a history go back to the model, where the user decides it.

The rule it keeps: it is for APIs that do without them only; others refuse an answer of theirs of
which the thoughts are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from eca_server.llm.history import Message, ReasoningPart

__all__ = ["Thoughts", "with_thoughts"]

Thoughts = Literal["all", "turn", "off"]
"""All of them, those since the user's last message, none."""


def with_thoughts(messages: Sequence[Message], which: Thoughts) -> Sequence[Message]:
    """The history as the model is to see it."""
    if which == "all":
        return messages
    end = len(messages)
    if which == "turn":
        asked = (place for place in range(end - 1, -1, -1) if messages[place].role == "user")
        end = next(asked, 0)
    return [*map(_without_thoughts, messages[:end]), *messages[end:]]


def _without_thoughts(message: Message) -> Message:
    kept = tuple(part for part in message.parts if not isinstance(part, ReasoningPart))
    return message if len(kept) == len(message.parts) else attrs.evolve(message, parts=kept)

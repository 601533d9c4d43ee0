"""Which thoughts of a history go back to the model: what the user decides, and what a switch does.

The rules it keeps: the user decides for APIs that do without them only, since others refuse an
answer of theirs of which the thoughts are missing; no model is given what another one thought.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import attrs

from eca_server.llm.history import Message, Origin, ReasoningPart

__all__ = ["Thoughts", "left_behind", "with_thoughts"]

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


def left_behind(messages: Sequence[Message], reader: Origin) -> Origin | None:
    """The model that answered last, if `reader` takes over from it without its thoughts.

    None: it is the same one, or it had none.
    """
    answers = (message for message in reversed(messages) if message.role == "assistant")
    last = next(answers, None)
    if last is None or last.origin == reader:
        return None
    thought = any(
        message.origin == last.origin and _without_thoughts(message) is not message
        for message in messages
    )
    return last.origin if thought else None


def _without_thoughts(message: Message) -> Message:
    kept = tuple(part for part in message.parts if not isinstance(part, ReasoningPart))
    return message if len(kept) == len(message.parts) else attrs.evolve(message, parts=kept)

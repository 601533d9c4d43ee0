"""The reasoning of a history that goes back to the model.

The user decides for those APIs that can do without reasoning; the others refuse an answer whose
reasoning is missing. No model receives the reasoning of a different one; an API that demands
reasoning in each answer gets a blank in its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Final, Literal

import attrs

from eca_server.models.backend import BackendError
from eca_server.models.history import Message, Origin, ReasoningPart

ReasoningHistory = Literal["all", "turn", "off"]
"""All reasoning, the reasoning since the user's last message, none."""

EFFORTS: Final = ("minimal", "low", "medium", "high", "xhigh", "max")
"""The efforts of all APIs, from lowest to highest."""

BLANK = " "
"""The reasoning of an answer that has none; DeepSeek refuses an empty text."""

REASONING_DROPPED = (
    "The provider refused the model's earlier reasoning; the chat continues without it."
)
"""The note for the user if a request was repeated without reasoning."""

_DEMANDED = re.compile(
    r"(reasoning_content|content\[\]\.thinking)\b.{0,80}\b(missing|passed back|required)", re.DOTALL
)


def demands_reasoning(error: BackendError) -> bool:
    """Return whether a request was refused because an earlier answer has no reasoning."""
    is_refusal = error.status in (400, 422)
    return is_refusal and _DEMANDED.search(f"{error.message} {error.raw}") is not None


def select_reasoning(messages: Sequence[Message], which: ReasoningHistory) -> Sequence[Message]:
    """Return the history with the reasoning that the model is sent."""
    if which == "all":
        return messages
    end = len(messages)
    if which == "turn":
        users = (place for place in range(end - 1, -1, -1) if messages[place].role == "user")
        end = next(users, 0)
    return [*map(without_reasoning, messages[:end]), *messages[end:]]


def origin_of_dropped_reasoning(messages: Sequence[Message], reader: Origin) -> Origin | None:
    """Return the model of the last answer, if `reader` continues without its reasoning.

    None: it is the same model, or it did not reason.
    """
    answers = (message for message in reversed(messages) if message.role == "assistant")
    last = next(answers, None)
    if last is None or last.origin == reader:
        return None
    thought = any(
        message.origin == last.origin and without_reasoning(message) is not message
        for message in messages
    )
    return last.origin if thought else None


def without_reasoning(message: Message) -> Message:
    """Return the message without its reasoning; the same object if it has none."""
    parts = tuple(part for part in message.parts if not isinstance(part, ReasoningPart))
    return message if len(parts) == len(message.parts) else attrs.evolve(message, parts=parts)


def unsigned(messages: Sequence[Message], origin: Origin) -> list[Message]:
    """Return a history in which a model's answers are those of a different model.

    So nothing that the provider has signed or encrypted is sent back.
    """
    return [
        attrs.evolve(message, origin=None) if message.origin == origin else message
        for message in messages
    ]


def nearest_effort(effort: str | None, known: Iterable[str]) -> str | None:
    """Return the known effort next to the requested one; None: one of them has no place."""
    order = ("none", *EFFORTS)
    places = [order.index(each) for each in known if each in order]
    if effort not in order or not places:
        return None
    requested = order.index(effort)
    return order[min(places, key=lambda place: abs(place - requested))]

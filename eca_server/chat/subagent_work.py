"""What is kept of a subagent's chat: enough to show it again, and no more.

It is kept with the result of the call the agent worked in, and so shares whatever becomes of that:
it is stored, forked, rolled back and deleted with the message the result is in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from eca_protocol.messages import SubagentDetails
from eca_server.llm.history import (
    CitationPart,
    CompactionPart,
    Message,
    Part,
    ReasoningPart,
    RefusalPart,
    Subagent,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from eca_server.tools.output import Cap, cut_middle

__all__ = ["LARGEST", "chat_id_of", "details_of", "kept"]

LARGEST: Final = 200_000
"""Characters that are kept of one chat."""

NOT_KEPT: Final = "[What this agent did from here on is not kept.]"

_PIECE: Final = Cap(lines=400, size=8 * 1024)  # of one output, and of a text among arguments
_SMALLEST: Final = 50  # characters that any part counts for


def chat_id_of(call_id: str) -> str:
    """The chat of the agent that works in a call, as clients and the upstream server derive it."""
    return f"subagent-{call_id}"


def details_of(call_id: str, agent: Subagent) -> SubagentDetails:
    """Who works in a call, for the client."""
    return SubagentDetails(
        subagent_chat_id=chat_id_of(call_id),
        agent_name=agent.name,
        model=agent.model,
        variant=agent.variant,
        max_steps=agent.max_steps,
        step=agent.steps,
    )


def kept(messages: Sequence[Message]) -> tuple[Message, ...]:
    """What of these messages is kept: all that a client is shown of them, if it is not too long.

    Pictures and what only a provider understands are left out, long outputs are cut. What comes
    after too much is left out whole, so that each call that is kept has its result.
    """
    found: list[Message] = []
    left = LARGEST
    for message in messages:
        parts = tuple(_kept_of(message.parts))
        left -= sum(map(_size, parts))
        if left < 0:
            if message.role == "tool":
                last = max(n for n, each in enumerate(found) if each.role == "assistant")
                del found[last:]
            found.append(Message(role="assistant", parts=(TextPart(NOT_KEPT),)))
            break
        found.append(attrs.evolve(message, parts=parts, origin=None))
    return tuple(found)


def _kept_of(parts: Sequence[Part]) -> Iterator[Part]:
    for part in parts:
        match part:
            case TextPart() | RefusalPart() | CitationPart():
                yield part
            case CompactionPart():
                yield CompactionPart("")
            case ReasoningPart(text=text) if text:
                yield attrs.evolve(part, opaque=None, redacted=False)
            case ToolCallPart():
                yield _shortened(part)
            case ToolResultPart(parts=outputs):
                cut = (
                    TextPart(cut_middle(each.text, _PIECE))
                    for each in outputs
                    if isinstance(each, TextPart)
                )
                yield attrs.evolve(part, parts=tuple(cut), subagent=None)
            case _:
                pass


def _shortened(part: ToolCallPart) -> ToolCallPart:
    part = attrs.evolve(part, provider_id=None, opaque=None)
    if len(part.raw) <= _PIECE.size:
        return part
    if part.arguments is None:
        return attrs.evolve(part, raw=cut_middle(part.raw, _PIECE))
    arguments = {
        name: cut_middle(value, _PIECE) if isinstance(value, str) else value
        for name, value in part.arguments.items()
    }
    return attrs.evolve(part, raw="", arguments=arguments)


def _size(part: Part) -> int:
    """About how many characters a kept part takes."""
    match part:
        case TextPart(text) | RefusalPart(text) | ReasoningPart(text=text):
            size = len(text)
        case ToolCallPart(raw=raw, arguments=arguments):
            size = len(raw) + len(str(arguments))
        case ToolResultPart(parts=parts, view=view):
            size = sum(map(_size, parts)) + len(repr(view))
        case CitationPart(url=url, title=title):
            size = len(url + title)
        case _:
            size = 0
    return _SMALLEST + size

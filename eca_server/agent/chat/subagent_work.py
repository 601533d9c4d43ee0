"""The stored part of a subagent's chat: enough to show it again, and no more.

It is stored with the result of the subagent's call. It is therefore forked, rolled back and deleted
with the message that has the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from eca_protocol.messages import SubagentDetails
from eca_server.agent.tools.output import Cap, cut_middle
from eca_server.models import history

LARGEST: Final = 200_000
"""Characters that are stored of one chat."""

NOT_STORED: Final = "[The rest of this agent's work was not stored.]"

_PIECE: Final = Cap(lines=400, size=8 * 1024)  # of one output, and of a text among arguments
_SMALLEST: Final = 50  # characters that any part counts for


def chat_id_of(call_id: str) -> str:
    """Return the chat id of a call's subagent, as clients and the upstream server derive it."""
    return f"subagent-{call_id}"


def details_of(call_id: str, agent: history.Subagent) -> SubagentDetails:
    """Return the details of a call's subagent for the client."""
    return SubagentDetails(
        subagent_chat_id=chat_id_of(call_id),
        agent_name=agent.name,
        model=agent.model,
        variant=agent.variant,
        max_steps=agent.max_steps,
        step=agent.steps,
    )


def reduced(messages: Sequence[history.Message]) -> tuple[history.Message, ...]:
    """Return the messages reduced to what a client shows of them, up to `LARGEST`.

    Pictures and data of a provider are left out, long outputs are cut. Messages beyond the limit
    are left out whole, so that each remaining call has its result.
    """
    messages_kept: list[history.Message] = []
    remaining = LARGEST
    for message in messages:
        parts = tuple(_reduced_parts(message.parts))
        remaining -= sum(map(_size, parts))
        if remaining < 0:
            if message.role == "tool":
                last = max(n for n, each in enumerate(messages_kept) if each.role == "assistant")
                del messages_kept[last:]
            messages_kept.append(
                history.Message(role="assistant", parts=(history.TextPart(NOT_STORED),))
            )
            break
        messages_kept.append(attrs.evolve(message, parts=parts, origin=None))
    return tuple(messages_kept)


def _reduced_parts(parts: Sequence[history.Part]) -> Iterator[history.Part]:
    for part in parts:
        match part:
            case history.TextPart() | history.RefusalPart() | history.CitationPart():
                yield part
            case history.CompactionPart():
                yield history.CompactionPart("")
            case history.ReasoningPart(text=text) if text:
                yield attrs.evolve(part, opaque=None, redacted=False)
            case history.ToolCallPart():
                yield _shortened(part)
            case history.ToolResultPart(parts=outputs):
                cut = (
                    history.TextPart(cut_middle(each.text, _PIECE))
                    for each in outputs
                    if isinstance(each, history.TextPart)
                )
                yield attrs.evolve(part, parts=tuple(cut), subagent=None)


def _shortened(part: history.ToolCallPart) -> history.ToolCallPart:
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


def _size(part: history.Part) -> int:
    """Return about how many characters a reduced part takes."""
    match part:
        case history.TextPart(text) | history.RefusalPart(text) | history.ReasoningPart(text=text):
            size = len(text)
        case history.ToolCallPart(raw=raw, arguments=arguments):
            size = len(raw) + len(str(arguments))
        case history.ToolResultPart(parts=parts, view=view):
            size = sum(map(_size, parts)) + len(repr(view))
        case history.CitationPart(url=url, title=title):
            size = len(url + title)
        case _:
            size = 0
    return _SMALLEST + size

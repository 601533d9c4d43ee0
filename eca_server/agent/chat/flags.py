"""The user's flags in a chat: the content each follows, and where that is (ruling W-43)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import attrs

from eca_server.models.history import Message, ReasoningPart, ToolCallPart, ToolResultPart


@attrs.frozen(kw_only=True)
class Flag:
    """A named mark; `after`: the id of the content it follows."""

    after: str
    text: str


def anchor_of(messages: Sequence[Message], content_id: str) -> str | None:
    """Return the id of the content that a flag set at `content_id` follows.

    A flag set inside a subagent's chat follows the call the agent worked in.

    Returns:
        None if no content of the messages has that id.
    """
    for message in messages:
        if content_id in _ids_of(message):
            return content_id
        for part in message.parts:
            match part:
                case ToolResultPart(call_id=call_id, subagent=agent) if agent is not None:
                    if anchor_of(agent.messages, content_id) is not None:
                        return call_id
    return None


def end_of(messages: Sequence[Message], content_id: str) -> int | None:
    """Return how many messages there are up to a content, the results of its calls included."""
    for place, message in enumerate(messages):
        if content_id in _ids_of(message):
            end = place + 1
            while end < len(messages) and messages[end].role == "tool":
                end += 1
            return end
    return None


def flags_within(flags: Mapping[str, Flag], messages: Sequence[Message]) -> Mapping[str, Flag]:
    """Return those of the flags that follow a content of these messages."""
    if not flags:
        return flags
    ids = {each for message in messages for each in _ids_of(message)}
    return {name: flag for name, flag in flags.items() if flag.after in ids}


def read_flags(written: Mapping[str, Any]) -> Mapping[str, Flag]:
    """Return the flags that were stored; a bare text is from when a message had one at most."""
    flags: dict[str, Flag] = {}
    for name, stored in written.items():
        match stored:
            case str(text):
                flags[f"flag-{name}"] = Flag(after=name, text=text)
            case {"after": str(after), "text": str(text)}:
                flags[name] = Flag(after=after, text=text)
    return flags


def _ids_of(message: Message) -> Iterator[str]:
    """Yield the ids by which a client knows the contents of a message."""
    if message.content_id is not None:
        yield message.content_id
    for part in message.parts:
        if isinstance(part, ToolCallPart | ReasoningPart) and part.id:
            yield part.id

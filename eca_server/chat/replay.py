"""What was said in a chat as contents, for a client that shows the chat again.

The rules it keeps: the order of a turn (rulings W-26, W-30); whatever is begun is ended. What no
history keeps is not told again: progress, remarks of the server's, how long something took.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import attrs

from eca_protocol.messages import (
    ChatContent,
    ChatFlagContent,
    ChatReasonFinishedContent,
    ChatReasonStartedContent,
    ChatReasonTextContent,
    ChatTextContent,
    ChatURLContent,
)
from eca_server.chat.pictures import picture_content
from eca_server.chat.subagent_work import chat_id_of, details_of
from eca_server.chat.tool_call import Naming, ToolCall
from eca_server.llm.history import (
    CitationPart,
    CompactionPart,
    ImagePart,
    Message,
    ReasoningPart,
    RefusalPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from eca_server.spelling import Role
from eca_server.tools.tool import ToolOutput

__all__ = ["Describe", "Told", "replayed"]


class Told(NamedTuple):
    """A content of a chat, or of an agent's that worked for it, in the chat `subagent_chat_id`."""

    role: Role
    content: ChatContent
    subagent_chat_id: str | None = None


Describe: TypeAlias = Callable[[ToolCallPart], tuple[Naming, str | None]]
"""How a call is named on the wire, and its summary if there is one."""

COMPACTED = "The chat was compacted here: of what stands above, the model knows a summary."


def replayed(
    messages: Sequence[Message],
    *,
    flags: Mapping[str, str],
    describe: Describe,
    shows_subagents: bool = False,
) -> Generator[Told]:
    """The contents of these messages, in order, each made when its turn comes.

    Args:
        messages: of a history; a call's result is among them, if it has one.
        flags: the user's marks, by the content id of the message each is on.
        describe: names the calls.
        shows_subagents: whether what subagents said is among them, inside their calls.
    """
    replay = _Replay(describe, _results(messages), shows_subagents)
    for message in messages:
        if message.role == "user":
            replay.user(message, flags)
        elif message.role == "assistant":
            replay.assistant(message)
        yield from replay.told
        replay.told.clear()


def _words(message: Message) -> str:
    """What a user's message was shown as: the user's own words, without what stood before them."""
    if message.shown is not None:
        return message.shown
    texts = [part.text for part in message.parts if isinstance(part, TextPart)]
    return texts[-1] if texts else ""


def _results(messages: Iterable[Message]) -> Mapping[str, ToolResultPart]:
    return {
        part.call_id: part
        for message in messages
        for part in message.parts
        if isinstance(part, ToolResultPart)
    }


@attrs.define
class _Replay:
    """The contents of one message."""

    describe: Describe
    results: Mapping[str, ToolResultPart]
    shows_subagents: bool
    told: list[Told] = attrs.field(factory=list)

    def user(self, message: Message, flags: Mapping[str, str]) -> None:
        """The user's words, with the mark on them."""
        if any(isinstance(part, CompactionPart) for part in message.parts):
            self.told.append(Told("system", ChatTextContent(text=COMPACTED)))
            return
        content_id = message.content_id
        words = ChatTextContent(text=_words(message), content_id=content_id)
        self.told.append(Told("user", words))
        if content_id is not None and content_id in flags:
            flag = ChatFlagContent(text=flags[content_id], content_id=content_id)
            self.told.append(Told("system", flag))

    def assistant(self, message: Message) -> None:
        """What a model said, thought and did."""
        for part in message.parts:
            match part:
                case TextPart(text) | RefusalPart(text) if text:
                    self._emit(ChatTextContent(text=text))
                case ReasoningPart(text=text) if text:
                    self._reason(text)
                case ToolCallPart():
                    self._call(part)
                case ImagePart(data=data):
                    self._emit(picture_content(data))
                case CitationPart(url=url, title=title):
                    self._emit(ChatURLContent(title=title or url, url=url))
                case _:
                    pass

    def _emit(self, content: ChatContent) -> None:
        self.told.append(Told("assistant", content))

    def _reason(self, text: str) -> None:
        reason_id = str(uuid.uuid4())
        self._emit(ChatReasonStartedContent(id=reason_id))
        self._emit(ChatReasonTextContent(id=reason_id, text=text))
        self._emit(ChatReasonFinishedContent(id=reason_id, total_time_ms=0))

    def _call(self, part: ToolCallPart) -> None:
        naming, summary = self.describe(part)
        result = self.results.get(part.id)
        call = ToolCall(self._emit, naming)
        call.prepare(part.raw, summary=summary)
        if result is None:
            call.stop()
            return
        arguments: Mapping[str, Any] = part.arguments or {}
        agent = result.subagent
        details = None if agent is None else details_of(part.id, agent)
        call.announce(arguments, manual_approval=False, details=details)
        call.start()
        if agent is not None and self.shows_subagents:
            chat_id = chat_id_of(part.id)
            for each in replayed(agent.messages, flags={}, describe=self.describe):
                self.told.append(each._replace(subagent_chat_id=chat_id))
        call.finish(ToolOutput(parts=result.parts, is_error=result.is_error))

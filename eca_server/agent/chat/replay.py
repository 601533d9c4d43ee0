"""A chat's history as contents, for a client that shows the chat again.

Rules: the order of a turn (rulings W-26, W-30); everything started is finished; a chat looks as it
did before (W-43). Contents that no history has, such as progress, are not replayed.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from typing import Any, NamedTuple, TypeAlias

import attrs
import trio

from eca_protocol import messages as m
from eca_protocol.server.calls import Naming
from eca_protocol.server.texts import Paragraphs, Role
from eca_server.agent.chat.flags import Flag
from eca_server.agent.chat.markdown import OpenCode, Sources
from eca_server.agent.chat.pictures import picture_content
from eca_server.agent.chat.subagent_work import chat_id_of, details_of
from eca_server.agent.chat.tool_call import ToolCall
from eca_server.agent.tools.tool import ToolOutput
from eca_server.client.session import Session
from eca_server.models import history

AT_ONCE = 50
"""Contents between two checkpoints."""

Describe: TypeAlias = Callable[[history.ToolCallPart], tuple[Naming, str | None]]
"""A function that returns a call's names on the wire, and its summary or None."""

CUT_OFF = "The server ended before this answer was complete. Its stored part is above."

COMPACTED = "The chat was compacted here: the model has a summary of the messages above."


class ReplayedContent(NamedTuple):
    """A content of a chat, or of its subagent's chat `subagent_chat_id`."""

    role: Role
    content: m.ChatContent
    subagent_chat_id: str | None = None


def replayed(
    messages: Sequence[history.Message],
    *,
    flags: Mapping[str, Flag],
    describe: Describe,
    shows_subagents: bool = False,
    ends_code: bool = False,
) -> Generator[ReplayedContent]:
    """Yield the contents of messages, in order.

    `ends_code`: end a block of code that an answer has left open.
    """
    results = {part.call_id: part for part in history.parts_in(messages, history.ToolResultPart)}
    replay = _Replay(describe, results, shows_subagents, flags)
    for message in messages:
        if message.role == "user":
            replay.user(message)
        elif message.role == "assistant":
            replay.assistant(message)
            if ends_code:
                replay.end_code()
        yield from replay.contents
        replay.contents.clear()


@attrs.define
class _Replay:
    """The contents of one message."""

    describe: Describe
    results: Mapping[str, history.ToolResultPart]
    shows_subagents: bool
    flags: Mapping[str, Flag]
    contents: list[ReplayedContent] = attrs.field(factory=list)
    sources: Sources = attrs.field(factory=Sources)

    def user(self, message: history.Message) -> None:
        compactions = [*history.parts_in([message], history.CompactionPart)]
        if compactions:
            self._note(COMPACTED)
            for part in filter(lambda each: each.is_shown, compactions):
                self._note(part.summary)
            return
        if message.interrupted:
            self._note(CUT_OFF if message.shown is None else message.shown)
            return
        self.sources = Sources()
        content_id = message.content_id
        words = m.ChatTextContent(text=message.shown_text, content_id=content_id)
        self.contents.append(ReplayedContent("user", words))
        self._mark(content_id)

    def assistant(self, message: history.Message) -> None:
        """Add the contents of a model's message: text, reasoning, calls."""
        text_so_far = ""
        for part in message.parts:
            match part:
                case history.TextPart(text) | history.RefusalPart(text) if text:
                    text_so_far += text
                    self._emit(m.ChatTextContent(text=text))
                case history.ReasoningPart(text=text) if text:
                    self._reason(part)
                    self._mark(part.id)
                case history.ToolCallPart():
                    self._call(part)
                    self._mark(part.id)
                case history.ImagePart(data=data):
                    self._emit(picture_content(data))
                case history.CitationPart(url=url, title=title):
                    is_linked = url in text_so_far
                    for content in self.sources.contents(url, title, is_linked=is_linked):
                        self._emit(content)

    def end_code(self) -> None:
        """End the block of code that the model's message has left open."""
        code = OpenCode()
        for each in self.contents:
            if each.role == "assistant" and each.subagent_chat_id is None:
                code.read(each.content)
        if code.ending is not None:
            self._emit(code.ending)

    def _emit(self, content: m.ChatContent) -> None:
        self.contents.append(ReplayedContent("assistant", content))

    def _note(self, text: str) -> None:
        self.contents.append(ReplayedContent("system", m.ChatTextContent(text=text)))

    def _mark(self, content_id: str | None) -> None:
        for name, flag in self.flags.items():
            if flag.after == content_id:
                content = m.ChatFlagContent(text=flag.text, content_id=name)
                self.contents.append(ReplayedContent("system", content))

    def _reason(self, part: history.ReasoningPart) -> None:
        reason_id = part.id or str(uuid.uuid4())
        self._emit(m.ChatReasonStartedContent(id=reason_id))
        self._emit(m.ChatReasonTextContent(id=reason_id, text=part.text))
        self._emit(m.ChatReasonFinishedContent(id=reason_id, total_time_ms=part.total_time_ms or 1))

    def _call(self, part: history.ToolCallPart) -> None:
        naming, summary = self.describe(part)
        result = self.results.get(part.id)
        view = (result and result.view) or history.CallView()
        call = ToolCall(self._emit, naming)
        call.prepare(part.raw, summary=view.summary or summary)
        if result is None:
            call.stop("interrupted")
            return
        arguments: Mapping[str, Any] = part.arguments or {}
        agent = result.subagent
        details = view.details if agent is None else details_of(part.id, agent)
        call.announce(arguments, manual_approval=False, details=details)
        if view.reason is not None:
            call.deny("", reason=view.reason)
            return
        call.start()
        if agent is not None and self.shows_subagents:
            chat_id = chat_id_of(part.id)
            for each in replayed(agent.messages, flags={}, describe=self.describe):
                self.contents.append(each._replace(subagent_chat_id=chat_id))
        call.finish(
            ToolOutput(parts=result.parts, is_error=result.is_error), spent_ms=view.total_time_ms
        )


class Replayer:
    """Replays the history of one chat to the client.

    Other work continues during a long replay; no more is sent than the client reads; new contents
    follow the whole replay.
    """

    def __init__(self, chat_id: str, session: Session) -> None:
        self._chat_id = chat_id
        self._session = session
        self._remaining: Generator[ReplayedContent] | None = None
        self._paragraphs = Paragraphs()

    async def run(self, contents: Generator[ReplayedContent]) -> None:
        """Send these contents; end early after `finish`, `end` or a second `run`."""
        self.end()
        self._remaining = contents
        self._paragraphs = Paragraphs()
        with closing(contents):
            for number, replayed in enumerate(contents, 1):
                self._emit(replayed)
                await self._session.drained()  # a content may be long
                if not number % AT_ONCE:
                    await trio.lowlevel.checkpoint()

    def finish(self) -> None:
        """Send the rest at once, before a content that must follow it."""
        for replayed in self._remaining or ():
            self._emit(replayed)

    def end(self) -> None:
        """Send no more of the replay."""
        if self._remaining is not None:
            self._remaining.close()

    def _emit(self, replayed: ReplayedContent) -> None:
        chat_id, parent = self._chat_id, None
        content: m.ChatContent | None = replayed.content
        if replayed.subagent_chat_id is not None:
            chat_id, parent = replayed.subagent_chat_id, chat_id
        else:
            content = self._paragraphs.spaced(replayed.role, replayed.content)
        if content is not None:
            self._session.emit(chat_id, replayed.role, content, parent_chat_id=parent)

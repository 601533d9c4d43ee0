"""One prompt's turn: its cancel scope, what it has open, and how it is closed.

A body (a model's answer, a slash command) runs inside the turn's scope and speaks through the
turn. Whatever ends the body, the turn is closed exactly once: open reasonings are finished, the
usage is told unless it was stopped, then comes the one `finished`, and after it the turn is mute
(design decision 10; rulings W-20, W-23, W-26, W-27). A content that cannot be written is the
body's fault while that runs; once the turn is being closed it is only logged.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs
import trio

from eca_protocol import json
from eca_protocol.messages import (
    ChatContent,
    ChatHookActionFinishedContent,
    ChatHookActionStartedContent,
    ChatProgressContent,
    ChatReasonFinishedContent,
    ChatReasonStartedContent,
    ChatReasonTextContent,
    ChatTextContent,
    ChatUsageContent,
    UsageLimit,
)
from eca_server.chat.breakdown import Asked, breakdown
from eca_server.chat.citations import source_contents
from eca_server.chat.draft import Draft
from eca_server.chat.merging import Merger
from eca_server.chat.paragraphs import Paragraphs
from eca_server.chat.tool_call import CallState, Naming, Reason, ToolCall, milliseconds_since
from eca_server.content_formatting import Role
from eca_server.llm.events import Usage
from eca_server.llm.history import (
    Message,
    Part,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    effective_history,
)
from eca_server.tools.tool import FileChange

if TYPE_CHECKING:
    from eca_server.chat.chat import Chat
    from eca_server.chat.compaction import RoomKeeper
    from eca_server.chat.subagents import SubagentChat

__all__ = ["Body", "Prompt", "Steer", "SteeredCommand", "Turn"]

_log = logging.getLogger("eca_server.chat")

Body: TypeAlias = "Callable[[Turn], Awaitable[None]]"
SteeredCommand: TypeAlias = "Callable[[Turn, RoomKeeper], Awaitable[None]]"

_ENDED_BY_A_STOP = 143
_WAITS_FOR_THE_USER = "Waiting for tool call approval"  # Neovim asks when it reads these words
"""The exit code a shell tells of a command that TERM ended."""


@attrs.frozen(kw_only=True)
class Prompt:
    """What the user sent, and the body that answers it.

    Attributes:
        text: the user's exact words.
        body: run once, when the turn's place in the queue comes.
        content_id: the message's stable id, written with its echo.
    """

    text: str
    body: Body
    content_id: str = attrs.field(factory=lambda: str(uuid.uuid4()))


@attrs.frozen(kw_only=True)
class Steer:
    """What the user, or a hook, says to a turn that runs; `content_id` as for a prompt.

    Attributes:
        parts: what the model is told, once hooks have heard it; None: its text.
        command: the command that the text names, run in place of telling the model.
    """

    text: str
    parts: tuple[TextPart, ...] | None = None
    command: SteeredCommand | None = None
    content_id: str = attrs.field(factory=lambda: str(uuid.uuid4()))


class Turn:
    """A prompt that has begun.

    Attributes:
        about: what it is about, for a title: the user's words, or what a hook put in their place.
        scope: cancelled by whatever ends the turn early.
        ended: set when nothing of the body runs any more.
        stopped: the user stopped it.
        failed: there is no whole answer, and the user was told why.
        messages: what the turn adds to the chat's history when it is closed.
        usages: what each request to the model took.
        limit: the model's limits, as far as they are known.
        asked: the last request to the model.
        calls: the tool calls of the turn, by id.
        open_calls: those of them that run, or that wait for the user.
        cited: the URLs of the sources shown.
        thoughts: id and milliseconds of each block of reasoning, by the name the model gave it.
        cut_a_call: a tool ran when the turn was stopped.
        stored: how many of the messages are stored, or on their way there.
        kept: all it brought is.
        draft: what it brought by now and is not stored yet.
        steers: what the user said meanwhile, and no request has taken in yet.
        subagents: the chats of the agents that work for it now; they end with it.
    """

    def __init__(self, chat: Chat, prompt: Prompt) -> None:
        self.chat = chat
        self.prompt = prompt
        self.about = prompt.text
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self.stopped = False
        self.failed = False
        self.messages: list[Message] = []
        self.usages: list[Usage] = []
        self.limit: UsageLimit | None = None
        self.asked: Asked | None = None
        self.calls: dict[str, ToolCall] = {}
        self.open_calls: dict[str, ToolCall] = {}
        self.cited: set[str] = set()
        self.cut_a_call = False
        self.stored = 0
        self.kept = False
        self.draft = Draft(self)
        self.steers: list[Steer] = []
        self.subagents: list[SubagentChat] = []
        self.thoughts: dict[str, tuple[str, int]] = {}
        self._reasons: dict[str, tuple[str, float]] = {}
        self._hooks: dict[str, ChatHookActionFinishedContent] = {}
        self._is_closing = self._is_stopping = False
        self._mute = False
        self._paragraphs = Paragraphs()
        self._merger = Merger(chat.emit, chat.session.profile, chat.nursery)

    def emit(self, role: Role, content: ChatContent) -> None:
        """Say something in the chat; once the turn is stopped, or at its end, it is dropped."""
        if not self.stopped:
            self._write(role, content)

    def say(self, text: str, *, role: Role = "assistant") -> None:
        """A piece of text."""
        self.emit(role, ChatTextContent(text=text))

    def progress(self, text: str) -> None:
        """What the turn is doing, for the client's status line; never empty."""
        self.emit("system", ChatProgressContent(state="running", text=text))

    def fail(self, text: str) -> None:
        """Tell the user why there is no (whole) answer; the turn then ends like any other."""
        self.failed = True
        self.say(text, role="system")

    def cite(self, url: str, title: str, *, linked: bool) -> None:
        """Show a source on the web, once; `linked`: the text has its link already (W-26)."""
        if url in self.cited or not url.startswith(("https://", "http://")):
            return
        self.cited.add(url)
        for content in source_contents(url, title, is_linked=linked):
            self.emit("assistant", content)

    def start_reason(self, key: str) -> None:
        """The model starts to think; `key` is its own name for it, unique in one answer."""
        reason_id = str(uuid.uuid4())
        self._reasons[key] = reason_id, trio.current_time()
        self.emit("assistant", ChatReasonStartedContent(id=reason_id))

    def reason(self, key: str, text: str) -> None:
        """A piece of what the model thinks; dropped if the block is closed already."""
        if key in self._reasons:
            reason_id, _ = self._reasons[key]
            self.emit("assistant", ChatReasonTextContent(id=reason_id, text=text))

    def finish_reason(self, key: str) -> None:
        """The model stops thinking; says how long it did, once."""
        if key in self._reasons:
            reason_id, started = self._reasons.pop(key)
            spent = milliseconds_since(started)
            self.thoughts[key] = reason_id, spent
            self.emit("assistant", ChatReasonFinishedContent(id=reason_id, total_time_ms=spent))

    def begin_hook(self, begun: ChatHookActionStartedContent, call_id: str | None) -> None:
        """An action of a hook starts, about a call if `call_id` names one."""
        self._hooks[begun.id] = ChatHookActionFinishedContent(
            id=begun.id,
            name=begun.name,
            action_type=begun.action_type,
            status=_ENDED_BY_A_STOP,
            error="stopped while it ran",
            tool_call_id=call_id,
        )
        self.emit("system", begun)

    def finish_hook(self, ended: ChatHookActionFinishedContent) -> None:
        """It has ended; dropped if that was told already."""
        if self._hooks.pop(ended.id, None) is not None:
            self.emit("system", ended)

    @property
    def unsent(self) -> Message:
        """The prompt for the user alone: it stays in the history if no model is asked."""
        content_id, text = self.prompt.content_id, self.prompt.text
        return Message(role="user", parts=(), content_id=content_id, shown=text)

    @property
    def last_said(self) -> str:
        """The content id of what the user said last."""
        said = (each.content_id for each in reversed(self.messages) if each.content_id is not None)
        return next(said, self.prompt.content_id)

    def begin_call(self, key: str, naming: Naming) -> ToolCall:
        """The model begins to write a call; whatever ends the turn closes it."""

        def emit(content: ChatContent) -> None:
            self.emit("assistant", content)

        def moved(call: ToolCall) -> None:
            if call.state in {CallState.WAITING, CallState.RUNNING}:
                self.open_calls[key] = call
            else:
                self.open_calls.pop(key, None)
            self.draft.changed()
            self.chat.watch(self.chat)

        call = self.calls[key] = ToolCall(emit, naming, moved)
        return call

    def keep_arguments(self) -> None:
        """Let the last answer have its calls with the arguments that hooks gave them."""
        answer = self.messages[-1]
        parts = tuple(map(self._as_announced, answer.parts))
        if parts != answer.parts:
            self.messages[-1] = attrs.evolve(answer, parts=parts)

    def _as_announced(self, part: Part) -> Part:
        call = self.calls.get(part.id) if isinstance(part, ToolCallPart) else None
        if call is None or call.state is CallState.PREPARING:
            return part
        if not isinstance(part, ToolCallPart) or call.arguments == (part.arguments or {}):
            return part
        return attrs.evolve(part, arguments=call.arguments, raw=json.dumps(call.arguments).decode())

    def call(self, call_id: str) -> ToolCall | None:
        """The call of that id, of this turn or of an agent that works for it."""
        of_subagents = (each.call(call_id) for each in self.subagents)
        return self.calls.get(call_id) or next(filter(None, of_subagents), None)

    @property
    def waits(self) -> bool:
        """Whether a call waits for the user, of this turn or of an agent that works for it."""
        calls = (
            *self.open_calls.values(),
            *(call for each in self.subagents for call in each.open_calls),
        )
        return any(call.state is CallState.WAITING for call in calls)

    def tell_of_calls(self, text: str, *, only_waiting: bool = False) -> None:
        """Say what the calls do: that one waits for the user as long as one does, else `text`."""
        if self.waits:
            self.progress(_WAITS_FOR_THE_USER)
        elif not only_waiting:
            self.progress(text)

    async def will_change(self, changes: Sequence[FileChange]) -> Callable[[], None]:
        """Keep what files are before a call of this turn changes them.

        Returns:
            To be called if it has changed nothing.
        """
        return await self.chat.keep_before_images(self, changes)

    async def drained(self) -> None:
        """Wait until the client keeps up; between two pieces of bulk."""
        await self._merger.drained()
        await self.chat.session.drained()

    def begin(self) -> None:
        """The first contents of a turn: that it runs, and the user's own words."""
        self.progress("Waiting model")
        self.emit("user", ChatTextContent(text=self.prompt.text, content_id=self.prompt.content_id))
        if self.chat.parent_id is not None:  # what it says is shown inside a call, or not at all
            return
        for message in self.chat.session.take_unshown():
            self.say(message, role="system")

    def close_contents(self, reason: Reason = "user-choice") -> None:
        """Finish what is open; a call that did not run is rejected for that reason."""
        if not self._is_stopping:
            self._merger.flush()
        for key in tuple(self._reasons):
            self.finish_reason(key)
        for ended in tuple(self._hooks.values()):
            self.finish_hook(ended)
        for call in self.calls.values():
            call.stop(reason)

    def close_messages(self) -> None:
        """Finish what is open, and give each call in the messages that has no result its own.

        A call that was not written to its end is in no message.
        """
        self._is_closing = True
        self.draft.end()
        self.close_contents()
        parts = [part for message in self.messages for part in message.parts]
        made = {part.id for part in parts if isinstance(part, ToolCallPart)}
        told = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
        left = tuple(call.told() for key, call in self.calls.items() if key in made - told)
        if left:
            self.messages.append(Message(role="tool", parts=left))

    def stop(self) -> None:
        """End the body early: what is open is finished now, what it still says is dropped.

        Text that waits to be merged is written right before `finished`: a client that began to
        paint it would see `finished` only behind that.
        """
        self._is_closing = self._is_stopping = True
        self._merger.wait_for_flush()
        self.cut_a_call = any(call.state is CallState.RUNNING for call in self.calls.values())
        for subagent in self.subagents:
            subagent.end()
        self.close_contents()
        self.stopped = True
        self.scope.cancel()

    def finish(self, last_words: str = "") -> None:
        """Write the one `finished`, after `last_words` if there are any; then nothing more."""
        self._is_closing = True
        if last_words:
            self._write("system", ChatTextContent(text=last_words))
        self._write("system", ChatProgressContent(state="finished", text=""))
        self.silence()

    def tell_usage(self) -> None:
        """Write what the chat has taken; even of a turn that was stopped (W-23, W-50)."""
        self._write_usage(())

    def tell_usage_so_far(self) -> None:
        """Write what the turn has taken up to now, for a client that draws a gauge (W-27)."""
        if self._draws_a_gauge and self.usages and not self.stopped:
            self._write_usage(self.usages)

    @property
    def _draws_a_gauge(self) -> bool:
        return self.chat.session.writes(ChatUsageContent, "context_breakdown")

    def _write_usage(self, running: Sequence[Usage]) -> None:
        limit, asked = self.limit, self.asked
        if limit is not None and limit.output is None and not self._draws_a_gauge:
            limit = None
        usage = self.chat.usage.content(limit, running)
        if asked is not None and self._draws_a_gauge:
            try:
                usage = self._with_context(usage, asked)
            except Exception:  # noqa: BLE001 - the turn is being closed, and ends all the same
                _log.exception("what fills the context of chat %s cannot be told", self.chat.id)
        self._write("system", usage)

    def _with_context(self, usage: ChatUsageContent, asked: Asked) -> ChatUsageContent:
        told = effective_history(self.messages, self.chat.told)
        request = attrs.evolve(asked.request, messages=told)
        used = self.chat.window.tokens(request, len(self.chat.history) + len(self.messages))
        return attrs.evolve(
            usage,
            session_tokens=used,
            auto_compact_percentage=asked.compact_at,
            context_breakdown=breakdown(request, used, asked.context),
        )

    @property
    def is_mute(self) -> bool:
        """Whether nothing more is written of it."""
        return self._mute

    def flush(self) -> None:
        """Write the text that waits to be merged."""
        self._merger.flush()

    def silence(self) -> None:
        """Write nothing more."""
        self._mute = True
        self._merger.drop()

    def relay(self, subagent_id: str, role: Role, content: ChatContent) -> None:
        """What is said in the chat of an agent that works for this turn; nothing after its end."""
        if not self._mute:
            self.chat.session.emit(subagent_id, role, content, parent_chat_id=self.chat.id)

    def show(self, content: ChatContent) -> None:
        """A content of such an agent for a client that shows no chats of theirs."""
        self._write("assistant", content)

    def _write(self, role: Role, content: ChatContent) -> None:
        if self._mute:
            return
        try:
            spaced = self._paragraphs.spaced(role, content)
            if spaced is not None:
                self._merger.write(role, spaced)
        except Exception:
            if not self._is_closing:
                raise
            _log.exception("a content of chat %s cannot be written", self.chat.id)

"""The turn of one prompt: its cancel scope, its open contents, and its end.

A body (a model's answer, a slash command) runs inside the turn's scope and writes through the
turn. Whatever ends the body, the turn is closed exactly once: open reasonings are finished, usage
is written unless the turn was stopped, then comes the one `finished`, and after it nothing is
written (design decision 10; rulings W-20, W-23, W-26, W-27). A content that cannot be written
raises in the body; once the turn is being closed it is only logged.
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
from eca_server.chat.breakdown import LastRequest, breakdown
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
    from eca_server.chat.compaction import Compactor
    from eca_server.chat.subagents import SubagentChat

__all__ = ["Body", "Prompt", "Steer", "SteeredCommand", "Turn"]

_log = logging.getLogger("eca_server.chat")

Body: TypeAlias = "Callable[[Turn], Awaitable[None]]"
SteeredCommand: TypeAlias = "Callable[[Turn, Compactor], Awaitable[None]]"

_ENDED_BY_A_STOP = 143
"""The exit code that a shell reports for a command ended by TERM."""

_WAITS_FOR_THE_USER = "Waiting for tool call approval"  # Neovim asks when it reads this text


@attrs.frozen(kw_only=True)
class Prompt:
    """A prompt of the user, and the body that answers it.

    Attributes:
        text: the exact text.
        body: run once, when the prompt leaves the queue.
        content_id: the message's stable id, written with its echo.
    """

    text: str
    body: Body
    content_id: str = attrs.field(factory=lambda: str(uuid.uuid4()))


@attrs.frozen(kw_only=True)
class Steer:
    """A message of the user, or of a hook, to a running turn; `content_id` as for a prompt.

    Attributes:
        parts: the parts for the model, once hooks have checked them; None: its text.
        command: the command that the text names, run instead of sending the text to the model.
    """

    text: str
    parts: tuple[TextPart, ...] | None = None
    command: SteeredCommand | None = None
    content_id: str = attrs.field(factory=lambda: str(uuid.uuid4()))


class Turn:
    """A running prompt.

    Attributes:
        about: the text to make a title from: the prompt, or a hook's replacement.
        scope: cancelled by whatever ends the turn early.
        ended: set when the body has ended.
        stopped: the user stopped the turn.
        failed: there is no complete answer, and the reason was shown.
        messages: the messages that the turn adds to the chat's history when it is closed.
        usages: the usage of each request to the model.
        limit: the model's limits, if known.
        last_request: the last request to the model.
        calls: the tool calls of the turn, by id.
        open_calls: the calls that run or wait for the user.
        cited: the URLs of the sources shown.
        thoughts: id and milliseconds of each block of reasoning, by the model's key.
        stopped_during_tool: a tool ran when the turn was stopped.
        stored: the number of messages that are stored or being stored.
        is_stored: all messages are stored or being stored.
        draft: the answer so far that is not stored yet.
        steers: messages to the running turn that no request has taken yet.
        subagents: the chats of running subagents; they end with the turn.
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
        self.last_request: LastRequest | None = None
        self.calls: dict[str, ToolCall] = {}
        self.open_calls: dict[str, ToolCall] = {}
        self.cited: set[str] = set()
        self.stopped_during_tool = False
        self.stored = 0
        self.is_stored = False
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
        """Write a content; drop it if the turn is stopped or finished."""
        if not self.stopped:
            self._write(role, content)

    def say(self, text: str, *, role: Role = "assistant") -> None:
        """Write a piece of text."""
        self.emit(role, ChatTextContent(text=text))

    def progress(self, text: str) -> None:
        """Show the turn's current activity in the client's status line; the text is never empty."""
        self.emit("system", ChatProgressContent(state="running", text=text))

    def fail(self, text: str) -> None:
        """Show why there is no complete answer; the turn then ends like any other."""
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
        """Start a block of reasoning; `key` is the model's, unique in one answer."""
        reason_id = str(uuid.uuid4())
        self._reasons[key] = reason_id, trio.current_time()
        self.emit("assistant", ChatReasonStartedContent(id=reason_id))

    def reason(self, key: str, text: str) -> None:
        """Write a piece of reasoning; drop it if the block is closed."""
        if key in self._reasons:
            reason_id, _ = self._reasons[key]
            self.emit("assistant", ChatReasonTextContent(id=reason_id, text=text))

    def finish_reason(self, key: str) -> None:
        """Close a block of reasoning, once, with its duration."""
        if key in self._reasons:
            reason_id, started = self._reasons.pop(key)
            spent = milliseconds_since(started)
            self.thoughts[key] = reason_id, spent
            self.emit("assistant", ChatReasonFinishedContent(id=reason_id, total_time_ms=spent))

    def begin_hook(self, begun: ChatHookActionStartedContent, call_id: str | None) -> None:
        """Show that a hook's action has started; `call_id` names the call it is about, if any."""
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
        """Show that a hook's action has ended, once."""
        if self._hooks.pop(ended.id, None) is not None:
            self.emit("system", ended)

    @property
    def unsent(self) -> Message:
        """The prompt as a message for the user alone, stored if no model is called."""
        content_id, text = self.prompt.content_id, self.prompt.text
        return Message(role="user", parts=(), content_id=content_id, shown=text)

    @property
    def last_content_id(self) -> str:
        """The content id of the user's last message."""
        content_ids = (
            each.content_id for each in reversed(self.messages) if each.content_id is not None
        )
        return next(content_ids, self.prompt.content_id)

    def begin_call(self, key: str, naming: Naming) -> ToolCall:
        """Start a call that the model writes; the end of the turn closes it."""

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

    def store_arguments(self) -> None:
        """Put the arguments that hooks rewrote into the calls of the last answer."""
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
        """Return the call with this id, of this turn or of a subagent, or None."""
        of_subagents = (each.call(call_id) for each in self.subagents)
        return self.calls.get(call_id) or next(filter(None, of_subagents), None)

    @property
    def waits(self) -> bool:
        """True if a call of this turn or of a subagent waits for the user."""
        calls = (
            *self.open_calls.values(),
            *(call for each in self.subagents for call in each.open_calls),
        )
        return any(call.state is CallState.WAITING for call in calls)

    def show_call_progress(self, text: str, *, only_waiting: bool = False) -> None:
        """Show as progress that a call waits for the user, else `text`."""
        if self.waits:
            self.progress(_WAITS_FOR_THE_USER)
        elif not only_waiting:
            self.progress(text)

    async def will_change(self, changes: Sequence[FileChange]) -> Callable[[], None]:
        """Store the content of files before a call of this turn changes them.

        Returns:
            A function to call if the call has changed nothing.
        """
        return await self.chat.store_before_images(self, changes)

    async def drained(self) -> None:
        """Wait until the client has read enough; called between two pieces of bulk."""
        await self._merger.drained()
        await self.chat.session.drained()

    def begin(self) -> None:
        """Write the first contents of the turn: its progress and the echo of the prompt."""
        self.progress("Waiting model")
        self.emit("user", ChatTextContent(text=self.prompt.text, content_id=self.prompt.content_id))
        if self.chat.parent_id is not None:  # its contents are shown inside a call, or not at all
            return
        for message in self.chat.session.take_unshown():
            self.say(message, role="system")

    def close_contents(self, reason: Reason = "user-choice") -> None:
        """Finish open contents; reject calls that did not run, with this reason."""
        if not self._is_stopping:
            self._merger.flush()
        for key in tuple(self._reasons):
            self.finish_reason(key)
        for ended in tuple(self._hooks.values()):
            self.finish_hook(ended)
        for call in self.calls.values():
            call.stop(reason)

    def close_messages(self) -> None:
        """Finish open contents, and add a result for each call in the messages that has none.

        An incomplete call is in no message.
        """
        self._is_closing = True
        self.draft.end()
        self.close_contents()
        parts = [part for message in self.messages for part in message.parts]
        made = {part.id for part in parts if isinstance(part, ToolCallPart)}
        answered = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
        results = tuple(
            call.result_part() for key, call in self.calls.items() if key in made - answered
        )
        if results:
            self.messages.append(Message(role="tool", parts=results))

    def stop(self) -> None:
        """End the body early: finish open contents now, and drop what the body still writes.

        Text that waits to be merged is written right before `finished`: a client that started to
        paint it would see `finished` only after that.
        """
        self._is_closing = self._is_stopping = True
        self._merger.wait_for_flush()
        self.stopped_during_tool = any(
            call.state is CallState.RUNNING for call in self.calls.values()
        )
        for subagent in self.subagents:
            subagent.end()
        self.close_contents()
        self.stopped = True
        self.scope.cancel()

    def finish(self, last_words: str = "") -> None:
        """Write `last_words` if there are any, then the one `finished`, and nothing more."""
        self._is_closing = True
        if last_words:
            self._write("system", ChatTextContent(text=last_words))
        self._write("system", ChatProgressContent(state="finished", text=""))
        self.silence()

    def write_usage(self) -> None:
        """Write the chat's usage, even if the turn was stopped (W-23, W-50)."""
        self._write_usage(())

    def write_usage_so_far(self) -> None:
        """Write the running turn's usage for a client that draws a gauge (W-27)."""
        if self._draws_a_gauge and self.usages and not self.stopped:
            self._write_usage(self.usages)

    @property
    def _draws_a_gauge(self) -> bool:
        return self.chat.session.writes(ChatUsageContent, "context_breakdown")

    def _write_usage(self, running: Sequence[Usage]) -> None:
        limit, last_request = self.limit, self.last_request
        if limit is not None and limit.output is None and not self._draws_a_gauge:
            limit = None
        usage = self.chat.usage.content(limit, running)
        if last_request is not None and self._draws_a_gauge:
            try:
                usage = self._with_context(usage, last_request)
            except Exception:  # noqa: BLE001 - the turn is being closed, and ends all the same
                _log.exception("the context breakdown of chat %s failed", self.chat.id)
        self._write("system", usage)

    def _with_context(self, usage: ChatUsageContent, last_request: LastRequest) -> ChatUsageContent:
        messages = effective_history(self.messages, self.chat.history.model_context)
        request = attrs.evolve(last_request.request, messages=messages)
        used = self.chat.history.tokens(request, len(self.messages))
        return attrs.evolve(
            usage,
            session_tokens=used,
            auto_compact_percentage=last_request.compact_at,
            context_breakdown=breakdown(request, used, last_request.context),
        )

    @property
    def is_mute(self) -> bool:
        """True if nothing more is written."""
        return self._mute

    def flush(self) -> None:
        """Write the text that waits to be merged."""
        self._merger.flush()

    def silence(self) -> None:
        """Write nothing more."""
        self._mute = True
        self._merger.drop()

    def relay(self, subagent_id: str, role: Role, content: ChatContent) -> None:
        """Write a content of a subagent's chat; drop it after the end of this turn."""
        if not self._mute:
            self.chat.session.emit(subagent_id, role, content, parent_chat_id=self.chat.id)

    def show(self, content: ChatContent) -> None:
        """Write a content of a subagent for a client that shows no subagent chats."""
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

"""One prompt's turn: its cancel scope, what it has open, and how it is closed.

A body (a model's answer, a slash command) runs inside the turn's scope and speaks through the
turn. Whatever ends the body, the turn is closed exactly once: open reasonings are finished, the
usage is told unless it was stopped, then comes the one `finished`, and after it the turn is mute
(design decision 10; rulings W-20, W-23, W-26, W-27). A content that cannot be written is the
body's fault while that runs; once the turn is being closed it is only logged.
"""

from __future__ import annotations

import logging
import re
import urllib.parse
import uuid
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import attrs
import trio

from eca_protocol.messages import (
    ChatContent,
    ChatHookActionFinishedContent,
    ChatHookActionStartedContent,
    ChatProgressContent,
    ChatReasonFinishedContent,
    ChatReasonStartedContent,
    ChatReasonTextContent,
    ChatTextContent,
    ChatURLContent,
    ChatUsageContent,
    UsageLimit,
)
from eca_server.chat.breakdown import Asked, breakdown
from eca_server.chat.tool_call import CallState, Naming, ToolCall
from eca_server.llm.events import Usage
from eca_server.llm.history import Message, TextPart, ToolCallPart, ToolResultPart, in_force
from eca_server.spelling import Role
from eca_server.tools.tool import FileChange

if TYPE_CHECKING:
    from eca_server.chat.chat import Chat
    from eca_server.chat.subagents import SubagentChat

__all__ = ["Body", "Prompt", "Steer", "Turn"]

_log = logging.getLogger("eca_server.chat")

Body: TypeAlias = "Callable[[Turn], Awaitable[None]]"

_ENDED_BY_A_STOP = 143
"""The exit code a shell tells of a command that TERM ended."""

_SAFE_IN_A_LINK = "/:?#[]@!$&'*+,;=%~"
"""What may stand in a link of Markdown as it is: of a URL's own characters all but brackets."""


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
    """

    text: str
    parts: tuple[TextPart, ...] | None = None
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
        limit: the model's limits, if both are known.
        asked: the last request to the model.
        calls: the tool calls of the turn, by id.
        open_calls: those of them that run, or that wait for the user.
        cited: the URLs of the sources shown.
        cut_a_call: a tool ran when the turn was stopped.
        stored: how many of the messages are stored, or on their way there.
        kept: all it brought is.
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
        self.steers: list[Steer] = []
        self.subagents: list[SubagentChat] = []
        self._reasons: dict[str, tuple[str, float]] = {}
        self._hooks: dict[str, ChatHookActionFinishedContent] = {}
        self._is_closing = False
        self._mute = False

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
        words = " ".join((title or url).split())
        self.emit("assistant", ChatURLContent(title=words, url=url))
        if not linked:
            label = re.sub(r"([\[\]\\])", r"\\\1", words)
            self.say(f" [{label}]({urllib.parse.quote(url, safe=_SAFE_IN_A_LINK)})")

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
            spent = round((trio.current_time() - started) * 1000)
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

    def take_steers(self) -> None:
        """Add what the user said meanwhile to the messages, with its echo."""
        taken, self.steers = self.steers, []
        for steer in taken:
            self.emit("user", ChatTextContent(text=steer.text, content_id=steer.content_id))
            said = TextPart(steer.text)
            parts = steer.parts or (said,)
            shown = None if parts[-1] == said else steer.text
            self.messages.append(
                Message(role="user", parts=parts, content_id=steer.content_id, shown=shown)
            )

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
            self.chat.watch(self.chat)

        call = self.calls[key] = ToolCall(emit, naming, moved)
        return call

    def call(self, call_id: str) -> ToolCall | None:
        """The call of that id, of this turn or of an agent that works for it."""
        of_subagents = (each.call(call_id) for each in self.subagents)
        return self.calls.get(call_id) or next(filter(None, of_subagents), None)

    async def will_change(self, changes: Sequence[FileChange]) -> Callable[[], None]:
        """Keep what files are before a call of this turn changes them.

        Returns:
            To be called if it has changed nothing.
        """
        return await self.chat.keep_before_images(self, changes)

    async def drained(self) -> None:
        """Wait until the client keeps up; between two pieces of bulk."""
        await self.chat.session.drained()

    def begin(self) -> None:
        """The first contents of a turn: that it runs, and the user's own words."""
        self.progress("Waiting model")
        self.emit("user", ChatTextContent(text=self.prompt.text, content_id=self.prompt.content_id))
        for message in self.chat.session.take_unshown():
            self.say(f"{message}\n\n", role="system")

    def close_contents(self) -> None:
        """Finish what is open."""
        for key in tuple(self._reasons):
            self.finish_reason(key)
        for ended in tuple(self._hooks.values()):
            self.finish_hook(ended)
        for call in self.calls.values():
            call.stop()

    def close_messages(self) -> None:
        """Finish what is open, and give each call in the messages that has no result its own.

        A call that was not written to its end is in no message.
        """
        self._is_closing = True
        self.close_contents()
        parts = [part for message in self.messages for part in message.parts]
        made = {part.id for part in parts if isinstance(part, ToolCallPart)}
        told = {part.call_id for part in parts if isinstance(part, ToolResultPart)}
        left = tuple(call.told() for key, call in self.calls.items() if key in made - told)
        if left:
            self.messages.append(Message(role="tool", parts=left))

    def stop(self) -> None:
        """End the body early: what is open is finished now, what it still says is dropped."""
        self._is_closing = True
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
        """What the chat has taken; even of a turn that was stopped (W-23, W-50)."""
        usage = self.chat.usage.content(self.limit)
        asked = self.asked
        if asked is not None and self.chat.session.writes(ChatUsageContent, "context_breakdown"):
            try:
                usage = self._with_breakdown(usage, asked)
            except Exception:  # noqa: BLE001 - the turn is being closed, and ends all the same
                _log.exception("what fills the context of chat %s cannot be told", self.chat.id)
        self._write("system", usage)

    def _with_breakdown(self, usage: ChatUsageContent, asked: Asked) -> ChatUsageContent:
        told = in_force(self.messages, self.chat.told)
        request = attrs.evolve(asked.request, messages=told)
        used = self.chat.window.tokens(request, len(self.chat.history) + len(self.messages))
        return attrs.evolve(
            usage,
            auto_compact_percentage=asked.compact_at,
            context_breakdown=breakdown(request, used, asked.context),
        )

    @property
    def is_mute(self) -> bool:
        """Whether nothing more is written of it."""
        return self._mute

    def silence(self) -> None:
        """Write nothing more."""
        self._mute = True

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
            self.chat.emit(role, content)
        except Exception:
            if not self._is_closing:
                raise
            _log.exception("a content of chat %s cannot be written", self.chat.id)

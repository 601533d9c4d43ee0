"""The turn of one prompt: its cancel scope, its open contents, and its end.

A body (a model's answer, a slash command) runs inside the turn's scope and writes through the
turn. Whatever ends the body, the turn is closed exactly once: open reasonings are finished, usage
is written unless the turn was stopped, then comes the one `finished`, and after it nothing is
written (rulings W-20, W-23, W-26, W-27).
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

import attrs
import trio

from eca_protocol.errors import describe_internal_error
from eca_protocol.messages import ChatProgressContent, ChatTextContent, ChatUsageContent, UsageLimit
from eca_protocol.server.calls import CallState, Reason
from eca_protocol.server.texts import closing_text
from eca_server.agent.chat.breakdown import LastRequest, next_request, with_breakdown
from eca_server.agent.chat.draft import Draft
from eca_server.agent.chat.outlet import Outlet
from eca_server.agent.chat.pictures import picture_content
from eca_server.agent.chat.store.rows import ChatRecord, Running, TurnUsage
from eca_server.agent.chat.tool_call import Calls, ToolCall
from eca_server.agent.chat.usage import taken, tokens_of
from eca_server.agent.chat.writer import Writer
from eca_server.agent.tools.tool import FileChange
from eca_server.models.events import Usage
from eca_server.models.history import Message, TextPart

_log = logging.getLogger("eca_server.agent.chat")

STOP_SECONDS = 0.3
"""Seconds a stopped body may take to end before its turn is closed without it (W-23)."""

TOOL_STOP_SECONDS = 0.9
"""The same if a tool was running: its processes are ended, and killed if they ignore TERM."""

STORE_SECONDS = 0.05
"""Seconds that a turn closed without its body waits to be stored."""

Body: TypeAlias = "Callable[[Turn], Awaitable[None]]"
SteeredCommand: TypeAlias = "Callable[[Turn, Callable[[str], Awaitable[None]]], Awaitable[None]]"
"""A command in a running turn; its second argument compacts the chat, with the user's wish."""

_WAITS_FOR_THE_USER = "Waiting for tool call approval"  # Neovim asks when it reads this text


@attrs.frozen(kw_only=True)
class Prompt:
    """A prompt of the user, and the body that answers it.

    Attributes:
        body: run once, when the prompt leaves the queue.
        content_id: the message's stable id, written with its echo.
        unstarted: the parts for the model of a prompt whose body never starts; None: it is not
            stored then.
    """

    text: str
    body: Body = attrs.field(repr=False)  # it may hold a typed key
    unstarted: tuple[TextPart, ...] | None = None
    content_id: str = attrs.field(factory=lambda: str(uuid.uuid4()))


@attrs.frozen(kw_only=True)
class Steer:
    """A message of the user, or of a hook, to a running turn; `content_id` as for a prompt.

    Attributes:
        parts: the parts for the model, once hooks have checked them; None: its text.
        command: the command that the text names, run instead of sending the text to the model.
        is_resent: whether the client sends it again if the turn ends without it.
    """

    text: str
    parts: tuple[TextPart, ...] | None = None
    command: SteeredCommand | None = None
    is_resent: bool = False
    content_id: str = attrs.field(factory=lambda: str(uuid.uuid4()))


class Turn(Writer):
    """A running prompt.

    It ends in this order: the body has ended (`run`), or is not awaited any longer after a `stop`
    (`close_late`). `close_messages` makes the messages complete, and they are stored. Then the
    outlet takes them (`closed`), and writes the end (`finish`).

    Attributes:
        about: the text to make a title from: the prompt, or a hook's replacement.
        scope: cancelled by whatever ends the turn early.
        outer_scopes: the scopes of tasks outside `scope` that work for the turn; a stop cancels
            them, too.
        ended: set when the body has ended.
        is_closed: the turn has ended for the client and the chat.
        messages: the messages that the turn adds to the chat's history when it is closed.
        limit: the model's limits, if known.
        draft: the answer so far that is not stored yet.
        steers: messages to the running turn that no request has taken yet.
        subagents: the turns of running subagents; they end with the turn.
    """

    def __init__(self, outlet: Outlet, prompt: Prompt) -> None:
        super().__init__(outlet)
        self.prompt = prompt
        self.about = prompt.text
        self.scope = trio.CancelScope()
        self.outer_scopes: set[trio.CancelScope] = set()
        self.ended = trio.Event()
        self.is_closed = False
        self.messages: list[Message] = []
        if prompt.unstarted is not None:
            self.messages.append(attrs.evolve(self.unsent, parts=prompt.unstarted))
        self.usages: list[Usage] = []
        self.limit: UsageLimit | None = None
        self.last_request: LastRequest | None = None
        self.calls = Calls(partial(self.emit, "assistant"), self._call_moved)
        self.stopped_during_tool = False
        self.draft = Draft(self.messages, self.calls)
        self.steers: list[Steer] = []
        self.subagents: list[Turn] = []
        self._dropped: Sequence[Prompt] = ()
        self._is_stored = False

    @property
    def unsent(self) -> Message:
        """The prompt as a message for the user alone, stored if no model is called."""
        content_id, text = self.prompt.content_id, self.prompt.text
        return Message(role="user", parts=(), content_id=content_id, shown=text)

    def call(self, call_id: str) -> ToolCall | None:
        """Return the call with this id, of this turn or of a subagent, or None."""
        of_subagents = (each.call(call_id) for each in self.subagents)
        return self.calls.get(call_id) or next(filter(None, of_subagents), None)

    @property
    def waits(self) -> bool:
        """True if a call of this turn or of a subagent waits for the user."""
        return any(call.state is CallState.WAITING for call in self.calls.open.values()) or any(
            each.waits for each in self.subagents
        )

    def show_call_progress(self, text: str, *, only_waiting: bool = False) -> None:
        """Show as progress that a call waits for the user, else `text`."""
        if self.waits:
            self.progress(_WAITS_FOR_THE_USER)
        elif not only_waiting:
            self.progress(text)

    def _call_moved(self) -> None:
        self.draft.changed()
        self.outlet.changed()

    async def store_prompt(self) -> None:
        """Store the prompt before the model is called, and from then on drafts; never raise."""
        if self.is_mute:
            return
        if self.outlet.storage.is_persistent:
            add = partial(self.outlet.storage.store_pieces, self.prompt.content_id)
            self.outlet.services.nursery.start_soon(self.draft.run, add)
        await self._store_prompts()

    async def will_change(self, changes: Sequence[FileChange]) -> Callable[[], None]:
        """Store the content of files before a call of this turn changes them.

        The prompts that led to the call are stored, too.

        Returns:
            A function to call if the call has changed nothing.
        """
        if changes and not self.is_mute:
            await self._store_prompts()
            if not self.is_mute:  # it may have been deleted meanwhile
                prompts = (each.content_id for each in reversed(self.messages) if each.content_id)
                content_id = next(prompts, self.prompt.content_id)
                return await self.outlet.storage.store_before_images(content_id, changes)
        return lambda: None

    async def store_pictures(self, pictures: Iterable[bytes]) -> None:
        """Store pictures as files for a client that cannot show pictures."""
        for picture in map(picture_content, pictures):
            if not (self.is_mute or self.session.formatter.shows(picture)):
                await self.outlet.storage.store_picture(picture)

    async def _store_prompts(self) -> None:
        """Store the messages up to the user's last one."""
        places = (n for n, each in enumerate(self.messages, 1) if each.content_id is not None)
        if messages := self.draft.take(max(places, default=0)):
            running = Running(turn=self.prompt.content_id, stored=self.draft.stored)
            await self.outlet.storage.store(ChatRecord(messages=messages, running=running))

    async def _store(self) -> None:
        """Store all messages, once, before the turn's `finished`."""
        if self._is_stored or self.is_mute or not self.messages:
            return
        self._is_stored = True
        if self.usages:
            self.outlet.set(context=self._context_use())
        tokens, cost = taken(self.usages)
        running = Running(turn=self.prompt.content_id, is_over=True) if self.draft.stored else None
        await self.outlet.storage.store(
            ChatRecord(
                messages=self.draft.take(len(self.messages)),
                usage=TurnUsage(tokens=tokens, cost=cost) if self.usages else None,
                running=running,
            )
        )

    def begin(self) -> None:
        """Write the first contents of the turn: its progress and the echo of the prompt."""
        self.progress("Waiting model")
        self.emit("user", ChatTextContent(text=self.prompt.text, content_id=self.prompt.content_id))
        if self.outlet.parent_id is None:  # else its contents are shown inside a call, or not
            for message in self.session.take_unshown():
                self.report(message)

    async def run(self) -> None:
        """Run the body to its end, and close the turn."""
        try:
            with self.scope:
                await self.outlet.restore()
                await self.prompt.body(self)
        except Exception as error:  # noqa: BLE001 - a body's error must not end the server
            _log.exception("a turn of chat %s failed", self.outlet.id)
            reason = describe_internal_error(error)
            self.fail(f"This turn failed: {reason}. See the server's log for details.")
        finally:
            self.close_messages()
            with trio.CancelScope(shield=True):
                await self._store()
            self._close()
            self.ended.set()

    def stop(self, dropped: Sequence[Prompt] = ()) -> None:
        """End the body early: finish open contents now, and drop what the body still writes.

        Text that waits to be merged is written right before `finished`: a client that started to
        paint it would see `finished` only after that.

        Args:
            dropped: the prompts that the stop has dropped; a second stop adds to them.
        """
        self.is_closing = True
        self._dropped = dropped
        self.hold()
        self.stopped_during_tool = any(
            call.state is CallState.RUNNING for call in self.calls.values()
        )
        for subagent in self.subagents:
            subagent.stop()
            subagent.finish()
        self.finish_open()
        self.calls.stop("user-choice")
        self.stopped = True
        for scope in (self.scope, *self.outer_scopes):
            scope.cancel()

    def delete(self) -> None:
        """End the body, and write nothing more: the chat is deleted (W-24)."""
        if self.session.profile.finishes_deleted:
            self.finish()
        self.silence()
        self.stop()

    async def close_late(self) -> None:
        """Close the stopped turn without its body, if the body does not end soon."""
        with trio.move_on_after(TOOL_STOP_SECONDS if self.stopped_during_tool else STOP_SECONDS):
            await self.ended.wait()
        if not self.is_closed:
            self.close_messages()
            with trio.move_on_after(STORE_SECONDS):
                await self._store()
        self._close()

    def close_contents(self, reason: Reason) -> None:
        """Finish open contents; reject calls that did not run, with this reason."""
        if not self.stopped:
            self.flush()
        self.finish_open()
        self.calls.stop(reason)

    def close_messages(self) -> None:
        """Finish open contents, and make the messages complete, for the model and for a replay.

        A call in the messages that has no result gets one; an incomplete call is in no message. The
        last message is the text that the user was shown of a failure or a stop, if there was one.
        """
        self.is_closing = True
        self.draft.end()
        self.close_contents("user-choice" if self.stopped else "interrupted")
        if results := self.calls.missing_results(self.messages):
            self.messages.append(Message(role="tool", parts=results))
        last_words = self.last_words([each.text for each in self._dropped])
        words = "\n\n".join(filter(None, (*self.reasons, last_words)))
        if words and self.messages and not (self._is_stored or self.is_mute):
            self.messages.append(Message(role="user", parts=(), interrupted=True, shown=words))

    def _close(self) -> None:
        """Close the turn, once; a silenced one writes nothing."""
        if self.is_closed:
            return
        self.is_closed = True
        if not self.is_mute:
            self.close_messages()
            self.flush()
            self.end_code()
            self.outlet.usage.add(self.usages)
            if self.usages and (not self.stopped or self.session.profile.counts_stopped):
                self._write_usage(())
        self.outlet.closed()

    def last_words(self, dropped: Sequence[str] = ()) -> str:
        """Return the last text of the turn: a stop, and the messages that no model got."""
        texts = [*(steer.text for steer in self.steers if not steer.is_resent), *dropped]
        return closing_text(texts, is_stopped=self.stopped)

    def finish(self, last_words: str = "") -> None:
        """Write `last_words` if there are any, then the one `finished`, and nothing more."""
        self.is_closing = True
        if last_words:
            self.write("system", ChatTextContent(text=last_words))
        self.write("system", ChatProgressContent(state="finished", text=""))
        self.silence()

    def write_usage_so_far(self) -> None:
        """Write the running turn's usage for a client that draws a gauge (W-27)."""
        if self._draws_a_gauge and self.usages and not self.stopped:
            self._write_usage(self.usages)

    @property
    def _draws_a_gauge(self) -> bool:
        return self.session.writes(ChatUsageContent, "context_breakdown")

    def _context_use(self) -> Mapping[str, int]:
        """Return the use of the model's context, to store it for a later replay."""
        try:
            used = _context_used(self)
        except Exception:  # noqa: BLE001 - as in `_write_usage`
            _log.exception("the context of chat %s cannot be counted", self.outlet.id)
            return {}
        limit = self.limit or UsageLimit()
        numbers = {"used": used, "context": limit.context, "output": limit.output}
        return {name: number for name, number in numbers.items() if number is not None}

    def _write_usage(self, running: Sequence[Usage]) -> None:
        """Write the chat's usage, even if the turn was stopped (W-23, W-50)."""
        limit = self.limit
        if limit is not None and limit.output is None and not self._draws_a_gauge:
            limit = None
        usage = self.outlet.usage.content(limit, running)
        if self._draws_a_gauge:
            try:
                usage = _as_gauge(self, usage)
            except Exception:  # noqa: BLE001 - the turn is being closed, and ends all the same
                _log.exception("the context breakdown of chat %s failed", self.outlet.id)
        self.outlet.usage.last_content = usage
        self.write("system", usage)


def _context_used(turn: Turn) -> int:
    if turn.last_request is None:
        return tokens_of(turn.usages[-1])
    return next_request(turn.last_request, turn.outlet.history, turn.messages)[1]


def _as_gauge(turn: Turn, usage: ChatUsageContent) -> ChatUsageContent:
    """Return a usage content with the use of the context in place of the sum of the turns."""
    if turn.last_request is None:
        return attrs.evolve(usage, session_tokens=tokens_of(turn.usages[-1]))
    return with_breakdown(usage, turn.last_request, turn.outlet.history, turn.messages)

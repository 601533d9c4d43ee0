"""A chat: its history, its usage, its turns one after the other; and all chats of a connection.

What a prompt, a stop, a delete do in which state is the table of `states`. The methods called by
handlers never wait: a stop has taken effect when the next message is looked at.
"""

from __future__ import annotations

import logging
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Sequence

import trio

from eca_protocol.messages import ChatMetadataContent
from eca_server.chat.memory import Memory
from eca_server.chat.states import TRANSITIONS, Action, ChatState, Input
from eca_server.chat.tool_call import ToolCall
from eca_server.chat.turn import Prompt, Turn
from eca_server.chat.usage import SessionUsage
from eca_server.chat.window import Window
from eca_server.llm.history import Message, in_force
from eca_server.session import Session
from eca_server.tools.ledger import Ledger
from eca_server.tools.tool import FileChange

__all__ = ["Chat", "Chats"]

_log = logging.getLogger("eca_server.chat")

STOP_SECONDS = 0.3
"""How long a stopped body may take to end before its turn is closed without it (W-23)."""

TOOL_STOP_SECONDS = 0.9
"""The same where a tool ran: its processes are ended, and those deaf to TERM are killed."""

KEEP_SECONDS = 0.05
"""How long a turn that is closed without its body waits for its place on disk."""


class Chat:
    """One chat of the connected client.

    Attributes:
        history: all that was said, oldest first; append-only.
        told: what of it the model is told; kept, since to find it takes a look at everything.
        usage: tokens and costs of the whole chat.
        window: how much of a model's context it takes.
        ledger: which files the chat's model has seen.
        systems: the instructions by behaviour, written once (design decision 20).
        title: what the chat is called, once the model has found a name.
        awaits_key_of: the provider whose key the next prompt is; a stop ends the wait.
    """

    def __init__(
        self,
        chat_id: str,
        session: Session,
        nursery: trio.Nursery,
        memory: Memory | None = None,
        *,
        bodies: set[Turn] | None = None,
        may_be_stored: bool = False,
    ) -> None:
        self.id = chat_id
        self.session = session
        self.history: list[Message] = []
        self.told: tuple[Message, ...] = ()
        self.usage = SessionUsage()
        self.window = Window()
        self.title: str | None = None
        self.awaits_key_of: str | None = None
        self.state = ChatState.IDLE
        self.last_turn_failed = False
        self.ledger = Ledger()
        self.systems: dict[str, str] = {}
        self._nursery = nursery
        self._memory = memory
        self._bodies = set() if bodies is None else bodies
        self._may_be_stored = may_be_stored
        self._turn: Turn | None = None
        self._queue: deque[Prompt] = deque()
        self._dropped: list[Prompt] = []
        self._title_scope: trio.CancelScope | None = None

    def prompt(self, prompt: Prompt) -> None:
        """Begin a turn, or queue it behind the one that runs (W-22)."""
        action = self._move(Input.PROMPT)
        if action is Action.BEGIN:
            self._begin(prompt)
        elif action is Action.QUEUE:
            self._queue.append(prompt)

    def stop(self) -> None:
        """End the running turn and drop the queued prompts; ignored when nothing runs."""
        self.awaits_key_of = None
        self._cancel_title()
        if self._move(Input.STOP) is not Action.CANCEL:
            return
        assert self._turn is not None
        self._dropped.extend(self._queue)
        self._queue.clear()
        if not self._turn.stopped:
            self._turn.stop()
            self._nursery.start_soon(self._close_late, self._turn)

    def delete(self) -> None:
        """End everything inside and say nothing more (W-24)."""
        self._cancel_title()
        if self._move(Input.DELETE) is not Action.SILENCE:
            return
        self._queue.clear()
        if self._turn is not None:
            if self.session.profile.finishes_deleted:
                self._turn.finish()
            self._turn.silence()
            self._turn.stop()

    def call(self, call_id: str) -> ToolCall | None:
        """The tool call of that id, if it is one of the turn that runs."""
        return None if self._turn is None else self._turn.calls.get(call_id)

    def name_with(self, make_title: Callable[[], Awaitable[str | None]]) -> None:
        """Ask for a title beside the turn, if the chat has none (W-25)."""
        if self.title is None and self._title_scope is None and self.state is ChatState.RUNNING:
            self._title_scope = trio.CancelScope()
            self._nursery.start_soon(self._find_title, make_title, self._title_scope)

    async def close(self) -> None:
        """Stop, and wait until the running turn is closed (bounded by `TOOL_STOP_SECONDS`)."""
        self.stop()
        if self._turn is not None:
            await self._close_late(self._turn)

    async def keep_before_images(self, turn: Turn, changes: Sequence[FileChange]) -> None:
        """Store what files are before a call changes them.

        It is done before the turn is kept: killed in between, the file can still be restored.
        """
        if self._memory is not None and changes and self._is_of_ours(turn):
            await self._memory.keep_before_images(turn, changes)

    def _is_of_ours(self, turn: Turn) -> bool:
        """Whether the turn is the one that runs, in a chat that is not deleted."""
        return self._turn is turn and self.state is not ChatState.DELETED

    def _move(self, given: Input) -> Action:
        action, self.state = TRANSITIONS[self.state][given]
        return action

    def _begin(self, prompt: Prompt) -> None:
        turn = self._turn = Turn(self, prompt)
        self._bodies.add(turn)
        turn.begin()
        self._nursery.start_soon(self._run, turn)

    async def _run(self, turn: Turn) -> None:
        try:
            with turn.scope:
                await self._restore()
                await turn.prompt.body(turn)
        except Exception:  # noqa: BLE001 - a body's fault must not end the server
            _log.exception("a turn of chat %s failed", self.id)
            turn.fail("The server failed while it answered; its log says more.")
        finally:
            turn.close_messages()
            with trio.CancelScope(shield=True):
                await self._keep(turn)
            self._end(turn)
            turn.ended.set()
            self._bodies.discard(turn)

    async def _restore(self) -> None:
        """Read the chat back before its first turn, if its id may be that of a stored one."""
        if self._may_be_stored and self._memory is not None:
            await self._memory.restore(self)
            self._may_be_stored = False  # not before: a stop may have cut it short

    async def _keep(self, turn: Turn) -> None:
        """Commit what the turn brought, once, before its `finished` (design decision 18)."""
        if self._memory is None or turn.kept or not turn.messages or not self._is_of_ours(turn):
            return
        turn.kept = True
        await self._memory.keep(turn)

    async def _close_late(self, turn: Turn) -> None:
        with trio.move_on_after(TOOL_STOP_SECONDS if turn.cut_a_call else STOP_SECONDS):
            await turn.ended.wait()
        if self._turn is turn:
            turn.close_messages()
            with trio.move_on_after(KEEP_SECONDS):
                await self._keep(turn)
        self._end(turn)

    def _end(self, turn: Turn) -> None:
        if self._turn is not turn:
            return
        action = self._move(Input.ENDED)
        self._turn = None
        if action is not Action.CLOSE:
            return
        turn.close_messages()
        self.usage.add(turn.usages)
        if turn.usages and not turn.stopped:
            turn.emit("system", self.usage.content(turn.limit))
        self.history.extend(turn.messages)
        self.told = in_force(turn.messages, self.told)
        self.last_turn_failed = turn.failed
        turn.finish(self._told_of_dropped())
        if self._queue:
            self.prompt(self._queue.popleft())

    def _told_of_dropped(self) -> str:
        dropped, self._dropped = self._dropped, []
        texts = "\n\n".join(prompt.text for prompt in dropped)
        return f"Stopped. Waiting prompts that were dropped:\n\n{texts}" if dropped else ""

    def _cancel_title(self) -> None:
        if self._title_scope is not None:
            self._title_scope.cancel()
            self._title_scope = None

    async def _find_title(
        self, make_title: Callable[[], Awaitable[str | None]], scope: trio.CancelScope
    ) -> None:
        title = None
        try:
            with scope:
                title = await make_title()
        except Exception as error:  # noqa: BLE001 - a chat without a title is no fault of the turn
            _log.info("no title for chat %s: %s", self.id, error)
        if self._title_scope is scope:
            self._title_scope = None
            if title:
                self.title = title
                self.session.emit(self.id, "system", ChatMetadataContent(title=title))
                if self._memory is not None:
                    await self._memory.name(self)


class Chats:
    """The chats of a connection, by id."""

    def __init__(
        self, session: Session, nursery: trio.Nursery, memory: Memory | None = None
    ) -> None:
        self.memory = memory
        self._session = session
        self._nursery = nursery
        self._chats: dict[str, Chat] = {}
        self._deleted: set[str] = set()
        self._bodies: set[Turn] = set()

    def open(self, chat_id: str | None) -> Chat:
        """The chat of that id, made if there is none; without an id, one of ours (W-21)."""
        known = chat_id or str(uuid.uuid4())
        chat = self._chats.get(known)
        if chat is None:
            if self.memory is not None and not self._chats:
                self._nursery.start_soon(self.memory.wake)
            may_be_stored = bool(chat_id) and known not in self._deleted
            chat = self._chats[known] = Chat(
                known,
                self._session,
                self._nursery,
                self.memory,
                bodies=self._bodies,
                may_be_stored=may_be_stored,
            )
        return chat

    def get(self, chat_id: str | None) -> Chat | None:
        """The chat of that id, if it exists."""
        return self._chats.get(chat_id) if chat_id else None

    def delete(self, chat_id: str | None) -> None:
        """Forget a chat with everything in it; an unknown one is no fault (W-24)."""
        if not chat_id:
            return
        chat = self._chats.pop(chat_id, None)
        if chat is not None:
            chat.delete()
        if self.memory is not None:
            self._deleted.add(chat_id)
            self._nursery.start_soon(self.memory.delete, chat_id)

    async def close(self) -> Sequence[str]:
        """Stop every chat, wait until all turns are closed, and store what is left.

        Returns:
            What did not succeed within its bounds: a tool that could not be ended, chats that
            could not be stored or deleted.
        """
        for chat in self._chats.values():
            chat.stop()
        async with trio.open_nursery() as closing:
            for chat in self._chats.values():
                closing.start_soon(chat.close)
            with trio.move_on_after(TOOL_STOP_SECONDS):
                for turn in tuple(self._bodies):  # those of deleted chats, too
                    if turn.cut_a_call:
                        await turn.ended.wait()
        left = [
            f"a tool of the chat {turn.chat.id} cannot be ended"
            for turn in self._bodies
            if turn.cut_a_call
        ]
        if self.memory is not None and not await self.memory.close():
            left.append("the last changes of the chats could not be written to the disk")
        return left

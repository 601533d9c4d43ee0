"""A chat as its client sees it: prompts, and the contents of each turn as they come."""

from __future__ import annotations

import contextlib
import math
import uuid
import weakref
from collections import deque
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import anyio
import attrs

from eca_protocol import messages as m
from eca_protocol.errors import ConnectionClosed, DeadlineExceeded, LocalProtocolError

if TYPE_CHECKING:
    from eca_protocol.client.client import Client
    from eca_protocol.peer import PendingCall

__all__ = ["Chat", "Turn"]

CONTENT_WEIGHT = 512
"""Bytes a content is counted with beside its text."""


class Chat:
    """One chat of a client; make it with `Client.chat()`.

    Attributes:
        id: the chat's id, ours unless one was given.
        model: for prompts that name no other; None leaves it to the server.
        behavior: likewise; newer editions call it an agent.
        title: as the server named the chat.
        usage: the newest the server told.
    """

    def __init__(
        self,
        client: Client,
        chat_id: str | None = None,
        *,
        model: str | None = None,
        behavior: m.ChatBehavior | None = None,
    ) -> None:
        self.id = chat_id or str(uuid.uuid4())
        self.model = model
        self.behavior = behavior
        self.title: str | None = None
        self.usage: m.ChatUsageContent | None = None
        self._client = client
        self._turn: weakref.ref[Turn] | None = None
        self._idle = anyio.Event()
        self._idle.set()
        self._waits: list[anyio.CancelScope] = []  # of turns, for the one before them

    def prompt(
        self,
        message: str,
        *,
        contexts: Sequence[m.ChatContext] = (),
        model: str | None = None,
        behavior: m.ChatBehavior | None = None,
        variant: str | None = None,
        trust: bool | None = None,
    ) -> Turn:
        """A turn: iterate over it to send the prompt and to get what comes of it.

        `variant` is one of the model's; `trust` lets tools run which would ask. Turns of one chat
        take place one after the other: the next is sent when the one before it has finished.
        """
        behavior = behavior or self.behavior
        params = m.ChatPromptParams(
            chat_id=self.id,
            message=message,
            model=model or self.model,
            behavior=behavior,
            agent=behavior,
            variant=variant,
            trust=trust,
            contexts=tuple(contexts),
        )
        return Turn(self, params)

    def stop(self) -> None:
        """End the running turn, whichever it is; its iteration ends with the server's answer."""
        if not self._idle.is_set():
            turn = self._turn() if self._turn is not None else None
            if turn is not None:
                turn.stopped = True
            self._client.chat_prompt_stop(self.id)

    def steer(self, message: str) -> None:
        """Say a word to the running turn; its next request to the model takes it in."""
        self._client.chat_prompt_steer(self.id, message)

    def approve(self, tool_call_id: str, *, save: m.ToolCallApprovalSave | None = None) -> None:
        """Let a waiting tool call run; `save="session"` asks no more for that tool."""
        self._client.chat_tool_call_approve(self.id, tool_call_id, save=save)

    def reject(self, tool_call_id: str) -> None:
        """Do not let a waiting tool call run."""
        self._client.chat_tool_call_reject(self.id, tool_call_id)

    async def delete(self) -> None:
        """Let the server forget the chat; a running turn ends."""
        await self._client.chat_delete(self.id)
        self.on_deleted()

    def on_deleted(self) -> None:
        """The server has forgotten the chat: a running turn has ended with it."""
        self._finish()
        self._client.unregister(self)

    async def query_context(
        self, query: str = "", *, contexts: Sequence[m.ChatContext] = ()
    ) -> tuple[m.ChatContext, ...]:
        """See `Client.chat_query_context`."""
        return await self._client.chat_query_context(query, chat_id=self.id, contexts=contexts)

    async def query_commands(self, query: str = "") -> tuple[m.ChatCommand, ...]:
        """See `Client.chat_query_commands`."""
        return await self._client.chat_query_commands(query, chat_id=self.id)

    async def update(self, *, title: str | None = None, trust: bool | None = None) -> None:
        """See `Client.chat_update`."""
        await self._client.chat_update(self.id, title=title, trust=trust)

    async def clear(self) -> None:
        """See `Client.chat_clear`."""
        await self._client.chat_clear(self.id)

    async def history(
        self, *, limit: int | None = None, before: str | None = None, after: str | None = None
    ) -> m.ChatHistoryResponse:
        """See `Client.chat_history`."""
        return await self._client.chat_history(self.id, limit=limit, before=before, after=after)

    @property
    def unread(self) -> int:
        """Bytes of contents that came and were not taken yet, about."""
        turn = self._turn() if self._turn is not None else None
        return 0 if turn is None else turn.unread

    def receive(self, received: m.ChatContentReceivedParams) -> bool:
        """Take in what the server sent; False if it belongs to no turn of ours."""
        content = received.content
        if isinstance(content, m.ChatMetadataContent):
            self.title = content.title
        elif isinstance(content, m.ChatUsageContent):
            self.usage = content
        if self._idle.is_set():
            return False
        for wait in self._waits:
            wait.deadline = self._idle_until()
        turn = self._turn() if self._turn is not None else None
        if isinstance(content, m.ChatProgressContent) and content.state == "finished":
            if turn is not None and not turn.has_begun:
                return False  # a second end of the turn before: some servers send one (W-60)
            if turn is not None:
                turn.deliver(received)
            self._finish()
        elif turn is not None:
            turn.deliver(received)
        return True

    def fail(self, reason: str) -> None:
        """The connection is gone: a running turn ends with that."""
        turn = self._turn() if self._turn is not None else None
        if turn is not None and not self._idle.is_set():
            turn.finish(ConnectionClosed(f"the turn was not finished: {reason}"))
        self._idle.set()

    async def start_turn(self, turn: Turn) -> None:
        """Wait for the turn before, however long it has something to say; then claim the chat."""
        wait = anyio.CancelScope(deadline=self._idle_until())
        self._waits.append(wait)
        try:
            with wait, self._client.keep_reading():
                while not self._idle.is_set():
                    await self._idle.wait()
        finally:
            self._waits.remove(wait)
        if not self._idle.is_set():
            seconds = self._client.idle_deadline or 0.0
            raise DeadlineExceeded("the next content of the turn before", seconds)
        self._client.register(self)
        self._idle = anyio.Event()
        self._turn = weakref.ref(turn, lambda _: self._client.resume_reading())

    def release(self) -> None:
        """The turn that has claimed the chat needs it no more."""
        self._finish()

    def on_content_read(self) -> None:
        """A content was taken out of the inbox: reading may go on."""
        self._client.resume_reading()

    @property
    def client(self) -> Client:
        """The client it belongs to."""
        return self._client

    def _idle_until(self) -> float:
        seconds = self._client.idle_deadline
        return math.inf if seconds is None else anyio.current_time() + seconds

    def _finish(self) -> None:
        turn = self._turn() if self._turn is not None else None
        if turn is not None:
            turn.finish(None)
        self._idle.set()


class Turn:
    """A prompt and what comes of it; iterate over it, or await `text()`.

    Iterating gives the contents of the turn in order, without the echo of the user's own words
    (`contents_with_roles()` gives everything, with roles). Used as `async with chat.prompt(...) as turn:`
    the turn is stopped when the block is left early.

    While iterating these are raised: RequestFailed (the server refused the prompt),
    DeadlineExceeded (nothing came for the client's `idle_deadline` seconds), ConnectionClosed.

    Attributes:
        params: the prompt.
        response: the server's answer to the prompt, once it came.
        stopped: we stopped it.
        arguments_texts: what the model has written of each call's arguments so far, by the call's
            id: the pieces that were taken, joined.
    """

    def __init__(self, chat: Chat, params: m.ChatPromptParams) -> None:
        self.chat = chat
        self.params = params
        self.response: m.ChatPromptResponse | None = None
        self.stopped = False
        self.arguments_texts: dict[str, str] = {}
        self.unread = 0
        self._inbox: deque[m.ChatContentReceivedParams] = deque()
        self._arrived = anyio.Event()
        self._started = False
        self._call: PendingCall | None = None
        self._has_content = False
        self._ended = False
        self._is_abandoned = False
        self._fault: ConnectionClosed | None = None

    async def start(self) -> m.ChatPromptResponse:
        """Send the prompt; iterating does it too.

        Raises:
            LocalProtocolError: it was sent before, or stopped before it was sent.
        """
        if self._started:
            raise LocalProtocolError("a turn is sent once: make another with chat.prompt()")
        await self._send()
        if self.response is None:
            raise LocalProtocolError("the turn was stopped before it was sent")
        return self.response

    async def _send(self) -> None:
        """Send the prompt when the turn before has ended, unless it was stopped until then."""
        self._started = True
        client = self.chat.client
        await client.wait_for_revision("chat/prompt", self.params)
        await self.chat.start_turn(self)
        if self.stopped:
            self.chat.release()
            return
        try:
            self._call = client.start_request("chat/prompt", self.params)
            self.response = await self._call.result(deadline=client.deadline)
        except BaseException:
            if not self._ended and (self._call is None or self._call.is_answered):
                self.chat.fail("the prompt was not taken")
            else:
                self._leave()  # it may run all the same
            raise

    def stop(self) -> None:
        """End the turn; iterating goes on to the server's last word about it.

        One that waits for the turn before it is not sent any more.
        """
        if self._call is None:
            self.stopped = True
        elif not self._ended:
            self.chat.stop()

    async def text(self) -> str:
        """Return the assistant's whole text, once the turn has ended."""
        text = "".join(
            [
                received.content.text
                async for received in self.contents_with_roles()
                if received.role == "assistant" and isinstance(received.content, m.ChatTextContent)
            ]
        )
        return text.lstrip("\n")  # a blank line parts it from a text of the system's (W-26)

    async def contents_with_roles(self) -> AsyncIterator[m.ChatContentReceivedParams]:
        """Everything of the turn as it came, roles and the user's echo included."""
        while (received := await self._next()) is not None:
            yield received

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> m.ChatContent:
        while (received := await self._next()) is not None:
            if received.role != "user":
                return received.content
        raise StopAsyncIteration

    async def __aenter__(self) -> Self:
        if not self._started:
            await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._leave()

    def _leave(self) -> None:
        """Stop the turn; nobody will read what is left of it."""
        self._is_abandoned = True
        self._inbox.clear()
        self.unread = 0
        self.chat.on_content_read()
        if not self._ended and not self.chat.client.closed:
            with contextlib.suppress(LocalProtocolError):  # we are leaving the server
                self.chat.stop()

    async def _next(self) -> m.ChatContentReceivedParams | None:
        if not self._started:
            await self._send()
        seconds = self.chat.client.idle_deadline
        while not self._inbox:
            if self._fault is not None:
                raise self._fault
            if self._ended:
                return None
            if self._arrived.is_set():  # else somebody waits for this one already
                self._arrived = anyio.Event()
            with anyio.move_on_after(seconds) as scope:
                await self._arrived.wait()
            if scope.cancelled_caught and seconds is not None:
                raise DeadlineExceeded("the next content of the turn", seconds)
        received = self._inbox.popleft()
        self.unread -= _weight(received.content)
        self.chat.on_content_read()
        if isinstance(received.content, m.ChatToolCallPrepareContent):
            call_id, piece = received.content.id, received.content.arguments_text
            self.arguments_texts[call_id] = self.arguments_texts.get(call_id, "") + piece
        if isinstance(received.content, m.ChatProgressContent):
            return None if received.content.state == "finished" else received
        return received

    @property
    def has_begun(self) -> bool:
        """Whether the server has said anything about this turn: an answer, or a content."""
        is_answered = self._call is not None and self._call.is_answered
        return self._has_content or is_answered or self._is_abandoned

    def deliver(self, received: m.ChatContentReceivedParams) -> None:
        """A content of this turn came; the chat's business."""
        if not isinstance(received.content, m.ChatUsageContent | m.ChatMetadataContent):
            self._has_content = True
        if self._is_abandoned:
            return
        self._inbox.append(received)
        self.unread += _weight(received.content)
        self._arrived.set()

    def finish(self, fault: ConnectionClosed | None) -> None:
        """No more contents will come; the chat's business."""
        self._ended = True
        self._fault = self._fault or fault
        self._arrived.set()


def _weight(content: m.ChatContent) -> int:
    if isinstance(content, m.ChatTextContent | m.ChatReasonTextContent):
        return CONTENT_WEIGHT + len(content.text)
    if isinstance(content, m.ChatImageContent):
        return CONTENT_WEIGHT + len(content.base64)
    if isinstance(content, m.ChatToolCallPrepareContent):
        return CONTENT_WEIGHT + len(content.arguments_text)
    return CONTENT_WEIGHT + _length(content)


def _length(value: Any) -> int:
    """The length of all texts in a model's fields, however deep."""
    length, rest = 0, [value]
    while rest:
        value = rest.pop()
        if isinstance(value, str):
            length += len(value)
        elif isinstance(value, Mapping):
            rest += [*value.keys(), *value.values()]
        elif isinstance(value, list | tuple):
            rest += value
        elif attrs.has(type(value)):
            rest += [getattr(value, field.name) for field in attrs.fields(type(value))]
    return length

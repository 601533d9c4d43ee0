"""The client: the server's state, the routing of its messages, the shutdown."""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable
from typing import Self, TypeVar

import anyio
import attrs

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.client.chat import Chat
from eca_protocol.client.events import Event, EventQueue, Events
from eca_protocol.client.options import ConnectionOptions
from eca_protocol.client.session import CONFIGURED, Session
from eca_protocol.errors import (
    AnswerNeeded,
    ConnectionClosed,
    DeadlineExceeded,
    ECAError,
    RPCError,
)
from eca_protocol.jsonrpc import ErrorCode
from eca_protocol.process import Child, GracePeriods
from eca_protocol.streams import Transport

_EventT = TypeVar("_EventT", bound=Event)

_GRACE_PERIODS = GracePeriods(after_stdin=2.0, after_term=1.0, after_kill=1.0)

LEAVE_SECONDS = 10.0
"""The limit of the wait for the end of a server in this process after the client has left."""


class ServerTask:
    """A server that runs in a task of the client's."""

    def __init__(
        self, serve: Callable[[Transport], Awaitable[object]], transport: Transport
    ) -> None:
        self.error: Exception | None = None
        self._serve = serve
        self._transport = transport
        self._ended = anyio.Event()

    async def run(self) -> None:
        """Serve the client; close the stream at the end, so that the client notices it."""
        try:
            await self._serve(self._transport)
        except Exception as error:  # noqa: BLE001 - raised by the client's block
            self.error = error
        finally:
            self._ended.set()
            with anyio.CancelScope(shield=True):
                await self._transport.aclose()

    async def wait(self) -> None:
        """Wait for the server's end, at most `LEAVE_SECONDS`."""
        with anyio.move_on_after(LEAVE_SECONDS):
            await self._ended.wait()


class Client(Session):
    """A connection to a server; made by `connect`.

    `request` and `notify` send any message of the method table, a `Chat` those of one chat:

        chats = await client.request(CHAT_LIST, ChatListParams(limit=3))

    Attributes:
        initialize_response: the server's answer to `initialize`.
        config: the server's configuration, merged from its `config/updated` notifications.
        tool_servers: the latest `tool/serverUpdated` of each server, by name.
        handled_methods: the server's methods that this client handles.
    """

    def __init__(
        self,
        transport: Transport,
        options: ConnectionOptions,
        *,
        child: Child | None = None,
        server: ServerTask | None = None,
    ) -> None:
        self._events = EventQueue()
        add_event = self._events.add
        handlers = dict(
            [
                methods.CHAT_CONTENT_RECEIVED.handled_by(self._on_content),
                methods.CONFIG_UPDATED.handled_by(self._on_config),
                methods.TOOL_SERVER_UPDATED.handled_by(self._on_tool_server),
                methods.TOOL_SERVER_REMOVED.handled_by(self._on_tool_server_removed),
                methods.CHAT_DELETED.handled_by(self._on_chat_deleted),
                methods.CHAT_CLEARED.handled_by(add_event),
                methods.CHAT_OPENED.handled_by(add_event),
                methods.CHAT_STATUS_CHANGED.handled_by(add_event),
                methods.JOBS_UPDATED.handled_by(add_event),
                methods.PROVIDERS_UPDATED.handled_by(add_event),
                methods.REWRITE_CONTENT_RECEIVED.handled_by(add_event),
                methods.SHOW_MESSAGE.handled_by(add_event),
                methods.PROGRESS.handled_by(add_event),
                methods.CHAT_ASK_QUESTION.handled_by(self._refuse_question),
                *options.handlers(self._begin_question),
            ]
        )
        self.handled_methods: frozenset[str] = frozenset(handlers)
        super().__init__(transport, handlers, options)
        self.initialize_response: m.InitializeResponse = m.InitializeResponse()
        self.config: m.ChatConfig = m.ChatConfig()
        self.tool_servers: dict[str, m.ToolServerUpdatedParams] = {}
        self._child = child
        self._server = server
        self._chats: dict[str, Chat] = {}

    def chat(
        self,
        chat_id: str | None = None,
        *,
        model: str | None = None,
        behavior: str | None = None,
    ) -> Chat:
        """Return the chat with this id, or a new one; set its defaults that are not None."""
        chat = self._chats.get(chat_id or "") or Chat(self, self._chats, chat_id)
        chat.model = model or chat.model
        chat.behavior = behavior or chat.behavior
        self._chats[chat.id] = chat
        return chat

    @property
    def models(self) -> tuple[str, ...]:
        """The models that the server offers; empty until `wait_for_config()` returns."""
        return self.config.models or ()

    @property
    def selected_model(self) -> str | None:
        """The model that the server has selected last."""
        return self.config.select_model

    @property
    def process_id(self) -> int | None:
        """The process id of the server that `connect` started."""
        return None if self._child is None else self._child.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code of the server that `connect` started; None while it runs.

        It may follow the end of the connection by some milliseconds.
        """
        return None if self._child is None else self._child.returncode

    async def wait_for_config(self, *, deadline: float | None = CONFIGURED) -> m.ChatConfig:
        """Wait until the server has announced its models and behaviours, and return them.

        In an edition without `config/updated` it returns at once.

        Raises:
            DeadlineExceeded: the server announced none within `deadline` seconds.
            ConnectionClosed: the connection has ended.
        """
        if not methods.CONFIG_UPDATED.window.written_in(self.revision):
            return self.config
        try:
            with anyio.fail_after(deadline), self.keep_reading():
                await self._configured.wait()
        except TimeoutError:
            assert deadline is not None
            raise DeadlineExceeded("the server's first config/updated", deadline) from None
        if self.config == m.ChatConfig() and self.closed:
            raise ConnectionClosed("the connection to the server has ended")
        return self.config

    def events(self) -> Events:
        """Return the server's notifications outside of our turns, until the connection ends.

        Iterate over it, or enter it to end the iteration with a block. Each event is yielded once:
        two concurrent iterations share them.
        """
        return Events(self._events, self.keep_reading)

    def on(self, event_type: type[_EventT], handler: Callable[[_EventT], None]) -> None:
        """Call a function with each event of this type from now on, in the order of the messages.

        `events()` yields them, too. The function must not wait; its exception is logged. The
        configuration may have arrived before: see `config`.

        Raises:
            LocalProtocolError: the function is async, or the type is not a class.
        """
        self._events.on(event_type, handler)

    def _on_content(self, received: m.ChatContentReceivedParams) -> None:
        parent = self._chats.get(received.parent_chat_id or "")
        if parent is not None:
            parent._queue.receive_of_subagent(received)
        chat = self._chats.get(received.chat_id)
        if chat is None or not chat._queue.receive(received):
            self._events.add(received)

    def _begin_question(self, chat_id: str) -> Callable[[], None]:
        """Suspend the limit of a turn's silence; return the function that ends that."""
        chat = self._chats.get(chat_id)
        return (lambda: None) if chat is None else chat._queue.begin_question()

    def _refuse_question(self, question: m.ChatAskQuestionParams) -> m.ChatAskQuestionResponse:
        """Refuse a question; we have not announced that we answer any."""
        message = (
            f"the server asks {question.question!r}: pass on_question to connect, a function of "
            "the question that returns the answer, or None for no answer"
        )
        if (chat := self._chats.get(question.chat_id)) is not None:
            chat._queue.interrupt(AnswerNeeded(message, question))
        raise RPCError(ErrorCode.METHOD_NOT_FOUND, "this client answers no questions")

    def _on_config(self, params: m.ConfigUpdatedParams) -> None:
        self._learn_revision(None if params.chat is None else params.chat.variants)
        if params.chat is not None and params.chat_id is None:
            changes = {
                field.name: value
                for field in attrs.fields(m.ChatConfig)
                if (value := getattr(params.chat, field.name)) is not None
            }
            self.config = attrs.evolve(self.config, **changes)
        self._configured.set()
        self._events.add(params)

    def _on_tool_server(self, params: m.ToolServerUpdatedParams) -> None:
        if not isinstance(params, m.UnknownServerUpdatedParams):
            self.tool_servers[params.name] = params
        self._events.add(params)

    def _on_tool_server_removed(self, params: m.ToolServerRemovedParams) -> None:
        self.tool_servers.pop(params.name, None)
        self._events.add(params)

    def _on_chat_deleted(self, params: m.ChatDeletedParams) -> None:
        chat = self._chats.get(params.chat_id)
        if chat is not None:
            chat._on_deleted()
        self._events.add(params)

    async def _serve(self) -> None:
        end = await self._peer.serve()
        for chat in self._chats.values():
            chat._queue.fail(end.reason)
        self._configured.set()
        self._events.close()
        if self._child is not None:
            await self._child.wait()  # for `exit_code`; leaving the block ends the wait

    async def __aenter__(self) -> Self:
        await super().__aenter__()
        self._peer.start_soon(self._serve)
        if self._child is not None:
            self._peer.start_soon(self._child.end_output)
        if self._server is not None:
            self._peer.start_soon(self._server.run)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        try:
            with anyio.CancelScope(shield=True):
                if self._server is not None and self.closed:
                    await self._stream.aclose()  # it may wait for the end of its input
                await self._shut_down()
                if self._server is not None:
                    await self._server.wait()
        finally:
            try:
                await self._peer.__aexit__()
            finally:
                if self._child is not None:
                    await self._child.end(_GRACE_PERIODS)
        if self._server is not None and self._server.error is not None:
            raise self._server.error

    async def _abort(self, reason: str) -> None:
        """Close the connection and end the server without leaving the block, from any task."""
        with anyio.CancelScope(shield=True):
            await self._shut_down()
            self._peer.close(reason)
            with anyio.move_on_after(self._peer.flush_seconds):
                await self._stream.drain(0)
            self._peer._sending.cancel()
            try:
                await self._stream.aclose()
            finally:
                if self._child is not None:
                    await self._child.end(_GRACE_PERIODS)

    async def _shut_down(self) -> None:
        if self.closed:
            return
        # It was shut down already or never initialized, or something of it did not end in time.
        with contextlib.suppress(ECAError):
            await self.request(methods.SHUTDOWN, None, deadline=5.0)
        if not self.closed:
            self.notify(methods.EXIT, None)
        self._peer.close("the client has left")

"""The client's connection: the server's state, the routing of its messages, the shutdown."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from types import TracebackType
from typing import Any, Final, Self, TypeAlias

import anyio
import attrs

from eca_protocol import messages as m
from eca_protocol.client.calls import Calls
from eca_protocol.client.chat import Chat
from eca_protocol.client.request_handlers import RequestHandlers
from eca_protocol.draft import codec_for
from eca_protocol.errors import ConnectionClosed, ECAError, LocalProtocolError
from eca_protocol.methods import ECA
from eca_protocol.peer import Peer, PendingCall
from eca_protocol.process import Child, GracePeriods
from eca_protocol.revisions import Revision, detect_server
from eca_protocol.streams import Transport

__all__ = ["Client", "Event"]

Event: TypeAlias = (
    m.ChatContentReceivedParams
    | m.ConfigUpdatedParams
    | m.EcaServerUpdatedParams
    | m.MCPServerUpdatedParams
    | m.UnknownServerUpdatedParams
    | m.ShowMessageParams
    | m.ProgressParams
    | m.ChatClearedParams
    | m.ChatDeletedParams
    | m.ChatOpenedParams
    | m.ChatStatusChangedParams
    | m.JobsUpdatedParams
    | m.ProviderStatus
    | m.RewriteContentReceivedParams
    | m.ToolServerRemovedParams
)

ANNOUNCED: Final = Revision.CURRENT
"""The edition of our `initialize`; an older server ignores unknown members."""

ASSUMED: Final = detect_server(None)
"""The edition until the server's first `config/updated` shows the real one (W-16)."""

CONFIGURED = 10.0
"""The limit of the wait for the server's first `config/updated`, in seconds."""

INBOX = 2**20
"""The limit of unread contents, in bytes; above it reading waits."""

MAX_EVENTS = 4096
"""The limit of unread events; a new event then replaces the oldest."""

_GRACE_PERIODS = GracePeriods(after_stdin=2.0, after_term=1.0, after_kill=1.0)


class Client(Calls):
    """A connection to a server; made by `connect`.

    Attributes:
        initialize_response: the server's answer to `initialize`.
        config: the server's configuration, merged from its `config/updated` notifications.
        tool_servers: the latest `tool/serverUpdated` of each server, by name.
        idle_deadline: the limit of a turn's silence, in seconds; None: no limit.
        revision: the edition of the connection.
        handled_methods: the server's methods that this client handles.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        child: Child | None = None,
        revision: Revision | None = None,
        request_handlers: RequestHandlers | None = None,
        deadline: float | None = 30.0,
        idle_deadline: float | None = 600.0,
    ) -> None:
        handlers: dict[str, Callable[[Any], Any]] = {
            "chat/contentReceived": self._on_content,
            "config/updated": self._on_config,
            "tool/serverUpdated": self._on_tool_server,
            "tool/serverRemoved": self._on_tool_server_removed,
            "chat/deleted": self._on_chat_deleted,
            "chat/cleared": self._add_event,
            "chat/opened": self._add_event,
            "chat/statusChanged": self._add_event,
            "jobs/updated": self._add_event,
            "providers/updated": self._add_event,
            "rewrite/contentReceived": self._add_event,
            "$/showMessage": self._add_event,
            "$/progress": self._add_event,
            **(request_handlers or RequestHandlers()).handlers(),
        }
        self.handled_methods = frozenset(handlers)
        peer = Peer(
            transport,
            side="client",
            table=ECA,
            codec=codec_for(revision or ANNOUNCED),
            handlers=handlers,
            before_reading=self._wait_for_space,
        )
        super().__init__(peer, deadline=deadline)
        self.initialize_response = m.InitializeResponse()
        self.config = m.ChatConfig()
        self.tool_servers: dict[str, m.ToolServerUpdatedParams] = {}
        self.idle_deadline = idle_deadline
        self.revision = revision or ASSUMED
        self._revision_is_known = revision is not None
        self._child = child
        self._chats: dict[str, Chat] = {}
        self._events: deque[Event] = deque(maxlen=MAX_EVENTS)
        self._event_came = anyio.Event()
        self._space_freed = anyio.Event()
        self._forced_reads = 0
        self._held_notifications: list[
            tuple[str, Any]
        ] = []  # notifications until the edition is known
        self._configured = anyio.Event()

    def chat(
        self,
        chat_id: str | None = None,
        *,
        model: str | None = None,
        behavior: m.ChatBehavior | None = None,
    ) -> Chat:
        """Return the chat with this id, or a new one."""
        if chat_id is not None and chat_id in self._chats:
            return self._chats[chat_id]
        chat = Chat(self, chat_id, model=model, behavior=behavior)
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
    def closed(self) -> bool:
        """True if the connection has ended."""
        return self._peer.closed or self._peer.end is not None

    @property
    def process_id(self) -> int | None:
        """The process id of the server that `connect` started."""
        return None if self._child is None else self._child.pid

    @property
    def exit_code(self) -> int | None:
        """The exit code of the server that `connect` started; None while it runs."""
        return None if self._child is None else self._child.returncode

    async def wait_for_config(self, *, deadline: float | None = CONFIGURED) -> m.ChatConfig:
        """Wait until the server has announced its models and behaviours, and return them.

        In an edition without `config/updated` it returns at once.

        Raises:
            TimeoutError: the server announced none within `deadline` seconds.
            ConnectionClosed: the connection has ended.
        """
        if not ECA["config/updated"].window.written_in(self.revision):
            return self.config
        with anyio.fail_after(deadline):
            await self._configured.wait()
        if self.config == m.ChatConfig() and self.closed:
            raise ConnectionClosed("the connection to the server has ended")
        return self.config

    async def events(self) -> AsyncIterator[Event]:
        """Yield the server's notifications outside of our turns, until the connection ends.

        Each event is yielded once: two concurrent iterations share them.
        """
        while True:
            while self._events:
                yield self._events.popleft()
            if self.closed:
                return
            if self._event_came.is_set():  # otherwise another task waits for this event
                self._event_came = anyio.Event()
            await self._event_came.wait()

    def register(self, chat: Chat) -> None:
        """Route contents to a chat, also after it was deleted.

        Raises:
            LocalProtocolError: `chat()` has since returned a new chat with this id.
        """
        if self._chats.setdefault(chat.id, chat) is not chat:
            raise LocalProtocolError(
                "the chat was deleted and replaced: use the new one that chat() returns"
            )

    def unregister(self, chat: Chat) -> None:
        """Stop routing contents to a deleted chat."""
        self._chats.pop(chat.id, None)

    def resume_reading(self) -> None:
        """Let reading continue: an inbox has space, or a call needs its answer."""
        self._space_freed.set()

    def start_request(self, method: str, params: Any) -> PendingCall:
        """Send a request, and read on for its answer even if the inboxes are full."""
        call = super().start_request(method, params)
        self.resume_reading()
        return call

    @contextlib.contextmanager
    def keep_reading(self) -> Iterator[None]:
        """Read on within the block even if the inboxes are full."""
        self._forced_reads += 1
        self.resume_reading()
        try:
            yield
        finally:
            self._forced_reads -= 1

    async def wait_for_revision(self, method: str, params: Any) -> None:
        """Wait until the server's edition is known, if a request depends on it (W-16).

        A request depends on it if it exists only in CURRENT, or if it is a prompt behind such a
        notification.
        """
        depends = not ECA[method].window.written_in(self.revision) or (
            isinstance(params, m.ChatPromptParams)
            and bool(
                params.variant is not None or params.trust is not None or self._held_notifications
            )
        )
        if depends and not self._revision_is_known:
            with anyio.move_on_after(CONFIGURED) as scope, self.keep_reading():
                await self._configured.wait()
            if scope.cancelled_caught:
                self._held_notifications.clear()  # an older server does not know them

    async def _request(self, method: str, params: Any, deadline: float | None = None) -> Any:
        await self.wait_for_revision(method, params)
        return await super()._request(method, params, deadline)

    def _notify(self, method: str, params: Any = None) -> None:
        is_known = self._revision_is_known or ECA[method].window.written_in(self.revision)
        if is_known or self.closed:
            super()._notify(method, params)
        else:
            self._gate.check_sending(method, "notification")
            self._held_notifications.append((method, params))

    async def _wait_for_space(self) -> None:
        while sum(chat.unread for chat in self._chats.values()) > INBOX:
            if self._peer.pending_calls or self._forced_reads:
                return
            self._space_freed = anyio.Event()
            await self._space_freed.wait()

    def _on_content(self, received: m.ChatContentReceivedParams) -> None:
        chat = self._chats.get(received.chat_id)
        if chat is None or not chat.receive(received):
            self._add_event(received)

    async def initialize(
        self, params: m.InitializeParams, *, deadline: float | None = None
    ) -> m.InitializeResponse:
        """Initialize the connection; until the server's edition is known, use the assumed one."""
        result = await super().initialize(params, deadline=deadline)
        if not self._revision_is_known:
            self._peer.codec = codec_for(self.revision)
        return result

    def _on_config(self, params: m.ConfigUpdatedParams) -> None:
        if not self._revision_is_known:
            self._revision_is_known = True
            self.revision = detect_server(None if params.chat is None else params.chat.variants)
            self._peer.codec = codec_for(self.revision)
            held, self._held_notifications = self._held_notifications, []
            with contextlib.suppress(LocalProtocolError, ConnectionClosed):  # shutting down
                for method, value in held:
                    self._notify(method, value)
        if params.chat is not None and params.chat_id is None:
            changes = {
                field.name: value
                for field in attrs.fields(m.ChatConfig)
                if (value := getattr(params.chat, field.name)) is not None
            }
            self.config = attrs.evolve(self.config, **changes)
        self._configured.set()
        self._add_event(params)

    def _on_tool_server(self, params: m.ToolServerUpdatedParams) -> None:
        if not isinstance(params, m.UnknownServerUpdatedParams):
            self.tool_servers[params.name] = params
        self._add_event(params)

    def _on_tool_server_removed(self, params: m.ToolServerRemovedParams) -> None:
        self.tool_servers.pop(params.name, None)
        self._add_event(params)

    def _on_chat_deleted(self, params: m.ChatDeletedParams) -> None:
        chat = self._chats.get(params.chat_id)
        if chat is not None:
            chat.on_deleted()
        self._add_event(params)

    def _add_event(self, event: Event) -> None:
        self._events.append(event)
        self._event_came.set()

    async def _serve(self) -> None:
        end = await self._peer.serve()
        for chat in self._chats.values():
            chat.fail(end.reason)
        self._configured.set()
        self._event_came.set()

    async def __aenter__(self) -> Self:
        await self._peer.__aenter__()
        self._peer.start_soon(self._serve)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await self._shut_down()
        finally:
            try:
                await self._peer.__aexit__(None, None, None)
            finally:
                if self._child is not None:
                    await self._child.end(_GRACE_PERIODS)

    async def _shut_down(self) -> None:
        if self.closed:
            return
        try:
            await self.shutdown(deadline=5.0)
        except LocalProtocolError:
            pass  # the server was shut down already, or never initialized
        except ECAError:
            return
        if not self.closed:
            self.exit()
        self._peer.close("the client has left")

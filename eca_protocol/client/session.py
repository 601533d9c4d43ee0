"""A client's connection: its peer, the server's edition, and the limit of unread contents.

Messages that exist only in CURRENT wait until the server's first `config/updated` shows its edition
(ruling W-16). Reading waits while the inboxes are full; while one of our calls is pending, their
limit is higher.
"""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Self, TypeVar

import anyio
import anyio.lowlevel

from eca_protocol import messages as m
from eca_protocol.client.inbox import Inbox
from eca_protocol.client.options import ConnectionOptions
from eca_protocol.draft import codec_for
from eca_protocol.endpoint import Method
from eca_protocol.errors import ConnectionClosed, DeadlineExceeded, LocalProtocolError
from eca_protocol.lifecycle import LifecycleGate, State
from eca_protocol.message_transport import StreamTransport
from eca_protocol.methods import ECA, INITIALIZE, ClientNotification, ClientRequest
from eca_protocol.peer import Peer, PendingCall
from eca_protocol.revisions import Revision, detect_server
from eca_protocol.streams import Transport

P = TypeVar("P")
R = TypeVar("R")

ANNOUNCED: Final = Revision.CURRENT
"""The edition of our `initialize`; an older server ignores unknown members."""

ASSUMED: Final = detect_server(None)
"""The edition until the server's first `config/updated` shows the real one (W-16)."""

CONFIGURED = 10.0
"""The limit of the wait for the server's first `config/updated`, in seconds."""

INBOX = 2**20
"""The limit of unread contents, in bytes; above it reading waits."""

AWAITED_INBOX = 64 * 2**20
"""The limit while a task waits for a content, an event or an answer behind the unread ones."""


MAX_RUNNING: Final = 4096
"""The limit of the server's unanswered requests; each takes 9 KB, and one more is refused."""


class Session:
    """The base of a client: its requests and notifications.

    Requests raise the exceptions of `PendingCall.result`. A message that the lifecycle does not
    allow, and a request that is not in the revision, raises LocalProtocolError. A notification on
    a closed connection raises ConnectionClosed.

    Attributes:
        deadline: the default limit of a request, in seconds; None: no limit.
        idle_deadline: the limit of a turn's silence, in seconds; None: no limit.
        on_approval: decides about tool calls that need approval; see `connect`.
    """

    def __init__(
        self,
        transport: Transport,
        handlers: Mapping[str, Callable[[Any], Any]],
        options: ConnectionOptions,
    ) -> None:
        self.deadline = options.deadline
        self.idle_deadline = options.idle_deadline
        self.on_approval = options.on_approval
        self.revision: Revision = options.revision or ASSUMED
        self._stream = StreamTransport(transport)
        self._peer = Peer(
            self._stream,
            side="client",
            table=ECA,
            codec=codec_for(options.revision or ANNOUNCED),
            handlers=handlers,
            before_reading=self._wait_for_space,
            max_running=MAX_RUNNING,
        )
        self._gate = LifecycleGate()
        self._inboxes: weakref.WeakSet[Inbox] = weakref.WeakSet()  # of latest turns
        self._revision_is_known = options.revision is not None
        self._held_notifications: list[
            tuple[ClientNotification[Any], Any]
        ] = []  # until the edition is known
        self._configured = anyio.Event()
        self._announced_by: float  # the time at which the server counts as one of October
        self._space_freed = anyio.Event()
        self._forced_reads = 0
        self._thread: int
        self._run_soon: Callable[[Callable[[], None]], object]
        self._now: Callable[[], float]  # the loop's clock, also in a callback that no task calls

    async def __aenter__(self) -> Self:
        self._thread = threading.get_ident()
        token: Any = anyio.lowlevel.current_token()
        loop = getattr(token, "native_token", token)
        self._run_soon = getattr(loop, "run_sync_soon", None) or loop.call_soon_threadsafe
        self._now = getattr(loop, "time", anyio.current_time)
        self._announced_by = self._now() + CONFIGURED
        await self._peer.__aenter__()
        return self

    def call_in_finalizer(
        self, function: Callable[[], None], *, get_ident: Callable[[], int] = threading.get_ident
    ) -> None:
        """Call a function of the connection; a finalizer may run in any thread, at any time.

        At the end of the interpreter, the names of this module are None.
        """
        if self._thread == get_ident():
            function()
            return
        try:  # noqa: SIM105 - `contextlib` may be one of those names
            self._run_soon(function)
        except RuntimeError:  # the event loop has ended
            pass

    @property
    def closed(self) -> bool:
        """True if the connection has ended."""
        return self._peer.closed or self._peer.end is not None

    @property
    def _unreadable_output(self) -> str:
        """The beginning of the server's output that is no message; empty: there is none."""
        error = self._peer.first_unreadable
        return self._stream.incomplete_header if error is None else error.message

    async def initialize(
        self, params: m.InitializeParams, *, deadline: float | None = None
    ) -> m.InitializeResponse:
        """Begin the connection (chapter "Initialize"); `connect` calls this.

        Until the server's edition is known, the assumed one is used.
        """
        try:
            result = await self.request(INITIALIZE, params, deadline=deadline)
        except BaseException:
            self._gate.record_answer("initialize", success=False)
            raise
        self._gate.record_answer("initialize", success=True)
        self._announced_by = self._now() + CONFIGURED
        if not self._revision_is_known:
            self._peer.codec = codec_for(self.revision)
        return result

    async def request(
        self, method: ClientRequest[P, R], params: P, *, deadline: float | None = None
    ) -> R:
        """Send a request of the method table, and return its result.

        Args:
            method: a row of `eca_protocol.methods`, such as `CHAT_LIST`.
            params: the row's params; None for a row without params.
            deadline: the limit of this request, in seconds; None: the client's.

        Raises:
            LocalProtocolError: `method` is no row of the table.
        """
        _check_row(method)
        limit = self.deadline if deadline is None else deadline
        limit = await self.wait_for_revision(method, params, limit)
        call = self.start_request(method, params)
        return await call.result(deadline=limit)

    def start_request(self, method: ClientRequest[P, R], params: P) -> PendingCall[R]:
        """Send a request, and read on for its answer even if the inboxes are full.

        Await the returned call's `result()` for the answer.
        """
        self._gate.check_sending(method.name, "request")
        call: PendingCall[R] = self._peer.start_call(method.name, params)
        self.resume_reading()
        return call

    def notify(self, method: ClientNotification[P], params: P) -> None:
        """Send a notification of the method table; an older server is not sent newer ones."""
        _check_row(method)
        self._gate.check_sending(method.name, "notification")
        if self.closed:
            raise ConnectionClosed(f"{method.name}: the connection is closed")
        if self._revision_is_known or method.window.written_in(self.revision):
            self._peer.notify(method.name, params)
        else:
            self._held_notifications.append((method, params))

    async def wait_for_revision(
        self, method: ClientRequest[P, Any], params: P, deadline: float | None
    ) -> float | None:
        """Wait until the server's edition is known, if a request depends on it (W-16).

        A request depends on it if it exists only in CURRENT, or if it is a prompt behind such a
        notification. A server that has not shown it `CONFIGURED` seconds after its start is taken
        for an older one. Return the seconds of the request's `deadline` that are left.

        Raises:
            DeadlineExceeded: the edition is unknown after `deadline` seconds.
        """
        depends = not method.window.written_in(self.revision) or (
            isinstance(params, m.ChatPromptParams)
            and bool(
                params.variant is not None or params.trust is not None or self._held_notifications
            )
        )
        if not depends or self._revision_is_known:
            return deadline
        started = anyio.current_time()
        limit = max(0.0, self._announced_by - started)
        if deadline is not None and deadline < limit:
            limit = deadline
        with anyio.move_on_after(limit) as scope, self.keep_reading():
            await self._configured.wait()
        if scope.cancelled_caught:
            if limit == deadline:
                what = f"the server's first config/updated, on whose edition {method.name} depends"
                raise DeadlineExceeded(f"{what} (option revision: do not wait)", limit)
            self._held_notifications.clear()  # an older server does not know them
        if deadline is None:
            return None
        return round(max(deadline - (anyio.current_time() - started), 0.0), 2)

    def _learn_revision(self, variants: Sequence[str] | None) -> None:
        """Set the edition that the server's first `config/updated` shows."""
        if self._revision_is_known:
            return
        self._revision_is_known = True
        self.revision = detect_server(variants)
        self._peer.codec = codec_for(self.revision)
        held, self._held_notifications = self._held_notifications, []
        with contextlib.suppress(LocalProtocolError, ConnectionClosed):  # shutting down
            for method, params in held:
                self.notify(method, params)

    def resume_reading(self) -> None:
        """Let reading continue: an inbox has space, or a call needs its answer."""
        self._space_freed.set()

    @contextlib.contextmanager
    def keep_reading(self) -> Iterator[None]:
        """Read on within the block even if the inboxes are full."""
        self._forced_reads += 1
        self.resume_reading()
        try:
            yield
        finally:
            self._forced_reads -= 1

    async def _wait_for_space(self) -> None:
        while (unread := sum(inbox.size for inbox in self._inboxes)) > INBOX:
            is_awaited = self._peer.pending_calls or self._forced_reads
            if is_awaited and unread <= AWAITED_INBOX:
                return
            if self._gate.state is State.SHUTDOWN:  # its answer is behind what no task will read
                for inbox in tuple(self._inboxes):
                    inbox.abandon()
                return
            self._space_freed = anyio.Event()
            await self._space_freed.wait()


def _check_row(method: object) -> None:
    if not isinstance(method, Method):
        raise LocalProtocolError(
            f"expected a row of eca_protocol.methods, such as methods.CHAT_LIST, got {method!r}"
        )

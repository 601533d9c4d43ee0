"""A server's notifications outside of our turns: a queue, and functions that are called at once."""

from __future__ import annotations

import inspect
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager
from typing import Any, Self, TypeAlias, TypeVar

import anyio

from eca_protocol import messages as m
from eca_protocol.client.sizes import size_of
from eca_protocol.errors import LocalProtocolError

_log = logging.getLogger("eca_protocol.client")

Event: TypeAlias = """(
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
)"""

MAX_EVENTS = 4096
"""The limit of unread events; a new event then replaces the oldest."""

MAX_EVENTS_SIZE = 64 * 2**20
"""The limit of their approximate size, in bytes; a new event then replaces the oldest ones."""

_EventT = TypeVar("_EventT", bound=Event)


class EventQueue:
    """The unread events of a connection, and the functions for some of their types."""

    def __init__(self) -> None:
        self._events: deque[tuple[Event, int]] = deque()  # with their sizes
        self._size = 0
        self._handlers: list[tuple[type, Callable[[Any], None]]] = []
        self._changed = anyio.Event()
        self._is_closed = False

    def on(self, event_type: type[_EventT], handler: Callable[[_EventT], None]) -> None:
        """Call a function with each event of a type.

        Raises:
            LocalProtocolError: the function is async, or the type is not a class.
        """
        if not isinstance(event_type, type):
            raise LocalProtocolError(f"client.on: expected a class of events, got {event_type!r}")
        if inspect.iscoroutinefunction(handler):
            raise LocalProtocolError(
                "client.on: expected a plain function, got an async one: let it start a task, or "
                "iterate over client.events()"
            )
        self._handlers.append((event_type, handler))

    def add(self, event: Event) -> None:
        """Add an event, and call the functions for its type in the order of their registration."""
        size = size_of(event)
        self._events.append((event, size))
        self._size += size
        while len(self._events) > MAX_EVENTS or self._size > MAX_EVENTS_SIZE:
            self._take()
        self.wake()
        for event_type, handler in tuple(self._handlers):
            if isinstance(event, event_type):
                try:
                    handler(event)
                except Exception:  # noqa: BLE001 - one bad handler must not end the connection
                    _log.exception("a handler of %s failed", event_type.__name__)

    def _take(self) -> Event:
        event, size = self._events.popleft()
        self._size -= size
        return event

    def close(self) -> None:
        """End every iteration after the unread events."""
        self._is_closed = True
        self.wake()

    def wake(self) -> None:
        """Let waiting iterations look for events and for their end."""
        self._changed.set()

    async def next(self, is_left: Callable[[], bool]) -> Event | None:
        """Return the next event; None at the end of the connection, or when `is_left()`."""
        while not is_left():
            if self._events:
                return self._take()
            if self._is_closed:
                return None
            if self._changed.is_set():  # otherwise another task waits for this event
                self._changed = anyio.Event()
            await self._changed.wait()
        return None


class Events(AsyncIterator[Event]):
    """An iteration over the events of a connection; made by `Client.events()`.

    Leaving the block of `async with client.events() as events:` ends it, in every task.
    """

    def __init__(
        self, queue: EventQueue, keep_reading: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self._queue = queue
        self._keep_reading = keep_reading
        self._is_left = False

    async def __anext__(self) -> Event:
        with self._keep_reading():
            event = await self._queue.next(lambda: self._is_left)
        if event is None:
            raise StopAsyncIteration
        return event

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        self._is_left = True
        self._queue.wake()

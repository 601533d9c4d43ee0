"""The client without async code, for scripts and notebooks.

    with sync.connect(command=SERVER_COMMAND) as client:
        for content in client.chat().prompt("Hello"):
            print(content)

It has the methods of the async client, which wait here. The connection runs in a thread of its own,
also beside the running event loop of a notebook. The functions for approvals, questions and the
editor are called in a thread of the program that waits for the connection, so that they may read
from the terminal. Ctrl-C in a wait for a turn stops the turn.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import inspect
import os
import threading
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from typing import Any, Concatenate, Final, Generic, ParamSpec, Self, TypeVar, cast, overload

import anyio
import attrs
from anyio.from_thread import BlockingPortal

from eca_protocol import client as asynchronous
from eca_protocol import messages as m
from eca_protocol.errors import ConnectionClosed, LocalProtocolError
from eca_protocol.revisions import Revision

__all__ = ["Chat", "Client", "Turn", "connect", "open"]

A_co = TypeVar("A_co", covariant=True)
F = TypeVar("F")
P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

_THREAD_NAME: Final = "eca-client"
_END: Final = object()
_HANDLERS: Final = ("on_approval", "on_question", "diagnostics", "definition", "references")


@contextlib.contextmanager
def _running_portal(backend: str) -> Iterator[BlockingPortal]:
    """Run an event loop in a thread; that of anyio waits forever after Ctrl-C in its start."""
    started: Future[BlockingPortal] = Future()

    async def hold() -> None:
        async with BlockingPortal() as portal:
            if started.set_running_or_notify_cancel():
                started.set_result(portal)
                await portal.sleep_until_stopped()

    def run() -> None:
        try:
            anyio.run(hold, backend=backend)
        except BaseException as error:  # noqa: BLE001 - raised by the other thread
            if not started.done():
                started.set_exception(error)

    own_context = contextvars.Context().run  # Python may pass on that of a running event loop
    thread = threading.Thread(target=own_context, args=(run,), daemon=True, name=_THREAD_NAME)
    cancels = True
    try:
        thread.start()
        yield started.result()
        cancels = False
    finally:
        try:
            if not started.cancel() and started.exception() is None:
                with contextlib.suppress(RuntimeError):  # it was stopped
                    portal = started.result()
                    portal.call(portal.stop, cancels)
        finally:
            with contextlib.suppress(RuntimeError):  # Ctrl-C came before it ran; it ends by itself
                thread.join()


class _ConnectionThread:
    """The thread of a connection, and the calls from and into other threads."""

    def __init__(self) -> None:
        self._exits = contextlib.ExitStack()
        self._portal: BlockingPortal
        self._thread: threading.Thread | None = None
        self._process_id = os.getpid()
        self._changed = threading.Condition()
        self._jobs: deque[_Job] = deque()

    def open(self, options: asynchronous.ConnectionOptions) -> asynchronous.Client:
        values = {each.name: getattr(options, each.name) for each in attrs.fields(type(options))}
        for name in _HANDLERS:
            if callable(values[name]):
                values[name] = self._called_outside(values[name])
        context = asynchronous.connect(**values)
        backend = getattr(options.server, "backend", "asyncio")
        with contextlib.ExitStack() as exits:
            self._portal = exits.enter_context(_running_portal(backend))
            self._thread = self._portal.call(threading.current_thread)
            client = exits.enter_context(self._portal.wrap_async_context_manager(context))
            self._exits = exits.pop_all()
        return client

    def close(self) -> None:
        if os.getpid() != self._process_id:  # a forked process has no such thread
            self._portal._event_loop_thread_id = None  # anyio's mark of a stopped portal
        elif threading.current_thread().name == _THREAD_NAME:  # as a finalizer; it must not wait
            threading.Thread(target=self.close).start()
        else:
            self._exits.close()

    def call(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function in the thread of the connection, and wait for its result.

        Meanwhile this thread calls the functions of the program. An exception of its own, such as
        KeyboardInterrupt, cancels the call.
        """
        if os.getpid() != self._process_id:
            raise ConnectionClosed("a forked process cannot use the connection: open a new one")
        if threading.current_thread() is self._thread:
            if inspect.iscoroutinefunction(function) or function is anext:
                raise LocalProtocolError("a function given to client.on must not wait")
            return function(*args, **kwargs)
        task = _Task(functools.partial(function, *args, **kwargs))
        try:
            future = self._start(task)
            future.add_done_callback(self._wake)
            while (job := self._next_job(future)) is not None:
                job.run()
            return future.result()
        except CancelledError:
            raise ConnectionClosed("the connection was closed") from None
        except BaseException:
            if not task.has_ended:
                with contextlib.suppress(RuntimeError):  # the portal was stopped
                    self._portal.call(task.cancel)
            raise

    def _start(self, task: _Task) -> Future[Any]:
        """Start a task; this waits while the thread is busy, and Ctrl-C may come meanwhile."""
        try:
            return self._portal.start_task_soon(task.run)
        except RuntimeError:  # the portal was stopped
            raise ConnectionClosed("the connection was closed") from None

    def _next_job(self, future: Future[Any]) -> _Job | None:
        with self._changed:
            self._changed.wait_for(lambda: future.done() or self._jobs)
            return None if future.done() else self._jobs.popleft()

    def _wake(self, _: object = None) -> None:
        with self._changed:
            self._changed.notify_all()

    def _called_outside(self, function: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """Return an async function that has a waiting thread call a function of the program."""

        async def call(argument: Any) -> Any:
            done = anyio.Event()
            job = _Job(function, argument, on_done=lambda: self._portal.call(done.set))
            self._jobs.append(job)
            self._wake()
            try:
                await done.wait()
            finally:
                with contextlib.suppress(ValueError):
                    self._jobs.remove(job)
            result = job.future.result()
            return await result if inspect.isawaitable(result) else result

        return call


class _Task:
    """A call in the thread of the connection, which can be cancelled before it has started."""

    def __init__(self, function: Callable[[], Any]) -> None:
        self.has_ended = False
        self._function = function
        self._scope: anyio.CancelScope | None = None
        self._is_cancelled = False

    async def run(self) -> Any:
        try:
            with anyio.CancelScope() as self._scope:
                if self._is_cancelled:
                    self._scope.cancel()
                result = self._function()
                return await result if inspect.isawaitable(result) else result
        finally:
            self.has_ended = True

    def cancel(self) -> None:
        """Cancel the call; in the thread of the connection."""
        self._is_cancelled = True
        if self._scope is not None:
            self._scope.cancel()


@attrs.frozen(eq=False)
class _Job:
    """A call of a function of the program, made by a thread that waits for the connection."""

    function: Callable[[Any], Any]
    argument: Any
    on_done: Callable[[], object]
    future: Future[Any] = attrs.field(factory=Future)

    def run(self) -> None:
        """Call the function, and report its outcome."""
        try:
            self.future.set_result(self.function(self.argument))
        except Exception as error:  # noqa: BLE001 - raised by the waiting side
            self.future.set_exception(error)
        finally:
            if not self.future.done():
                self.future.set_exception(LocalProtocolError("the function was interrupted"))
            with contextlib.suppress(RuntimeError):  # the portal was stopped
                self.on_done()


class _Face(Generic[A_co]):
    """An object of the connection's thread, for use in other threads."""

    def __init__(self, thread: _ConnectionThread, wrapped: A_co) -> None:
        self._thread = thread
        self._wrapped = wrapped


class _Attribute(Generic[R]):
    """An attribute of the wrapped object."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, face: _Face[Any] | None, owner: type) -> R:
        return cast("R", self if face is None else getattr(face._wrapped, self._name))

    def __set__(self, face: _Face[Any], value: R) -> None:
        setattr(face._wrapped, self._name, value)


@overload
def _waiting(
    function: Callable[Concatenate[S, P], Coroutine[Any, Any, R]],
) -> Callable[Concatenate[_Face[S], P], R]: ...
@overload
def _waiting(
    function: Callable[Concatenate[S, P], R],
) -> Callable[Concatenate[_Face[S], P], R]: ...
def _waiting(function: Any) -> Any:
    """Return a method that calls one of the wrapped object, and waits for its result."""

    @functools.wraps(function)
    def call(face: _Face[Any], /, *args: Any, **kwargs: Any) -> Any:
        return face._thread.call(function, face._wrapped, *args, **kwargs)

    return call


def _making(
    make: Callable[[F, R], S], function: Callable[Concatenate[Any, P], R]
) -> Callable[Concatenate[F, P], S]:
    """Return a method that makes a face of a method's result."""

    @functools.wraps(function)
    def call(face: Any, /, *args: P.args, **kwargs: P.kwargs) -> S:
        return make(face, face._thread.call(function, face._wrapped, *args, **kwargs))

    return call


class _Iteration(Iterator[R]):
    """An iteration; each item is fetched when it is asked for.

    It refers to its turn or client, and so keeps the connection open.
    """

    def __init__(self, face: _Face[Any], items: AsyncIterator[R]) -> None:
        self._face = face
        self._items = items

    def __next__(self) -> R:
        # An exception at the end would refer to the client until the next garbage collection.
        item: R | object = self._face._thread.call(anext, self._items, _END)
        if item is _END:
            raise StopIteration
        return cast("R", item)


class Turn(_Face[asynchronous.Turn]):
    """A prompt and its contents, as in the async client; iterate over it, or call `text()`.

    Attributes:
        chat: the chat of the turn.
        params: the prompt.
        response: the server's answer to the prompt; None before it arrives.
        arguments_texts: the argument text of each tool call as far as it was read.
        stopped: our side has stopped the turn.
    """

    params: _Attribute[m.ChatPromptParams] = _Attribute()
    response: _Attribute[m.ChatPromptResponse | None] = _Attribute()
    arguments_texts: _Attribute[Mapping[str, str]] = _Attribute()
    stopped: _Attribute[bool] = _Attribute()

    start = _waiting(asynchronous.Turn.start)
    stop = _waiting(asynchronous.Turn.stop)
    text = _waiting(asynchronous.Turn.text)

    def __init__(self, chat: Chat, turn: asynchronous.Turn) -> None:
        super().__init__(chat._thread, turn)
        self.chat = chat

    def contents_with_roles(self) -> Iterator[m.ChatContentReceivedParams]:
        """Yield every content of the turn with its role, including the user's echo."""
        return _Iteration(self, self._wrapped.contents_with_roles())

    def __iter__(self) -> Iterator[m.ChatContent]:
        return _Iteration(self, aiter(self._wrapped))

    def __enter__(self) -> Self:
        self._thread.call(self._wrapped.__aenter__)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._thread.call(self._wrapped.__aexit__, *exc_info)


class Chat(_Face[asynchronous.Chat]):
    """One chat of a client, as in the async client; make it with `Client.chat()`.

    Attributes:
        client: the client of the chat.
        id: the chat's id.
        model: the default model of its prompts; None: the server's default.
        behavior: the default behaviour; None: the server's default.
        title: the title that the server sent.
        usage: the latest usage that the server sent.
    """

    id: _Attribute[str] = _Attribute()
    model: _Attribute[str | None] = _Attribute()
    behavior: _Attribute[str | None] = _Attribute()
    title: _Attribute[str | None] = _Attribute()
    usage: _Attribute[m.ChatUsageContent | None] = _Attribute()

    prompt = _making(Turn, asynchronous.Chat.prompt)
    stop = _waiting(asynchronous.Chat.stop)
    steer = _waiting(asynchronous.Chat.steer)
    approve = _waiting(asynchronous.Chat.approve)
    reject = _waiting(asynchronous.Chat.reject)
    delete = _waiting(asynchronous.Chat.delete)
    query_context = _waiting(asynchronous.Chat.query_context)
    query_commands = _waiting(asynchronous.Chat.query_commands)
    update = _waiting(asynchronous.Chat.update)
    clear = _waiting(asynchronous.Chat.clear)
    history = _waiting(asynchronous.Chat.history)

    def __init__(self, client: Client, chat: asynchronous.Chat) -> None:
        super().__init__(client._thread, chat)
        self.client = client


class Client(_Face[asynchronous.Client]):
    """A connection to a server, as the async client; made by `connect` or `open`.

    It is closed by `close()`, at the latest when it is not referenced any longer, or at the end of
    the interpreter. Functions given to `on` are called in the thread of the connection, and must
    not wait. A forked process cannot use it.

    Attributes:
        initialize_response: the server's answer to `initialize`.
        config: the server's configuration, merged from its `config/updated` notifications.
        models: the models that the server offers; empty until `wait_for_config()` returns.
        selected_model: the model that the server has selected last.
        tool_servers: the latest `tool/serverUpdated` of each server, by name.
        revision: the edition of the connection.
        deadline: the default limit of a request, in seconds; None: no limit.
        idle_deadline: the limit of a turn's silence, in seconds; None: no limit.
        closed: the connection has ended.
        process_id: the process id of the server that was started.
        exit_code: the exit code of that server; None while it runs.
    """

    initialize_response: _Attribute[m.InitializeResponse] = _Attribute()
    config: _Attribute[m.ChatConfig] = _Attribute()
    models: _Attribute[tuple[str, ...]] = _Attribute()
    selected_model: _Attribute[str | None] = _Attribute()
    tool_servers: _Attribute[Mapping[str, m.ToolServerUpdatedParams]] = _Attribute()
    revision: _Attribute[Revision] = _Attribute()
    deadline: _Attribute[float | None] = _Attribute()
    idle_deadline: _Attribute[float | None] = _Attribute()
    closed: _Attribute[bool] = _Attribute()
    process_id: _Attribute[int | None] = _Attribute()
    exit_code: _Attribute[int | None] = _Attribute()

    chat = _making(Chat, asynchronous.Client.chat)
    request = _waiting(asynchronous.Client.request)
    notify = _waiting(asynchronous.Client.notify)
    on = _waiting(asynchronous.Client.on)
    wait_for_config = _waiting(asynchronous.Client.wait_for_config)

    def __init__(self, options: asynchronous.ConnectionOptions) -> None:
        thread = _ConnectionThread()
        super().__init__(thread, thread.open(options))
        self._close = weakref.finalize(self, thread.close)

    def events(self) -> Iterator[asynchronous.Event]:
        """Yield the server's notifications outside of our turns, until the connection ends."""
        return _Iteration(self, self._wrapped.events())

    def close(self) -> None:
        """Disconnect, end the server that was started, and end the thread of the connection."""
        self._close()


class connect(asynchronous.ConnectionOptions):  # noqa: N801 - it is used as a function
    """A connection to a server; a `with` block over it is given the client."""

    _client: Client

    def __enter__(self) -> Client:
        self._client = Client(self)
        return self._client

    def __exit__(self, *exc_info: object) -> None:
        self._client.close()


def _opening(options: Callable[P, connect]) -> Callable[P, Client]:
    def open(*args: P.args, **kwargs: P.kwargs) -> Client:  # noqa: A001 - as `io.open`
        """Return a connected client, for the cells of a notebook; `client.close()` ends it.

        The arguments are the options of `connect`.
        """
        return Client(options(*args, **kwargs))

    open.__signature__ = inspect.signature(options)  # type: ignore[attr-defined] # for help
    return open


open = _opening(connect)  # noqa: A001 - as `io.open`

"""One configured MCP server: its start, restarts and stop, and its tools, prompts and resources.

Rules: one task owns a server's session from its start to its end, so that any code can stop it by a
plain call; an error of the server changes only its own status; a crashed server is restarted a few
times, or until it is reached again if it is at a `url`; one that has never run is not, unless its
`url` could not be reached.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import trio

from eca_server.agent.mcp import messages as m
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.resource_changes import ResourceChanges
from eca_server.agent.mcp.states import TRANSITIONS, Input, State
from eca_server.config.mcp_settings import MCPServer
from eca_server.secret import Secret

if TYPE_CHECKING:
    from eca_server.agent.mcp.session import Session


_log = logging.getLogger("eca_server.agent.mcp")

RESTART_SECONDS: Final = (1.0, 4.0, 16.0)
"""Delays before the first, second and third restart of a crashed server."""

RECONNECT_SECONDS: Final = 60.0
"""Delay before each further attempt to reach a server at a `url`: the network may be away."""

STABLE_SECONDS: Final = 600.0
"""Run time after which a crash counts as the first one again."""

MAX_TOOL_NAME: Final = 256
"""Maximum number of characters of a tool's name; tools with longer names are left out."""

LIST_PAUSE_SECONDS: Final = 1.0
"""Minimum time between two updates of the lists, however often they change."""

DEBOUNCE_SECONDS: Final = 0.25
"""Time from a notification of changed lists to their update, and between two reports of a call's
progress."""


Connect: TypeAlias = Callable[[], "AbstractAsyncContextManager[Session]"]
"""Starts or reaches the server; raises MCPError with a reason for the user."""


class _Run:
    """One run of a server, from its start to its stop, with its restarts.

    Attributes:
        scope: cancelled by a stop.
        settled: set when the server runs or has failed.
        listed: set when its prompts and resources are listed, or it does not run.
    """

    def __init__(self) -> None:
        self.scope = trio.CancelScope()
        self.ended = trio.Event()
        self.renew()

    def renew(self) -> None:
        """Begin a start, the first one or a restart."""
        self.settled = trio.Event()
        self.listed = trio.Event()


class Server:
    """A configured server.

    Attributes:
        error: why it failed, requires a login or is restarted; None in every other state.
        tools: its tools, while it runs; the same for `prompts`, `resources` and `templates`.
        instructions: its instructions for models, while it runs.
        secrets: returns the secrets to mask in texts of the server: configured ones and tokens.
        was_awaited: true if a prompt has waited for its present start or restart.
    """

    def __init__(
        self,
        name: str,
        settings: MCPServer,
        *,
        connect: Connect,
        nursery: trio.Nursery,
        on_change: Callable[[Server], None],
        on_listed: Callable[[Server], None] = lambda _: None,
        secrets: Callable[[], Iterable[Secret]] | None = None,
    ) -> None:
        self.name = name
        self.settings = settings
        self.state = State.DISABLED if settings.disabled else State.STOPPED
        self.error: MCPError | None = None
        self.was_awaited = False
        self.resource_changes = ResourceChanges()
        self.secrets = secrets or (lambda: self.settings.secrets)
        self._connect = connect
        self._nursery = nursery
        self._on_change = on_change
        self._on_listed = on_listed
        self._run = _Run()
        self._run.ended.set()
        self._starts_again = False
        self._calls = trio.CapacityLimiter(max(1, settings.max_calls))
        self._forget()

    def _forget(self) -> None:
        """Clear the session, the lists and the instructions."""
        self._session: Session | None = None
        self.tools: tuple[m.MCPTool, ...] = ()
        self.prompts: tuple[m.Prompt, ...] = ()
        self.resources: tuple[m.Resource, ...] = ()
        self.templates: tuple[m.Resource, ...] = ()
        self.instructions = ""

    def start(self) -> None:
        """Start the server; report its status even if it runs already."""
        begins = self.state not in {State.STARTING, State.RUNNING, State.STOPPING}
        self._starts_again = self.state is State.STOPPING
        if begins:
            self.error = None
            self.was_awaited = False
            self._run.scope.cancel()  # it may wait for the network
            self._run = _Run()
        self._move(Input.START)
        if begins:
            self._nursery.start_soon(self._run_to_end, self._run)

    def stop(self) -> None:
        """Stop the server, and report it as stopped at once; its process may end later."""
        self._starts_again = False
        self.error = None
        self._forget()
        self._move(Input.STOP)
        self._run.scope.cancel()

    @property
    def is_alive(self) -> bool:
        """True if it runs, starts or stops."""
        return not self._run.ended.is_set()

    @property
    def status(self) -> State:
        """The state to announce: a stopping server counts as stopped, or as starting again."""
        if self.state is not State.STOPPING:
            return self.state
        return State.STARTING if self._starts_again else State.STOPPED

    @property
    def is_starting(self) -> bool:
        """True if it starts, or will start once it has ended."""
        return self.state is State.STARTING or self._starts_again

    @property
    def is_newly_starting(self) -> bool:
        """True if it starts, and no prompt has waited for this start."""
        return self._starts_again or (self.state is State.STARTING and not self.was_awaited)

    async def settled(self) -> None:
        """Wait while it is starting."""
        if self._starts_again:
            await self.ended()
        if self.state is State.STARTING:
            await self._run.settled.wait()

    async def listed(self) -> None:
        """Wait until its prompts and resources are listed, or it does not run."""
        if self.is_alive:
            await self._run.listed.wait()

    async def ended(self) -> None:
        """Wait until it has ended."""
        await self._run.ended.wait()

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        on_progress: Callable[[str], None] = lambda _: None,
    ) -> m.ToolResult:
        """Run a tool; if cancelled, cancel the call at the server.

        Raises:
            MCPError: the server does not run, does not answer in time, or refuses.
        """
        seconds = self.settings.tool_timeouts.get(name, self.settings.call_timeout)
        async with self._calls:
            return await self.session.call_tool(
                name, arguments, deadline=seconds, on_progress=_paced(on_progress)
            )

    async def give_resource(self, reader: object, uri: str) -> tuple[m.ResourceContents, ...]:
        """Return the contents of a resource, and watch it for changes.

        `reader`: the reader whose reads are stored in `resource_changes`.

        Raises:
            MCPError: it cannot be read.
        """
        session = self.session
        self.resource_changes.record_read(reader, uri)
        self._nursery.start_soon(self._watch, session)
        try:
            return await session.read_resource(uri)
        except MCPError:
            self.resource_changes.forget(reader, uri)
            raise

    async def _watch(self, session: Session) -> None:
        try:
            await session.watch(self.resource_changes.uris)
        except MCPError as error:
            _log.info("MCP server %s: it does not announce changes: %s", self.name, error)

    @property
    def session(self) -> Session:
        """The session of the running server.

        Raises:
            MCPError: it does not run.
        """
        if self._session is None or self.state is not State.RUNNING:
            raise MCPError(f"it is {self.state.value}", kind="start")
        return self._session

    def _move(self, event: Input) -> None:
        self.state = TRANSITIONS[self.state][event]
        if self.state is not State.STARTING:
            self._run.settled.set()
        if self.state not in {State.STARTING, State.RUNNING}:
            self._run.listed.set()
        if event is not Input.ENDED:
            self._on_change(self)

    async def _run_to_end(self, run: _Run) -> None:
        with run.scope:
            await self._live()
        run.ended.set()
        if self.state is State.STOPPING:
            self._forget()  # what came in the instant of the stop
            self._move(Input.ENDED)
            if self._starts_again:
                self.start()

    async def _live(self) -> None:
        """Run sessions, with restarts after crashes, until the server fails for good."""
        delays = iter(RESTART_SECONDS)
        has_run = False
        while True:
            began = trio.current_time()
            error = await self._serve()
            await trio.lowlevel.checkpoint_if_cancelled()  # a stop came in the same instant
            self._forget()
            if error.kind == "unreachable" and not has_run:
                await self._wait_for_network(error)
                continue
            self._end_failure()
            self.error = error
            if error.kind == "login":
                return self._move(Input.LOGIN)
            ran = self.state is State.RUNNING
            has_run = has_run or ran
            if ran and trio.current_time() - began > STABLE_SECONDS:
                delays = iter(RESTART_SECONDS)
            is_final = error.kind != "closed" if ran else not has_run
            patience = None if self.settings.url is None else RECONNECT_SECONDS
            wait = None if is_final else next(delays, patience)
            if wait is None:
                return self._move(Input.FAILED)
            _log.warning("MCP server %s: %s; it is restarted", self.name, error)
            if ran:  # else tasks still wait for this start
                self._run.listed.set()
                self._run.renew()
                self.was_awaited = False
            if ran or wait != RECONNECT_SECONDS:
                self._move(Input.CRASHED)
            if wait == RECONNECT_SECONDS:  # too long for a prompt to wait
                self._run.settled.set()
                self._run.listed.set()
            await trio.sleep(wait)

    async def _wait_for_network(self, error: MCPError) -> None:
        """Announce that the server cannot be reached, once, and wait until the next attempt."""
        self.error = error
        if self.state is State.STARTING:
            self._move(Input.FAILED)
        await trio.sleep(RECONNECT_SECONDS)

    def _end_failure(self) -> None:
        """Announce the start of a server that can be reached now."""
        if self.state is State.FAILED:
            self.error = None
            self._move(Input.START)

    async def _serve(self) -> MCPError:
        """Run one session from start to end; return the reason of its end."""
        if self.settings.config_error is not None:
            return MCPError(self.settings.config_error, kind="start")
        try:
            async with self._connect() as session:
                session.on_change = changes = _Changes()
                session.on_update = self.resource_changes.mark_changed
                self.tools = await self._list_tools(session)
                await trio.lowlevel.checkpoint_if_cancelled()
                self.instructions = session.instructions
                self._session = session
                self._end_failure()
                self.error = None
                self._move(Input.READY)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._refresh_lists, session, changes)
                    await session.ended.wait()
                    nursery.cancel_scope.cancel()
                return session.error or MCPError("it has ended", kind="closed")
        except MCPError as error:
            return error
        except Exception as error:  # noqa: BLE001 - one server must not end the others
            _log.error("MCP server %s: an internal error", self.name, exc_info=error)
            return MCPError(f"internal error: {type(error).__name__}; see the log")

    async def _refresh_lists(self, session: Session, changes: _Changes) -> None:
        """Read the lists of prompts and resources, then each list again after a change."""
        await self._list(("prompts", "resources"), session)
        self._run.listed.set()
        await self._watch(session)
        while True:
            await self._list(await changes.next(), session)
            await trio.sleep(LIST_PAUSE_SECONDS)

    async def _list(self, kinds: tuple[str, ...], session: Session) -> None:
        tools, others = self.tools, (self.prompts, self.resources)
        async with trio.open_nursery() as nursery:
            for kind in kinds:
                nursery.start_soon(self._list_one, kind, session)
        await trio.lowlevel.checkpoint_if_cancelled()  # a stop came in the same instant
        if self.tools != tools:
            self._on_change(self)
        elif (self.prompts, self.resources) != others:
            self._on_listed(self)

    async def _list_one(self, kind: str, session: Session) -> None:
        """Update one list; leave it unchanged if the server refuses."""
        try:
            match kind:
                case "tools":
                    self.tools = await self._list_tools(session)
                case "prompts":
                    self.prompts = await session.list_prompts()
                case _:
                    self.resources = await session.list_resources()
                    self.templates = await session.list_resource_templates()
        except MCPError as error:
            _log.info("MCP server %s: its %s: %s", self.name, kind, error)

    async def _list_tools(self, session: Session) -> tuple[m.MCPTool, ...]:
        """Return its tools, except those with names of more than `MAX_TOOL_NAME` characters."""
        tools = await session.list_tools()
        usable = tuple(tool for tool in tools if len(tool.name) <= MAX_TOOL_NAME)
        if len(usable) < len(tools):
            left_out = len(tools) - len(usable)
            _log.warning(
                "MCP server %s: left out %d tools with too long names", self.name, left_out
            )
        return usable


class _Changes:
    """The kinds of lists that a server has announced as changed."""

    def __init__(self) -> None:
        self._kinds: set[str] = set()
        self._event = trio.Event()

    def __call__(self, kind: str) -> None:
        self._kinds.add(kind)
        self._event.set()

    async def next(self) -> tuple[str, ...]:
        """Wait for changes, and return the kinds that changed since the last call."""
        await self._event.wait()
        await trio.sleep(DEBOUNCE_SECONDS)
        kinds, self._kinds = self._kinds, set()
        self._event = trio.Event()
        return tuple(sorted(kinds))


def _paced(report: Callable[[str], None]) -> Callable[[m.Progress], None]:
    """Return a listener that reports progress as a text, at most every `DEBOUNCE_SECONDS`."""
    last = -DEBOUNCE_SECONDS

    def on_progress(progress: m.Progress) -> None:
        nonlocal last
        now = trio.current_time()
        if now - last >= DEBOUNCE_SECONDS:
            last = now
            of = f" of {progress.total:g}" if progress.total else ""
            report(
                " ".join(part for part in (f"{progress.progress:g}{of}", progress.message) if part)
            )

    return on_progress

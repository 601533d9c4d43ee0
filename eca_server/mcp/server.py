"""One configured MCP server: started, watched, started again, stopped; what it offers meanwhile.

The rules it keeps: one task holds a server's session from its start to its end, so that stopping it
is a plain call from anywhere; whatever the server does, nothing but its own status changes; one
that crashed is started again a few times, one that does not even start is not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, Protocol, TypeAlias

import trio

from eca_server.config import MCPServer
from eca_server.mcp.faults import MCPFault
from eca_server.mcp.messages import (
    MCPTool,
    Progress,
    Prompt,
    PromptResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
    ToolResult,
)
from eca_server.mcp.states import TRANSITIONS, Input, State
from eca_server.mcp.watching import Watching

__all__ = ["RESTART_SECONDS", "Connect", "Server", "ServerSession"]

_log = logging.getLogger("eca_server.mcp")

RESTART_SECONDS: Final = (1.0, 4.0, 16.0)
"""How long is waited before a crashed server is started the first, second and third time again."""

STEADY_SECONDS: Final = 600.0
"""Who ran so long and crashes is judged anew."""

LONGEST_NAME: Final = 256
"""Characters of a tool's name; one with a longer name is left out."""

BETWEEN_LISTS: Final = 1.0
"""Seconds from the end of one round of lists to the next, however often they change."""

CALM_SECONDS: Final = 0.25
"""From a server's word that its lists have changed until they are asked for, and between two
reports of a call's progress."""


class ServerSession(Protocol):
    """What a server needs of a session (see `session.Session`)."""

    ended: trio.Event
    fault: MCPFault | None
    instructions: str
    on_change: Callable[[Any], None]
    on_update: Callable[[str], None]

    async def list_tools(self) -> tuple[MCPTool, ...]: ...  # noqa: D102
    async def list_prompts(self) -> tuple[Prompt, ...]: ...  # noqa: D102
    async def list_resources(self) -> tuple[Resource, ...]: ...  # noqa: D102
    async def list_resource_templates(self) -> tuple[ResourceTemplate, ...]: ...  # noqa: D102
    async def get_prompt(  # noqa: D102
        self, name: str, arguments: Mapping[str, str]
    ) -> PromptResult: ...
    async def read_resource(self, uri: str) -> tuple[ResourceContents, ...]: ...  # noqa: D102
    async def watch(self, uris: AbstractSet[str]) -> None: ...  # noqa: D102
    def roots_changed(self) -> None: ...  # noqa: D102
    async def call_tool(  # noqa: D102
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        deadline: float,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> ToolResult: ...


Connect: TypeAlias = Callable[[], AbstractAsyncContextManager[ServerSession]]
"""Starts or reaches the server; raises MCPFault with a reason the user can read."""


class Server:
    """A configured server.

    Attributes:
        name: the user's for it.
        settings: as configured.
        state: where it stands.
        fault: why it failed, wants a login, or is started again; None in every other state.
        tools: what it offers, while it runs; so are `prompts`, `resources`, `templates`.
        instructions: what it wants models to know, while it runs.
        was_waited_for: a prompt has waited for its start already.
        watching: which of its resources were given to whom.
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
    ) -> None:
        self.name = name
        self.settings = settings
        self.state = State.DISABLED if settings.disabled else State.STOPPED
        self.fault: MCPFault | None = None
        self.was_waited_for = False
        self.watching = Watching()
        self._connect = connect
        self._nursery = nursery
        self._on_change = on_change
        self._on_listed = on_listed
        self._scope = trio.CancelScope()
        self._starts_again = False
        self._settled = trio.Event()
        self._listed = trio.Event()
        self._ended = trio.Event()
        self._ended.set()
        self._calls = trio.CapacityLimiter(max(1, settings.max_calls))
        self._forget()

    def _forget(self) -> None:
        """Nothing is known of what it offers: it does not run."""
        self._session: ServerSession | None = None
        self.tools: tuple[MCPTool, ...] = ()
        self.prompts: tuple[Prompt, ...] = ()
        self.resources: tuple[Resource, ...] = ()
        self.templates: tuple[ResourceTemplate, ...] = ()
        self.instructions = ""

    def start(self) -> None:
        """Let it run; it tells its status, also where it does already."""
        begins = self.state not in {State.STARTING, State.RUNNING, State.STOPPING}
        self._starts_again = self.state is State.STOPPING
        if begins:
            self.fault = None
            self.was_waited_for = False
            self._scope = trio.CancelScope()
            self._settled = trio.Event()
            self._listed = trio.Event()
            self._ended = trio.Event()
        self._move(Input.START)
        if begins:
            self._nursery.start_soon(self._run)

    def stop(self) -> None:
        """Let it end; that it has ended is told then. One that does not run tells its status."""
        self._starts_again = False
        self.fault = None
        self._move(Input.STOP)
        self._scope.cancel()

    @property
    def is_alive(self) -> bool:
        """Whether something of it runs, or is about to."""
        return not self._ended.is_set()

    async def settled(self) -> None:
        """Wait until it runs, or does not; at once unless it is starting."""
        if self.state is State.STARTING:
            await self._settled.wait()

    async def listed(self) -> None:
        """Wait until its prompts and resources were asked for, or it does not run."""
        if self.is_alive:
            await self._listed.wait()

    async def ended(self) -> None:
        """Wait until nothing of it runs."""
        await self._ended.wait()

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        on_progress: Callable[[str], None] = lambda _: None,
    ) -> ToolResult:
        """Have a tool do its work; cancelled, the server is told so.

        Raises:
            MCPFault: it does not run, does not answer in time, or refuses.
        """
        seconds = self.settings.tool_timeouts.get(name, self.settings.call_timeout)
        async with self._calls:
            return await self.session.call_tool(
                name, arguments, deadline=seconds, on_progress=_paced(on_progress)
            )

    async def give_resource(self, reader: object, uri: str) -> tuple[ResourceContents, ...]:
        """What a resource holds; `watching` knows when it is another than the reader was given.

        Raises:
            MCPFault: it is not given.
        """
        session = self.session
        self.watching.give(reader, uri)
        self._nursery.start_soon(self._watch, session)
        try:
            return await session.read_resource(uri)
        except MCPFault:
            self.watching.forget(reader, uri)
            raise

    async def _watch(self, session: ServerSession) -> None:
        try:
            await session.watch(self.watching.uris)
        except MCPFault as fault:
            _log.info("MCP server %s: it tells of no changes: %s", self.name, fault)

    @property
    def session(self) -> ServerSession:
        """The conversation with it.

        Raises:
            MCPFault: it does not run.
        """
        if self._session is None or self.state is not State.RUNNING:
            raise MCPFault(f"it is {self.state.value}", kind="closed")
        return self._session

    def _move(self, given: Input) -> None:
        self.state = TRANSITIONS[self.state][given]
        if self.state is not State.STARTING:
            self._settled.set()
        if self.state not in {State.STARTING, State.RUNNING}:
            self._listed.set()
        if self.state is not State.STOPPING:
            self._on_change(self)

    async def _run(self) -> None:
        with self._scope:
            await self._live()
        if self.state is State.STOPPING:
            self._forget()
            self._ended.set()
            self._move(Input.ENDED)
            if self._starts_again:
                self.start()
        else:
            self._ended.set()

    async def _live(self) -> None:
        """Serve, and again after a crash, until it is no use."""
        waits = iter(RESTART_SECONDS)
        while True:
            began = trio.current_time()
            fault = await self._serve()
            await trio.lowlevel.checkpoint_if_cancelled()  # a stop came in the same instant
            self._forget()
            self.fault = fault
            if fault.kind == "login":
                return self._move(Input.LOGIN)
            if trio.current_time() - began > STEADY_SECONDS:
                waits = iter(RESTART_SECONDS)
            wait = next(waits, None) if self.state is State.RUNNING else None
            if wait is None or fault.kind != "closed":
                return self._move(Input.FAULT)
            _log.warning("MCP server %s: %s; it is started again", self.name, fault)
            self._settled = trio.Event()
            self._listed = trio.Event()
            self._move(Input.CRASHED)
            await trio.sleep(wait)

    async def _serve(self) -> MCPFault:
        """One session from start to end; why it has ended."""
        if self.settings.config_error is not None:
            return MCPFault(self.settings.config_error, kind="start")
        try:
            async with self._connect() as session:
                session.on_change = changes = _Changes()
                session.on_update = self.watching.update
                self.tools = await self._list_tools(session)
                await trio.lowlevel.checkpoint_if_cancelled()
                self.instructions = session.instructions
                self._session = session
                self.fault = None
                self._move(Input.READY)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._keep_fresh, session, changes)
                    await session.ended.wait()
                    nursery.cancel_scope.cancel()
                return session.fault or MCPFault("it has ended", kind="closed")
        except MCPFault as fault:
            return fault
        except Exception as error:  # noqa: BLE001 - one server must not end the others
            _log.error("MCP server %s: a fault of our own", self.name, exc_info=error)
            return MCPFault(f"our own client failed: {type(error).__name__}; the log says more")

    async def _keep_fresh(self, session: ServerSession, changes: _Changes) -> None:
        """Ask for the lists that only some need, then for each whose change is told."""
        await self._list(("prompts", "resources"), session)
        self._listed.set()
        await self._watch(session)
        while True:
            await self._list(await changes.next(), session)
            await trio.sleep(BETWEEN_LISTS)

    async def _list(self, kinds: tuple[str, ...], session: ServerSession) -> None:
        tools, others = self.tools, (self.prompts, self.resources)
        async with trio.open_nursery() as nursery:
            for kind in kinds:
                nursery.start_soon(self._list_one, kind, session)
        await trio.lowlevel.checkpoint_if_cancelled()  # a stop came in the same instant
        if self.tools != tools:
            self._on_change(self)
        elif (self.prompts, self.resources) != others:
            self._on_listed(self)

    async def _list_one(self, kind: str, session: ServerSession) -> None:
        """One list; it stays as it was where the server does not tell."""
        try:
            await self._ask_for(kind, session)
        except MCPFault as fault:
            _log.info("MCP server %s: its %s: %s", self.name, kind, fault)

    async def _ask_for(self, kind: str, session: ServerSession) -> None:
        match kind:
            case "tools":
                self.tools = await self._list_tools(session)
            case "prompts":
                self.prompts = await session.list_prompts()
            case _:
                self.resources = await session.list_resources()
                self.templates = await session.list_resource_templates()

    async def _list_tools(self, session: ServerSession) -> tuple[MCPTool, ...]:
        """Its tools but for those whose name nobody could read."""
        tools = await session.list_tools()
        usable = tuple(tool for tool in tools if len(tool.name) <= LONGEST_NAME)
        if len(usable) < len(tools):
            left_out = len(tools) - len(usable)
            _log.warning("MCP server %s: %d tools with endless names", self.name, left_out)
        return usable


class _Changes:
    """What a server says has changed; however often it says so, lists are asked for in turn."""

    def __init__(self) -> None:
        self._kinds: set[str] = set()
        self._event = trio.Event()

    def __call__(self, kind: str) -> None:
        self._kinds.add(kind)
        self._event.set()

    async def next(self) -> tuple[str, ...]:
        """What has changed since the last time, once it is calm."""
        await self._event.wait()
        await trio.sleep(CALM_SECONDS)
        kinds, self._kinds = self._kinds, set()
        self._event = trio.Event()
        return tuple(sorted(kinds))


def _paced(tell: Callable[[str], None]) -> Callable[[Progress], None]:
    """Tells people of progress no more often than they read."""
    last = -CALM_SECONDS

    def on_progress(progress: Progress) -> None:
        nonlocal last
        now = trio.current_time()
        if now - last >= CALM_SECONDS:
            last = now
            of = f" of {progress.total:g}" if progress.total else ""
            tell(
                " ".join(part for part in (f"{progress.progress:g}{of}", progress.message) if part)
            )

    return on_progress

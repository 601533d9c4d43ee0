"""A session without a server, which tests end, hold and change as they like."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import attrs
import trio

from eca_server.agent.mcp import messages as m
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.server import Server
from eca_server.config.mcp_settings import MCPServer
from eca_server.models.history import TextPart

ECHO = m.MCPTool(name="echo", description="Says it again.", input_schema={"type": "object"})


Prompt = tuple[m.PromptMessage, ...]


async def _gives_nothing(name: str, arguments: Mapping[str, str]) -> Prompt:
    return ()


@attrs.define(slots=False, eq=False)
class FakeSession:
    """See `eca_server.agent.mcp.session.Session`.

    Attributes:
        calls: the tool calls: name, arguments, deadline.
        cancelled: names of the tools whose call was cancelled.
        listed: the requested lists; those in `hangs` never come.
        result: the answer to each call, if set.
        answers: awaited in place of each call's answer, if set.
        gives: makes the answer to a prompt, from its name and arguments; it may raise.
        contents: the contents of resources, by URI; others are refused.
        watched: the watched resources.
        roots_changes: number of notifications of changed roots.
    """

    tools: tuple[m.MCPTool, ...] = (ECHO,)
    instructions: str = ""
    ended: trio.Event = attrs.field(factory=trio.Event)
    error: MCPError | None = None
    on_change: Callable[[Any], None] = print
    on_update: Callable[[str], None] = print
    calls: list[tuple[str, Mapping[str, Any], float]] = attrs.field(factory=list)
    cancelled: list[str] = attrs.field(factory=list)
    listed: list[str] = attrs.field(factory=list)
    hangs: AbstractSet[str] = frozenset()
    result: m.ToolResult | None = None
    answers: Callable[[str], Any] | None = None
    progress: tuple[m.Progress, ...] = ()
    prompts: tuple[m.Prompt, ...] = (m.Prompt(name="greet"),)
    resources: tuple[m.Resource, ...] = (m.Resource(uri="file:///a", name="a"),)
    templates: tuple[m.Resource, ...] = ()
    gives: Callable[[str, Mapping[str, str]], Awaitable[Prompt]] = _gives_nothing
    contents: dict[str, tuple[m.ResourceContents, ...]] = attrs.field(factory=dict)
    watched: set[str] = attrs.field(factory=set)
    roots_changes: int = 0

    def end(self, text: str = "exit code 1", kind: Any = "closed") -> None:
        self.error = MCPError(text, kind=kind)
        self.ended.set()

    async def _list(self, kind: str) -> None:
        self.listed.append(kind)
        if kind in self.hangs:
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()

    async def list_tools(self) -> tuple[m.MCPTool, ...]:
        await self._list("tools")
        return self.tools

    async def list_prompts(self) -> tuple[m.Prompt, ...]:
        await self._list("prompts")
        return self.prompts

    async def list_resources(self) -> tuple[m.Resource, ...]:
        await self._list("resources")
        return self.resources

    async def list_resource_templates(self) -> tuple[m.Resource, ...]:
        return self.templates

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> Prompt:
        return await self.gives(name, arguments)

    async def read_resource(self, uri: str) -> tuple[m.ResourceContents, ...]:
        await trio.lowlevel.checkpoint()
        if uri not in self.contents:
            raise MCPError("resources/read: not found", kind="refused")
        return self.contents[uri]

    async def watch(self, uris: AbstractSet[str]) -> None:
        self.watched |= uris

    def roots_changed(self) -> None:
        self.roots_changes += 1

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        deadline: float,
        on_progress: Callable[[m.Progress], None] = print,
    ) -> m.ToolResult:
        self.calls.append((name, arguments, deadline))
        try:
            for each in self.progress:
                on_progress(each)
            await trio.lowlevel.checkpoint()
            if self.answers is not None:
                return await self.answers(name)
        except trio.Cancelled:
            self.cancelled.append(name)
            raise
        return self.result or m.ToolResult(content=(TextPart(f"{name} was called"),))


@attrs.define(slots=False, eq=False)
class Place:
    """Makes fake sessions.

    Attributes:
        sessions: the sessions, in order.
        opening: seconds to open a session.
        gate: if set, awaited before a session is opened or refused.
        closing: seconds to close a session, cancelled or not.
        refuses: raised in place of a session.
        prepare: called with each new session first.
        settings: those that the last session was opened with, and its login and other options.
    """

    tools: tuple[m.MCPTool, ...] = (ECHO,)
    instructions: str = ""
    opening: float = 0.0
    gate: trio.Event | None = None
    closing: float = 0.0
    refuses: Exception | None = None
    prepare: Callable[[FakeSession], Any] = id
    settings: MCPServer | None = None
    login: Any = None
    options: Mapping[str, Any] = attrs.field(factory=dict)
    sessions: list[FakeSession] = attrs.field(factory=list)
    attempts: int = 0
    open: int = 0

    @property
    def session(self) -> FakeSession:
        return self.sessions[-1]

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator[FakeSession]:
        self.attempts += 1
        await trio.sleep(self.opening)
        if self.gate is not None:
            await self.gate.wait()
        if self.refuses is not None:
            raise self.refuses
        session = FakeSession(self.tools, self.instructions)
        self.prepare(session)
        self.sessions.append(session)
        self.open += 1
        try:
            yield session
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(self.closing)
            self.open -= 1


SETTINGS = MCPServer(command="x")


@contextlib.asynccontextmanager
async def server_at(
    place: Place, settings: MCPServer = SETTINGS
) -> AsyncIterator[tuple[Server, list[str]]]:
    """Yield a server with fake sessions, and the list of its announced statuses."""
    statuses: list[str] = []
    async with trio.open_nursery() as nursery:
        server = Server(
            "s",
            settings,
            connect=place.connect,
            nursery=nursery,
            on_change=lambda server: statuses.append(server.status.value),
        )
        yield server, statuses
        nursery.cancel_scope.cancel()

"""One initialized conversation with one server, in the words of what servers offer.

The rules it keeps: no answer is waited for without a deadline; a call that is given up is
cancelled with the server; a list that is damaged, or does not end, gives what could be read of it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeVar

import trio

from eca_protocol.errors import METHOD_NOT_FOUND, RequestFailed
from eca_server.mcp.conversation import ANSWER_SECONDS, Conversation
from eca_server.mcp.eras import Era
from eca_server.mcp.faults import MCPFault
from eca_server.mcp.messages import (
    MCPTool,
    Page,
    Progress,
    Prompt,
    PromptResult,
    Resource,
    ResourceContents,
    ResourceTemplate,
    TextContent,
    ToolResult,
)
from eca_server.mcp.server_log import ServerLog
from eca_server.mcp.transport import ServerTransport
from eca_server.printable import visible
from eca_server.workspace import Root

__all__ = ["LONGEST_CALL", "MAX_CALLS", "MAX_ITEMS", "MAX_PAGES", "Session"]

T = TypeVar("T")

LONGEST_CALL: Final = 600.0
"""Seconds after which a call ends however much progress it reports, unless its own are more."""

PROGRESS_SECONDS: Final = 0.1
"""The least time between two reports of one call's progress."""

MAX_CALLS: Final = 8
"""Calls of tools that run on one server at once; the others wait for their turn."""

MAX_PAGES: Final = 100
MAX_ITEMS: Final = 2000
"""How much of a list is read."""


class Session(Conversation):
    """What a server offers; `connect` makes one, and any task may use it."""

    def __init__(
        self,
        transport: ServerTransport,
        *,
        name: str,
        era: Era,
        roots: Callable[[], Sequence[Root]],
        log: ServerLog,
    ) -> None:
        super().__init__(transport, name=name, era=era, roots=roots, log=log)
        self._last_token = 0
        self._slots = trio.CapacityLimiter(MAX_CALLS)

    async def list_tools(self) -> tuple[MCPTool, ...]:
        """All its tools, the first of each name.

        Raises:
            MCPFault: it does not tell.
        """
        if self.capabilities and not self._declares("tools"):
            return ()
        tools: list[MCPTool] = await self._pages("tools/list")
        return self._distinct("tool", tools, lambda tool: tool.name)

    async def list_prompts(self) -> tuple[Prompt, ...]:
        """All its prompts. Raises MCPFault: it does not tell."""
        if not self._declares("prompts"):
            return ()
        prompts: list[Prompt] = await self._pages("prompts/list")
        return self._distinct("prompt", prompts, lambda prompt: prompt.name)

    async def list_resources(self) -> tuple[Resource, ...]:
        """All its resources. Raises MCPFault: it does not tell."""
        if not self._declares("resources"):
            return ()
        resources: list[Resource] = await self._pages("resources/list")
        return self._distinct("resource", resources, lambda resource: resource.uri)

    async def list_resource_templates(self) -> tuple[ResourceTemplate, ...]:
        """All its templates of resources. Raises MCPFault: it does not tell."""
        if not self._declares("resources"):
            return ()
        found: list[ResourceTemplate] = await self._pages("resources/templates/list")
        return self._distinct("template", found, lambda template: template.uri_template)

    def _declares(self, what: str) -> bool:
        return self.capabilities.get(what) not in (None, False)

    async def _pages(self, method: str) -> list[Any]:
        """The items of all pages; what was read so far where they do not end."""
        items: list[Any] = []
        cursors: list[Any] = []
        cursor: Any = None
        while len(cursors) < MAX_PAGES and len(items) < MAX_ITEMS:
            cursors.append(cursor)
            try:
                page: Page[Any] = await self._page(method, cursor)
            except RequestFailed as fault:
                if fault.code == METHOD_NOT_FOUND:
                    return items
                raise MCPFault(f"{method}: {fault.message}", kind="refused") from fault
            for problem in page.problems:
                self._log.warn_once(f"{method}: {problem}")
            items += page.items
            cursor = page.next_cursor
            if cursor is None or (cursor == "" and self.era.empty_cursor_ends):
                return items[:MAX_ITEMS]
            if cursor in cursors:
                break
        self._log.warn_once(f"{method}: its pages do not end; {len(items)} items were read")
        return items[:MAX_ITEMS]

    async def _page(self, method: str, cursor: Any) -> Any:
        with trio.move_on_after(ANSWER_SECONDS):
            return await self._request(method, {} if cursor is None else {"cursor": cursor})
        raise MCPFault(f"{method}: no answer within {ANSWER_SECONDS:g} s", kind="timeout")

    def _distinct(self, what: str, items: list[T], key: Callable[[T], str]) -> tuple[T, ...]:
        """The first of each key."""
        first: dict[str, T] = {}
        for item in items:
            if first.setdefault(key(item), item) is not item:
                self._log.warn_once(f"it lists the {what} {key(item)!r} more than once")
        return tuple(first.values())

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        deadline: float,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> ToolResult:
        """Run a tool; cancelled, the server is told so.

        Args:
            name: as the server spells it.
            arguments: as its schema wants them.
            deadline: seconds without an answer or a progress after which it is given up.
            on_progress: told how far it is, at most ten times a second; must not wait.

        Raises:
            MCPFault: no answer in time, or the server is gone. What a server refuses is a result
                that is an error: the model may do better.
        """
        await self._wait_for_a_turn()
        try:
            return await self._run_call(name, arguments, deadline, on_progress)
        finally:
            self._slots.release()

    async def _wait_for_a_turn(self) -> None:
        try:
            self._slots.acquire_nowait()
        except trio.WouldBlock:
            await self._slots.acquire()

    async def _run_call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        deadline: float,
        on_progress: Callable[[Progress], None] | None,
    ) -> ToolResult:
        self._last_token += 1
        token = self._last_token
        params = {"name": name, "arguments": dict(arguments), "_meta": {"progressToken": token}}
        with trio.move_on_after(deadline) as patience:
            self._progress[token] = _Listener(patience, deadline, on_progress)
            try:
                result: ToolResult = await self._request("tools/call", params)
            except RequestFailed as fault:
                result = ToolResult(content=(TextContent(text=fault.message),), is_error=True)
            finally:
                del self._progress[token]
            return result
        self.suspect.set()
        raise MCPFault(
            f"the tool {visible(name)} gave no answer within {deadline:g} s", kind="timeout"
        )

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> PromptResult:
        """A prompt with its arguments filled in. Raises MCPFault: it is not given."""
        result: PromptResult = await self._ask(
            "prompts/get", {"name": name, "arguments": dict(arguments)}
        )
        return result

    async def read_resource(self, uri: str) -> tuple[ResourceContents, ...]:
        """What a resource holds; a folder may hold several. Raises MCPFault: it is not given."""
        contents: tuple[ResourceContents, ...] = await self._ask("resources/read", {"uri": uri})
        return contents

    async def watch(self, uris: AbstractSet[str]) -> None:
        """Have the server tell when these resources change (`on_update`), if it can.

        Raises:
            MCPFault: it does not want to.
        """
        offers = self.capabilities.get("resources")
        new = uris - self._watched
        if not new or not isinstance(offers, dict) or offers.get("subscribe") is not True:
            return
        self._watched |= new
        if self.era.stateless:
            self._listening.cancel()
            return
        for uri in sorted(new):
            await self._ask("resources/subscribe", {"uri": uri})


class _Listener:
    """Hears the progress of one call: its patience starts anew, within the longest call."""

    def __init__(
        self,
        patience: trio.CancelScope,
        seconds: float,
        tell: Callable[[Progress], None] | None,
    ) -> None:
        self._patience = patience
        self._seconds = seconds
        self._latest = trio.current_time() + max(seconds, LONGEST_CALL)
        self._tell = tell
        self._told = -math.inf

    def __call__(self, progress: Progress) -> None:
        now = trio.current_time()
        self._patience.deadline = min(now + self._seconds, self._latest)
        if self._tell is not None and now - self._told >= PROGRESS_SECONDS:
            self._told = now
            self._tell(progress)

"""One initialized conversation with one server: its tools, prompts and resources.

Rules: every wait for an answer has a deadline; an abandoned call is cancelled at the server; the
valid items of a damaged or endless list are returned.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, TypeVar

import trio

from eca_protocol import json
from eca_protocol.errors import METHOD_NOT_FOUND, RequestFailed
from eca_protocol.server.roots import Root
from eca_server.agent.mcp.conversation import ANSWER_SECONDS, Conversation
from eca_server.agent.mcp.eras import Era
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.messages import (
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
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.transport import ServerTransport
from eca_server.printable import visible

T = TypeVar("T")

MAX_CALL_SECONDS: Final = 600.0
"""Maximum duration of a call that reports progress, unless its own deadline is longer."""

PROGRESS_SECONDS: Final = 0.1
"""Minimum time between two reports of one call's progress."""

MAX_CALLS: Final = 8
"""Maximum number of concurrent tool calls on one server; others wait."""

_MAX_DETAILS: Final = 2000  # characters

MAX_PAGES: Final = 100
MAX_ITEMS: Final = 2000
"""Maximum size of a list."""


class Session(Conversation):
    """A session with a server, made by `connect`; any task may use it."""

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
        """Return all tools, the first of each name.

        Raises:
            MCPError: the server does not list them.
        """
        if self.capabilities and not self._declares("tools"):
            return ()
        tools: list[MCPTool] = await self._pages("tools/list")
        return self._distinct("tool", tools, lambda tool: tool.name)

    async def list_prompts(self) -> tuple[Prompt, ...]:
        """Return all prompts; raise MCPError if the server does not list them."""
        if not self._declares("prompts"):
            return ()
        prompts: list[Prompt] = await self._pages("prompts/list")
        return self._distinct("prompt", prompts, lambda prompt: prompt.name)

    async def list_resources(self) -> tuple[Resource, ...]:
        """Return all resources; raise MCPError if the server does not list them."""
        if not self._declares("resources"):
            return ()
        resources: list[Resource] = await self._pages("resources/list")
        return self._distinct("resource", resources, lambda resource: resource.uri)

    async def list_resource_templates(self) -> tuple[ResourceTemplate, ...]:
        """Return all resource templates; raise MCPError if the server does not list them."""
        if not self._declares("resources"):
            return ()
        templates: list[ResourceTemplate] = await self._pages("resources/templates/list")
        return self._distinct("template", templates, lambda template: template.uri_template)

    def _declares(self, kind: str) -> bool:
        return self.capabilities.get(kind) not in (None, False)

    async def _pages(self, method: str) -> list[Any]:
        items: list[Any] = []
        cursors: list[Any] = []
        cursor: Any = None
        while len(cursors) < MAX_PAGES and len(items) < MAX_ITEMS:
            cursors.append(cursor)
            try:
                page: Page[Any] = await self._page(method, cursor)
            except RequestFailed as error:
                if error.code == METHOD_NOT_FOUND:
                    return items
                raise MCPError(f"{method}: {error.message}", kind="refused") from error
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
        raise MCPError(f"{method}: no answer within {ANSWER_SECONDS:g} s", kind="timeout")

    def _distinct(self, kind: str, items: list[T], key: Callable[[T], str]) -> tuple[T, ...]:
        """Return the first item of each key."""
        first: dict[str, T] = {}
        for item in items:
            if first.setdefault(key(item), item) is not item:
                self._log.warn_once(f"it lists the {kind} {key(item)!r} more than once")
        return tuple(first.values())

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        deadline: float,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> ToolResult:
        """Run a tool; if cancelled, cancel the call at the server.

        Args:
            name: its `wire_name`.
            arguments: its arguments.
            deadline: seconds without an answer or progress after which the call is abandoned.
            on_progress: called with the progress, at most ten times a second; must not wait.

        Raises:
            MCPError: no answer in time, or the server has ended. A refusal is not raised but
                returned as an error result, since the model may correct the call.
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
        with trio.move_on_after(deadline) as timeout:
            self._progress[token] = _Listener(timeout, deadline, on_progress)
            try:
                result: ToolResult = await self._request("tools/call", params)
            except RequestFailed as error:
                result = ToolResult(content=(TextContent(text=_text_of(error)),), is_error=True)
            finally:
                del self._progress[token]
            return result
        self.suspect.set()
        raise MCPError(
            f"the tool {visible(name)} gave no answer within {deadline:g} s", kind="timeout"
        )

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> PromptResult:
        """Return a prompt with its arguments filled in; raise MCPError if it is refused."""
        result: PromptResult = await self._ask(
            "prompts/get", {"name": name, "arguments": dict(arguments)}
        )
        return result

    async def read_resource(self, uri: str) -> tuple[ResourceContents, ...]:
        """Return a resource's contents, several for a directory; raise MCPError if refused."""
        contents: tuple[ResourceContents, ...] = await self._ask("resources/read", {"uri": uri})
        return contents

    async def watch(self, uris: AbstractSet[str]) -> None:
        """Subscribe to changes of these resources (`on_update`), if the server supports it.

        Raises:
            MCPError: the server refuses.
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


def _text_of(error: RequestFailed) -> str:
    """Return the text of a refusal for the model, with its details: what is wrong, or a page."""
    if error.data in (None, "", {}, []):
        return error.message
    details = json.dumps(error.data).decode()
    return f"{error.message}\n{details[:_MAX_DETAILS]}"


class _Listener:
    """A listener to the progress of one call, which extends the call's deadline."""

    def __init__(
        self,
        timeout: trio.CancelScope,
        seconds: float,
        report: Callable[[Progress], None] | None,
    ) -> None:
        self._timeout = timeout
        self._seconds = seconds
        self._latest = trio.current_time() + max(seconds, MAX_CALL_SECONDS)
        self._report = report
        self._notification = -math.inf

    def __call__(self, progress: Progress) -> None:
        now = trio.current_time()
        self._timeout.deadline = min(now + self._seconds, self._latest)
        if self._report is not None and now - self._notification >= PROGRESS_SECONDS:
            self._notification = now
            self._report(progress)

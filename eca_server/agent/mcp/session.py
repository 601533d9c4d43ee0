"""One initialized conversation with one server: its tools, prompts and resources.

Rules: every wait for an answer has a deadline; an abandoned call is cancelled at the server; the
valid items of a damaged or endless list are returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from operator import attrgetter
from typing import Any, Final, TypeVar

import trio

from eca_protocol import json
from eca_protocol.errors import METHOD_NOT_FOUND, DeadlineExceeded, RequestFailed
from eca_server.agent.mcp import messages as m
from eca_server.agent.mcp.conversation import ANSWER_SECONDS, Conversation, Wait
from eca_server.agent.mcp.errors import MCPError
from eca_server.models.history import TextPart
from eca_server.printable import visible

T = TypeVar("T")

MAX_CALL_SECONDS: Final = 600.0
"""Maximum duration of a call that reports progress, unless its own deadline is longer."""

_MAX_DETAILS: Final = 2000  # characters

MAX_PAGES: Final = 100
MAX_ITEMS: Final = 2000
"""Maximum size of a list."""


class Session(Conversation):
    """A session with a server, made by `connect`; any task may use it."""

    async def list_tools(self) -> tuple[m.MCPTool, ...]:
        """Return all tools, the first of each name.

        Raises:
            MCPError: the server does not list them.
        """
        if self.capabilities and not self._declares("tools"):
            return ()
        return self._distinct("tool", await self._pages("tools/list"), attrgetter("name"))

    async def list_prompts(self) -> tuple[m.Prompt, ...]:
        """Return all prompts; raise MCPError if the server does not list them."""
        return await self._list("prompts/list", "prompt", attrgetter("name"))

    async def list_resources(self) -> tuple[m.Resource, ...]:
        """Return all resources; raise MCPError if the server does not list them."""
        return await self._list("resources/list", "resource", attrgetter("uri"))

    async def list_resource_templates(self) -> tuple[m.Resource, ...]:
        """Return all resource templates; raise MCPError if the server does not list them."""
        return await self._list("resources/templates/list", "template", attrgetter("uri"))

    async def _list(self, method: str, kind: str, key: Callable[[Any], str]) -> tuple[Any, ...]:
        if not self._declares(method.partition("/")[0]):
            return ()
        return self._distinct(kind, await self._pages(method), key)

    def _declares(self, kind: str) -> bool:
        return self.capabilities.get(kind) not in (None, False)

    async def _pages(self, method: str) -> list[Any]:
        items: list[Any] = []
        cursors: list[Any] = []
        cursor: Any = None
        while len(cursors) < MAX_PAGES and len(items) < MAX_ITEMS:
            cursors.append(cursor)
            try:
                params = {} if cursor is None else {"cursor": cursor}
                page: m.Page[Any] = await self._request_within(method, params, ANSWER_SECONDS)
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
        on_progress: Callable[[m.Progress], None] = lambda _: None,
    ) -> m.ToolResult:
        """Run a tool; if cancelled, cancel the call at the server.

        Args:
            name: its `wire_name`.
            arguments: its arguments.
            deadline: seconds without an answer or progress after which the call is abandoned.
            on_progress: called with the progress; must not wait.

        Raises:
            MCPError: no answer in time, or the server has ended. A refusal is not raised but
                returned as an error result, since the model may correct the call.
        """
        token = next(self._tokens)
        params = {"name": name, "arguments": dict(arguments), "_meta": {"progressToken": token}}
        wait = Wait(deadline)
        latest = wait.until + max(0.0, MAX_CALL_SECONDS - deadline)

        def extend(progress: m.Progress) -> None:
            wait.extend(min(trio.current_time() + deadline, latest))
            on_progress(progress)

        self._progress[token] = extend
        try:
            result: m.ToolResult = await self._request("tools/call", params, wait)
        except RequestFailed as error:
            result = m.ToolResult(content=(TextPart(_text_of(error)),), is_error=True)
        except DeadlineExceeded as error:
            self.suspect.set()
            raise MCPError(
                f"the tool {visible(name)} gave no answer within {deadline:g} s", kind="timeout"
            ) from error
        finally:
            del self._progress[token]
        return result

    async def get_prompt(
        self, name: str, arguments: Mapping[str, str]
    ) -> tuple[m.PromptMessage, ...]:
        """Return a prompt with its arguments filled in; raise MCPError if it is refused."""
        result: tuple[m.PromptMessage, ...] = await self._ask(
            "prompts/get", {"name": name, "arguments": dict(arguments)}
        )
        return result

    async def read_resource(self, uri: str) -> tuple[m.ResourceContents, ...]:
        """Return a resource's contents, several for a directory; raise MCPError if refused."""
        contents: tuple[m.ResourceContents, ...] = await self._ask("resources/read", {"uri": uri})
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

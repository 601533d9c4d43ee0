"""The output of a server becomes messages or noise, the same for any size of chunks.

Any member of an answer is read, or raises `MCPError`.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterable
from typing import Any

from runner import bytewise, cut, instrumented, main

with instrumented():
    from eca_protocol import json
    from eca_protocol.endpoint import CallAnswered, Endpoint, Reply
    from eca_protocol.errors import RemoteProtocolError
    from eca_protocol.framing import LineDecoder
    from eca_protocol.jsonrpc import classify
    from eca_server.agent.mcp import readers
    from eca_server.agent.mcp.dialect import MCP_DIALECT, LenientReader
    from eca_server.agent.mcp.errors import MCPError
    from eca_server.agent.mcp.messages import Page, ToolResult
    from eca_server.agent.mcp.methods import TABLE
    from eca_server.agent.mcp.schemas import clean_schema, is_presentable
    from eca_server.agent.mcp.tools import output_of
    from eca_server.agent.tools.output import Cap

PENDING = (1, 2, 30)
NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}")
READERS: list[Callable[[Any], Any]] = [
    readers.read_initialized,
    readers.read_discovered,
    readers.read_input_required,
    readers.read_page("tools", readers.read_tool),
    readers.read_page("prompts", readers.read_prompt),
    readers.read_page("resources", readers.read_resource),
    readers.read_page("resourceTemplates", readers.read_template),
    readers.read_tool_result,
    readers.read_contents,
    readers.read_prompt_result,
    readers.read_updated,
    readers.read_progress,
    readers.read_log_message,
]
Outcome = tuple[list[Any], int, int]


def outcome(pieces: Iterable[bytes]) -> Outcome:
    """Return the messages, and the numbers of noisy and too long frames."""
    noise: list[bytes] = []
    oversized: list[str] = []
    decoder = LineDecoder(max_line=3000)
    reader = LenientReader(
        pending=lambda: PENDING,
        on_noise=lambda frame, why: noise.append(frame),
        on_oversized=oversized.append,
    )
    messages: list[Any] = []
    for piece in pieces:
        messages += reader.read(decoder.feed(piece))
    messages += reader.read(decoder.feed_eof())
    return messages, len(noise), len(oversized)


def check(data: bytes) -> None:
    messages, _, _ = whole = outcome([data])
    assert outcome(cut(data)) == whole
    if len(data) < 500:
        assert outcome(bytewise(data)) == whole
    endpoint = Endpoint("client", TABLE, dialect=MCP_DIALECT)
    for _ in range(max(PENDING)):
        endpoint.call("tools/call")
    answered: set[object] = set()
    for value in messages:
        with contextlib.suppress(RemoteProtocolError):
            classify(value)
        event = endpoint.receive(value)
        assert not isinstance(event, Reply) or "method" in value
        if isinstance(event, CallAnswered):
            assert event.id not in answered
            answered.add(event.id)
        read_all(value.get("result"))
        read_all(value.get("params"))


def read_all(raw: Any) -> None:
    for read in READERS:
        with contextlib.suppress(MCPError):
            result = read(raw)
            if isinstance(result, ToolResult):
                output_of(result, Cap(lines=10, size=100))
            elif isinstance(result, Page):
                read_schemas(result)


def read_schemas(page: Page[Any]) -> None:
    """Check that a cleaned schema is a small object's, with names that map to the server's."""
    for item in page.items:
        schema = getattr(item, "input_schema", None)
        if schema is None or not is_presentable(schema):
            continue
        made = clean_schema(schema)
        assert made.schema["type"] == "object"
        names = made.schema["properties"]
        assert len(json.dumps(made.schema)) <= 100_000
        assert all(NAME.fullmatch(name) for name in names)
        assert len(made.arguments(names)) == len(names)


if __name__ == "__main__":
    main("mcp", check)

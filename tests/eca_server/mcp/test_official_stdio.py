"""Our session with a server of the official SDK over its standard streams, in both families."""

from __future__ import annotations

import sys

import pytest

from eca_server.mcp.messages import TextContent
from eca_server.mcp.settings import ServerSettings
from tests.eca_server.mcp.scripted import talking_to

pytestmark = pytest.mark.trio

SERVER = """
from mcp.server import MCPServer

server = MCPServer("official")

@server.tool()
def add(a: int, b: int) -> int:
    "Adds."
    return a + b

server.run("stdio")
"""


@pytest.mark.parametrize(
    ("asked_for", "spoken"), [("auto", "2025-11-25"), ("2026-07-28", "2026-07-28")]
)
async def test_the_official_server_is_listed_called_and_refuses(asked_for, spoken):
    settings = ServerSettings(
        name="official", command=sys.executable, args=("-c", SERVER), revision=asked_for
    )
    async with talking_to(settings) as session:
        assert session.era.revision == spoken
        assert session.info.name == "official"
        [tool] = await session.list_tools()
        assert (tool.name, tool.description) == ("add", "Adds.")
        assert set(tool.input_schema["properties"]) == {"a", "b"}
        result = await session.call_tool("add", {"a": 1, "b": 2}, deadline=20)
        assert result.content == (TextContent(text="3"),)
        assert result.structured == {"result": 3}
        assert (await session.call_tool("add", {"a": "x"}, deadline=20)).is_error
        assert (await session.call_tool("none", {}, deadline=20)).is_error

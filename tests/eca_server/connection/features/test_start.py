"""The imports of a start: only what the answer to `initialize` needs."""

import subprocess
import sys

from eca_server.connection.features.handlers import Handlers

LATER = (
    *("agent.chat", "agent.commands", "agent.mcp", "agent.tools", "models", "models.credentials"),
    *("workspace.index", "connection.features.chat", "connection.features.composition"),
    *("config.workspace_roots", "config.workspace_sources", "connection.features.mcp"),
)
SLOW = (
    *("asyncio", "email", "h11", "httpx", "hypothesis", "importlib.metadata", "jinja2"),
    *("eca_protocol.codec.departures", "eca_protocol.http", "eca_protocol.tls"),
)


LISTING = """
import eca_server.cli.stdio, sys
print(*sys.modules)
import eca_server.connection.features.chat
print(*sys.modules)
"""


def test_a_start_loads_neither_what_only_chats_need_nor_slow_libraries_and_chats_no_mcp() -> None:
    command = [sys.executable, "-c", LISTING]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    at_the_start, for_chats = (line.split() for line in done.stdout.splitlines())
    assert not {*at_the_start} & {*SLOW, *(f"eca_server.{name}" for name in LATER)}
    assert not [name for name in for_chats if name.startswith("eca_server.agent.mcp")]


def test_a_method_of_no_chapter_has_no_handler() -> None:
    assert Handlers().get("weather/forecast") is None

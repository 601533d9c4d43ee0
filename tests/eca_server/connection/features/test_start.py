"""The imports of a start: only what the answer to `initialize` needs."""

from __future__ import annotations

import subprocess
import sys

from eca_server.connection.features.handlers import Handlers

LATER = (
    *("agent.chat", "agent.commands", "agent.mcp", "agent.tools", "models", "models.credentials"),
    *("workspace.index", "connection.features.chat", "connection.features.composition"),
    "connection.features.mcp",
)
SLOW = ("asyncio", "email", "h11", "httpx", "hypothesis", "importlib.metadata", "jinja2")


def imported_by(module: str) -> set[str]:
    command = [sys.executable, "-c", f"import {module}, sys; print(*sys.modules)"]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


def test_neither_what_only_chats_need_nor_slow_libraries_are_imported_at_the_start() -> None:
    imported = imported_by("eca_server.cli.stdio")
    assert not imported & {*SLOW, *(f"eca_server.{name}" for name in LATER)}


def test_a_method_of_no_chapter_has_no_handler() -> None:
    assert Handlers().get("weather/forecast") is None


def test_chats_load_nothing_of_mcp_where_no_server_is_configured() -> None:
    loaded = imported_by("eca_server.connection.features.chat")
    assert not [name for name in loaded if name.startswith("eca_server.agent.mcp")]

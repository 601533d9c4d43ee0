"""The imports of a start: only what the answer to `initialize` needs."""

from __future__ import annotations

import subprocess
import sys

import pytest

from eca_server.connection.features.handlers import Handlers

IMPORT_AND_LIST = "import eca_server.cli.stdio, sys; print(*sys.modules)"


@pytest.fixture(scope="module")
def imported() -> set[str]:
    command = [sys.executable, "-c", IMPORT_AND_LIST]
    return set(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())


@pytest.mark.parametrize(
    "module",
    [
        "eca_server.agent.chat",
        "eca_server.models.credentials",
        "eca_server.agent.commands",
        "eca_server.models",
        "eca_server.agent.mcp",
        "eca_server.agent.tools",
        "eca_server.workspace.index",
        "eca_server.connection.features.chat",
        "eca_server.connection.features.composition",
        "eca_server.connection.features.mcp",
    ],
)
def test_what_only_chats_need_is_not_imported_at_the_start(imported: set[str], module: str) -> None:
    assert module not in imported


@pytest.mark.parametrize(
    "module", ["asyncio", "email", "h11", "httpx", "hypothesis", "importlib.metadata", "jinja2"]
)
def test_slow_libraries_are_not_imported_at_the_start(imported: set[str], module: str) -> None:
    assert module not in imported


def test_a_method_of_no_chapter_has_no_handler() -> None:
    assert Handlers().get("weather/forecast") is None


def test_chats_load_nothing_of_mcp_where_no_server_is_configured() -> None:
    listing = "import eca_server.connection.features.chat, sys; print(*sys.modules)"
    command = [sys.executable, "-c", listing]
    loaded = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    assert not [name for name in loaded if name.startswith("eca_server.agent.mcp")]

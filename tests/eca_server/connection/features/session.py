"""A user's home with workspace folders, and verbs of tests of a connection's features."""

import json
import os
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.server.roots import uri_of
from eca_server.config.trust_store import TrustStore
from eca_server.connection.features import mcp
from eca_server.connection.features.settings import Watcher
from tests.eca_server.agent.chat.editor import Editor, editor
from tests.eca_server.agent.mcp.fake import Place

SECRET = "planted-0123456789-secret"
TRUSTED = {"protocolRevision": "current", "workspaceTrusted": True}


def configure_servers(home: "Home", **servers: Any) -> str:
    return home.configure_user(mcpServers=servers)


def folder_of(path: Path) -> dict[str, str]:
    return {"uri": uri_of(path), "name": path.name}


class Home:
    """A user's home, and workspace folders with configurations of their own."""

    def __init__(self, folder: Path, **params: Any) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.user = folder / "config" / "eca" / "config.json"
        self.user.parent.mkdir(parents=True)
        self.root = self.add("work")
        self.environ = {
            "PATH": os.environ["PATH"],
            "XDG_DATA_HOME": str(self.data),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "GITHUB_TOKEN": "ghp-0123456789-planted",
        }
        self.params = params

    def add(self, name: str) -> Path:
        """Make a workspace folder."""
        root = self.folder / name
        (root / ".eca").mkdir(parents=True)
        return root

    def configure(self, root: Path | None = None, **config: Any) -> None:
        """Write the configuration of a workspace folder."""
        path = (root or self.root) / ".eca" / "config.json"
        path.write_text(json.dumps(config))

    def configure_user(self, **config: Any) -> str:
        """Write the user's own configuration, and return its text."""
        text = json.dumps(config)
        self.user.write_text(text)
        return text

    def decisions(self) -> dict[str, Any]:
        """Return the user's decisions about workspace folders."""
        return dict(TrustStore(self.environ).read())

    @property
    def stored(self) -> dict[str, Any]:
        """The settings saved from the editor."""
        file = self.data / "eca-python" / "settings.json"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        settings: dict[str, Any] = json.loads(file.read_text())
        return settings

    @asynccontextmanager
    async def editor(
        self, *roots: Path, config: Mapping[str, Any] | None = None, **params: Any
    ) -> AsyncIterator[Editor]:
        async with editor(config, started=False, **self.environ) as ours:
            folders = [folder_of(each) for each in roots or [self.root]]
            await ours.start(workspaceFolders=folders, **{**self.params, **params})
            yield ours


def connect_to_fakes(
    monkeypatch: pytest.MonkeyPatch,
    check: Callable[[Any], Awaitable[Any]] | None = None,
    place: Place | None = None,
) -> None:
    """Let each MCP server be a fake one, which runs once `check` has accepted its login."""

    @asynccontextmanager
    async def connect(*_: Any, login: Any, **__: Any) -> AsyncIterator[Any]:
        if check is not None:
            await check(login)
        async with (place or Place()).connect() as session:
            yield session

    monkeypatch.setattr(mcp, "connect", connect)


async def until_shown(ours: Editor, words: str = "") -> str:
    """Read until a message with these words is shown, and return it."""
    shown = await ours.until(
        lambda each: each.get("method") == "$/showMessage" and words in each["params"]["message"]
    )
    return str(shown["params"]["message"])


async def announced(ours: Editor) -> dict[str, Any]:
    """Read until the next `config/updated`, and return its chat part."""
    return dict((await ours.notice("config/updated"))["chat"])


async def change_folders(ours: Editor, added: Sequence[Path], removed: Sequence[Path] = ()) -> None:
    event = {"added": [*map(folder_of, added)], "removed": [*map(folder_of, removed)]}
    await ours.tell("workspace/didChangeWorkspaceFolders", {"event": event})


async def reload(ours: Editor) -> None:
    """Apply changed files, as after two checks of the watcher."""
    watcher = Watcher(ours.connection.parts.settings)
    await watcher.look()
    await watcher.look()

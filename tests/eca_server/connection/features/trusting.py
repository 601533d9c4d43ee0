"""A folder whose settings wait for the user's trust, and the questions about them."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from eca_protocol.server.roots import uri_of
from eca_server.config.trust_store import TrustStore
from eca_server.connection.features.settings import Watcher
from tests.eca_server.agent.chat.current import CURRENT
from tests.eca_server.agent.chat.editor import SCRIPT, Editor, editor
from tests.eca_server.connection.features.session import until_shown

ACCEPT = "/trust yes"
OLDER: dict[str, Any] = {"codeAssistant": {"chat": True}}


class Folders:
    """A user's data directory and workspace folders with configurations of their own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = self.add("work")

    def add(self, name: str) -> Path:
        root = self.folder / name
        (root / ".eca").mkdir(parents=True)
        return root

    @property
    def environ(self) -> dict[str, str]:
        return {
            "XDG_DATA_HOME": str(self.folder / "data"),
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "GITHUB_TOKEN": "ghp-0123456789-planted",
        }

    def configure(self, root: Path | None = None, **config: Any) -> None:
        path = (root or self.root) / ".eca" / "config.json"
        path.write_text(json.dumps(config))

    def decisions(self) -> dict[str, Any]:
        return dict(TrustStore(self.environ).read())

    @asynccontextmanager
    async def editor(
        self,
        *roots: Path,
        capabilities: Mapping[str, Any] = CURRENT,
        config: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> AsyncIterator[Editor]:
        async with editor(config, started=False, **self.environ) as ours:
            folders = [{"uri": uri_of(each), "name": each.name} for each in roots or [self.root]]
            await ours.start(workspaceFolders=folders, capabilities=capabilities, **more)
            yield ours


def server(command: str = "planted-server", **more: Any) -> dict[str, Any]:
    return {"mcpServers": {"planted": {"command": command, "args": ["--all"], **more}}}


def guard(**more: Any) -> dict[str, Any]:
    shell = {"type": "shell", "shell": "exit 2"}
    return {"hooks": {"guard": {"type": "preToolCall", "actions": [shell], **more}}}


async def next_question(ours: Editor, prompt: str | None = None) -> dict[str, Any]:
    """Send a prompt, if there is one, and return the question that comes."""
    if prompt is not None:
        await ours.prompt(prompt, model=SCRIPT)
    return await ours.question()


async def answer_and_finish(ours: Editor, question: Mapping[str, Any], words: str | None) -> None:
    await ours.answer_question(question, words)
    await ours.expect_finished()


def questions(ours: Editor) -> list[dict[str, Any]]:
    return ours.notified("chat/askQuestion")


def messages(ours: Editor) -> list[str]:
    shown = (each for each in ours.received if each.get("method") == "$/showMessage")
    return [each["params"]["message"] for each in shown]


def statuses(ours: Editor, name: str = "planted") -> list[str]:
    updates = (each for each in ours.received if each.get("method") == "tool/serverUpdated")
    return [each["params"]["status"] for each in updates if each["params"]["name"] == name]


async def refused_start(ours: Editor) -> str:
    """Start the server, and return the message that comes instead."""
    await ours.tell("mcp/startServer", {"name": "planted"})
    return await until_shown(ours)


async def reload(ours: Editor) -> None:
    """Apply changed files, as after two checks of the watcher."""
    watcher = Watcher(ours.connection.parts.settings)
    await watcher.look()
    await watcher.look()

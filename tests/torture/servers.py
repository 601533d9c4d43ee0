"""Real servers on data that outlives them, and what a new one must say of it."""

import itertools
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs

from tests.eca_server.conftest import SERVE
from tests.eca_server.processes import assert_gone, children
from tests.eca_server.stranger import Stranger, content_of, environment, text_of

CURRENT = {"codeAssistant": {"chatCapabilities": {}}}
QUIET = {"ECA_CONFIG": json.dumps({"chat": {"title": False}})}


@attrs.frozen
class Place:
    """A home and a workspace that many servers use, one after the other."""

    home: Path
    _numbers: Iterator[int] = attrs.field(factory=itertools.count)

    @property
    def project(self) -> Path:
        return self.home / "project"

    @property
    def data(self) -> Path:
        return self.home / ".local" / "share"

    @property
    def introduction(self) -> dict[str, Any]:
        folders = [{"uri": self.project.as_uri(), "name": "project"}]
        return {"capabilities": CURRENT, "workspaceFolders": folders}

    @contextmanager
    def server(
        self, env: Mapping[str, str] = QUIET, *, command: Sequence[str] = SERVE
    ) -> Iterator[Stranger]:
        """Start a server and introduce it; what it leaves running fails the test."""
        self.project.mkdir(exist_ok=True)
        errors = self.home / f"stderr-{next(self._numbers)}.txt"
        server = Stranger(
            command, cwd=self.project, env=environment(self.home, **env), errors=errors
        )
        try:
            server.introduced(**self.introduction)
            yield server
            begun = children(server.pid) if server.process.poll() is None else set()
        finally:
            server.close()
        assert_gone(begun)


def turn(
    server: Stranger, text: str, chat: str, *, model: str | None = "simulator/echo", **params: Any
) -> str:
    """Have a whole turn; return what the assistant and the server said in it."""
    named = {} if model is None else {"model": model}
    server.ask("chat/prompt", {"message": text, "chatId": chat, **named, **params})
    came = server.expect_finished(seconds=20)
    return text_of(came) + text_of(came, "system")


def prompts_of(server: Stranger, chat: str) -> list[str]:
    """Open a chat; return the user's prompts in it as a client shows them."""
    begun = len(server.received)
    server.result("chat/open", {"chatId": chat}, seconds=20)
    return prompts_in(server.received[begun:], chat)


def prompts_in(messages: Sequence[Mapping[str, Any]], chat: str) -> list[str]:
    """Return the user's texts among messages, each whole."""
    texts: dict[str, str] = {}
    for each in messages:
        content = content_of(each)
        if (
            content.get("type") == "text"
            and each["params"]["role"] == "user"
            and each["params"]["chatId"] == chat
        ):
            key = content.get("contentId", "")
            texts[key] = texts.get(key, "") + content["text"]
    return [text.removesuffix("\n") for text in texts.values()]


def listed(server: Stranger) -> set[str]:
    """Return the ids of the chats that the server lists."""
    return {chat["id"] for chat in server.result("chat/list", seconds=20)["chats"]}


def problems_in(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the messages of the server to its user, and system texts in chats."""
    shown = [
        each["params"]["message"] for each in messages if each.get("method") == "$/showMessage"
    ]
    return [*shown, *filter(None, [text_of(messages, "system")])]

"""Fixtures of tests of today's edition: a client with all of its capabilities."""

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import attrs

from tests.eca_server.agent.chat.editor import Editor, editor

CURRENT: dict[str, Any] = {
    "codeAssistant": {
        "chat": True,
        "editor": {"diagnostics": True, "definition": True, "references": True},
        "chatCapabilities": {"askQuestion": True},
    }
}


def current(
    config: Mapping[str, Any] | None = None,
    *,
    data: Path | None = None,
    folder: Path | None = None,
    environ: Mapping[str, str] = MappingProxyType({}),
    **params: Any,
) -> AbstractAsyncContextManager[Editor]:
    """An editor of today; its chats are kept in `data`, if that is given."""
    about = {"capabilities": CURRENT, **params}
    return editor(config, data=data, folder=folder, about=about, **environ)


def set_store_limits(ours: Editor, **limits: float) -> None:
    """Change how long the server waits for its stored chats."""
    worker = ours.connection.chats.memory.store
    worker._thread.limits = attrs.evolve(worker.limits, **limits)


async def reaction(ours: Editor, method: str, params: Any = None) -> list[tuple[str, Any]]:
    """Send a request; return what comes up to its answer, in short."""
    begun = len(ours.received)
    await ours.ask(method, params)
    return since(ours, begun)


def values(reaction: list[tuple[str, Any]], name: str = "text") -> list[Any]:
    """Return the key values of the messages with this name."""
    return [value for each, value in reaction if each == name]


async def reopened(ours: Editor, chat: str = "c") -> list[str]:
    """Open a chat; return the texts that are shown of it."""
    return values(await reaction(ours, "chat/open", {"chatId": chat}))


def since(ours: Editor, begun: int) -> list[tuple[str, Any]]:
    """Return the messages since a moment, in short: method or content type, and key values."""
    return [_short(message) for message in ours.received[begun:]]


def _short(message: Mapping[str, Any]) -> tuple[str, Any]:
    method = message.get("method")
    if method is None:
        return "answer", message.get("result", message.get("error"))
    params = message["params"]
    if method != "chat/contentReceived":
        return method, params
    content = params["content"]
    words = content.get("text", content.get("title", content.get("name")))
    return content["type"], content.get("state", words)


async def refused(ours: Editor, method: str, params: Any) -> dict[str, Any]:
    """The error that a request is answered with."""
    request = ours.request(method, params)
    await ours.send(request)
    message = await ours.until(lambda each: each.get("id") == request["id"])
    return message["error"]

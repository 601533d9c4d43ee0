"""The handlers of the protocol, a module per chapter: translate, call the feature, answer.

A chapter is imported with its first message, which keeps the answer to `initialize` fast.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping

from eca_protocol.peer import Handler
from eca_server.features.connection import Connection, Options

__all__ = ["Connection", "Handlers", "Options"]

_CHAPTERS = {
    "initialize": "lifecycle",
    "initialized": "introduction",
    "shutdown": "lifecycle",
    "exit": "lifecycle",
    "chat": "chat",
    "completion": "editing",
    "jobs": "jobs",
    "mcp": "mcp_control",
    "providers": "providers",
    "rewrite": "editing",
    "workspace": "workspace",
}
"""The chapter of each method, by the part before its slash."""


class Handlers(Mapping[str, Handler]):
    """The handler of every method this server serves, by the method's name."""

    def __init__(self) -> None:
        self._connection: Connection | None = None
        self._chapters: dict[str, Mapping[str, Handler]] = {}

    def serve(self, connection: Connection) -> None:
        """Set the connection of the handlers."""
        self._connection = connection

    def __getitem__(self, method: str) -> Handler:
        return self._chapter(_CHAPTERS[method.partition("/")[0]])[method]

    def __iter__(self) -> Iterator[str]:
        for name in dict.fromkeys(_CHAPTERS.values()):
            yield from self._chapter(name)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def _chapter(self, name: str) -> Mapping[str, Handler]:
        if name not in self._chapters:
            module = importlib.import_module(f"{__name__}.{name}")
            self._chapters[name] = module.make_handlers(self._connection)
        return self._chapters[name]

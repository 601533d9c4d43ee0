"""The handlers of the protocol's methods; a chapter is imported with its first message."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeAlias

from eca_protocol import methods
from eca_protocol.peer import Handler
from eca_server.connection.features.lazy import Lazy
from eca_server.connection.features.lifecycle import Connection

if TYPE_CHECKING:
    from eca_server.connection.features.composition import Composition

_Chapter: TypeAlias = Lazy[Mapping[str, Handler]]


class Handlers(Mapping[str, Handler]):
    """The handler of every method this server serves, by the method's name."""

    def __init__(self) -> None:
        self._chapters: Mapping[str, _Chapter] = {}

    def serve(self, connection: Connection) -> None:
        """Set the connection of the handlers."""

        def chapter(make: Callable[[Composition], Mapping[str, Handler]]) -> _Chapter:
            return Lazy(lambda: make(connection.parts.get()))

        lifecycle = Lazy(connection.handlers)
        editing = chapter(lambda parts: parts.editing.get().handlers())
        self._chapters = {
            "initialize": lifecycle,
            "initialized": chapter(_introduction),
            "shutdown": lifecycle,
            "exit": lifecycle,
            "chat": chapter(_chat),
            "completion": editing,
            "jobs": chapter(_jobs),
            "mcp": chapter(_mcp),
            "providers": chapter(_providers),
            "rewrite": editing,
            "workspace": chapter(lambda parts: parts.folders.handlers()),
        }

    def __getitem__(self, method: str) -> Handler:
        return self._chapters[method.partition("/")[0]].get()[method]

    def __iter__(self) -> Iterator[str]:
        for chapter in dict.fromkeys(self._chapters.values()):
            yield from chapter.get()

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _introduction(parts: Composition) -> Mapping[str, Handler]:
    from eca_server.connection.features.introduction import introduce  # noqa: PLC0415 - see the docstring

    return methods.handlers(methods.INITIALIZED.handled_by(lambda _: introduce(parts)))


def _chat(parts: Composition) -> Mapping[str, Handler]:
    from eca_server.connection.features.chat import make_handlers  # noqa: PLC0415 - as above

    return make_handlers(parts)


def _jobs(parts: Composition) -> Mapping[str, Handler]:
    from eca_server.connection.features.jobs import make_handlers  # noqa: PLC0415 - as above

    return make_handlers(parts.jobs, parts.chats.get())


def _mcp(parts: Composition) -> Mapping[str, Handler]:
    from eca_server.connection.features.mcp_control import MCPControl  # noqa: PLC0415 - as above

    return MCPControl(parts).handlers()


def _providers(parts: Composition) -> Mapping[str, Handler]:
    from eca_server.connection.features.providers import Providers  # noqa: PLC0415 - as above

    return Providers(parts).handlers()

"""The handlers of the protocol's methods, made with the first message of their chapter."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from eca_protocol.peer import Handler
from eca_server.features.composition import Composition
from eca_server.features.lazy import Lazy

__all__ = ["Handlers"]


class Handlers(Mapping[str, Handler]):
    """The handler of every method this server serves, by the method's name."""

    def __init__(self) -> None:
        self._chapters: Mapping[str, Lazy[Mapping[str, Handler]]] = {}

    def serve(self, parts: Composition) -> None:
        """Set the connection of the handlers."""
        chapters = _Chapters(parts)
        lifecycle, editing = Lazy(parts.lifecycle.handlers), Lazy(chapters.editing)
        self._chapters = {
            "initialize": lifecycle,
            "initialized": Lazy(chapters.introduction),
            "shutdown": lifecycle,
            "exit": lifecycle,
            "chat": Lazy(chapters.chat),
            "completion": editing,
            "jobs": Lazy(chapters.jobs),
            "mcp": Lazy(chapters.mcp),
            "providers": Lazy(chapters.providers),
            "rewrite": editing,
            "workspace": Lazy(chapters.workspace),
        }

    def __getitem__(self, method: str) -> Handler:
        return self._chapters[method.partition("/")[0]].get()[method]

    def __iter__(self) -> Iterator[str]:
        for chapter in dict.fromkeys(self._chapters.values()):
            yield from chapter.get()

    def __len__(self) -> int:
        return sum(1 for _ in self)


class _Chapters:
    """The chapters of the protocol: each method returns the handlers of one."""

    def __init__(self, parts: Composition) -> None:
        self._parts = parts

    def introduction(self) -> Mapping[str, Handler]:
        from eca_server.features.discovery import ModelDiscovery  # noqa: PLC0415 - see the docstring
        from eca_server.features.introduction import Introduction  # noqa: PLC0415 - as above

        parts = self._parts
        discovery = ModelDiscovery(parts.models, parts.settings, parts.announcer, parts.host.http)
        parts.on_close.append(discovery.stop)
        return Introduction(
            parts.session,
            parts.settings,
            parts.host,
            parts.models,
            parts.folders,
            parts.announcer,
            parts.hooks.get(),
            discovery,
            parts.logins,
            parts.follow_servers,
        ).handlers()

    def chat(self) -> Mapping[str, Handler]:
        from eca_server.features.chat import make_handlers  # noqa: PLC0415 - as above

        return make_handlers(self._parts)

    def editing(self) -> Mapping[str, Handler]:
        return self._parts.editing.get().handlers()

    def jobs(self) -> Mapping[str, Handler]:
        from eca_server.features.jobs import JobRequests  # noqa: PLC0415 - as above

        return JobRequests(self._parts.jobs, self._parts.chats.get()).handlers()

    def mcp(self) -> Mapping[str, Handler]:
        from eca_server.features.kept_servers import SavedServers  # noqa: PLC0415 - as above
        from eca_server.features.mcp_control import McpControl  # noqa: PLC0415 - as above

        parts = self._parts
        options = parts.host.options
        return McpControl(
            parts.session,
            parts.settings,
            parts.host,
            parts.announcer,
            parts.mcp.get(),
            SavedServers(parts.session, parts.settings, options, parts.logins.get()),
            parts.trust.get(),
        ).handlers()

    def providers(self) -> Mapping[str, Handler]:
        from eca_server.features.providers import Providers  # noqa: PLC0415 - as above

        parts = self._parts
        providers = Providers(
            parts.session,
            parts.settings,
            parts.models,
            parts.announcer,
            parts.host,
            parts.logins.get(),
        )
        parts.on_close.append(providers.close)
        return providers.handlers()

    def workspace(self) -> Mapping[str, Handler]:
        from eca_server.features.workspace import make_handlers  # noqa: PLC0415 - as above

        parts = self._parts
        return make_handlers(parts.session, parts.settings, parts.folders, parts.host.nursery)

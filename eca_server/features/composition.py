"""The parts of one connection: each is made once, and handed what it needs.

The answer to `initialize` must be fast: what it does not need is made, and its modules imported, at
its first use.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import trio

from eca_server.config import LoadedConfig, data_directory
from eca_server.features.announcer import Announcer
from eca_server.features.approvals import Approvals
from eca_server.features.current_models import CurrentModels
from eca_server.features.folders import Folders
from eca_server.features.gate import ConfigurationGate
from eca_server.features.host import Host
from eca_server.features.lazy import Lazy
from eca_server.features.lifecycle import Lifecycle
from eca_server.features.selection import Selection
from eca_server.features.settings import Settings
from eca_server.session import Session

if TYPE_CHECKING:
    from eca_server.chat import Chats
    from eca_server.chat.memory import Memory
    from eca_server.credentials import Logins
    from eca_server.features.agents import Agents
    from eca_server.features.editing import Editing
    from eca_server.features.hooks import SessionHooks
    from eca_server.features.mcp import McpServers
    from eca_server.features.tool_sets import ToolSets
    from eca_server.features.trust import Trust
    from eca_server.jobs import Jobs

__all__ = ["Composition"]


class Composition:
    """The shared parts of one connection, and their end.

    Attributes:
        on_close: called when the connection ends, before the parts are closed.
    """

    def __init__(self, host: Host, gate: ConfigurationGate) -> None:
        self.host = host
        self.session = Session(host.peer)
        self.settings = Settings(host.options)
        self.logins = Lazy(self._make_logins)
        self.models = CurrentModels(self.settings, self.logins, host)
        self.folders = Folders(self.session, self.settings, host)
        self.selection = Selection(self.settings, self.models)
        self.approvals = Approvals()
        self.tools = Lazy(self._make_tools)
        self.announcer = Announcer(
            self.session, self.settings, self.models, self.selection, self.tools
        )
        self.hooks = Lazy(self._make_hooks)
        self.chats = Lazy(self._make_chats)
        self.jobs = Lazy(self._make_jobs)
        self.mcp = Lazy(self._make_mcp)
        self.trust = Lazy(self._make_trust)
        self.agents = Lazy(self._make_agents)
        self.editing = Lazy(self._make_editing)
        self.lifecycle = Lifecycle(
            host=host,
            gate=gate,
            session=self.session,
            settings=self.settings,
            selection=self.selection,
            announcer=self.announcer,
            logins=self.logins,
            close=self.close,
        )
        self.on_close: list[Callable[[], None]] = []
        self._subscribe()

    @property
    def servers(self) -> McpServers | None:
        """The MCP servers; None if none is or was configured, and nothing of MCP is imported."""
        return self.mcp.get() if self.settings.config.mcp_servers else self.mcp.made

    async def close(self) -> Sequence[str]:
        """Stop all work within a deadline; return descriptions of what did not end."""
        for stop in self.on_close:
            stop()
        problems: list[str] = []

        async def close(part: Callable[[], Awaitable[Sequence[str]]]) -> None:
            problems.extend(await part())

        async with trio.open_nursery() as closing:
            closing.start_soon(partial(self.host.peer.cancel_requests, seconds=1.0, but="shutdown"))
            if self.editing.made is not None:
                closing.start_soon(self.editing.made.rewrites.close)
            if self.announcer.is_introduced:
                closing.start_soon(self.hooks.get().end_session)
            for part in (self.mcp.made, self.jobs.made, self.chats.made):
                if part is not None:
                    closing.start_soon(close, part.close)
        return problems

    def follow_servers(self) -> None:
        """Start and stop MCP servers as configured; do nothing before the introduction."""
        servers = self.servers if self.announcer.is_introduced else None
        if servers is not None and not self.lifecycle.was_shut_down:
            servers.manager.configure(self.settings.config.mcp_servers)

    def _subscribe(self) -> None:
        """Connect the events of parts with the parts that follow them."""

        def settings_changed(before: LoadedConfig) -> None:
            if before.config != self.settings.config:
                self.models.renew()
            self.folders.follow_settings()
            self.announcer.announce_changes()
            self.follow_servers()

        def models_renewed() -> None:
            if self.editing.made is not None:
                self.editing.made.completions.forget()

        def folders_changed() -> None:
            for chat in self.chats.made or ():
                chat.systems.clear()  # instructions describe the roots and their files
            if self.mcp.made is not None:
                self.mcp.made.manager.roots_changed()

        def problems_announced() -> None:
            if self.settings.loaded.withheld:
                self.trust.get().announce()

        self.settings.on_change = settings_changed
        self.models.on_renew = models_renewed
        self.folders.on_change = folders_changed
        self.announcer.on_problems = problems_announced
        self.announcer.servers = lambda: (
            () if self.mcp.made is None else self.mcp.made.announcements()
        )

    def _make_logins(self) -> Logins:
        from eca_server.credentials import Logins  # noqa: PLC0415 - see the module's docstring

        return Logins(self.host.options.environ, in_keyring=lambda: self.settings.config.keyring)

    def _make_tools(self) -> ToolSets:
        from eca_server.features.tool_sets import ToolSets  # noqa: PLC0415 - as above

        return ToolSets(
            self.session,
            self.settings,
            self.host.options,
            self.models,
            self.folders,
            self.jobs,
            lambda: self.servers is not None,
        )

    def _make_hooks(self) -> SessionHooks:
        from eca_server.features.hooks import SessionHooks  # noqa: PLC0415 - as above

        return SessionHooks(
            self.session, self.settings, self.host, self.folders, self.models, self.announcer
        )

    def _make_chats(self) -> Chats:
        from eca_server.chat import Chats  # noqa: PLC0415 - as above

        memory = self._make_memory() if self.host.options.keeps_chats else None
        return Chats(self.session, self.host.nursery, memory, self.hooks.get().report_status)

    def _make_memory(self) -> Memory:
        """Return the storage of this workspace's chats."""
        from eca_server.chat.gallery import Gallery  # noqa: PLC0415 - as above
        from eca_server.chat.memory import Memory  # noqa: PLC0415
        from eca_server.chat.store import Store, store_path, workspace_key  # noqa: PLC0415

        warn = partial(self.session.show, "warning")
        store = Store(store_path(self.host.options.environ), on_problem=warn)
        gallery = Gallery(data_directory(self.host.options.environ))
        self.session.link = gallery.link
        return Memory(
            store,
            workspace_key(root.path for root in self.session.roots),
            boundary=lambda: self.folders.workspace,
            notify=warn,
            gallery=gallery,
        )

    def _make_jobs(self) -> Jobs:
        from eca_server.features.jobs import summaries  # noqa: PLC0415 - as above
        from eca_server.jobs import Jobs  # noqa: PLC0415

        def announce() -> None:
            self.announcer.announce_jobs(summaries(self.jobs.get(), self.chats.get()))

        return Jobs(self.host.nursery, announce)

    def _make_mcp(self) -> McpServers:
        from eca_server.features.mcp import McpServers  # noqa: PLC0415 - as above

        return McpServers(
            self.session,
            self.settings,
            self.host,
            self.models,
            self.selection,
            self.announcer,
            self.approvals,
            self.logins.get(),
        )

    def _make_trust(self) -> Trust:
        from eca_server.features.trust import Trust  # noqa: PLC0415 - as above

        on_decision = self.hooks.get().begin_session_of_added
        return Trust(self.session, self.settings, self.host.options, on_decision)

    def _make_agents(self) -> Agents:
        from eca_server.features.agents import Agents  # noqa: PLC0415 - as above

        return Agents(
            self.session,
            self.settings,
            self.models,
            self.folders,
            self.announcer,
            self.tools.get(),
            self.approvals,
            self.hooks.get(),
            self.jobs,
            lambda: None if self.servers is None else self.servers.in_turns,
            self.host.http,
        )

    def _make_editing(self) -> Editing:
        from eca_server.features.editing import Editing  # noqa: PLC0415 - as above

        return Editing(self.session, self.settings, self.models, self.selection, self.host.nursery)

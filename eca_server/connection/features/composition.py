"""The parts of one connection: each is made once, and handed what it needs.

The answer to `initialize` needs none of them (`lifecycle`). What a client may never need is made,
and its package imported, at its first use.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import trio

from eca_protocol import messages as m
from eca_protocol.errors import describe_internal_error
from eca_protocol.server.chat_states import ChatState
from eca_server.agent.chat import Chats
from eca_server.agent.chat.memory import Memory
from eca_server.agent.chat.pictures import Gallery
from eca_server.agent.chat.store.place import store_path, workspace_key
from eca_server.agent.chat.store.store import Store
from eca_server.agent.jobs.jobs import Jobs
from eca_server.agent.jobs.shell import end_survivors
from eca_server.client.session import Session
from eca_server.config.directories import data_directory
from eca_server.config.loading import LoadedConfig
from eca_server.connection.features.announcer import Announcer
from eca_server.connection.features.approvals import Approvals
from eca_server.connection.features.current_models import CurrentModels
from eca_server.connection.features.folders import Folders
from eca_server.connection.features.hooks import SessionHooks
from eca_server.connection.features.host import Host
from eca_server.connection.features.jobs import summaries
from eca_server.connection.features.lazy import Lazy
from eca_server.connection.features.selection import Selection
from eca_server.connection.features.settings import Settings
from eca_server.connection.features.tool_sets import ToolSets
from eca_server.connection.features.trust import Trust
from eca_server.models.acp import ACP, AGENT_VARIABLE
from eca_server.models.credentials.logins import Logins

if TYPE_CHECKING:
    from eca_server.agent.acp.agents import ACPAgents
    from eca_server.agent.chat.outlet import Outlet
    from eca_server.connection.features.editing import Editing
    from eca_server.connection.features.mcp import MCPServers

_log = logging.getLogger("eca_server")

MOST_SUBAGENTS: Final = 8
"""Limit of concurrent subagents in all chats; further ones wait."""


class Composition:
    """The parts of one connection that its chapters share, and their end.

    Attributes:
        on_close: called when the connection ends, before the parts are closed.
    """

    def __init__(
        self, host: Host, session: Session, settings: Settings, logins: Lazy[Logins]
    ) -> None:
        self.host = host
        self.session = session
        self.settings = settings
        self.logins = logins
        self.models = CurrentModels(settings, logins, host)
        self.folders = Folders(session, settings, host)
        self.selection = Selection(settings, self.models)
        self.approvals = Approvals()
        self.jobs = Jobs(host.nursery, self._jobs_changed)
        self.tools = ToolSets(
            session, settings, host.options, self.models, self.folders, self.jobs, self.servers
        )
        self.announcer = Announcer(session, settings, self.models, self.selection, self.tools)
        self.hooks = SessionHooks(
            session, settings, host, self.folders, self.models, self.announcer
        )
        self.trust = Trust(
            session, settings, host.options.environ, self.hooks.begin_session_of_added
        )
        self.chats = Lazy(self._make_chats)
        self.mcp = Lazy(self._make_mcp)
        self.editing = Lazy(self._make_editing)
        self.acp = Lazy(self._make_acp)
        self.subagents = trio.Semaphore(MOST_SUBAGENTS)
        self.on_close: list[Callable[[], None]] = [self.models.stop_discovery]
        self._is_closed = False
        self._subscribe()

    def servers(self) -> MCPServers | None:
        """Return the MCP servers; None if none is or was configured: their package is unused."""
        return self.mcp.get() if self.settings.config.mcp_servers else self.mcp.made

    async def close(self) -> Sequence[str]:
        """Stop all work within a deadline; return descriptions of what did not end."""
        self._is_closed = True
        for stop in self.on_close:
            stop()
        problems: list[str] = []

        async def close(part: Callable[[], Awaitable[Sequence[str] | None]]) -> None:
            try:
                problems.extend(await part() or ())
            except Exception as fault:  # noqa: BLE001 - an error must not stop the others
                _log.error("a part could not be closed", exc_info=fault)
                problems.append(f"internal error: {type(fault).__name__}; see the log")

        async with trio.open_nursery() as closing:
            closing.start_soon(partial(self.host.peer.cancel_requests, seconds=1.0, but="shutdown"))
            if self.editing.made is not None:
                closing.start_soon(close, self.editing.made.rewrites.close)
            closing.start_soon(close, self.hooks.end_session)
            for part in (self.mcp.made, self.acp.made, self.jobs, self.chats.made):
                if part is not None:
                    closing.start_soon(close, part.close)
        if not problems:
            await close(end_survivors)
        return problems

    def follow_servers(self) -> None:
        """Start and stop MCP servers as configured; do nothing before the introduction."""
        may_start = self.announcer.is_introduced and not self._is_closed
        servers = self.servers() if may_start else None
        if servers is not None:
            awaits = self.settings.loaded.awaits_commands  # whose output a damaged server may need
            configured = self.settings.config.mcp_servers.items()
            ready = {name: each for name, each in configured if not (awaits and each.is_damaged)}
            servers.manager.configure(ready)

    def learn_modes(self, model: str) -> None:
        """Start a selected ACP agent whose modes, the model's variants, are unknown."""
        agent = model.removeprefix(f"{ACP}/")
        models, shows = self.models.current, self.session.writes(m.ChatConfig, "variants")
        if agent != model and model in models.names and shows and not models.variants(model):
            command = self.settings.config.providers[agent].command
            learn = self.acp.get().learn_modes
            self.host.nursery.start_soon(learn, agent, command, self.folders.workspace)

    def _subscribe(self) -> None:
        """Connect the events of parts with the parts that follow them."""

        def follow_settings(before: LoadedConfig) -> None:
            if before.config != self.settings.config or self.models.logins_changed:
                self.models.renew()
            self.folders.follow_settings()
            self.announcer.announce_changes()
            self.follow_servers()
            if self.mcp.made is not None:
                self.host.nursery.start_soon(self.mcp.made.follow_logins)
            if self.acp.made is not None:
                providers = self.settings.config.providers.items()
                self.acp.made.follow({name: each.command for name, each in providers})

        def settings_changed(before: LoadedConfig) -> None:
            try:
                follow_settings(before)
            except Exception as error:  # noqa: BLE001 - chats continue without the change
                _log.error("a changed configuration is not in use", exc_info=error)
                reason = describe_internal_error(error)
                self.session.show(
                    "error", f"The changed configuration is not in use everywhere: {reason}."
                )

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
                self.trust.announce()

        self.settings.on_change = settings_changed
        self.models.on_renew = models_renewed
        self.models.on_discovery = partial(self.announcer.announce_offer, keeps_selection=True)
        self.folders.on_change = folders_changed
        self.announcer.on_problems = problems_announced
        self.announcer.servers = lambda: (
            () if self.mcp.made is None else self.mcp.made.announcements()
        )

    def _make_chats(self) -> Chats:
        memory = self._make_memory() if self.host.options.keeps_chats else None
        return Chats(self.session, self.host.nursery, memory, self.hooks.report_status)

    def _make_memory(self) -> Memory:
        """Return the storage of this workspace's chats."""
        warn = partial(self.session.show, "warning")
        options = self.host.options
        store = Store(store_path(options.environ), on_problem=warn, threads=options.chat_threads)
        gallery = Gallery(data_directory(options.environ))
        self.session.link = gallery.link
        return Memory(
            store,
            workspace_key(root.path for root in self.folders.first_roots),
            boundary=lambda: self.folders.workspace,
            notify=warn,
            gallery=gallery,
        )

    def repeat_announcements(self, chat_id: str) -> None:
        """Repeat announcements for a page that shows a chat which nothing was announced for."""
        is_new = self.chats.get().at(chat_id) is None
        if is_new and self.announcer.repeat(chat_id) and any(self.jobs):
            self._jobs_changed()

    def _jobs_changed(self) -> None:
        self.announcer.announce_jobs(summaries(self.jobs, self.chats.get()))

    def _make_mcp(self) -> MCPServers:
        from eca_server.connection.features.mcp import MCPServers  # noqa: PLC0415 - see the module's docstring

        return MCPServers(
            self.session,
            self.settings,
            self.host,
            self.models,
            self.selection,
            self.announcer,
            self.approvals,
            self.logins.get(),
        )

    def _make_acp(self) -> ACPAgents:
        from eca_server.agent.acp.agents import ACPAgents  # noqa: PLC0415 - see the module's docstring

        def has_modes(agent: str, modes: tuple[str, ...]) -> None:
            if self.models.learn_modes(agent, modes):
                self.announcer.announce_changes()

        def mode_selected(chat: Outlet, agent: str, mode: str) -> None:
            model = f"{ACP}/{agent}"
            if chat.settings.model == model and chat.state is not ChatState.DELETED:
                of_chat = chat if self.session.has_selections_of_chats else None
                self.selection.select_model(of_chat, model, mode)
                chat_id = None if of_chat is None else of_chat.id
                self.announcer.announce_variants(model, mode, chat_id, is_own=False)

        return ACPAgents(
            self.host.nursery,
            environment=lambda: {**self.models.child_variables, AGENT_VARIABLE: "1"},
            drained=self.session.drained,
            on_modes=has_modes,
            on_mode=mode_selected,
        )

    def _make_editing(self) -> Editing:
        from eca_server.connection.features.editing import Editing  # noqa: PLC0415 - as above

        return Editing(self.session, self.settings, self.models, self.selection, self.host.nursery)


class Feature:
    """A chapter of the protocol's methods, or a part of one, over the parts of a connection.

    A part that several features use is an attribute here, and has no other name in a feature. A
    part of one feature alone is taken from `parts`.
    """

    def __init__(self, parts: Composition) -> None:
        self.parts = parts
        self.host = parts.host
        self.session = parts.session
        self.settings = parts.settings
        self.models = parts.models
        self.folders = parts.folders
        self.selection = parts.selection
        self.announcer = parts.announcer
        self.tools = parts.tools
        self.hooks = parts.hooks
        self.trust = parts.trust
        self.jobs = parts.jobs
        self.servers = parts.servers

    @property
    def chats(self) -> Chats:
        """The chats of the connection."""
        return self.parts.chats.get()

    @property
    def logins(self) -> Logins:
        """The stored logins."""
        return self.parts.logins.get()

"""What the features of one connection share: the client, its configuration, models and chats.

Models and chats are made when they are first asked for, and only then are their rooms imported:
the answer to `initialize` needs neither.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import attrs
import trio

from eca_protocol.http import HTTPClient
from eca_protocol.messages import ChatConfig
from eca_protocol.peer import Peer
from eca_protocol.revisions import Revision
from eca_server.config import (
    Config,
    Loaded,
    MCPServer,
    cache_folder,
    data_folder,
    in_behavior,
    load,
)
from eca_server.features.gate import ConfigurationGate
from eca_server.features.options import Options
from eca_server.features.turnstile import Turnstile
from eca_server.session import Session

MOST_SUBAGENTS = 8
"""Agents that work for others at once, in all chats; one more waits until another has ended."""

if TYPE_CHECKING:
    from eca_protocol.messages import (
        EcaServerUpdatedParams,
        MCPServerUpdatedParams,
        ProviderStatus,
    )
    from eca_server.chat import Chat, Chats
    from eca_server.chat.memory import Memory
    from eca_server.credentials import Logins
    from eca_server.editing.completing import Completions
    from eca_server.editing.rewriting import Rewrites
    from eca_server.features.trust import Trust
    from eca_server.hooks import BackgroundHooks
    from eca_server.jobs import Jobs
    from eca_server.llm.access import Access
    from eca_server.llm.discovery import Discovery
    from eca_server.llm.models import Models
    from eca_server.mcp.authorization.login import Login
    from eca_server.mcp.manager import Manager
    from eca_server.mcp.messages import MCPTool
    from eca_server.skills import SkillFiles
    from eca_server.tools.approval import Memo
    from eca_server.tools.ledger import Ledger
    from eca_server.tools.native import NativeTools
    from eca_server.tools.tasks import Tasks
    from eca_server.tools.tool import Tool
    from eca_server.workspace import FileIndex, Root, Workspace
    from eca_server.workspace.temporary_files import TemporaryFiles

__all__ = ["Connection", "Options", "Told"]


@attrs.define(kw_only=True)
class Told:
    """What the client was told last, beside chats.

    Attributes:
        config: of what it can select; nothing before the introduction.
        tools: the native tools; None before the introduction.
        servers: the MCP servers, by name.
        approved_as: the MCP tools, by server and name, as approvals for the session mean them.
        links: to log in to MCP servers, those that were told in a chat.
        wanted_logins: MCP servers at which the user has asked for a login.
        too_many_tools: that not all tools are offered.
        problems: those the user was shown, each without its line.
        providers: by name; None before the client has asked for them.
    """

    config: ChatConfig = attrs.field(factory=ChatConfig)
    tools: EcaServerUpdatedParams | None = None
    servers: dict[str, MCPServerUpdatedParams] = attrs.field(factory=dict)
    approved_as: dict[tuple[str, str], MCPTool] = attrs.field(factory=dict)
    links: set[str] = attrs.field(factory=set)
    wanted_logins: set[str] = attrs.field(factory=set)
    too_many_tools: bool = False
    problems: Collection[object] = ()
    providers: dict[str, ProviderStatus] | None = None


async def _keep_fresh(index: FileIndex, scope: trio.CancelScope) -> None:
    with scope:
        await index.run()


class Connection:
    """One connection; the features' handlers read and change it, in wire order.

    Attributes:
        gate: holds the client's messages until the configuration is read.
        was_shut_down: `shutdown` was answered: an exit is orderly from then on.
        client_is_gone: its process ended, which ends us like the end of its input.
        behavior: what the user selected last, or None (W-28).
        model: the model the user selected last, or None.
        variant: of that model, or None.
        initial_behavior: what `initializationOptions` asked for, or None.
        client_model: what the client has selected, as far as it was told or has asked.
        load: reads the configuration from where `initialize` said.
        loaded: what came of it last.
        told: what the client was told last.
        notices: what the user is to be told once the client listens.
        greeted: the chats that were told what hooks add at their start.
        subagents: lets so many agents work for others at once.
        has_skills: whether there were skills when a chat's instructions were made last.
        memos: the calls the user approved for the session.
        mcp_logins: the logins at MCP servers with a URL, and for which settings each was made.
        changing: lets changes of what is kept for the user through, one after the other.
        logging_in: the scopes of logins to providers that wait for the user, by provider.
        accesses: the ways to providers that hold tokens, until settings or keys change.
        models_are_others: set when settings or keys changed.
        discovering: the scope in which endpoints are asked in the background.
        indexing: the scope in which the workspace's files are listed.
    """

    def __init__(
        self,
        peer: Peer,
        nursery: trio.Nursery,
        options: Options,
        http: HTTPClient,
        gate: ConfigurationGate,
    ) -> None:
        self.peer = peer
        self.gate = gate
        self.nursery = nursery
        self.options = options
        self.http = http
        self.session = Session(peer)
        self.load: Callable[..., Loaded] = partial(
            load, initialization_options=None, roots=(), environ=options.environ
        )
        self.loaded = Loaded(config=Config(), problems=(), sources=())
        self.told = Told()
        self.notices: list[str] = []
        self.has_skills = False
        self.greeted: WeakSet[Chat] = WeakSet()
        self.memos: set[Memo] = set()
        self.changing = Turnstile()
        self.logging_in: dict[str, trio.CancelScope] = {}
        self.mcp_logins: dict[str, tuple[MCPServer, Login]] = {}
        self.behavior: str | None = None
        self.model: str | None = None
        self.variant: str | None = None
        self.subagents = trio.Semaphore(MOST_SUBAGENTS)
        self.initial_behavior: str | None = None
        self.client_model: str | None = None
        self.accesses: dict[object, Access] = {}
        self.models_are_others = trio.Event()
        self.discovering = trio.CancelScope()
        self.indexing = trio.CancelScope()
        self.was_shut_down = False
        self.client_is_gone = False

    @cached_property
    def chats(self) -> Chats:
        """The client's chats."""
        from eca_server.chat import Chats  # noqa: PLC0415 - see the module's docstring
        from eca_server.features.hooks import tell_status  # noqa: PLC0415 - as above

        return Chats(self.session, self.nursery, self._memory(), partial(tell_status, self))

    @cached_property
    def beside(self) -> BackgroundHooks:
        """The hooks that run beside the session."""
        from eca_server.features.hooks import make_beside  # noqa: PLC0415 - as above

        return make_beside(self)

    @cached_property
    def trust(self) -> Trust:
        """The user's decisions about the settings of opened folders."""
        from eca_server.features.trust import Trust  # noqa: PLC0415 - see the module's docstring

        return Trust(self)

    @cached_property
    def rewrites(self) -> Rewrites:
        """The rewrites of selections that run."""
        from eca_server.editing.rewriting import Rewrites  # noqa: PLC0415 - as above

        return Rewrites(self.session, self.nursery)

    @cached_property
    def completions(self) -> Completions:
        """The completions of the document the user types in."""
        from eca_server.editing.completing import Completions  # noqa: PLC0415 - as above

        return Completions(partial(self.session.show, "warning"))

    def _memory(self) -> Memory | None:
        """Where the chats of this workspace are kept, if they are."""
        if not self.options.keeps_chats:
            return None
        from eca_server.chat.gallery import Gallery  # noqa: PLC0415 - as above
        from eca_server.chat.memory import Memory  # noqa: PLC0415
        from eca_server.chat.store import Store, store_path, workspace_key  # noqa: PLC0415

        def on_problem(sentence: str) -> None:
            self.session.show("warning", sentence)

        store = Store(store_path(self.options.environ), on_problem=on_problem)
        gallery = Gallery(data_folder(self.options.environ))
        self.session.link = gallery.link
        return Memory(
            store,
            workspace_key(root.path for root in self.session.roots),
            boundary=lambda: self.workspace,
            tell=on_problem,
            gallery=gallery,
        )

    @cached_property
    def models(self) -> Models:
        """The models that the configuration in force and the keys make available."""
        from eca_server.llm.models import Models  # noqa: PLC0415 - see the module's docstring

        network, environ = self.config.network, self.options.environ
        self.http.ca_file = network.ca_cert_file
        self.http.client_certificate = network.client_certificate(environ)
        models = Models(
            self.config,
            environ=environ,
            http=self.http,
            stored=self.logins.read(),
            logins=self.logins,
            accesses=self.accesses,
            hide=self.options.hide,
            **self._discovered(),
        )
        self.options.hide((*models.secrets, *self.loaded.secrets))
        return models

    def _discovered(self) -> dict[str, Any]:
        """What was learned of models so far."""
        if not self.options.discovers:
            return {}
        return {"listing": self.discovery.listing, "catalog": self.discovery.catalog}

    @cached_property
    def discovery(self) -> Discovery:
        """What is learned of models over the network."""
        from eca_server.llm.discovery import Discovery  # noqa: PLC0415 - see the module's docstring

        return Discovery(cache_folder(self.options.environ))

    @cached_property
    def logins(self) -> Logins:
        """The keys that `/login` stored."""
        from eca_server.credentials import Logins  # noqa: PLC0415 - see the module's docstring

        return Logins(self.options.environ, in_keyring=lambda: self.config.keyring)

    def provider_logins(self) -> Collection[str]:
        """The names of the providers that `/login` has stored a key for."""
        return tuple(self.logins.read().keys)

    def kept_secret(self, reference: str) -> str | None:
        """What a reference of our own layer of the configuration stands for."""
        from eca_server.credentials.server_secrets import find_secret  # noqa: PLC0415 - as above

        return find_secret(self.logins, reference)

    @cached_property
    def workspace(self) -> Workspace:
        """The user's project, known since `initialize`."""
        from eca_server.workspace import Workspace  # noqa: PLC0415 - see the module's docstring

        environ = self.options.environ
        private = [data_folder(environ), cache_folder(environ)]
        return Workspace(self.session.roots, private, self.temporaries)

    @cached_property
    def temporaries(self) -> TemporaryFiles:
        """The notes of temporary files in the workspace."""
        from eca_server.workspace.temporary_files import TemporaryFiles  # noqa: PLC0415 - as above

        return TemporaryFiles(data_folder(self.options.environ) / "temporaries")

    @cached_property
    def index(self) -> FileIndex:
        """The workspace's files, listed when they are first searched and kept fresh."""
        from eca_server.workspace import FileIndex  # noqa: PLC0415 - see the module's docstring

        index = FileIndex(
            self.session.roots,
            gitignore=self.follows_gitignore,
            on_problem=partial(self.session.show_once, "warning"),
        )
        self.nursery.start_soon(_keep_fresh, index, self.indexing)
        return index

    @property
    def follows_gitignore(self) -> bool:
        """Whether what Git ignores is left out of trees and searches."""
        return any(each.type == "gitignore" for each in self.config.ignore_files)

    @property
    def user_folder(self) -> Path:
        """The user's own configuration, `~/.config/eca`."""
        from eca_server.config import user_folder  # noqa: PLC0415 - as above

        return user_folder(self.options.environ)

    @cached_property
    def child_variables(self) -> Mapping[str, str]:
        """The environment of every child process: ours without our secrets."""
        from eca_server.credentials import child_environment  # noqa: PLC0415 - as above

        known = (facts.credential for facts in self.models.providers)
        credentials = [each for each in known if each is not None]
        return child_environment(self.options.environ, credentials, self.models.secrets)

    def tools(
        self,
        ledger: Ledger | None = None,
        chat_id: str = "",
        *,
        reader: str = "",
        behavior: str = "",
        tasks: Tasks | None = None,
        more: Iterable[Tool] = (),
    ) -> NativeTools:
        """The native tools of a chat.

        Args:
            ledger: which files its model has seen.
            chat_id: the chat.
            reader: the chat whose model has them, if it works for that one.
            behavior: whose descriptions and limits count; empty: the common ones.
            tasks: the list of tasks as it is now; None: an empty one.
            more: further tools of this chat alone.
        """
        from eca_server.chat.subagents import SPAWN_TOOL  # noqa: PLC0415 - as above
        from eca_server.sandbox import sandbox_for  # noqa: PLC0415 - as above
        from eca_server.skills import SKILL_TOOL, LoadSkill  # noqa: PLC0415 - as above
        from eca_server.tools.ledger import Ledger  # noqa: PLC0415 - as above
        from eca_server.tools.native import native_tools  # noqa: PLC0415 - as above
        from eca_server.tools.tasks import Tasks, TaskTool  # noqa: PLC0415 - as above

        is_current = self.session.revision is Revision.CURRENT
        config = in_behavior(self.config, behavior)
        return native_tools(
            config,
            session=self.session,
            workspace=self.workspace,
            environment=self.child_variables,
            ledger=ledger or Ledger(),
            chat_id=chat_id,
            reader=reader,
            jobs=self.jobs if is_current else None,
            more=[
                LoadSkill(files=self.skill_files, agent=config.behaviors.get(behavior)),
                *([TaskTool(tasks=tasks or Tasks())] if is_current else ()),
                *more,
            ],
            reserved=(SKILL_TOOL, SPAWN_TOOL),
            sandbox=sandbox_for(
                config.tool_call.sandbox,
                (root.real_path for root in self.session.roots),
                self.options.environ,
                () if config.netrc_file is None else (config.netrc_file,),
            ),
        )

    @property
    def skill_files(self) -> SkillFiles:
        """Where skills lie."""
        from eca_server.skills import SkillFiles  # noqa: PLC0415 - as above

        named = (each.path for each in self.config.skills)
        return SkillFiles(
            workspace=self.workspace,
            user_folder=self.user_folder,
            configured=tuple(path for path in named if path is not None),
        )

    @cached_property
    def jobs(self) -> Jobs:
        """The background jobs; only clients of today can show them, and end them."""
        from eca_server.jobs import Jobs  # noqa: PLC0415 - see the module's docstring

        def tell() -> None:
            from eca_server.features.jobs import tell_jobs  # noqa: PLC0415 - as above

            tell_jobs(self)

        return Jobs(self.nursery, tell)

    @property
    def has_jobs(self) -> bool:
        """Whether there may be a job; where there is none, nothing of them is loaded."""
        return "jobs" in vars(self)

    @cached_property
    def mcp(self) -> Manager:
        """The configured MCP servers."""
        from eca_server.features.mcp import make_manager  # noqa: PLC0415 - as above

        return make_manager(self)

    @property
    def uses_mcp(self) -> bool:
        """Whether a server is configured, or was; where none is, nothing of MCP is loaded."""
        return bool(self.config.mcp_servers) or "mcp" in vars(self)

    def follow_mcp_servers(self) -> None:
        """Let the configured MCP servers be those that run; after a shutdown none is started."""
        if self.uses_mcp and not self.was_shut_down:
            self.mcp.configure(self.config.mcp_servers)

    async def close(self) -> Sequence[str]:
        """Stop everything that runs and wait, within bounds, until it has ended; what has not."""
        self.discovering.cancel()
        for login in self.logging_in.values():
            login.cancel()
        left: list[str] = []
        async with trio.open_nursery() as closing:
            closing.start_soon(partial(self.peer.cancel_requests, seconds=1.0, but="shutdown"))
            if "mcp" in vars(self):
                closing.start_soon(self._close_mcp, left)
            if "rewrites" in vars(self):
                closing.start_soon(self.rewrites.close)
            if self.has_jobs:
                closing.start_soon(self._close_jobs, left)
            if self.is_introduced and (self.config.hooks or "beside" in vars(self)):
                from eca_server.features.hooks import end_session  # noqa: PLC0415 - as above

                closing.start_soon(end_session, self)
            if "chats" in vars(self):
                left += await self.chats.close()
        return left

    async def _close_jobs(self, left: list[str]) -> None:
        left += await self.jobs.close()

    async def _close_mcp(self, left: list[str]) -> None:
        left += [f"the MCP server {name} cannot be ended" for name in await self.mcp.close()]

    @property
    def is_introduced(self) -> bool:
        """Whether the client was told what there is: before, it is told nothing unasked (W-10)."""
        return self.told.tools is not None

    def adopt(self, loaded: Loaded) -> None:
        """Let a configuration govern what begins from now on; a turn that runs keeps its own."""
        is_other = loaded.config != self.config
        self.loaded = loaded
        if is_other:
            self.renew_models()
            if "index" in vars(self):
                self.index.gitignore = self.follows_gitignore

    def change_roots(self, roots: tuple[Root, ...]) -> None:
        """Let these be the user's project; what a turn that runs has begun with is its own."""
        self.session.roots = roots
        self.load = partial(self.load, roots=[root.path for root in roots])
        self.indexing.cancel()
        self.indexing = trio.CancelScope()
        for name in ("workspace", "index"):
            vars(self).pop(name, None)
        if "chats" in vars(self):
            for chat in self.chats:
                chat.systems.clear()  # they tell of the folders, and of what lies in them
        if "mcp" in vars(self):
            self.mcp.roots_changed()

    def renew_models(self) -> None:
        """Have the models made anew when they are next asked for: settings or keys changed."""
        self.forget_models()
        self.accesses = {}
        vars(self).pop("child_variables", None)
        if "completions" in vars(self):
            self.completions.forget()
        self.models_are_others.set()

    def forget_models(self) -> None:
        """Have the models made anew when they are next asked for: more was learned of them."""
        vars(self).pop("models", None)

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.loaded.config

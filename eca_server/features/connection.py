"""The state that the features of one connection share: client, configuration, models, chats.

Models and chats are created, and their packages imported, at their first use: the answer to
`initialize` needs neither.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import trio

from eca_protocol.http import HTTPClient
from eca_protocol.messages import ChatConfig
from eca_protocol.peer import Peer
from eca_protocol.revisions import Revision
from eca_server.config import (
    Config,
    LoadedConfig,
    MCPServer,
    apply_behavior,
    cache_directory,
    data_directory,
    load,
)
from eca_server.features.gate import ConfigurationGate
from eca_server.features.options import Options
from eca_server.features.turnstile import Turnstile
from eca_server.session import Session

MOST_SUBAGENTS = 8
"""Limit of concurrent subagents in all chats; further ones wait."""

if TYPE_CHECKING:
    from eca_protocol.messages import (
        EcaServerUpdatedParams,
        MCPServerUpdatedParams,
        ProviderStatus,
    )
    from eca_server.chat import Chats
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

__all__ = ["AnnouncedState", "Connection", "Options"]


@attrs.define(kw_only=True)
class AnnouncedState:
    """The last announcements to the client, other than those of chats.

    Attributes:
        config: the selections; empty before the introduction.
        tools: the native tools; None before the introduction.
        servers: the MCP servers, by name.
        approved_as: the MCP tools by server and name, as they were when approved for the session.
        links: login links of MCP servers that were shown in a chat.
        wanted_logins: MCP servers for which the user has requested a login.
        too_many_tools: whether the user was warned that not all tools are offered.
        problems: the problems that were shown, each without its line.
        providers: the providers by name; None before the client's first request for them.
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
    """One connection, whose state the handlers read and change in the order of messages.

    Attributes:
        gate: holds the client's messages until the configuration is loaded.
        was_shut_down: whether `shutdown` was answered, after which an exit is orderly.
        client_is_gone: whether the client's process has ended.
        behavior: the behaviour that the user selected last, or None (W-28).
        model: the model that the user selected last, or None.
        variant: the variant of that model, or None.
        initial_behavior: the behaviour in `initializationOptions`, or None.
        client_model: the model selected in the client, from announcements and its prompts.
        load: loads the configuration from the sources that `initialize` named.
        loaded: the last result of `load`.
        announced: the last announcements to the client.
        notices: messages for the user, shown once the client listens.
        subagents: limits the number of concurrent subagents.
        has_skills: whether there were skills when a chat's instructions were last built.
        memos: the calls the user approved for the session.
        mcp_logins: the logins at MCP servers with a URL, each with the settings it belongs to.
        changing: serializes changes of the user's stored settings.
        logging_in: the scopes of logins to providers that wait for the user, by provider.
        accesses: the access tokens of providers, until settings or keys change.
        models_are_others: set when settings or keys changed.
        discovering: the scope of background requests for models.
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
        self.load: Callable[..., LoadedConfig] = partial(
            load, initialization_options=None, roots=(), environ=options.environ
        )
        self.loaded = LoadedConfig(config=Config(), problems=(), sources=())
        self.announced = AnnouncedState()
        self.notices: list[str] = []
        self.has_skills = False
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
        """The hooks that run in the background."""
        from eca_server.features.hooks import make_beside  # noqa: PLC0415 - as above

        return make_beside(self)

    @cached_property
    def trust(self) -> Trust:
        """The user's decisions about the settings of workspace folders."""
        from eca_server.features.trust import Trust  # noqa: PLC0415 - see the module's docstring

        return Trust(self)

    @cached_property
    def rewrites(self) -> Rewrites:
        """The running rewrites of selections."""
        from eca_server.editing.rewriting import Rewrites  # noqa: PLC0415 - as above

        return Rewrites(self.session, self.nursery)

    @cached_property
    def completions(self) -> Completions:
        """The completions in the user's document."""
        from eca_server.editing.completing import Completions  # noqa: PLC0415 - as above

        return Completions(partial(self.session.show, "warning"))

    def _memory(self) -> Memory | None:
        """Return the storage of this workspace's chats, or None if they are not stored."""
        if not self.options.keeps_chats:
            return None
        from eca_server.chat.gallery import Gallery  # noqa: PLC0415 - as above
        from eca_server.chat.memory import Memory  # noqa: PLC0415
        from eca_server.chat.store import Store, store_path, workspace_key  # noqa: PLC0415

        def on_problem(sentence: str) -> None:
            self.session.show("warning", sentence)

        store = Store(store_path(self.options.environ), on_problem=on_problem)
        gallery = Gallery(data_directory(self.options.environ))
        self.session.link = gallery.link
        return Memory(
            store,
            workspace_key(root.path for root in self.session.roots),
            boundary=lambda: self.workspace,
            notify=on_problem,
            gallery=gallery,
        )

    @cached_property
    def models(self) -> Models:
        """The models available with the present configuration and keys."""
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
        """Return the discovered facts about models."""
        if not self.options.discovers:
            return {}
        return {"listing": self.discovery.listing, "catalog": self.discovery.catalog}

    @cached_property
    def discovery(self) -> Discovery:
        """The discovery of models over the network."""
        from eca_server.llm.discovery import Discovery  # noqa: PLC0415 - see the module's docstring

        return Discovery(cache_directory(self.options.environ))

    @cached_property
    def logins(self) -> Logins:
        """The keys that `/login` stored."""
        from eca_server.credentials import Logins  # noqa: PLC0415 - see the module's docstring

        return Logins(self.options.environ, in_keyring=lambda: self.config.keyring)

    def provider_logins(self) -> Collection[str]:
        """Return the names of the providers with a stored login."""
        return self.logins.names()

    def kept_secret(self, reference: str) -> str | None:
        """Return the secret behind a reference in the saved settings, or None."""
        from eca_server.credentials.server_secrets import find_secret  # noqa: PLC0415 - as above

        return find_secret(self.logins, reference)

    @cached_property
    def workspace(self) -> Workspace:
        """The user's workspace, known since `initialize`."""
        from eca_server.workspace import Workspace  # noqa: PLC0415 - see the module's docstring

        environ = self.options.environ
        private = [data_directory(environ), cache_directory(environ)]
        return Workspace(self.session.roots, private, self.temporary_files)

    @cached_property
    def temporary_files(self) -> TemporaryFiles:
        """The records of temporary files in the workspace."""
        from eca_server.workspace.temporary_files import TemporaryFiles  # noqa: PLC0415 - as above

        return TemporaryFiles(data_directory(self.options.environ) / "temporaries")

    @cached_property
    def index(self) -> FileIndex:
        """The index of the workspace's files, built at the first search and then updated."""
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
        """True if trees and searches omit files that Git ignores."""
        return any(each.type == "gitignore" for each in self.config.ignore_files)

    @property
    def user_directory(self) -> Path:
        """The directory of the user's configuration, `~/.config/eca`."""
        from eca_server.config import user_directory  # noqa: PLC0415 - as above

        return user_directory(self.options.environ)

    @cached_property
    def child_variables(self) -> Mapping[str, str]:
        """The environment of child processes: the server's without its secrets."""
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
        """Return the native tools of a chat.

        Args:
            ledger: the files its model has seen.
            chat_id: the chat.
            reader: the chat of the subagent that gets the tools, if it is one.
            behavior: the behaviour with the descriptions and limits; empty: the common ones.
            tasks: the present list of tasks; None: an empty one.
            more: further tools of this chat alone.
        """
        from eca_server.chat.subagents import SPAWN_TOOL  # noqa: PLC0415 - as above
        from eca_server.sandbox import sandbox_for  # noqa: PLC0415 - as above
        from eca_server.skills import SKILL_TOOL, LoadSkill  # noqa: PLC0415 - as above
        from eca_server.tools.ledger import Ledger  # noqa: PLC0415 - as above
        from eca_server.tools.native import native_tools  # noqa: PLC0415 - as above
        from eca_server.tools.tasks import Tasks, TaskTool  # noqa: PLC0415 - as above

        is_current = self.session.revision is Revision.CURRENT
        config = apply_behavior(self.config, behavior)
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
        """The files of skills."""
        from eca_server.skills import SkillFiles  # noqa: PLC0415 - as above

        named = (each.path for each in self.config.skills)
        return SkillFiles(
            workspace=self.workspace,
            user_directory=self.user_directory,
            configured=tuple(path for path in named if path is not None),
        )

    @cached_property
    def jobs(self) -> Jobs:
        """The background jobs, which only CURRENT clients can show and end."""
        from eca_server.jobs import Jobs  # noqa: PLC0415 - see the module's docstring

        def tell() -> None:
            from eca_server.features.jobs import tell_jobs  # noqa: PLC0415 - as above

            tell_jobs(self)

        return Jobs(self.nursery, tell)

    @property
    def has_jobs(self) -> bool:
        """True if there may be jobs; else their package is not imported."""
        return "jobs" in vars(self)

    @cached_property
    def mcp(self) -> Manager:
        """The configured MCP servers."""
        from eca_server.features.mcp import make_manager  # noqa: PLC0415 - as above

        return make_manager(self)

    @property
    def uses_mcp(self) -> bool:
        """True if an MCP server is or was configured; else the package is not imported."""
        return bool(self.config.mcp_servers) or "mcp" in vars(self)

    def follow_mcp_servers(self) -> None:
        """Start and stop MCP servers as configured; after a shutdown, start none."""
        if self.uses_mcp and not self.was_shut_down:
            self.mcp.configure(self.config.mcp_servers)

    async def close(self) -> Sequence[str]:
        """Stop all work within a deadline; return descriptions of what did not end."""
        self.discovering.cancel()
        for login in self.logging_in.values():
            login.cancel()
        problems: list[str] = []
        async with trio.open_nursery() as closing:
            closing.start_soon(partial(self.peer.cancel_requests, seconds=1.0, but="shutdown"))
            if "mcp" in vars(self):
                closing.start_soon(self._close_mcp, problems)
            if "rewrites" in vars(self):
                closing.start_soon(self.rewrites.close)
            if self.has_jobs:
                closing.start_soon(self._close_jobs, problems)
            if self.is_introduced and (self.config.hooks or "beside" in vars(self)):
                from eca_server.features.hooks import end_session  # noqa: PLC0415 - as above

                closing.start_soon(end_session, self)
            if "chats" in vars(self):
                problems += await self.chats.close()
        return problems

    async def _close_jobs(self, problems: list[str]) -> None:
        problems += await self.jobs.close()

    async def _close_mcp(self, problems: list[str]) -> None:
        problems += [f"the MCP server {name} did not end" for name in await self.mcp.close()]

    @property
    def is_introduced(self) -> bool:
        """True after the introduction, before which nothing is sent unasked (W-10)."""
        return self.announced.tools is not None

    def adopt(self, loaded: LoadedConfig) -> None:
        """Use a configuration for all new work; a running turn keeps its own."""
        has_changed = loaded.config != self.config
        self.loaded = loaded
        if has_changed:
            self.renew_models()
            if "index" in vars(self):
                self.index.gitignore = self.follows_gitignore

    def change_roots(self, roots: tuple[Root, ...]) -> None:
        """Change the workspace roots; a running turn keeps its own."""
        self.session.roots = roots
        self.load = partial(self.load, roots=[root.path for root in roots])
        self.indexing.cancel()
        self.indexing = trio.CancelScope()
        for name in ("workspace", "index"):
            vars(self).pop(name, None)
        if "chats" in vars(self):
            for chat in self.chats:
                chat.systems.clear()  # instructions describe the roots and their files
        if "mcp" in vars(self):
            self.mcp.roots_changed()

    def renew_models(self) -> None:
        """Recreate the models at their next use, because settings or keys changed."""
        self.forget_models()
        self.accesses = {}
        vars(self).pop("child_variables", None)
        if "completions" in vars(self):
            self.completions.forget()
        self.models_are_others.set()

    def forget_models(self) -> None:
        """Recreate the models at their next use, because more is known about them."""
        vars(self).pop("models", None)

    @property
    def config(self) -> Config:
        """The configuration in force."""
        return self.loaded.config

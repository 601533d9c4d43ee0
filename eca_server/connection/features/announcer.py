"""Announcements to the client, other than those of chats: only what changed is sent (W-11).

Before the introduction nothing is sent unasked (W-10).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import attrs

from eca_protocol import messages as m
from eca_server.client.session import Session
from eca_server.connection.features.current_models import CurrentModels
from eca_server.connection.features.selection import Selection
from eca_server.connection.features.settings import Settings
from eca_server.connection.features.tool_sets import ToolSets

_VARIANT_FIELDS: Final = ("variants", "select_variant")


@attrs.define(eq=False)
class Announcer:
    """The last announcements, and what they are compared with.

    Attributes:
        is_introduced: whether the introduction has begun.
        notices: messages for the user, shown once the client listens.
        servers: returns the present announcements of MCP servers.
        providers: returns the present providers; None: the client has not requested them yet.
        on_problems: called after problems were announced.
    """

    session: Session
    settings: Settings
    models: CurrentModels
    selection: Selection
    tools: ToolSets
    is_introduced: bool = False
    notices: Sequence[str] = ()
    servers: Callable[[], Iterable[m.MCPServerUpdatedParams]] = tuple
    providers: Callable[[], Iterable[m.ProviderStatus]] | None = None
    on_problems: Callable[[], None] = lambda: None
    _config: m.ChatConfig = attrs.field(factory=m.ChatConfig, init=False)
    _sent: m.ChatConfig = attrs.field(factory=m.ChatConfig, init=False)
    _last_sent: m.ChatConfig = attrs.field(factory=m.ChatConfig, init=False)
    _repeated_for: str | None = attrs.field(default=None, init=False)
    _announced_tools: m.EcaServerUpdatedParams | None = None
    _announced_servers: dict[str, m.MCPServerUpdatedParams] = attrs.field(factory=dict)
    _announced_providers: dict[str, m.ProviderStatus] = attrs.field(factory=dict)
    _problems: Mapping[object, str] = attrs.field(factory=dict)

    def introduce(self) -> None:
        """Announce models, selections and tools to a new client, and show the notices."""
        self._config, self._announced_tools = m.ChatConfig(), None
        progress = m.ProgressParams(type="start", task_id="eca-start", title="Starting ECA")
        self.session.notify("$/progress", progress)
        self.announce_offer()
        self.session.notify("$/progress", attrs.evolve(progress, type="finish"))
        self.is_introduced = True
        for notice in self.notices:
            self.session.show("warning", notice)

    def announce_changes(self) -> None:
        """Announce the present models, tools and problems; do nothing before the introduction."""
        if self.is_introduced:
            self.announce_offer()
            self.announce_problems()

    def announce_offer(self, *, keeps_selection: bool = False) -> None:
        """Announce changed selections and tools; keep the client's own model if requested."""
        offer, announced = self._offer(), self._config
        changes = {
            field.name: getattr(offer, field.name)
            for field in attrs.fields(m.ChatConfig)
            if getattr(offer, field.name) not in (None, getattr(announced, field.name))
        }
        selection = self.selection
        if keeps_selection and selection.client_model not in (None, announced.select_model):
            changes.pop("select_model", None)
        offered = offer.models or ()
        if selection.replace_lost(offered, announced.models or ()):
            changes["select_model"] = offer.select_model
        if (regained := selection.regain(offered)) is not None:
            changes["select_model"] = regained
        selection.client_model = changes.get("select_model", selection.client_model)
        changes |= self._variant_changes(announced, is_selected="select_model" in changes)
        known = {name: changes.get(name, getattr(announced, name)) for name in _VARIANT_FIELDS}
        self._config = attrs.evolve(offer, **known)
        if changes:
            self.announce_selection(m.ChatConfig(**changes))
        self.announce_tools(selection.behavior_in_force())
        if self.providers is not None:
            self.announce_providers(self.providers())

    def _variant_changes(self, announced: m.ChatConfig, *, is_selected: bool) -> dict[str, Any]:
        """Return the changed variants of the client's model, and the changed one in force."""
        if not self.session.writes(m.ChatConfig, "variants"):
            return {}
        selection, changes = self.selection, dict[str, Any]()
        model = selection.client_model or ""
        variants = self.models.current.variants(model)
        if variants != announced.variants:
            changes["variants"] = variants
        if changes or is_selected:
            variant = self._variant_of(model)
            if variant != announced.select_variant:
                changes["select_variant"] = variant
        return changes

    def _variant_of(self, model: str) -> str:
        """Return the variant in force of a model selected for all chats, or an empty text."""
        selection = self.selection
        selected = selection.variant if selection.model == model else None
        return selection.variant_in_force(model, selected)

    def announce_variants(
        self, model: str, variant: str | None, chat_id: str | None, *, is_own: bool
    ) -> None:
        """Announce the variants of a selected model, and the one in force, for a chat or for all.

        One that the client selected itself (`is_own`) is not sent back.
        """
        if not self.session.writes(m.ChatConfig, "variants"):
            return
        variants = self.models.current.variants(model)
        if chat_id is None:
            before = self._config
            self._config = attrs.evolve(before, variants=variants, select_variant=variant or "")
            if is_own and variants == before.variants:
                return
        self.announce_selection(
            m.ChatConfig(variants=variants, select_variant=variant or ""), chat_id
        )

    def note_selection(self) -> None:
        """Record the client's own selection as announced, so that it is not sent back (W-28)."""
        offer = self._offer()
        self._config = attrs.evolve(
            self._config,
            select_model=offer.select_model,
            select_behavior=offer.select_behavior,
            select_agent=offer.select_agent,
        )

    def announce_tools(self, behavior: str) -> None:
        """Announce the native tools, and those that the behaviour disables, if they changed."""
        params = self.tools.announcement(behavior)
        if params != self._announced_tools:
            self._announced_tools = params
            self.session.notify("tool/serverUpdated", params)
        for server in self.servers():
            if server != self._announced_servers.get(server.name):
                self.announce_server(server)

    def announce_server(self, server: m.MCPServerUpdatedParams) -> None:
        """Announce an MCP server, even if it is unchanged (W-36)."""
        self._announced_servers[server.name] = server
        self.session.notify("tool/serverUpdated", server)

    def announce_removal(self, server: m.MCPServerUpdatedParams) -> None:
        """Announce that an MCP server was removed."""
        self._announced_servers.pop(server.name, None)
        self.session.notify("tool/serverUpdated", server)
        removed = m.ToolServerRemovedParams(name=server.name)
        self.session.notify("tool/serverRemoved", removed)

    def announce_providers(self, providers: Iterable[m.ProviderStatus]) -> None:
        """Announce the providers that changed since they were listed or announced."""
        for status in providers:
            if self._announced_providers.get(status.id) != status:
                self._announced_providers[status.id] = status
                self.session.notify("providers/updated", status)

    def note_providers(self, providers: Iterable[m.ProviderStatus]) -> None:
        """Record providers as announced, because they answer a request."""
        self._announced_providers = {each.id: each for each in providers}

    def announce_jobs(self, jobs: Iterable[m.JobSummary]) -> None:
        """Announce all background jobs."""
        self.session.notify("jobs/updated", m.JobsUpdatedParams(jobs=tuple(jobs)))

    def announce_problems(self) -> None:
        """Show the problems of the configuration that were not shown yet."""
        present = {key: (level, text) for key, level, text in self._present_problems()}
        for key, text in self._problems.items():
            if key not in present:
                self.session.withdraw(text)
        for key, (level, text) in present.items():
            if key not in self._problems:
                self.session.show(level, text)
        self._problems = {key: self._problems.get(key, text) for key, (_, text) in present.items()}
        self.on_problems()

    def _present_problems(self) -> Iterator[tuple[object, Literal["error", "warning"], str]]:
        """Yield each problem: its identity (without its line, which may move), severity, text."""
        for text in self.tools.make().problems:
            yield text, "warning", text
        for problem in (*self.settings.loaded.problems, *self.models.current.problems):
            yield attrs.evolve(problem, line=None, column=None), problem.level, str(problem)
        if self.settings.config.default_behavior in self.settings.config.selectable_behaviors:
            return
        from eca_server.agent.commands.setup_warnings import default_agent_warnings  # noqa: PLC0415 - seldom

        for key, message in default_agent_warnings(self.settings.config):
            yield key, "warning", f"configuration: {key}: {message}"

    def _offer(self) -> m.ChatConfig:
        spelled, config = self.session.profile.agent_name, self.settings.config
        behaviors = tuple(map(spelled, config.selectable_behaviors))
        selected = self.selection.behavior_in_force()
        models = self.models.current
        return m.ChatConfig(
            models=models.names,
            select_model=models.default_for(selected),
            behaviors=tuple(map(m.UnknownValue, behaviors)),
            select_behavior=m.UnknownValue(spelled(selected)),
            agents=behaviors,
            select_agent=spelled(selected),
            welcome_message=config.welcome_message,
        )

    def announce_selection(self, chat: m.ChatConfig, chat_id: str | None = None) -> None:
        """Announce a selection, or changed models, for a chat or for all."""
        self._sent, self._last_sent = attrs.evolve(self._sent, **_present(chat)), chat
        self.session.notify("config/updated", m.ConfigUpdatedParams(chat=chat, chat_id=chat_id))

    def repeat(self, chat_id: str) -> bool:
        """Announce settings and tools again for a new chat of a page that may know none.

        For that chat all settings are new (W-11), and its trust is its user's. Return False
        without an effect if the page has shown this chat before, or knows everything.
        """
        session, tools = self.session, self._announced_tools
        forgets = session.profile.forgets_announcements and self.is_introduced
        repeats = forgets and session.has_selections_of_chats
        if not repeats or self._repeated_for == chat_id or tools is None:
            return False
        self._repeated_for = chat_id
        model = self._sent.select_model or ""
        whole = attrs.evolve(
            self._sent,
            variants=self.models.current.variants(model),
            select_variant=self._variant_of(model),
            select_trust=None,
        )
        if not _present(whole).keys() <= _present(self._last_sent).keys():
            self.announce_selection(whole, chat_id)
        session.notify("tool/serverUpdated", tools)
        return True

    def announce_trust(self, chat_id: str, *, trust: bool) -> None:
        """Confirm a chat's trust: the web page shows the announced one, not its user's choice."""
        if self.session.has_selections_of_chats:
            self.announce_selection(m.ChatConfig(select_trust=trust), chat_id)


def _present(chat: m.ChatConfig) -> dict[str, Any]:
    return {
        name: value
        for name, value in attrs.asdict(chat, recurse=False).items()
        if value is not None
    }

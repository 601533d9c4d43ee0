"""The native tools of a chat, and their announcement to the client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from eca_protocol import messages as m
from eca_protocol.revisions import Revision
from eca_server.agent.chat.subagents import SPAWN_TOOL, SpawnAgent
from eca_server.agent.jobs.jobs import Jobs
from eca_server.agent.sandbox.sandbox import Sandbox
from eca_server.agent.skills.skills import SKILL_TOOL, LoadSkill
from eca_server.agent.tools.approval import policy_of
from eca_server.agent.tools.files import Ledger
from eca_server.agent.tools.native import NativeTools, native_tools
from eca_server.agent.tools.search_tools import CallTool, SearchTools
from eca_server.agent.tools.tasks import TaskTool
from eca_server.agent.tools.tool import Tool
from eca_server.client.content_formatting import NATIVE, NATIVE_SERVER, PREFIX
from eca_server.client.session import Session
from eca_server.config.agent_settings import AGENT_ALIASES, Behavior
from eca_server.config.effective import apply_behavior
from eca_server.config.matchers import matches_name
from eca_server.config.settings import Config
from eca_server.connection.features.current_models import CurrentModels
from eca_server.connection.features.folders import Folders
from eca_server.connection.features.host import Options
from eca_server.connection.features.settings import Settings
from eca_server.models.history import Message

BRIEF: Final = 80
"""Limit of a tool's description for clients with small reads, in characters."""


@attrs.define(eq=False)
class ToolSets:
    """The makers of native tools.

    Attributes:
        has_skills: whether there were skills when a chat's instructions were last built.
    """

    session: Session
    settings: Settings
    options: Options
    models: CurrentModels
    folders: Folders
    jobs: Jobs
    servers: Callable[[], object | None]
    has_skills: bool = False
    _last_announcement: tuple[Config, tuple[str, bool, bool], m.EcaServerUpdatedParams] | None = (
        None
    )

    def make(
        self,
        ledger: Ledger | None = None,
        chat_id: str = "",
        *,
        reader: str = "",
        behavior: str = "",
        history: Iterable[Message] = (),
        more: Iterable[Tool] = (),
    ) -> NativeTools:
        """Return the native tools of a chat, with the descriptions and limits of a behaviour.

        `reader` is the chat of a subagent that gets them; `more` are tools of this chat alone.
        """
        is_current = self.session.revision is Revision.CURRENT
        config = apply_behavior(self.settings.config, behavior)
        return native_tools(
            config,
            session=self.session,
            workspace=self.folders.workspace,
            environment=self.models.child_variables,
            ledger=ledger or Ledger(),
            chat_id=chat_id,
            reader=reader,
            jobs=self.jobs if is_current else None,
            more=[
                LoadSkill(files=self.folders.skill_files, agent=config.behaviors.get(behavior)),
                *([TaskTool(history=history)] if is_current else ()),
                *more,
            ],
            reserved=(SKILL_TOOL, SPAWN_TOOL),
            sandbox=self._sandbox(config),
        )

    def _sandbox(self, config: Config) -> Sandbox | None:
        settings = config.tool_call.sandbox
        if settings.mode == "off":
            return None
        return Sandbox(
            settings=settings,
            roots=tuple(root.real_path for root in self.session.roots),
            environ=self.options.environ,
            credential_files=() if config.netrc_file is None else (config.netrc_file,),
            configuration=self.folders.configuration_paths,
        )

    def described(self, behavior: str) -> NativeTools:
        """Return the native tools of a behaviour, to describe them to the client."""
        agents = self.subagents(behavior)
        return self.make(behavior=behavior, more=[SpawnAgent(agents=agents)] if agents else ())

    def subagents(self, behavior: str) -> Mapping[str, Behavior]:
        """Return the subagents of an agent, by name; only some clients can show them."""
        if not self.session.writes(m.ChatContentReceivedParams, "parent_chat_id"):
            return {}
        config = self.settings.config
        own = config.behaviors.get(behavior, Behavior()).subagents
        return {
            name: each
            for name, each in config.subagents().items()
            if _may_spawn(behavior, each) and _is_listed(name, own)
        }

    def announcement(self, behavior: str) -> m.EcaServerUpdatedParams:
        """Return the announcement of the native tools, and of those that a behaviour disables.

        Each turn compares it with the last one, so an unchanged one is not built again.
        """
        config = self.settings.config
        searches = config.tool_search(behavior).is_on and self.servers() is not None
        last, key = self._last_announcement, (behavior, self.has_skills, searches)
        if last is None or last[0] is not config or last[1] != key:
            last = self._last_announcement = (config, key, self._announcement(config, *key))
        return last[2]

    def _announcement(
        self, config: Config, behavior: str, has_skills: bool, searches: bool
    ) -> m.EcaServerUpdatedParams:
        native = self.described(behavior)
        if not has_skills:
            native = native.without(SKILL_TOOL)
        if searches:
            native = native.adding([SearchTools(), CallTool()])
        toolbox = native.toolbox(policy_of(config, behavior))
        prefix = PREFIX if self.session.profile.prefixes_tools else ""
        return m.EcaServerUpdatedParams(
            name=NATIVE_SERVER,
            status="running",
            tools=tuple(
                announced_tool(
                    self.session,
                    name=prefix + tool.name,
                    description=tool.description,
                    parameters=tool.parameters,
                    disabled=toolbox.find(NATIVE, PREFIX + tool.name) is None,
                )
                for tool in native.tools
            ),
        )


def announced_tool(
    session: Session, *, name: str, description: str, parameters: Any, disabled: bool
) -> m.ServerTool:
    """Return the announcement of a tool."""
    brief = session.profile.writing.brief_tools
    return m.ServerTool(
        name=name,
        description=description[:BRIEF] if brief else description,
        parameters={"type": "object"} if brief else parameters,
        disabled=disabled,
    )


def _is_listed(name: str, agents: Sequence[str] | None) -> bool:
    """Return whether an agent has no list of subagents, or its list names this one."""
    return agents is None or any(matches_name(each, {name}, if_late=False) for each in agents)


def _may_spawn(behavior: str, subagent: Behavior) -> bool:
    names = {AGENT_ALIASES.get(name, name) for name in subagent.spawnable_by}
    return not names or behavior in names

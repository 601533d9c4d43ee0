"""The agent of a turn: its model, instructions and tools, as configured and selected.

The subagents of an agent are fixed when its turn begins. A subagent has no subagents and no
permission that its parent lacks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from eca_protocol.messages import ChatContext
from eca_server.agent.chat import Turn
from eca_server.agent.chat.agent import Agent
from eca_server.agent.chat.instructions import (
    System,
    UnreadablePrompt,
    compact_prompt,
    date_note,
    instructions,
    own_prompt,
    template_note,
)
from eca_server.agent.chat.outlet import Outlet
from eca_server.agent.chat.subagents import SpawnAgent, SubagentChat, run_task
from eca_server.agent.chat.title import MakeTitle, make_title
from eca_server.agent.commands import hidden_skill_notes
from eca_server.agent.context.contexts import PromptContext, build_context
from eca_server.agent.context.definition_files import Definitions
from eca_server.agent.context.instructions_files import InstructionFiles, InstructionSearch
from eca_server.agent.context.job_notice import job_notice
from eca_server.agent.skills.skills import SKILL_TOOL, Skill, is_allowed, list_skills
from eca_server.agent.tools.approval import Policy, policy_of
from eca_server.agent.tools.approval_rules import Call
from eca_server.agent.tools.ask_user import AskUser
from eca_server.agent.tools.native import NativeTools
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.permissions import Permissions
from eca_server.agent.tools.read_file import ViewImage
from eca_server.agent.tools.search_tools import CallTool, Deferral, SearchTools
from eca_server.agent.tools.tasks import TASK_TOOL
from eca_server.agent.tools.tool import Tool
from eca_server.agent.tools.toolbox import ToolBox
from eca_server.client.content_formatting import NATIVE
from eca_server.config.agent_settings import Behavior
from eca_server.config.effective import apply_behavior
from eca_server.config.settings import Config
from eca_server.config.tool_settings import paths_of
from eca_server.connection.features.composition import Feature
from eca_server.connection.features.selection import Chosen
from eca_server.models.acp import ACPBackend
from eca_server.models.answer import Answer
from eca_server.models.backend import BackendError
from eca_server.models.history import Message, Subagent, TextPart
from eca_server.models.models import Model
from eca_server.system.child_process import chat_environment
from eca_server.system.threads import THREAD_SECONDS, run_on_disk

if TYPE_CHECKING:
    from eca_server.connection.features.mcp import MCPServers

SUBAGENT_INSTRUCTIONS: Final = (
    "You work for another agent, which receives only your last message: put the complete result "
    "into it. Do not ask questions; they are not answered."
)


@attrs.frozen
class ParentTurn:
    """The parent of a subagent: the turn that waits for it, and its policy."""

    turn: Turn
    policy: Policy


class Agents(Feature):
    """The maker of agents."""

    async def make(
        self,
        turn: Turn,
        text: str,
        *,
        contexts: Sequence[ChatContext],
        chosen: Chosen,
        parent: ParentTurn | None = None,
    ) -> Agent | None:
        """Build the agent for a turn; return None after reporting an unusable model.

        The configuration is read before the first wait, so the turn keeps it to its end. With a
        `parent`, the agent is that turn's subagent.
        """
        try:
            model = self.models.current.find(chosen.model, chosen.variant)
        except BackendError as error:
            turn.fail(f"{chosen.model} cannot be used: {error.message}.")
            return None
        chat, behavior = turn.outlet, chosen.behavior
        config = apply_behavior(self.settings.config, behavior)
        policy = policy_of(config, behavior, within=None if parent is None else parent.policy)
        gitignore = self.settings.follows_gitignore
        gather = partial(self._gather, chat, behavior, text, contexts, gitignore)
        owner = parent or ParentTurn(turn, policy)
        native = self._native_tools(turn, owner, config, chosen)
        if not model.capabilities.images:
            native = native.without(ViewImage.name)
        permissions = self._permissions(chat, policy, owner.turn.outlet)
        system = chat.systems.get(behavior)
        if system is None or system.model not in {None, chosen.model}:
            system = chat.systems[behavior] = await self._system(turn, config, policy, chosen)
        if not system.lists_skills and _offers_skills(policy):
            native = native.without(SKILL_TOOL)
        if self.announcer.is_introduced and parent is None:
            self.announcer.announce_tools(behavior)
        external = self._external(model, config) if isinstance(model.backend, ACPBackend) else None
        servers = None if external is not None else self.servers()
        context = model.capabilities.context
        deferral = Deferral(config.tool_search(behavior), context)
        toolbox, more = await _toolbox(servers, turn, config, policy, native, deferral=deferral)
        texts = [system.text, more, SUBAGENT_INSTRUCTIONS if parent else ""]
        return Agent(
            model=model,
            messages=(Message(role="user", parts=(TextPart(text),)),),
            system="\n\n".join(filter(None, texts)),
            toolbox=toolbox,
            permissions=permissions,
            compact_at=_compact_at(config, behavior, context),
            answer_max_kb=config.answer_max_kb,
            gather=gather,
            make_title=None if parent else self._make_title(turn, config, chosen.model),
            compact_prompt=await _compact_prompt(turn, config),
            hooks=await self.hooks.of_turn(turn, config, self._hook_fields(chat, model, chosen)),
            max_steps=config.behaviors.get(behavior, Behavior()).max_steps,
            initiator="user" if parent is None else "agent",
            external=external,
        )

    def _make_title(self, turn: Turn, config: Config, model: str) -> MakeTitle | None:
        """Return the request for a chat's title, without the variant: that may think at length."""
        models = self.models.current

        async def request() -> str | None:
            return await make_title(models.find(model), turn.about, config.prompts.chat_title)

        return request if config.chat_title else None

    def _external(self, model: Model, config: Config) -> Callable[..., Awaitable[Answer | None]]:
        """Return the function that lets an ACP agent answer a turn."""
        from eca_server.agent.acp.agents import Target  # noqa: PLC0415 - only where one is configured

        assert isinstance(model.backend, ACPBackend)
        target = Target(
            name=model.origin.model,
            command=model.backend.command,
            mode=model.effort,
            cap=Cap.of(config.tool_call.output_truncation),
            wants_title=config.chat_title,
        )
        return partial(self.parts.acp.get().answer, target)

    async def _gather(
        self,
        chat: Outlet,
        behavior: str,
        text: str,
        contexts: Sequence[ChatContext],
        gitignore: bool,
        *,
        is_preview: bool = False,
    ) -> PromptContext:
        servers = self.servers()
        resources = None
        if servers is not None:
            resources = servers.in_turns.reader(chat, is_preview=is_preview)
        built = await build_context(
            contexts,
            text,
            workspace=self.folders.workspace,
            http=self.host.http,
            resources=resources,
            sent=[
                part.text
                for message in chat.history.model_context
                if message.role == "user"
                for part in message.parts
                if isinstance(part, TextPart)
            ],
            ledger=None if is_preview else chat.ledger,
            gitignore=gitignore,
        )
        system = chat.systems.get(behavior)
        news = (
            "" if system is None else date_note(system, chat.history.model_context),
            job_notice(self.jobs, chat.id, is_preview=is_preview),
        )
        return attrs.evolve(built, parts=(*map(TextPart, filter(None, news)), *built.parts))

    def _native_tools(
        self, turn: Turn, owner: ParentTurn, config: Config, chosen: Chosen
    ) -> NativeTools:
        """Return the tools of a turn; `owner` is the turn itself, or the parent of a subagent."""
        chat, behavior, chat_id = turn.outlet, chosen.behavior, owner.turn.outlet.id
        if owner.turn is not turn:
            native = self.tools.make(chat.ledger, chat_id, reader=chat.id, behavior=behavior)
            return native.without(AskUser.name).without(TASK_TOOL)
        return self.tools.make(
            chat.ledger,
            chat_id,
            behavior=behavior,
            history=chat.history,
            more=self._spawn_tools(owner, config, chosen),
        )

    def _spawn_tools(self, parent: ParentTurn, config: Config, chosen: Chosen) -> Sequence[Tool]:
        """Return the tool that starts subagents, if the agent of a turn has any."""
        agents = self.tools.subagents(chosen.behavior)

        async def body(chat: SubagentChat) -> None:
            turn, of = chat.turn, chat.worker
            target = Chosen(model=of.model, variant=of.variant, behavior=of.name)
            text = turn.prompt.text
            agent = await self.make(turn, text, contexts=(), chosen=target, parent=parent)
            if agent is not None:
                await agent.run(turn)

        async def work(task: str, worker: Subagent) -> SubagentChat:
            async with self.parts.subagents:
                working = self.chats.working_subagents
                return await run_task(parent.turn, task, worker, body, working)

        cap = Cap.of(config.tool_call.output_truncation)
        model, variant = chosen.model, chosen.variant
        spawn = SpawnAgent(agents=agents, model=model, variant=variant, cap=cap, work=work)
        return [spawn] if agents else ()

    def _permissions(self, chat: Outlet, policy: Policy, owner: Outlet) -> Permissions:
        return Permissions(
            policy=policy,
            workspace=self.folders.workspace,
            memos=self.parts.approvals.memos,
            variables=chat_environment(self.models.child_variables, chat.id),
            trusts=lambda: owner.settings.trust or chat.settings.trust,
        )

    def _hook_fields(self, chat: Outlet, model: Model, chosen: Chosen) -> dict[str, str]:
        name, variant = f"{model.origin.provider}/{model.origin.model}", chosen.variant
        return self.hooks.fields(chat, model=name, variant=variant, behavior=chosen.behavior)

    async def _system(self, turn: Turn, config: Config, policy: Policy, chosen: Chosen) -> System:
        """Build a chat's instructions for a behaviour from its prompt and files."""
        behavior = chosen.behavior
        skill_files = self.folders.skill_files
        search = InstructionSearch(
            workspace=self.folders.workspace,
            user_directory=self.settings.user_directory,
            rules=paths_of(config.rules),
            parents=config.include_parent_agents_files,
            behavior=behavior,
            model=chosen.model,
            trusted_roots=self.settings.loaded.trusted_roots,
        )

        def read() -> tuple[InstructionFiles, Definitions[Skill]]:
            return search.run(), skill_files.search()

        files, skills = await run_on_disk(read, seconds=THREAD_SECONDS)
        for note in files.notes:
            turn.report(note)
        try:
            own = await own_prompt(config, behavior)
        except UnreadablePrompt as error:
            own = ""
            turn.report(str(error))
        if note := template_note(files.templates, own, behavior):
            turn.report(note)
        only = config.behaviors.get(behavior, Behavior()).skills
        listed = self._listed_skills(turn, policy, skills, only)
        part = instructions(config.built_in(behavior), self.session.roots, own)
        text = "\n\n".join(filter(None, [part, files.text, listed]))
        model = chosen.model if files.depends_on_model else None
        return System(text=text, model=model, lists_skills=bool(listed))

    def _listed_skills(
        self, turn: Turn, policy: Policy, files: Definitions[Skill], only: Sequence[str] | None
    ) -> str:
        """Return the list of skills that the model may load, a part of its instructions."""
        self.tools.has_skills = bool(files.items)
        if not _offers_skills(policy):
            return ""
        named = (each for each in files.items if is_allowed(each, only))
        allowed = [each for each in named if _may_be_loaded(each, policy)]
        text, too_long = list_skills(allowed)
        for note in (*files.notes, *hidden_skill_notes(allowed), too_long):
            if note:
                turn.report(note)
        return text


async def _toolbox(
    servers: MCPServers | None,
    turn: Turn,
    config: Config,
    policy: Policy,
    native: NativeTools,
    *,
    deferral: Deferral,
) -> tuple[ToolBox, str]:
    """Return the tools with those of the MCP servers, and the servers' instructions."""
    if servers is None:
        return native.toolbox(policy), ""
    await servers.in_turns.wait(turn)
    served = servers.in_turns.tools(turn, config, policy, native.toolbox(policy), deferral)
    hidden = [each for each in served if each.is_deferred]
    if hidden:
        native = native.adding([SearchTools(served=hidden), CallTool(served=served)])
    return native.toolbox(policy, served), servers.in_turns.instructions()


def _compact_at(config: Config, behavior: str, context: int | None) -> float:
    """Return the percentage of the context above which the chat is compacted."""
    own = config.behaviors.get(behavior, Behavior())
    tokens_left, percentage = own.auto_compact_tokens_left, own.auto_compact_percentage
    if tokens_left is None and percentage is None:
        tokens_left = config.auto_compact_tokens_left
    if tokens_left is not None and context is not None and tokens_left < context:
        return 100 * (context - tokens_left) / context
    return config.auto_compact_percentage if percentage is None else percentage


async def _compact_prompt(turn: Turn, config: Config) -> str:
    try:
        return await compact_prompt(config)
    except UnreadablePrompt as error:
        turn.report(str(error))
        return ""


def _offers_skills(policy: Policy) -> bool:
    """Return whether no rule withholds the tool that loads skills."""
    return policy.withheld(server=NATIVE, tool=SKILL_TOOL, effect="read") is None


def _may_be_loaded(skill: Skill, policy: Policy) -> bool:
    """Return whether no rule denies a skill by its name; a denied one is not worth listing."""
    call = Call(tool=SKILL_TOOL, arguments={"name": skill.name}, effect="read")
    return policy.decide(call).verdict != "deny"

"""The handling of prompts: the turn, the named command, the command context (W-21)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import attrs

from eca_protocol import messages as m
from eca_protocol import methods
from eca_protocol.peer import Handler
from eca_protocol.server.texts import named_command
from eca_server.agent.chat import Chat, Prompt, Turn
from eca_server.agent.chat.agent import Agent
from eca_server.agent.chat.refreshing import forget_deleted
from eca_server.agent.chat.title import shortened_title
from eca_server.agent.commands import run_command, runs_without_model
from eca_server.agent.commands.command import ChatActions, CommandContext, ask_model
from eca_server.agent.commands.login import login_prompt
from eca_server.agent.tools.ask_user import PATIENCE, client_asks_questions
from eca_server.client.session import REQUEST_ERRORS
from eca_server.connection.features.agents import Agents
from eca_server.connection.features.chat_views import ChatViews, messages_so_far
from eca_server.connection.features.composition import Composition, Feature
from eca_server.connection.features.queries import command_files
from eca_server.connection.features.selecting import Selecting
from eca_server.connection.features.selection import Chosen
from eca_server.models.backend import BackendError
from eca_server.models.history import TextPart
from eca_server.models.models import Models
from eca_server.models.simulator import DEFAULT, PROVIDER
from eca_server.printable import printable_line

if TYPE_CHECKING:
    from eca_server.agent.commands.login import LoginPrompt

_ASIDE = re.compile(r"\s*(?:/btw\s+)*", re.IGNORECASE)  # its question may be a prompt with a key

_NO_MODEL = (
    "No model is configured. This answer comes from the built-in `simulator/echo`, which "
    "repeats what you write. To use a model, send `/login`, or set a key such as "
    "`ANTHROPIC_API_KEY` or `OPENAI_API_KEY` where the editor starts, or "
    "configure `providers` in `{}`."
)
_UNREADABLE = (
    "No model is configured, because the configuration cannot be read: {}. This answer comes from "
    "the built-in `simulator/echo`, which repeats what you write. Correct the file, or send "
    "`/login`."
)
_NO_USABLE_MODEL = (
    "No model can be used yet: {}. This answer comes from the built-in `simulator/echo`, which "
    "repeats what you write. Send `/doctor online` to check keys and addresses, or configure "
    "`providers` in `{}`."
)


class Prompts(Feature):
    """The prompts of all chats."""

    def __init__(
        self,
        parts: Composition,
        views: ChatViews,
        selecting: Selecting,
        delete: Callable[[str], None],
    ) -> None:
        super().__init__(parts)
        self.agents = Agents(parts)
        self.views = views
        self.selecting = selecting
        self.delete = delete

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers of prompts."""
        return methods.handlers(
            methods.CHAT_PROMPT.handled_by(self.begin),
            methods.CHAT_PROMPT_STOP.handled_by(self._stop),
        )

    def _stop(self, params: m.ChatPromptStopParams) -> None:
        chat, editing = self.chats.at(params.chat_id), self.parts.editing.made
        was_busy = chat is not None and chat.is_busy
        if chat is not None:
            chat.stop()
        elif editing is not None:
            editing.rewrites.stop(params.chat_id)
        if not was_busy:
            # A client whose server was restarted waits for the end of a lost turn (W-22).
            idle = m.ChatStatusChangedParams(chat_id=params.chat_id, status="idle")
            self.session.notify("chat/statusChanged", idle)

    def begin(self, params: m.ChatPromptParams) -> m.ChatPromptResponse:
        """Register the turn and answer at once, even if the turn will fail (W-21)."""
        subagent = self.chats.subagent(params.chat_id)
        if subagent is not None:
            subagent.refuse(self.shown_text(params.message))
            model = params.model or subagent.worker.model
            return m.ChatPromptResponse(chat_id=subagent.id, model=model, status="error")
        chat = self.chats.open(params.chat_id)
        if params.chat_id and chat.is_blank:
            self.session.notify("chat/opened", m.ChatOpenedParams(chat_id=chat.id))
        knows_variants = self.session.writes(m.ChatConfig, "variants")
        if params.model and knows_variants and self.session.profile.names_variants:
            params = attrs.evolve(params, variant=params.variant or "")
        prompt = self.accept(chat, params)
        chat.prompt(prompt)
        return self.answer(chat, params, needs_model=prompt.unstarted is not None)

    def accept(self, chat: Chat, params: m.ChatPromptParams) -> Prompt:
        """Choose the model and the command of a prompt."""
        chosen = self.selection.choose(chat, params)
        self.selection.note_prompt(chosen.model)
        chat.set(model=chosen.model, variant=chosen.variant, behavior=chosen.behavior)
        if params.trust is not None:
            if params.trust != chat.settings.trust:
                self.announcer.announce_trust(chat.id, trust=params.trust)
            chat.set(trust=params.trust)
        login = self._login_of(params.message, chat.awaits_key_of)
        chat.awaits_key_of = None if login is None else login.awaits_key_of
        if login is not None:
            body = partial(self._log_in, chat, params, chosen, login)
            return Prompt(text=login.masked_text, body=body)
        is_unasked = chosen.model == DEFAULT and (
            not params.model or (self._is_an_editors(params) and self._lacks_a_model(chosen))
        )
        body = partial(self._run, chat, params, chosen, is_unasked)
        shown = self.shown_text(params.message)
        unstarted: tuple[TextPart, ...] | None = None
        if named_command(params.message) is None:  # it is for a model
            loaded = self.settings.loaded
            may_have_hooks = loaded.config.hooks or loaded.withheld  # they have not seen it
            unstarted = () if may_have_hooks else (TextPart(shown),)
        return Prompt(text=shown, body=body, unstarted=unstarted)

    async def _log_in(
        self, chat: Chat, params: m.ChatPromptParams, chosen: Chosen, login: LoginPrompt, turn: Turn
    ) -> None:
        await self._forget_deleted(chat, turn)
        await login.run(turn, self._command_context(chat, params, chosen, login.masked_text))

    async def _run(
        self, chat: Chat, params: m.ChatPromptParams, chosen: Chosen, is_unasked: bool, turn: Turn
    ) -> None:
        """Run the command that a prompt names, or ask the model; `is_unasked`: see `_settle`."""
        await self._forget_deleted(chat, turn)
        name = named_command(params.message)
        if not runs_without_model(name):
            chosen = await self._settle(turn, params, chosen, is_unasked=is_unasked)
        context = self._command_context(chat, params, chosen, params.message)
        if name:
            await run_command(name, turn, context)
            return
        is_new = not chat.history or _was_answered_by_a_model(chat)
        if is_new and self._lacks_a_model(chosen) and self._is_an_editors(params):
            turn.report(self._advice_without_a_model())
        note = self._unknown_agent(chat, params, chosen)
        if note and self.session.is_first(f"{chat.id}: {note}"):
            turn.report(note)
        self.models.look_again()
        await ask_model(turn, context, params.message)

    async def _forget_deleted(self, chat: Chat, turn: Turn) -> None:
        notice = await forget_deleted(chat, turn)
        if notice is not None and self._shows_more_chats:
            self.views.show_after_turn(chat, notice)

    def shown_text(self, message: str) -> str:
        """Return the displayed text of a prompt to a chat that waits for no key, without a key."""
        aside = _ASIDE.match(message)
        start = aside.end() if aside else 0
        login = self._login_of(message[start:], None)
        return message if login is None else message[:start] + login.masked_text

    def may_be_key(self, chat: Chat, message: str) -> bool:
        """Return whether a message may contain the key that a chat waits for, or cancels that."""
        return self._login_of(message, chat.awaits_key_of) is not None

    def _login_of(self, message: str, awaited: str | None) -> LoginPrompt | None:
        return login_prompt(message, awaited=awaited, configured=self.settings.config.providers)

    def answer(
        self, chat: Chat, params: m.ChatPromptParams, *, needs_model: bool
    ) -> m.ChatPromptResponse:
        """Return the answer to a prompt; its status is `error` if the model is unusable (W-21)."""
        model = self.selection.choose(chat, params).model
        status: m.ChatPromptStatus = "prompting"
        if chat.awaits_key_of is not None:
            status = "login"
        elif needs_model:
            try:
                self.models.current.find(model)
            except (BackendError, ImportError):  # the turn says which it was
                status = "error"
        return m.ChatPromptResponse(chat_id=chat.id, model=model, status=status)

    async def ask_aside(self, chat: Chat, question: str) -> Chat:
        """Ask a question in a fork of a chat that may be running (`/btw`)."""
        title = f"btw: {shortened_title(self.shown_text(question))}"
        aside = await self.views.fork_chat(chat, messages_so_far(chat), title)
        self.begin(_of_chat(aside, question))
        return aside

    def command_context(self, chat: Chat, text: str) -> CommandContext:
        """Return the context of a command that is sent to the running turn."""
        params = _of_chat(chat, text)
        return self._command_context(chat, params, self.selection.choose(chat, params), text)

    async def _settle(
        self, turn: Turn, params: m.ChatPromptParams, chosen: Chosen, *, is_unasked: bool
    ) -> Chosen:
        """Wait for settings and the first list of models; return the choice with them.

        `is_unasked`: the simulator was chosen for lack of another model; editors name it then, too.
        """
        has_changed = await self._settle_settings(turn)
        if is_unasked:
            await self.models.wait_for_first_look()
            if self.models.current.selected != DEFAULT:
                params = attrs.evolve(params, model=None, variant=None)
        elif not has_changed:
            return chosen
        target = self.selection.choose(turn.outlet, params)
        turn.outlet.set(model=target.model, variant=target.variant, behavior=target.behavior)
        return target

    async def _settle_settings(self, turn: Turn) -> bool:
        """Renew expired settings, and ask about waiting ones; return whether settings changed."""
        before = self.settings.loaded
        if self.settings.is_expired:
            turn.progress("Running the commands of the configuration")
            try:
                await self.settings.reload(abandon_on_cancel=True)
            except OSError as error:
                self.settings.keep_in_force(error)
            turn.progress("Waiting model")
        if self.settings.loaded.withheld:
            await self.trust.settle(turn)
        return self.settings.loaded is not before

    def _lacks_a_model(self, chosen: Chosen) -> bool:
        """Return whether the simulator is chosen because no model is configured."""
        models, config = self.models.current, self.settings.config
        return (
            chosen.model == models.selected == models.names[0] == DEFAULT
            and config.default_model is None
        )

    def _is_an_editors(self, params: m.ChatPromptParams) -> bool:
        """Return whether an editor sent the prompt: most name the agent, programs do not."""
        return bool(params.agent or params.behavior) or self.session.profile.names_no_agent

    def _advice_without_a_model(self) -> str:
        loaded = self.settings.loaded
        broken = {each.name for each in loaded.sources if each.state == "broken"}
        if unread := [str(each) for each in loaded.problems if each.source in broken]:
            return _UNREADABLE.format("; ".join(unread))
        file = self.settings.user_directory / "config.json"
        if reasons := self.models.current.reasons_without_a_model:
            return _NO_USABLE_MODEL.format("; ".join(reasons), file)
        return _NO_MODEL.format(file)

    def _unknown_agent(self, chat: Chat, params: m.ChatPromptParams, chosen: Chosen) -> str:
        """Return a note that the requested agent cannot be selected, or an empty text."""
        requested = self.selection.unknown_agent(chat, params)
        if requested is None:
            return ""
        spelled = self.session.profile.agent_name
        names = map(spelled, self.settings.config.selectable_behaviors)
        known = ", ".join(f"`{name}`" for name in names)
        return (
            f"The agent `{printable_line(str(requested), longest=80)}` does not exist, or cannot "
            f"be selected: `{spelled(chosen.behavior)}` answers instead. Available agents: {known}."
        )

    def _command_context(
        self, chat: Chat, params: m.ChatPromptParams, target: Chosen, text: str
    ) -> CommandContext:
        async def make_answerer(turn: Turn, text: str) -> Agent | None:
            return await self.agents.make(turn, text, contexts=params.contexts, chosen=target)

        def refresh_models() -> Models:
            self.models.renew()
            self.announcer.announce_changes()
            return self.models.current

        servers = self.servers()
        can_ask = client_asks_questions(self.session)
        return CommandContext(
            text=text,
            chat=chat,
            loaded=self.settings.loaded,
            models=self.models.current,
            model=target.model,
            behavior=target.behavior,
            make_agent=make_answerer,
            logins=self.logins,
            refresh_models=refresh_models,
            http=self.host.http,
            workspace=self.folders.workspace,
            gitignore=self.settings.follows_gitignore,
            command_files=command_files(self.folders, self.settings),
            skill_files=self.folders.skill_files,
            ask_user=self._ask_user if can_ask else None,
            memory=self.chats.memory,
            trust=self.trust,
            mcp=None if servers is None else servers.manager,
            chats=self._chat_actions(),
        )

    @property
    def _shows_more_chats(self) -> bool:
        session = self.session
        return session.has_selections_of_chats and session.profile.display.shows_other_chats

    def _chat_actions(self) -> ChatActions:
        async def find_title(chat_id: str) -> str | None:
            chat = await self.chats.find(chat_id)
            return None if chat is None else chat.title or chat.id

        knows_more_chats = self.session.has_selections_of_chats
        shows_more_chats = self._shows_more_chats
        return ChatActions(
            select_model=self.selecting.select_model,
            select_agent=self.selecting.select_agent,
            find_title=find_title,
            delete=self.delete,
            begin=self.views.begin_chat if shows_more_chats else None,
            fork=self.views.fork_chat if knows_more_chats else None,
            ask_aside=self.ask_aside if shows_more_chats else None,
            show_after_turn=self.views.show_after_turn if shows_more_chats else None,
        )

    async def _ask_user(self, chat: Chat, question: str, labels: Sequence[str]) -> str | None:
        """Ask the user to choose one of these labels, and return it, or None without an answer."""
        params = m.ChatAskQuestionParams(
            chat_id=chat.id,
            question=question,
            options=tuple(m.ChatAskQuestionOption(label=label) for label in labels),
            allow_freeform=False,
        )
        try:
            answered = await self.session.ask(params, deadline=PATIENCE)
        except REQUEST_ERRORS:
            return None
        return None if answered.cancelled else answered.answer


def _of_chat(chat: Chat, text: str) -> m.ChatPromptParams:
    """Return a prompt with the model, variant and agent of a chat's last one."""
    last = chat.settings
    return m.ChatPromptParams(
        chat_id=chat.id, message=text, model=last.model, variant=last.variant, agent=last.behavior
    )


def _was_answered_by_a_model(chat: Chat) -> bool:
    """Return whether the last answer in a chat is of another model than the simulator."""
    origins = (each.origin.provider for each in reversed(chat.history.model_context) if each.origin)
    return next(origins, PROVIDER) != PROVIDER

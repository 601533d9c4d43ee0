"""One ACP session: an ECA server with one chat, its settings and its running prompt."""

from __future__ import annotations

import contextlib
import itertools
import logging
from functools import partial
from typing import Any, Final, Protocol, cast

import attrs
import trio

from eca_protocol import messages as eca
from eca_protocol.acp import messages as acp
from eca_protocol.client import Chat, Client, Turn
from eca_protocol.client.approvals import ApprovalDecision
from eca_protocol.client.options import InProcessServer
from eca_protocol.client.turn_queue import answer_call
from eca_protocol.errors import ECAError, RequestFailed, RPCError
from eca_protocol.jsonrpc import ErrorCode
from eca_protocol.methods import CHAT_SELECTED_MODEL_CHANGED
from eca_protocol.peer import Peer
from eca_protocol.server.texts import Paragraphs
from eca_server.acp.blocks import message_of
from eca_server.acp.updates import Updates, shown_call

_log = logging.getLogger("eca_server.acp")

STOP_SECONDS: Final = 1.0
"""The limit for the last contents of a cancelled prompt; then it is answered without them."""

_CHOICES: Final[tuple[tuple[str, str, acp.PermissionOptionKind], ...]] = (
    ("allow", "Allow once", "allow_once"),
    ("allow_session", "Allow in this session", "allow_always"),
    ("reject", "Reject", "reject_once"),
)
_OPTIONS: Final = tuple(
    acp.PermissionOption(option_id=option_id, name=name, kind=kind)
    for option_id, name, kind in _CHOICES
)


class SessionServer(InProcessServer, Protocol):
    """An ECA server in this process that knows which approvals for the session it stores."""

    def remembers(self, chat_id: str, call_id: str) -> bool:
        """Return whether an approval for the session of a waiting call would be stored."""
        ...


def _options_for(
    call: eca.ChatToolCallRunContent, *, is_stored: bool
) -> tuple[acp.PermissionOption, ...]:
    """Return the user's choices, without an approval for the session that would have no effect.

    `is_stored`: the server would store it; each part of a command also needs a key.
    """
    commands = call.details.commands if isinstance(call.details, eca.ShellCommandDetails) else ()
    if is_stored and all(command.approval_key is not None for command in commands):
        return _OPTIONS
    return tuple(option for option in _OPTIONS if option.kind != "allow_always")


def _decision(
    request: acp.RequestPermissionRequest, answer: acp.RequestPermissionResponse | None
) -> ApprovalDecision:
    """Return the user's decision: a rejection unless an offered approval was selected."""
    if answer is None or answer.outcome.outcome != "selected":
        return "reject"
    if answer.outcome.option_id not in {option.option_id for option in request.options}:
        return "reject"
    return cast("ApprovalDecision", answer.outcome.option_id)


def failure(error: ECAError) -> RPCError:
    """Return an error for the client that says what the ECA server did."""
    if isinstance(error, RequestFailed):
        return RPCError(error.code, f"the ECA server refused: {error.message}")
    if isinstance(error, RPCError):
        return error
    return RPCError(ErrorCode.INTERNAL_ERROR, f"the ECA server failed: {error}")


@attrs.define(eq=False)
class _Prompt:
    """A running prompt."""

    turn: Turn
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    is_cancelled: bool = False

    def cancel(self) -> None:
        """Stop the turn; its prompt is answered when the turn has ended, or soon anyway."""
        if self.is_cancelled:
            return
        self.is_cancelled = True
        self.scope.deadline = min(self.scope.deadline, trio.current_time() + STOP_SECONDS)
        try:
            self.turn.stop()
        except ECAError as error:
            _log.info("a prompt could not be stopped: %s", error)


class Session:
    """A session of an ACP client.

    Attributes:
        id: the id of the session and of its chat.
        cwd: the first workspace folder.
        client: the connection to the ECA server.
        closing: set to end the session.
        closed: set when its server has ended.
        server: the server, if it is in this process.
    """

    def __init__(self, session_id: str, cwd: str, peer: Peer) -> None:
        self.id = session_id
        self.cwd = cwd
        self.closing = trio.Event()
        self.closed = trio.Event()
        self.server: SessionServer | None = None
        self._peer = peer
        self.client: Client
        self._chat: Chat
        self._prompt: _Prompt | None = None
        self._questions: dict[object, trio.CancelScope] = {}  # that wait for the user, by subject
        self._permission = trio.Lock()  # one call is asked about at a time
        self._updates = Updates()
        self._notices: list[str] = []
        self._agent: str | None = None
        self._variant: str | None = None

    def attach(self, client: Client) -> None:
        """Use a connected ECA server."""
        self.client = client
        self._chat = client.chat(self.id)
        client.on(eca.ConfigUpdatedParams, self._take_config)
        client.on(eca.ChatContentReceivedParams, self._take_outside_of_turn)

    def note(self, shown: eca.ShowMessageParams) -> None:
        """Show a message of the server in the running prompt, else in the next one.

        ACP has no messages outside of prompts.
        """
        if shown.message not in self._notices:
            self._notices.append(shown.message)
        is_prompted = self._prompt is not None and not self._prompt.is_cancelled
        if is_prompted and not self._peer.closed:
            self._show_notices(before="\n\n")

    def _show_notices(self, before: str = "") -> None:
        notices, self._notices = self._notices, []
        for text in notices:
            content = acp.TextContent(text=f"{before}{text}\n\n")
            self.update(acp.AgentMessageChunk(content=content))

    def update(self, update: acp.SessionUpdate) -> None:
        """Send an update to the client."""
        params = acp.SessionNotification(session_id=self.id, update=update)
        self._peer.notify("session/update", params)

    def begin(self, params: acp.PromptRequest) -> _Prompt:
        """Register a prompt, so that a `session/cancel` right behind it finds it.

        Raises:
            RPCError: a prompt is running, or a block is not supported.
        """
        if self._prompt is not None:
            raise RPCError(ErrorCode.INVALID_REQUEST, "a prompt of this session is running")
        message, contexts = message_of(params.prompt)
        turn = self._chat.prompt(
            message, contexts=contexts, behavior=self._agent, variant=self._variant
        )
        self._prompt = _Prompt(turn)
        return self._prompt

    async def run(self, prompt: _Prompt) -> acp.PromptResponse:
        """Send a prompt and all its updates; return its answer after the last of them.

        Raises:
            RPCError: the ECA server refused the prompt, or has ended.
        """
        turn = prompt.turn
        try:
            with prompt.scope:
                self._show_notices()
                async for received in turn.contents_with_roles():
                    self._follow_call(received)
                    if received.role != "user":
                        for update in self._updates.of(received):
                            self.update(update)
                        await self._peer.transport.drain()
        except ECAError as error:
            if not prompt.is_cancelled:
                raise failure(error) from error
        finally:
            self._prompt = None
            self._withdraw_questions()
        if prompt.is_cancelled:
            return acp.PromptResponse(stop_reason="cancelled")
        return acp.PromptResponse(stop_reason="end_turn")

    def cancel(self) -> None:
        """Cancel the running prompt, if there is one."""
        if self._prompt is not None:
            self._prompt.cancel()
            self._withdraw_questions()

    def _withdraw_questions(self) -> None:
        for scope in self._questions.values():
            scope.cancel()

    def _follow_call(self, received: eca.ChatContentReceivedParams) -> None:
        """Ask about a call that needs approval, while the contents behind it are shown."""
        match received.content:
            case eca.ChatToolCallRunContent(manual_approval=True) as call if self._may_ask:
                server = self.server
                is_stored = server is None or server.remembers(received.chat_id, call.id)
                options = _options_for(call, is_stored=is_stored)
                request = acp.RequestPermissionRequest(
                    session_id=self.id, tool_call=shown_call(call), options=options
                )
                self._questions[received.chat_id, call.id] = trio.CancelScope()
                self._peer.start_soon(partial(self._decide, received.chat_id, call.id, request))
            case (
                eca.ChatToolCallRunningContent()
                | eca.ChatToolCalledContent()
                | eca.ChatToolCallRejectedContent()
            ) as call if (received.chat_id, call.id) in self._questions:
                self._questions[received.chat_id, call.id].cancel()

    @property
    def _may_ask(self) -> bool:
        return self._prompt is not None and not self._prompt.is_cancelled

    async def _decide(
        self, chat_id: str, call_id: str, request: acp.RequestPermissionRequest
    ) -> None:
        """Ask the user about a tool call, and send the decision; a failed request rejects it.

        The outcome `cancelled` cancels the prompt: some clients send it before `session/cancel`.
        """
        scope = self._questions[chat_id, call_id]
        try:
            with scope:
                async with self._permission:
                    answer = await self._ask("session/request_permission", request)
                    if answer is not None and answer.outcome.outcome == "cancelled":
                        self.cancel()  # before the next call is asked about
        finally:
            self._questions.pop((chat_id, call_id), None)
        if scope.cancel_called or not self._may_ask:
            return
        with contextlib.suppress(ECAError):
            answer_call(self.client, chat_id, call_id, _decision(request, answer))

    async def _ask(self, method: str, params: Any) -> Any:
        """Return the client's answer; None if the request failed."""
        try:
            return await self._peer.start_call(method, params).result(deadline=None)
        except ECAError as error:
            _log.warning("%s: %s", method, error)
        return None

    async def answer(self, question: eca.ChatAskQuestionParams) -> str | None:
        """Ask the user a question of the model."""
        text: dict[str, Any] = {"type": "string", "title": "Answer"}
        if question.options and not question.allow_freeform:
            text["enum"] = [option.label for option in question.options]
        elif question.options:
            labels = ", ".join(option.label for option in question.options)
            text["description"] = f"For example: {labels}"
        request = acp.CreateElicitationRequest(
            mode="form",
            session_id=self.id,
            tool_call_id=question.tool_call_id,
            message=question.question,
            requested_schema={
                "type": "object",
                "properties": {"answer": text},
                "required": ["answer"],
            },
        )
        response, subject = None, object()
        if self._may_ask:
            with trio.CancelScope() as self._questions[subject]:
                response = await self._ask("elicitation/create", request)
            del self._questions[subject]
        if response is None or response.action != "accept":
            return None
        answer = (response.content or {}).get("answer")
        return answer if isinstance(answer, str) else None

    async def announce_commands(self) -> None:
        """Send the slash commands of the chat."""
        commands = await self._chat.query_commands()
        available = tuple(
            acp.AvailableCommand(
                name=each.name,
                description=each.description,
                input=acp.AvailableCommandInput(hint=hint) if hint else None,
            )
            for each in commands
            for hint in [" ".join(argument.name for argument in each.arguments)]
        )
        self.update(acp.AvailableCommandsUpdate(available_commands=available))

    async def replay(self) -> None:
        """Send the stored contents of the chat, without those of its subagents.

        Raises:
            RPCError: the server has no history of the chat.
        """
        before: str | None = None
        pages: list[tuple[eca.ChatContentReceivedParams, ...]] = []
        while True:
            page = await self._chat.history(before=before)
            pages.append(page.contents or ())
            before = None if page.meta is None else page.meta.before_cursor
            if before is None or not page.contents:
                break
        paragraphs = Paragraphs()
        for received in itertools.chain.from_iterable(reversed(pages)):
            if received.chat_id != self.id:  # of a subagent
                continue
            content = paragraphs.spaced(received.role, received.content)
            if content is not None:
                for update in self._updates.of(attrs.evolve(received, content=content)):
                    self.update(update)
                await self._peer.transport.drain()

    def announce_usage(self) -> None:
        """Send the usage that came when the chat was opened, if there was one."""
        usage = self._chat.usage
        if usage is not None:
            received = eca.ChatContentReceivedParams(chat_id=self.id, role="system", content=usage)
            for update in self._updates.of(received):
                self.update(update)

    def modes(self) -> acp.SessionModeState | None:
        """Return the agents of the server, as modes."""
        agents = self.client.config.agents or ()
        if not agents:
            return None
        current = self._agent or self.client.config.select_agent or agents[0]
        modes = tuple(acp.SessionMode(id=name, name=name) for name in agents)
        return acp.SessionModeState(current_mode_id=current, available_modes=modes)

    def options(self) -> tuple[acp.ConfigOption, ...]:
        """Return the agent, the model and the variant as settings."""
        config, modes = self.client.config, self.modes()
        agent = None if modes is None else modes.current_mode_id
        model = self._chat.model or config.select_model
        variants = ("", *config.variants) if config.variants else ()
        variant = self._variant or config.select_variant or ""
        rows = [
            ("mode", "Agent", config.agents, agent),
            ("model", "Model", config.models, model),
            ("thought_level", "Variant", variants, variant),
        ]
        return tuple(
            acp.SelectConfigOption(
                id=category,
                name=name,
                category=category,
                current_value=current,
                options=tuple(acp.SelectEntry(value=v, name=v or "default") for v in values),
            )
            for category, name, values, current in rows
            if values and current is not None
        )

    def set_option(self, option_id: str, value: str | bool) -> None:
        """Change a setting.

        Raises:
            RPCError: -32602, there is no such setting or value.
        """
        known = {o.id: o for o in self.options() if isinstance(o, acp.SelectConfigOption)}
        option = known.get(option_id)
        if option is None or value not in {entry.value for entry in option.options}:
            raise RPCError(ErrorCode.INVALID_PARAMS, f"no setting {option_id!r} = {value!r}")
        assert isinstance(value, str)
        if option_id == "mode":
            self._agent = value
            self.update(acp.CurrentModeUpdate(current_mode_id=value))
        elif option_id == "model":
            self._chat.model = value
            self._variant = None  # a variant belongs to its model
            selected = eca.ChatSelectedModelChanged(model=value)
            with contextlib.suppress(ECAError):
                self.client.notify(CHAT_SELECTED_MODEL_CHANGED, selected)
        else:
            self._variant = value or None

    async def refresh_options(self) -> None:
        """Wait until the server has announced the variants of a selected model."""
        with contextlib.suppress(ECAError):
            await self._chat.query_commands()  # the server answers in order

    def set_mode(self, mode: str) -> None:
        """Change the agent of later prompts."""
        self.set_option("mode", mode)
        self._announce_options()

    def _take_config(self, updated: eca.ConfigUpdatedParams) -> None:
        """Announce changed settings, after taking those that the server has selected.

        A command such as `/model` or `/agent` selects for its chat, also after the client has.
        """
        if self._peer.closed or self.closing.is_set():
            return
        if updated.chat_id == self.id and updated.chat is not None:
            if updated.chat.select_model:
                self._chat.model = updated.chat.select_model
                self._variant = None
            self._variant = updated.chat.select_variant or self._variant
            if updated.chat.select_agent:
                self._agent = updated.chat.select_agent
                self.update(acp.CurrentModeUpdate(current_mode_id=self._agent))
        self._announce_options()

    def _announce_options(self) -> None:
        if options := self.options():
            self.update(acp.ConfigOptionUpdate(config_options=options))

    def _take_outside_of_turn(self, received: eca.ChatContentReceivedParams) -> None:
        """Ask about a subagent's calls, and announce a title that follows the end of its turn."""
        if self._peer.closed or self.closing.is_set():
            return
        if received.chat_id != self.id:
            self._follow_call(received)
        elif isinstance(received.content, eca.ChatMetadataContent):
            self.update(acp.SessionInfoUpdate(title=received.content.title))

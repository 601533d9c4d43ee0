"""The ACP agents of a connection: their processes, and the sessions of chats.

Rules: an agent is started at its first prompt, with an environment without our keys. A chat
continues in its session, also after a restart if the agent can. What the session has not seen is
sent as text: the answers of a different model, or after a rollback the whole chat.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs
import trio

from eca_protocol import json
from eca_protocol.acp import messages as acp
from eca_protocol.errors import DeadlineExceeded, DecodeError, ECAError, RequestFailed, RPCError
from eca_protocol.jsonrpc import ErrorCode
from eca_server.agent.acp.blocks import prompt_blocks
from eca_server.agent.acp.process import AgentFailed, AgentProcess
from eca_server.agent.acp.requests import TurnRequests
from eca_server.agent.acp.session import AgentSession, user_error
from eca_server.agent.acp.terminals import Terminals
from eca_server.agent.acp.writer import TurnWriter
from eca_server.agent.chat.call_runner import CallRunner
from eca_server.agent.chat.compaction import transcript
from eca_server.agent.chat.outlet import Outlet
from eca_server.agent.chat.title import shortened_title
from eca_server.agent.chat.turn import Turn
from eca_server.agent.mcp.stdio import LADDER
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.shell_command import default_directory
from eca_server.models.answer import Answer
from eca_server.models.history import Message, Origin, TextPart
from eca_server.secret import mask
from eca_server.workspace.boundary import Workspace

_log = logging.getLogger("eca_server.agent.acp")

MOST_SESSIONS: Final = 50
"""The number of open sessions of all agents; a chat's closed one is loaded at its next prompt."""

_MISSED: Final = (
    "You have not seen this part of the chat:\n\n{}\n\n"
    "Continue from here. The user's next message follows."
)
_MOST_HISTORY: Final = 200_000  # bytes
_SESSION_SECONDS: Final = 60.0
_END_SECONDS: Final = LADDER.after_stdin + LADDER.after_term + LADDER.after_kill + 0.3
_ENDINGS: Final[Mapping[str, str]] = {
    "max_tokens": "The answer was cut: it reached the model's output limit.",
    "max_turn_requests": "The agent made as many requests as one turn may have. Send `continue`.",
    "refusal": "The agent refuses to continue.",
    "cancelled": "The agent cancelled this turn.",
}


@attrs.frozen(kw_only=True)
class Target:
    """The agent that answers a turn, and how.

    Attributes:
        command: its program and arguments.
        mode: its mode; None: its own.
        cap: the limit of a diff.
        wants_title: whether the chat gets a title.
    """

    name: str
    command: tuple[str, ...]
    mode: str | None
    cap: Cap
    wants_title: bool


@attrs.define(eq=False)
class ACPAgents:
    """The agents of a connection.

    Args:
        nursery: the nursery of their processes.
        environment: returns the environment of child processes.
        drained: waits until the client has read most of the output.
        on_modes: called with an agent's name and its modes.
        on_mode: called with a chat, the agent's name and the mode that the agent has selected.
    """

    _nursery: trio.Nursery
    _environment: Callable[[], Mapping[str, str]] = attrs.field(kw_only=True)
    _drained: Callable[[], Awaitable[None]] = attrs.field(kw_only=True)
    _on_modes: Callable[[str, tuple[str, ...]], None] = attrs.field(kw_only=True)
    _on_mode: Callable[[Outlet, str, str], None] = attrs.field(kw_only=True)
    _processes: dict[str, AgentProcess] = attrs.field(init=False, factory=dict)
    _replaced: set[AgentProcess] = attrs.field(init=False, factory=set)
    _turns: Counter[AgentProcess] = attrs.field(init=False, factory=Counter)
    _sessions: dict[str, AgentSession] = attrs.field(init=False, factory=dict)
    _spares: dict[str, AgentSession] = attrs.field(init=False, factory=dict)

    async def answer(self, target: Target, runner: CallRunner, turn: Turn) -> Answer | None:
        """Answer the new messages of a turn; return None after reporting a failure."""
        prompts = _new_prompts(turn)
        if not prompts:
            return None
        process = self._process(target.name, target.command, runner.permissions.workspace)
        turn.progress("Waiting model" if process.has_started else "Starting the agent")
        self._turns[process] += 1
        try:
            await process.started()
            session, text = await self._session(process, turn, runner.permissions.workspace)
            await session.select_mode(target.mode)
            accepted = process.capabilities.prompt_capabilities
            parts = [part for each in prompts for part in each.parts]
            blocks = [*prompt_blocks(text, accepted), *prompt_blocks(parts, accepted)]
            return await self._prompt(target, session, runner, turn, blocks)
        except ECAError as error:
            turn.fail(mask(await user_error(error, process)))
            return None
        finally:
            self._turns -= Counter([process])
            self._end_replaced()

    def follow(self, commands: Mapping[str, tuple[str, ...]]) -> None:
        """End agents with other than these configured commands, each after its running turns."""
        for name, process in tuple(self._processes.items()):
            if commands.get(name) != process.command:
                self._replaced.add(self._processes.pop(name))
        self._end_replaced()

    def _end_replaced(self) -> None:
        for process in [each for each in self._replaced if each not in self._turns]:
            process.close()
            self._replaced.discard(process)

    async def _prompt(
        self,
        target: Target,
        session: AgentSession,
        runner: CallRunner,
        turn: Turn,
        blocks: Sequence[acp.ContentBlock],
    ) -> Answer | None:
        session.last_prompt = _last_prompt([*turn.outlet.history, *turn.messages])
        stored = {"agent": target.name, "session": session.id, "prompt": session.last_prompt}
        turn.outlet.set(acp_session=json.dumps(stored).decode())
        failure: ECAError | None = None
        async with trio.open_nursery() as nursery:
            terminals = Terminals(nursery)
            writer = TurnWriter(
                turn,
                Origin(api="acp", provider="acp", model=target.name),
                cap=target.cap,
                terminal=terminals.text_of,
            )
            directory = str(default_directory(runner.permissions.workspace))
            requests = TurnRequests(turn, runner, writer, terminals, directory)
            reason: acp.StopReason | None = None
            try:
                reason = await session.prompt(requests, blocks)
            except ECAError as error:
                failure = error
            finally:
                cost = _cost_since(session, writer)
                answer = writer.finish(is_interrupted=reason is None, cost=cost)
            nursery.cancel_scope.cancel()
        if failure is not None:
            raise failure
        if target.wants_title:
            _give_title(turn, writer.title)
        if reason in _ENDINGS:
            turn.conclude(_ENDINGS[str(reason)])
        return answer

    def _process(self, name: str, command: tuple[str, ...], workspace: Workspace) -> AgentProcess:
        """Return the running process of an agent; start it if there is none."""
        process = self._processes.get(name)
        if process is not None and process.command != command:
            self._replaced.add(process)
            self._end_replaced()
            process = None
        if process is None or process.is_over:
            new: AgentProcess = AgentProcess(
                name,
                command,
                environment=self._environment(),
                directory=default_directory(workspace),
                handlers=self._handlers(lambda: new),
                drained=self._drained,
            )
            process = self._processes[name] = new
            self._nursery.start_soon(process.run)
        return process

    async def _session(
        self, process: AgentProcess, turn: Turn, workspace: Workspace
    ) -> tuple[AgentSession, Sequence[TextPart]]:
        """Return the session of a chat, and the text of the messages that it does not know."""
        chat = turn.outlet
        session = self._sessions.pop(chat.id, None)
        if session is not None:
            is_usable = session.process is process and await session.is_idle()
            missed = _missed(chat.history, session.last_prompt) if is_usable else None
        else:
            session = await self._reopened(process, chat, workspace)
            missed = None if session is None else _missed(chat.history, session.last_prompt)
        if session is None or missed is None:
            session = await self._new(process, workspace)
            missed = chat.history.model_context
        self._sessions[chat.id] = session
        self._close_oldest()
        session.on_mode = partial(self._on_mode, chat, process.name)
        self._on_modes(process.name, session.modes)
        text = _MISSED.format(transcript(missed, _MOST_HISTORY)) if missed else ""
        return session, (TextPart(text),) if text else ()

    def _close_oldest(self) -> None:
        """Close the sessions that were idle longest, beyond a number of them."""
        idle = [chat for chat, each in self._sessions.items() if each.requests is None]
        for chat in idle[: max(len(self._sessions) - MOST_SESSIONS, 0)]:
            self._sessions.pop(chat).close()

    async def _reopened(
        self, process: AgentProcess, chat: Outlet, workspace: Workspace
    ) -> AgentSession | None:
        """Resume or load the stored session of a chat; None: there is none, or it is lost."""
        session_id, last_prompt = _stored_session(chat, process.name)
        has = process.capabilities
        if session_id is None:
            return None
        if has.session_capabilities.resume is None and not has.load_session:
            return None
        params: Any = acp.ResumeSessionRequest(session_id=session_id, **_places(workspace, has))
        method = "session/resume"
        if has.session_capabilities.resume is None:
            method, params = (
                "session/load",
                acp.LoadSessionRequest(**attrs.asdict(params, recurse=False)),
            )
        try:
            state = await process.peer.call(method, params, deadline=_SESSION_SECONDS)
        except (DeadlineExceeded, DecodeError, RequestFailed):
            return None
        session = AgentSession(session_id, process, state)
        session.last_prompt = last_prompt
        return session

    async def _new(self, process: AgentProcess, workspace: Workspace) -> AgentSession:
        """Return a new session; the one from which the modes were learned, if it is unused.

        An agent may have one session only: a chat that is not answered now loses it.

        Raises:
            AgentFailed: it is the session of a chat that is answered now.
        """
        spare = self._spares.pop(process.name, None)
        if spare is not None and spare.process is process:
            return spare
        params = acp.NewSessionRequest(**_places(workspace, process.capabilities))
        state = await process.peer.call("session/new", params, deadline=_SESSION_SECONDS)
        for chat, each in tuple(self._sessions.items()):
            if each.process is process and each.id == state.session_id:
                if each.requests is not None:
                    raise AgentFailed(f"The agent {process.name} answers one chat at a time.")
                del self._sessions[chat]
        return AgentSession(state.session_id, process, state)

    async def learn_modes(self, name: str, command: tuple[str, ...], workspace: Workspace) -> None:
        """Start an agent for its modes; a failure is reported at its first prompt."""
        process = self._process(name, command, workspace)
        try:
            await process.started()
            session = self._spares[name] = await self._new(process, workspace)
        except ECAError as error:
            _log.info("the modes of %s are unknown: %s", name, error)
        else:
            self._on_modes(name, session.modes)

    def _handlers(self, process: Callable[[], AgentProcess]) -> dict[str, Callable[[Any], Any]]:
        """Return the handlers of an agent's messages, each for the turn of its session."""

        def session_of(session_id: str) -> AgentSession | None:
            sessions = (each for each in self._sessions.values() if each.process is process())
            return next((each for each in sessions if each.id == session_id), None)

        def update(params: acp.SessionNotification) -> None:
            session = session_of(params.session_id)
            if session is not None:
                session.update(params.update)

        def requests_of(session_id: str) -> TurnRequests | None:
            session = session_of(session_id)
            return None if session is None else session.requests

        def permit(params: acp.RequestPermissionRequest) -> Awaitable[Any]:
            requests = requests_of(params.session_id)
            return _cancelled() if requests is None else requests.permit(params)

        def serving(
            act: Callable[[TurnRequests, Any], Awaitable[Any]],
        ) -> Callable[[Any], Awaitable[Any]]:
            def serve(params: Any) -> Awaitable[Any]:
                requests = requests_of(params.session_id)
                if requests is None:
                    text = f"no prompt runs in the session {params.session_id!r}"
                    raise RPCError(ErrorCode.INVALID_REQUEST, text)
                return requests.serve(lambda: act(requests, params))

            return serve

        return {
            "session/update": update,
            "session/request_permission": permit,
            "fs/read_text_file": serving(TurnRequests.read_text),
            "fs/write_text_file": serving(TurnRequests.write_text),
            "terminal/create": serving(TurnRequests.create_terminal),
            "terminal/output": serving(lambda r, params: r.terminals.read(params)),
            "terminal/wait_for_exit": serving(lambda r, params: r.terminals.wait(params)),
            "terminal/kill": serving(lambda r, params: r.terminals.kill(params)),
            "terminal/release": serving(lambda r, params: r.terminals.release(params)),
        }

    async def close(self) -> Sequence[str]:
        """End all agents; return descriptions of what did not end."""
        processes = (*self._processes.values(), *self._replaced)
        for process in processes:
            process.close()
        with trio.move_on_after(_END_SECONDS):
            for process in processes:
                await process.ended.wait()
        return [f"the agent {each.name}" for each in processes if not each.ended.is_set()]


async def _cancelled() -> acp.RequestPermissionResponse:
    return acp.RequestPermissionResponse(outcome=acp.PermissionOutcome(outcome="cancelled"))


def _new_prompts(turn: Turn) -> Sequence[Message]:
    """Return the user's messages after the last answer of a turn."""
    messages = turn.messages
    place = len(messages)
    while place and messages[place - 1].role == "user":
        place -= 1
    return messages[place:]


def _last_prompt(messages: Sequence[Message]) -> str | None:
    """Return the content id of the last message of the user that a model was sent."""
    sent = (each for each in reversed(messages) if each.content_id is not None and each.parts)
    return next((each.content_id for each in sent), None)


def _missed(history: Sequence[Message], last_prompt: str | None) -> Sequence[Message] | None:
    """Return the messages after a prompt and its answer; None: the prompt is not in the history."""
    places = (n for n, each in enumerate(history) if last_prompt and each.content_id == last_prompt)
    place = next(places, None)
    if place is None:
        return None
    later = itertools.dropwhile(lambda each: each.role != "user", history[place + 1 :])
    return [each for each in later if each.parts]


def _stored_session(chat: Outlet, agent: str) -> tuple[str | None, str | None]:
    """Return a chat's stored session of this agent, and the last prompt that it has seen."""
    try:
        stored = json.loads((chat.settings.acp_session or "{}").encode())
    except ECAError:
        stored = {}
    session_id, prompt = stored.get("session"), stored.get("prompt")
    is_usable = stored.get("agent") == agent and isinstance(session_id, str)
    return (session_id, prompt if isinstance(prompt, str) else None) if is_usable else (None, None)


def _places(workspace: Workspace, has: acp.AgentCapabilities) -> dict[str, Any]:
    """Return the directories of a session."""
    may_have_more = has.session_capabilities.additional_directories is not None
    more = workspace.roots[1:] if may_have_more else ()
    return {
        "cwd": str(default_directory(workspace)),
        "mcp_servers": (),
        "additional_directories": tuple(str(each.real_path) for each in more),
    }


def _cost_since(session: AgentSession, writer: TurnWriter) -> float | None:
    """Return what this turn has cost, in US dollars; agents report the sum of the session."""
    cost = None if writer.usage is None else writer.usage.cost
    if cost is None or cost.currency != "USD":
        return None
    before, session.cost = session.cost, cost.amount
    return max(cost.amount - before, 0.0)


def _give_title(turn: Turn, title: str | None) -> None:
    """Give the chat the agent's title, else the first words of the prompt."""

    async def make_title() -> str | None:
        return shortened_title(title or turn.about) or None

    turn.outlet.request_title(make_title)

"""The harness of a case: agents in processes of their own, with the scripted model behind them."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Any, Final

import attrs
from typing_extensions import override

from eca_protocol import json
from eca_protocol.framing import encode_line
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.acp.watcher import AcpWatcher
from eca_protocol.testing.conformance.cases import Case, case, cases_in
from eca_protocol.testing.conformance.harness import Harness
from eca_protocol.testing.conformance.judge import Judge
from eca_protocol.testing.conformance.message_session import MessageSession
from eca_protocol.testing.conformance.model import (
    AnswersWith,
    ChatModel,
    bare_name,
    tools_in,
)
from eca_protocol.testing.conformance.recorder import ReceivedMessage, Recorder
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.conformance.wire import Wire
from eca_protocol.testing.members import at
from eca_protocol.testing.provider import ReceivedRequest
from eca_protocol.testing.script import Reply, reply, tool_call
from eca_protocol.transcript.splitter import Piece, Splitter, message_in

PATIENCE: Final = 30.0
"""Seconds for an answer, or for an event of a turn."""

PERMISSION: Final = "session/request_permission"
CANCELLED: Final[Mapping[str, Any]] = {"outcome": {"outcome": "cancelled"}}

_SHELLS: Final = frozenset({"shell_command", "bash", "shell", "run_shell_command", "execute"})
"""Names of tools that run a command, in lower case."""

agent_case: Final = functools.partial(case, seconds=60.0)
"""The declaration of a case for agents: of a function of an `AgentSession`."""


class _LineSplitter(Splitter):
    @override
    def feed(self, data: bytes) -> list[Piece]:
        self._buffer += data
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer[:] = rest
        return [(line + b"\n", line if message_in(line) is not None else None) for line in lines]


class AcpWire(Wire):
    """A running agent."""

    encode = staticmethod(encode_line)

    @override
    def _new_recorder(self) -> Recorder:
        return Recorder(watcher=AcpWatcher(), splitter=_LineSplitter, encode=encode_line)


@attrs.frozen
class Prompt:
    """A prompt that was sent.

    Attributes:
        after: the number of messages before it.
    """

    id: Any
    session_id: str
    model: ChatModel
    after: int


class AgentSession(MessageSession):
    """A client's connection to an agent; `initialized` is the result of `initialize`."""

    def __init__(self, wire: Wire, judge: Judge) -> None:
        super().__init__(wire, judge, Revision.CURRENT, alone=True)
        self.choose("allow")

    @override
    async def settle(self, *, shows: str | None = None) -> None:
        await self.ask("_eca/fence", seconds=PATIENCE, shows=shows)

    def choose(self, kind: str | None) -> None:
        """Answer requests for permission: `allow`, `reject`, or None for a later answer."""

        def answer(params: Mapping[str, Any]) -> Mapping[str, Any]:
            for option in params.get("options", ()):
                if str(option.get("kind")).startswith(str(kind)):
                    return {"outcome": {"outcome": "selected", "optionId": option["optionId"]}}
            return CANCELLED

        self.replies[PERMISSION] = None if kind is None else answer

    async def result(self, method: str, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Send a request; return its result."""
        answer = await self.ask(method, params, seconds=PATIENCE)
        result = answer.get("result")
        if not isinstance(result, Mapping):
            raise Unmet(f"a result of `{method}`", answer.get("error"))
        return result

    async def handshake(self, initialize: Mapping[str, Any] | None = None) -> None:
        """Send `initialize`, by default without any capability."""
        params = {"protocolVersion": 1, **(initialize or {})}
        self.initialized = await self.result("initialize", params)

    def can(self, *path: str) -> bool:
        """Return whether a capability of the agent was announced."""
        value = at(self.initialized, "agentCapabilities", *path)
        return value is not None and value is not False

    def at_workspace(self, **more: Any) -> dict[str, Any]:
        """Return the params of a session in the workspace."""
        return {"cwd": str(self.workspace), "mcpServers": [], **more}

    async def new(self) -> str:
        """Open a session; return its id."""
        return str((await self.result("session/new", self.at_workspace())).get("sessionId"))

    async def prompt(
        self, session_id: str, *script: AnswersWith, text: str = "Hello.", **more: Any
    ) -> Prompt:
        """Send a prompt with a script of its own."""
        model = self.model.chat(script)
        self.models.append(model)
        blocks = [{"type": "text", "text": f"{text} {model.marker}"}, *more.get("blocks", ())]
        model.prompts.append(blocks[0]["text"])
        after = len(self.messages)
        id_ = await self.request("session/prompt", {"sessionId": session_id, "prompt": blocks})
        return Prompt(id_, session_id, model, after)

    async def ended(self, prompt: Prompt, *, seconds: float = PATIENCE) -> object:
        """Wait for the answer of a prompt; return its stop reason, or the error."""
        answer = await self.answer(prompt.id, seconds=seconds)
        result = answer.get("result")
        return result.get("stopReason") if isinstance(result, Mapping) else answer.get("error")

    async def event(self, prompt: Prompt, kind: str) -> ReceivedMessage:
        """Wait for an update, or a request, of a turn, by its kind; or for the turn's answer."""

        def is_event(received: ReceivedMessage) -> bool:
            if "method" not in received.message:
                return bool(received.message.get("id") == prompt.id)
            return received.params.get("sessionId") == prompt.session_id and _kind(received) == kind

        after = self.messages[prompt.after - 1] if prompt.after else None
        event = await self.until(is_event, seconds=PATIENCE, expected="the event", after=after)
        if not event.method:
            raise Unmet("an event of the turn", f"its answer {event.message}")
        return event

    def updates(self, session_id: str, kind: str, *, after: int = 0) -> list[Mapping[str, Any]]:
        """Return the updates of a session of that kind."""
        return [
            received.params["update"]
            for received in self.messages[after:]
            if received.params.get("sessionId") == session_id and _kind(received) == kind
        ]

    def text(self, session_id: str, kind: str = "agent_message_chunk", *, after: int = 0) -> str:
        """Return the joined text of a session's chunks."""
        updates = self.updates(session_id, kind, after=after)
        return "".join(str(update["content"].get("text", "")) for update in updates)


def _kind(received: ReceivedMessage) -> str:
    update = received.params.get("update")
    return str(update.get("sessionUpdate")) if isinstance(update, Mapping) else received.method


class AcpHarness(Harness):
    """The agents and the verdicts of one case."""

    @override
    def case_session(self, **options: Any) -> AbstractAsyncContextManager[Any]:
        return self.agent(**options)

    @override
    def _new_session(self, wire: Wire, *, alone: bool) -> AgentSession:
        return AgentSession(wire, self)

    def agent(self, **options: Any) -> AbstractAsyncContextManager[AgentSession]:
        """Start an agent, which ends with the block; see `session` for the options."""
        session: AbstractAsyncContextManager[Any] = self.session(fresh=True, **options)
        return session


def acp_cases() -> MappingProxyType[str, Case]:
    """Return the cases for agents by name, in the order of their chapters."""
    return cases_in(__name__.rpartition(".")[0])


def runs(command: str) -> AnswersWith:
    """Return a reply that calls the agent's shell tool with a command."""

    def answer(request: ReceivedRequest) -> Reply:
        for name, members in tools_in(request.body):
            if bare_name(name).lower() in _SHELLS:
                arguments = {"command": command, "description": "A test"}
                known = {key: each for key, each in arguments.items() if key in members}
                return reply(tool_call(name, json.dumps(known).decode()))
        return reply("There is no shell.")

    return answer

"""The process of an ACP agent, and the session of one chat at it: its modes, and its prompts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from eca_protocol.acp import ACP, ACP_CODEC, ACP_DIALECT, AUTHENTICATION_REQUIRED, PROTOCOL_VERSION
from eca_protocol.acp import messages as acp
from eca_protocol.calls import PendingCall
from eca_protocol.errors import ECAError, RequestFailed
from eca_protocol.peer import Peer
from eca_server.agent.acp.requests import TurnRequests
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.settings import ServerSettings
from eca_server.agent.mcp.stdio import start_stdio
from eca_server.version import version

START_SECONDS: Final = 60.0
"""The time for the start; `npx` may download the agent."""

_CAPABILITIES: Final = acp.ClientCapabilities(
    fs=acp.FileSystemCapabilities(read_text_file=True, write_text_file=True), terminal=True
)


_NOTHING_SAID: Final = acp.InitializeResponse(protocol_version=PROTOCOL_VERSION)


class AgentFailed(ECAError):
    """An agent that cannot be started, or has ended; the text is for the user."""


@attrs.define(eq=False)
class AgentProcess:
    """A running agent.

    Args:
        name: the agent's name.
        command: its program and arguments.
        environment: its environment, without our keys.
        directory: its working directory.
        handlers: the handlers of its messages.
        drained: waits until our client has read most of the output; until then it is not read.

    Attributes:
        about: its answer to `initialize`, once it has started.
        ended: set when the process has ended.
    """

    name: str
    command: tuple[str, ...]
    _environment: Mapping[str, str] = attrs.field(kw_only=True)
    _directory: Path = attrs.field(kw_only=True)
    _handlers: dict[str, Callable[[Any], Any]] = attrs.field(kw_only=True)
    _drained: Callable[[], Awaitable[None]] = attrs.field(kw_only=True)
    about: acp.InitializeResponse = attrs.field(init=False, default=_NOTHING_SAID)
    ended: trio.Event = attrs.field(init=False, factory=trio.Event)
    _ready: trio.Event = attrs.field(init=False, factory=trio.Event)
    _over: trio.Event = attrs.field(init=False, factory=trio.Event)
    _error: str | None = attrs.field(init=False, default=None)
    _peer: Peer | None = attrs.field(init=False, default=None)

    @property
    def is_over(self) -> bool:
        """True if no more prompts can be sent."""
        return self._over.is_set()

    @property
    def has_started(self) -> bool:
        """True once it takes prompts."""
        return self._ready.is_set()

    @property
    def capabilities(self) -> acp.AgentCapabilities:
        """The agent's abilities."""
        return self.about.agent_capabilities

    @property
    def peer(self) -> Peer:
        """The connection of the started agent."""
        assert self._peer is not None
        return self._peer

    async def run(self) -> None:
        """Start the agent, and serve it until it ends or `close` is called."""
        try:
            if not self.is_over:  # else closed before its first step
                await self._run()
        except MCPError as error:
            self._error = self._error or str(error)
        finally:
            self._over.set()
            self._ready.set()
            self.ended.set()

    async def _run(self) -> None:
        settings = ServerSettings(name=self.name, command=self.command[0], args=self.command[1:])
        log = ServerLog(self.name)
        transport = start_stdio(
            settings, environment=self._environment, directory=self._directory, log=log
        )
        self._peer = Peer(
            transport.messages(),
            side="client",
            table=ACP,
            codec=ACP_CODEC,
            handlers=self._handlers,
            dialect=ACP_DIALECT,
            before_reading=self._drained,
        )
        async with self._peer as peer:
            peer.start_soon(transport.watch)
            peer.start_soon(self._serve)
            try:
                await self._introduce(peer)
            except ECAError as error:
                has_ended = self.is_over and self._error is None
                reason = await transport.error() if has_ended else None
                raise MCPError(str(reason or error), kind="start") from error
            self._ready.set()
            await self._over.wait()
            if self._error is None:  # the agent has ended by itself
                self._error = str(await transport.error())

    async def _serve(self) -> None:
        await self.peer.serve()
        self._over.set()

    async def _introduce(self, peer: Peer) -> None:
        request = acp.InitializeRequest(
            protocol_version=PROTOCOL_VERSION,
            client_capabilities=_CAPABILITIES,
            client_info=acp.Implementation(name="eca", title="ECA", version=version()),
        )
        self.about = await peer.call("initialize", request, deadline=START_SECONDS)
        if self.about.protocol_version != PROTOCOL_VERSION:
            raise AgentFailed(f"it speaks version {self.about.protocol_version} of ACP, not 1")

    async def started(self) -> None:
        """Wait until the agent has started.

        Raises:
            AgentFailed: it cannot be started.
        """
        await self._ready.wait()
        if self.is_over:
            raise AgentFailed(await self.explain())

    async def explain(self) -> str:
        """Return why the agent has ended."""
        await self.ended.wait()
        command = " ".join(self.command)
        return f"The agent `{command}` does not run: {self._error}."

    def close(self) -> None:
        """End the agent; `ended` follows within the seconds of the ladder."""
        self._error = self._error or "it was ended"
        self._over.set()
        if self._peer is not None and not self.has_started:
            self._peer.close()  # its `initialize` is not waited for


CANCEL_SECONDS: Final = 10.0
"""The time that a cancelled prompt has to be answered; later the session is abandoned."""

_MODE: Final = "mode"


class AgentSession:
    """A session of a running agent.

    Args:
        session_id: the agent's id.
        process: the agent.
        state: the settings that the agent has announced.

    Attributes:
        requests: the running turn; None: the session is idle.
        last_prompt: the content id of the last prompt that the agent was sent.
        modes: the ids of the modes.
        cost: US dollars that the session has cost so far.
        on_mode: called when the agent itself changes the mode.
    """

    def __init__(self, session_id: str, process: AgentProcess, state: acp.SessionState) -> None:
        self.id = session_id
        self.process = process
        self.requests: TurnRequests | None = None
        self.last_prompt: str | None = None
        self.modes: tuple[str, ...] = ()
        self.cost = 0.0
        self.on_mode: Callable[[str], None] = lambda _: None
        self._mode: str | None = None
        self._mode_option: str | None = None
        self._idle = trio.Event()
        self._idle.set()
        if state.modes is not None:
            self.modes = tuple(each.id for each in state.modes.available_modes)
            self._mode = state.modes.current_mode_id
        else:
            self._take_options(state.config_options or ())
        self._first_mode = self._mode

    def _take_options(self, options: Sequence[acp.ConfigOption]) -> None:
        """Take the modes of an agent that has them as a setting."""
        for option in options:
            if isinstance(option, acp.SelectConfigOption) and option.category == _MODE:
                groups = [each.options or (each,) for each in option.options]
                values = (each.value for group in groups for each in group)
                self.modes = tuple(value for value in values if value is not None)
                self._mode, self._mode_option = option.current_value, option.id
                return

    def update(self, update: acp.SessionUpdate) -> None:
        """Take an update of the agent; what comes after a turn is dropped."""
        before = self._mode
        if isinstance(update, acp.CurrentModeUpdate):
            self._mode = update.current_mode_id
        elif isinstance(update, acp.ConfigOptionUpdate):
            self._take_options(update.config_options)
        elif self.requests is not None:
            self.requests.writer.take(update)
        if self._mode is not None and self._mode != before:
            self.on_mode(self._mode)

    async def select_mode(self, mode: str | None) -> None:
        """Select a mode; None: the agent's own."""
        selected = mode if mode in self.modes else self._first_mode
        if selected is None or selected == self._mode:
            return
        call, option = self.process.peer.call, self._mode_option
        if option is None:
            mode_request = acp.SetSessionModeRequest(session_id=self.id, mode_id=selected)
            await call("session/set_mode", mode_request, deadline=CANCEL_SECONDS)
        else:
            request = acp.SetSessionConfigOptionRequest(
                session_id=self.id, config_id=option, value=selected
            )
            await call("session/set_config_option", request, deadline=CANCEL_SECONDS)
        self._mode = selected

    async def is_idle(self) -> bool:
        """Wait until the last prompt was answered; return False if that takes too long."""
        with trio.move_on_after(CANCEL_SECONDS):
            await self._idle.wait()
        return self._idle.is_set()

    async def prompt(
        self, requests: TurnRequests, blocks: Sequence[acp.ContentBlock]
    ) -> acp.StopReason:
        """Send a prompt, and return why the agent stopped.

        A cancellation is sent to the agent at once; the session is idle once it has answered.

        Raises:
            ECAError: the agent refused the prompt, or has ended.
        """
        peer = self.process.peer
        params = acp.PromptRequest(session_id=self.id, prompt=tuple(blocks))
        call: PendingCall[Any] = peer.start_call("session/prompt", params)
        self.requests, self._idle = requests, trio.Event()
        answer = _Answer()
        peer.start_soon(lambda: self._receive(call, answer))
        try:
            await answer.received.wait()
        finally:
            self.requests = None
            requests.end()
            if not answer.received.is_set() and not peer.closed:
                peer.notify("session/cancel", acp.SessionReference(session_id=self.id))
        if answer.error is not None:
            raise answer.error
        return answer.stop_reason

    def close(self) -> None:
        """Let the agent free the resources of the session, if it can; it stays loadable."""
        if self.process.is_over or self.process.capabilities.session_capabilities.close is None:
            return
        self.process.peer.start_call("session/close", acp.SessionReference(session_id=self.id))

    async def _receive(self, call: PendingCall[Any], answer: _Answer) -> None:
        """Wait for the answer, also after its turn was stopped."""
        try:
            answer.stop_reason = (await call.result()).stop_reason
        except ECAError as error:
            answer.error = error
        answer.received.set()
        self._idle.set()


class _Answer:
    def __init__(self) -> None:
        self.received = trio.Event()
        self.stop_reason: acp.StopReason = "end_turn"
        self.error: ECAError | None = None


async def user_error(error: ECAError, process: AgentProcess) -> str:
    """Return the user's text for a failed request."""
    if process.is_over:
        return await process.explain()
    if isinstance(error, AgentFailed):
        return str(error)
    if isinstance(error, RequestFailed) and error.code == AUTHENTICATION_REQUIRED:
        return _login_text(process)
    if not isinstance(error, RequestFailed):
        return f"The agent {process.name} failed: {error}"
    details = error.data.get("details") if isinstance(error.data, dict) else error.data
    more = f" ({details})" if isinstance(details, str) and details else ""
    return f"The agent {process.name} failed: {error.message}{more}"


def _login_text(process: AgentProcess) -> str:
    how = "Log in with its own program in a terminal, then send the prompt again."
    lines = [f"The agent {process.name} needs a login of its own, which ECA does not see. {how}"]
    for method in process.about.auth_methods:
        hint = f": {method.description}" if method.description else ""
        if method.type == "terminal":
            command = " ".join([*process.command, *(method.args or ())])
            hint += f" (run `{command}`)"
        lines.append(f"- {method.name}{hint}")
    return "\n".join(lines)

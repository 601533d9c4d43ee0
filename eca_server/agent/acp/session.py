"""The session of one chat at an ACP agent: its modes, and its prompts, one at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import trio

from eca_protocol.acp import AUTHENTICATION_REQUIRED
from eca_protocol.acp import messages as acp
from eca_protocol.calls import PendingCall
from eca_protocol.errors import ECAError, RequestFailed
from eca_server.agent.acp.process import AgentFailed, AgentProcess
from eca_server.agent.acp.requests import TurnRequests

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
    """Return the message for the user about a failed request."""
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

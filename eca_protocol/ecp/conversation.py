"""One conversation of an agent with an evaluator: what the three methods do, in their order.

The rules it keeps: one step at a time, in the order they came; each initialize begins afresh; what
the agent's code raises becomes a short error without a traceback (which goes to the log); nothing
is stepped before it was initialized.
"""

from __future__ import annotations

import functools
import logging
import math
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import anyio

from eca_protocol import json
from eca_protocol.ecp.authoring import Agent, Hooks, as_result, run_hook
from eca_protocol.ecp.messages import (
    InitializeParams,
    InitializeResult,
    Result,
    StepParams,
    write_step_result,
)
from eca_protocol.ecp.methods import AGENT_FAILED, agree
from eca_protocol.errors import RPCError
from eca_protocol.peer import Handler

__all__ = ["Conversation"]

_log = logging.getLogger("eca_protocol.ecp")

_T = TypeVar("_T")

_LONGEST_REASON = 500  # characters of what an agent's exception says


class Conversation:
    """The state of one conversation, and the handlers of its requests."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._hooks: Hooks | None = None
        self._turns = _Turns()

    @property
    def has_begun(self) -> bool:
        """Whether it has been initialized, or stepped without that."""
        return self._hooks is not None

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """By method, for a peer."""
        return {
            "agent/initialize": self.initialize,
            "agent/step": self.step,
            "agent/reset": self.reset,
        }

    def initialize(self, params: InitializeParams) -> Coroutine[Any, Any, InitializeResult]:
        """Begin afresh.

        Raises:
            RPCError: -32001 for another major version; -32000 if the agent's code failed.
        """
        version = agree(params.protocol_version)
        return self._turns.take(functools.partial(self._initialize, params, version))

    def step(self, params: StepParams) -> Coroutine[Any, Any, Result]:
        """One input, one result.

        Raises:
            RPCError: -32000 if the agent's code failed, or gave what is no result.
        """
        return self._turns.take(functools.partial(self._step, params))

    def reset(self, _: None) -> Coroutine[Any, Any, bool]:
        """Forget what was said.

        Raises:
            RPCError: -32000 if the agent's code failed.
        """
        return self._turns.take(self._reset)

    async def _initialize(self, params: InitializeParams, version: str) -> InitializeResult:
        await self._begin()
        if self._hooks is not None and self._hooks.initialize is not None:
            await self._run(self._hooks.initialize, params.config)
        return InitializeResult(
            name=self._agent.name,
            capabilities=self._agent.capabilities,
            protocol_version=version,
        )

    async def _step(self, params: StepParams) -> Result:
        if self._hooks is None:
            await self._begin()
        assert self._hooks is not None
        outcome = await self._run(self._hooks.step, params.input)
        try:
            result = as_result(outcome)
            json.dumps(write_step_result(result))
        except Exception as error:
            raise _failed(error) from error
        return result

    async def _reset(self) -> bool:
        await self._begin()
        return True

    async def _begin(self) -> None:
        if self._hooks is None or self._agent.renews:
            try:
                self._hooks = self._agent.begin()
            except Exception as error:
                raise _failed(error) from error
        elif self._hooks.reset is not None:
            await self._run(self._hooks.reset)

    async def _run(self, hook: Any, *arguments: Any) -> Any:
        try:
            return await run_hook(hook, *arguments)
        except RPCError:
            raise
        except anyio.get_cancelled_exc_class() as error:
            if anyio.current_effective_deadline() == -math.inf:
                raise
            # Nobody has cancelled it: it awaited a task of its own that was.
            raise _failed(error) from error
        except Exception as error:
            raise _failed(error) from error


class _Turns:
    """One after the other, in the order in which turns were taken: tasks begin in any order."""

    def __init__(self) -> None:
        self._taken: deque[anyio.Event] = deque()

    def take(self, work: Callable[[], Awaitable[_T]]) -> Coroutine[Any, Any, _T]:
        """Take the next turn now; the work is done in it, by whoever awaits."""
        turn = anyio.Event()
        self._taken.append(turn)
        self._call()
        return self._work_in(turn, work)

    async def _work_in(self, turn: anyio.Event, work: Callable[[], Awaitable[_T]]) -> _T:
        try:
            await turn.wait()
            return await work()
        finally:
            self._taken.remove(turn)
            self._call()

    def _call(self) -> None:
        if self._taken:
            self._taken[0].set()


def _failed(error: BaseException) -> RPCError:
    """The answer to a request whose agent failed; the whole story stays in our own log."""
    _log.error("the agent failed", exc_info=error)
    text = f"{type(error).__name__}: {error}"
    return RPCError(AGENT_FAILED, text[:_LONGEST_REASON])

"""An agent's conversation with an evaluator: the handlers of ECP's three methods.

Requests run one at a time, in the order of their arrival. Each initialize starts a new
conversation; so does a first step without initialize. An exception of the agent's code becomes a
short error; its traceback goes to the log.
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
from eca_protocol.ecp.methods import AGENT_FAILED, negotiate_version
from eca_protocol.errors import RPCError
from eca_protocol.peer import Handler

_log = logging.getLogger("eca_protocol.ecp")

_T = TypeVar("_T")

_LONGEST_REASON = 500  # characters of an exception's message


class Conversation:
    """The state of one conversation, and the handlers of its requests."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._hooks: Hooks | None = None
        self._queue = _Queue()

    @property
    def has_started(self) -> bool:
        """True once the conversation was initialized or stepped."""
        return self._hooks is not None

    @property
    def handlers(self) -> Mapping[str, Handler]:
        """The handlers by method, for a peer."""
        return {
            "agent/initialize": self.initialize,
            "agent/step": self.step,
            "agent/reset": self.reset,
        }

    def initialize(self, params: InitializeParams) -> Coroutine[Any, Any, InitializeResult]:
        """Start a new conversation.

        Raises:
            RPCError: -32001 for a different major version; -32000 if the agent's code failed.
        """
        version = negotiate_version(params.protocol_version)
        return self._queue.put(functools.partial(self._initialize, params, version))

    def step(self, params: StepParams) -> Coroutine[Any, Any, Result]:
        """Answer one input.

        Raises:
            RPCError: -32000 if the agent's code failed or returned an invalid result.
        """
        return self._queue.put(functools.partial(self._step, params))

    def reset(self, _: None) -> Coroutine[Any, Any, bool]:
        """Clear the conversation's state.

        Raises:
            RPCError: -32000 if the agent's code failed.
        """
        return self._queue.put(self._reset)

    async def _initialize(self, params: InitializeParams, version: str) -> InitializeResult:
        await self._start()
        if self._hooks is not None and self._hooks.initialize is not None:
            await self._run(self._hooks.initialize, params.config)
        return InitializeResult(
            name=self._agent.name,
            capabilities=self._agent.capabilities,
            protocol_version=version,
        )

    async def _step(self, params: StepParams) -> Result:
        if self._hooks is None:
            await self._start()
        assert self._hooks is not None
        outcome = await self._run(self._hooks.step, params.input)
        try:
            result = as_result(outcome)
            json.dumps(write_step_result(result))
        except Exception as error:
            raise _failed(error) from error
        return result

    async def _reset(self) -> bool:
        await self._start()
        return True

    async def _start(self) -> None:
        if self._hooks is None or self._agent.isolated:
            try:
                self._hooks = self._agent.make_hooks()
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
            # The hook was not cancelled: a task that it awaited was.
            raise _failed(error) from error
        except Exception as error:
            raise _failed(error) from error


class _Queue:
    """A queue of work, run one by one in the order of `put`; tasks would start in any order."""

    def __init__(self) -> None:
        self._waiting: deque[anyio.Event] = deque()

    def put(self, work: Callable[[], Awaitable[_T]]) -> Coroutine[Any, Any, _T]:
        """Enqueue now; the returned coroutine waits for its turn and runs the work."""
        turn = anyio.Event()
        self._waiting.append(turn)
        self._start_next()
        return self._run_in_turn(turn, work)

    async def _run_in_turn(self, turn: anyio.Event, work: Callable[[], Awaitable[_T]]) -> _T:
        try:
            await turn.wait()
            return await work()
        finally:
            self._waiting.remove(turn)
            self._start_next()

    def _start_next(self) -> None:
        if self._waiting:
            self._waiting[0].set()


def _failed(error: BaseException) -> RPCError:
    """Log the agent's exception, and return the answer to its request."""
    _log.error("the agent failed", exc_info=error)
    text = f"{type(error).__name__}: {error}"
    return RPCError(AGENT_FAILED, text[:_LONGEST_REASON])

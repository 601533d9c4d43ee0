"""Graders: each looks at one step's result and says whether it is as wanted, and why.

All of a step's graders are asked, in their order. A grader that fails is a check that could not be
made; it never ends the run.
"""

from __future__ import annotations

import logging
import math
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Self

import trio

from eca_protocol.ecp import Result
from eca_server.ecp.graders.settings import GraderSettings, SettingsInvalid, settings_from
from eca_server.ecp.graders.text_match import match_text
from eca_server.ecp.graders.tool_usage import match_calls
from eca_server.ecp.manifest import Grader, Step
from eca_server.ecp.results import Check

if TYPE_CHECKING:
    from eca_server.ecp.graders.llm_judge import Judge

__all__ = ["GraderSettings", "Graders", "SettingsInvalid", "settings_from"]

_log = logging.getLogger("eca_server.ecp")


class Graders:
    """Makes checks; enter it around a run."""

    def __init__(self, settings: GraderSettings) -> None:
        self._settings = settings
        self._judge: Judge | None = None
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    async def grade(
        self, step: Step, result: Result, *, seconds: float = math.inf
    ) -> tuple[Check, ...]:
        """The verdicts of all graders of a step, in their order.

        Args:
            step: what was said, and what is to be checked.
            result: what the agent made of it.
            seconds: what is not checked by then counts as a check that could not be made.
        """
        checks: list[Check] = []
        with trio.move_on_after(seconds):
            for grader in step.graders:
                checks.append(await self._graded(grader, step, result))  # noqa: PERF401 - it may end early
        late = step.graders[len(checks) :]
        return (*checks, *(_not_made(grader, "the time was over") for grader in late))

    async def _graded(self, grader: Grader, step: Step, result: Result) -> Check:
        try:
            if grader.type == "text_match":
                return await match_text(grader, result, self._settings)
            if grader.type == "tool_usage":
                return match_calls(grader, result, self._settings)
            if grader.type == "llm_judge":
                return await (await self._the_judge()).judge(grader, step, result)
            from eca_server.ecp.graders.installed import ask_installed  # noqa: PLC0415 - rare

            return await ask_installed(grader, step, result)
        except Exception as fault:  # noqa: BLE001 - whatever a grader does, the run goes on
            _log.debug("the grader %s failed", grader.type, exc_info=True)
            return _not_made(grader, f"{type(fault).__name__}: {fault}")

    async def _the_judge(self) -> Judge:
        if self._judge is None:
            from eca_server.ecp.graders.llm_judge import Judge  # noqa: PLC0415 - an HTTP stack

            self._judge = await self._stack.enter_async_context(Judge(self._settings.judge))
        return self._judge


def _not_made(grader: Grader, why: str) -> Check:
    return Check(
        type=grader.type,
        field="tool_calls" if grader.type == "tool_usage" else grader.field,
        passed=False,
        score=0.0,
        reasoning=f"the check could not be made: {why}"[:8192],
        error=True,
    )

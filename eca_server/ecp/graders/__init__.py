"""Graders: each checks one step's result against an expectation, and gives a reason.

All graders of a step run, in their order. If a grader raises, its check could not be made; the run
continues.
"""

from __future__ import annotations

import logging
import math
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import trio

from eca_protocol.ecp import Result
from eca_server.ecp.graders.settings import GraderSettings, read_settings
from eca_server.ecp.graders.text_match import match_text
from eca_server.ecp.graders.tool_usage import match_calls
from eca_server.ecp.manifest.model import Grader, Step
from eca_server.ecp.reports.masking import mask_beginning
from eca_server.ecp.results import Check

if TYPE_CHECKING:
    from eca_server.ecp.graders.llm_judge import Judge

__all__ = ["GraderSettings", "Graders", "read_settings"]

_log = logging.getLogger("eca_server.ecp")


class Graders(AsyncExitStack):
    """The graders of a run; a context manager around it."""

    def __init__(self, settings: GraderSettings) -> None:
        super().__init__()
        self._settings = settings
        self._judge: Judge | None = None

    async def grade(
        self, step: Step, result: Result, *, seconds: float = math.inf
    ) -> tuple[Check, ...]:
        """Return the verdicts of a step's graders, in their order.

        `seconds`: the time limit; later checks count as checks that could not be made.
        """
        checks: list[Check] = []
        with trio.move_on_after(seconds):
            for grader in step.graders:
                checks.append(await self._grade_one(grader, step, result))  # noqa: PERF401 - the time limit may end it
        unfinished = step.graders[len(checks) :]
        return (
            *checks,
            *(_failed_check(grader, "the time limit was exceeded") for grader in unfinished),
        )

    async def _grade_one(self, grader: Grader, step: Step, result: Result) -> Check:
        try:
            if grader.type == "text_match":
                return await match_text(grader, result, self._settings)
            if grader.type == "tool_usage":
                return match_calls(grader, result, self._settings)
            if grader.type == "llm_judge":
                return await (await self._get_judge()).judge(grader, result)
            from eca_server.ecp.graders.installed import run_installed  # noqa: PLC0415 - rare

            return await run_installed(grader, step, result)
        except (Exception, SystemExit) as fault:  # noqa: BLE001 - a failed grader does not end the run
            _log.debug("the grader %s failed", grader.type, exc_info=True)
            return _failed_check(grader, f"{type(fault).__name__}: {fault}")

    async def _get_judge(self) -> Judge:
        if self._judge is None:
            from eca_protocol.http import HTTPClient  # noqa: PLC0415 - an HTTP stack
            from eca_server.ecp.graders.llm_judge import Judge  # noqa: PLC0415 - an HTTP stack

            http = await self.enter_async_context(HTTPClient())
            self._judge = Judge(self._settings.judge, http)
        return self._judge


def _failed_check(grader: Grader, why: str) -> Check:
    return Check(
        type=grader.type,
        field="tool_calls" if grader.type == "tool_usage" else grader.field,
        passed=False,
        reasoning=mask_beginning(f"the check could not be made: {why}", 8192)[:8192],
        error=True,
    )

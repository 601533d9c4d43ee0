"""One scenario: its steps, their checks, and what became of it.

A step without a result fails, with one check that says so; the steps behind it are skipped and
counted as failed. Nothing an agent does raises here; a fault of our own costs one scenario.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs
import trio

from eca_protocol.ecp import AgentError, InitializeResult, Result
from eca_protocol.ecp.messages import write_step_result, write_tool_call
from eca_server.ecp.batch import Batch, Planned
from eca_server.ecp.conversations import Conversation, Conversations, VersionUnsupported
from eca_server.ecp.graders import Graders
from eca_server.ecp.manifest import Scenario, Step
from eca_server.ecp.reports.masking import hiding
from eca_server.ecp.results import Check, ExitReason, ScenarioReport, StepReport

__all__ = ["needed_capabilities", "run_batch", "run_scenario", "skipped"]

_log = logging.getLogger("eca_server.ecp")

_KEPT_LOG: Final = 4096  # characters of an agent's log that a failed scenario shows


def needed_capabilities(scenarios: Iterable[Scenario]) -> frozenset[str]:
    """What an agent has to be able to tell for the checks to mean something."""
    needed = set()
    for grader in (g for s in scenarios for step in s.steps for g in step.graders):
        if grader.type == "tool_usage":
            needed.add("tool_calls")
        elif grader.field != "public_output":
            needed.add("evaluation_context")
    return frozenset(needed)


def skipped(planned: Planned, reason: ExitReason, why: str) -> ScenarioReport:
    """The report of a scenario that was not begun."""
    steps = tuple(_without_result(step, "skipped", why) for step in planned.scenario.steps)
    return ScenarioReport(
        name=planned.scenario.name,
        index=planned.index,
        repeat=planned.repeat,
        status="failed",
        exit_reason=reason,
        steps=steps,
    )


class _Budget:
    """What is left for a scenario, and which limit is the nearest."""

    def __init__(self, limits_scenario: float | None, run_ends: float) -> None:
        now = trio.current_time()
        own = math.inf if limits_scenario is None else now + limits_scenario
        self._ends = min(own, run_ends)
        self.reason: ExitReason = "max_duration_exceeded" if run_ends <= own else "timeout"

    def left(self) -> float:
        """Seconds until then, never below zero."""
        return max(0.0, self._ends - trio.current_time())


async def run_batch(batch: Batch, report: Any) -> None:
    """Run a batch; `report` is called with each `ScenarioReport` as it comes, and may say stop.

    Args:
        batch: what is run.
        report: called with each report; returns whether to go on.
    """
    run_ends = math.inf if batch.limits.run is None else trio.current_time() + batch.limits.run
    unsupported: str | None = None
    async with Graders(batch.graders) as graders, Conversations(batch) as conversations:
        for planned in batch.planned:
            if unsupported is not None:
                found = skipped(planned, "protocol_error", unsupported)
            elif trio.current_time() >= run_ends:
                found = skipped(planned, "max_duration_exceeded", "the run's time was over")
            else:
                try:
                    found = await run_scenario(batch, planned, conversations, graders, run_ends)
                except VersionUnsupported as fault:
                    unsupported = str(fault)
                    found = skipped(planned, "protocol_error", unsupported)
            if not report(found):
                return


async def run_scenario(
    batch: Batch,
    planned: Planned,
    conversations: Conversations,
    graders: Graders,
    run_ends: float = math.inf,
) -> ScenarioReport:
    """Run one scenario.

    Raises:
        VersionUnsupported: neither this nor another one can be run with this agent.
    """
    began = trio.current_time()
    budget = _Budget(batch.limits.scenario, run_ends)
    running = _Running(batch, planned, budget, graders)
    try:
        async with conversations.next(budget.left) as conversation:
            await running.talk(conversation)
    except VersionUnsupported:
        raise
    except AgentError as fault:
        running.fail(fault.kind, str(fault))
    except Exception as fault:  # noqa: BLE001 - the other scenarios are to run
        _log.debug("the scenario %s could not be run", planned.scenario.name, exc_info=True)
        running.fail("error", f"it could not be run: {type(fault).__name__}: {fault}"[:8192])
    if running.failed:
        await conversations.replace()
    return running.report(trio.current_time() - began)


@attrs.define
class _Running:
    """A scenario while it runs."""

    batch: Batch
    planned: Planned
    budget: _Budget
    graders: Graders
    steps: list[StepReport] = attrs.field(factory=list)
    failed: bool = False
    reason: ExitReason = "ok"
    why: str = ""
    agent: InitializeResult | None = None
    warnings: list[str] = attrs.field(factory=list)
    log: str = ""

    async def talk(self, conversation: Conversation) -> None:
        """Say what is to be said, until the end or the first step without a result."""
        self.agent = conversation.agent
        self.warnings = conversation.warnings
        missing = needed_capabilities([self.planned.scenario]) - {*conversation.agent.capabilities}
        if missing:
            lacks = f"the agent does not declare {', '.join(sorted(missing))}"
            if self.batch.require_capabilities:
                self.reason, self.why = "protocol_error", lacks
                return
            self.warnings.append(lacks)
        try:
            for step in self.planned.scenario.steps:
                if not await self._step(conversation, step):
                    break
        finally:
            self.log = conversation.connection.log()
            self.warnings += conversation.connection.warnings

    def fail(self, reason: ExitReason, why: str) -> None:
        """There is no result; a time-out is the fault of whichever limit was the nearest."""
        self.failed = True
        self.reason, self.why = reason, why
        if reason == "timeout" and not self.budget.left():
            self.reason = self.budget.reason

    async def _step(self, conversation: Conversation, step: Step) -> bool:
        """Say one thing and check the answer; whether to go on."""
        left = self.budget.left()
        if not left:
            self.reason, self.why = self.budget.reason, "its time was over"
            return False
        began = trio.current_time()
        deadline = min(self.batch.limits.rpc, left)
        try:
            result = await conversation.connection.step(step.input, deadline=deadline)
        except AgentError as fault:
            self.fail(fault.kind, str(fault))
            failed = _without_result(step, "failed", str(fault))
            took = 1000 * (trio.current_time() - began)
            self.steps.append(
                attrs.evolve(failed, exit_reason=self.reason, duration_ms=round(took, 3))
            )
            return False
        took = 1000 * (trio.current_time() - began)
        checks = await self.graders.grade(step, result, seconds=self.budget.left())
        self.steps.append(_with_result(step, result, checks, took))
        if not self.budget.left() and any(check.error for check in checks):
            self.reason, self.why = self.budget.reason, "its time was over"
        return self.reason == "ok"

    def report(self, seconds: float) -> ScenarioReport:
        """What became of it; steps that were not begun are skipped."""
        scenario = self.planned.scenario
        said = any(step.status == "failed" for step in self.steps)
        if self.failed and not said and len(self.steps) < len(scenario.steps):
            failed = _without_result(scenario.steps[len(self.steps)], "failed", self.why)
            self.steps.append(attrs.evolve(failed, exit_reason=self.reason))
        why = f"the scenario ended before: {self.why}"
        rest = [_without_result(step, "skipped", why) for step in scenario.steps[len(self.steps) :]]
        steps = (*self.steps, *rest)
        reason = self.reason
        judged = any(check.error for step in steps for check in step.checks)
        ran = reason == "ok"
        if ran and judged:
            reason = "judge_error"
        agent: Mapping[str, Any] | None = None
        if self.agent is not None:
            agent = attrs.asdict(self.agent, recurse=False) | {
                "capabilities": dict(self.agent.capabilities)
            }
        return ScenarioReport(
            name=scenario.name,
            index=self.planned.index,
            repeat=self.planned.repeat,
            status="ok" if ran else "failed",
            exit_reason=reason,
            steps=steps,
            duration_ms=round(1000 * seconds, 3),
            agent=agent,
            log=None if ran else _end_of(self.log) or None,
            warnings=tuple(self.warnings),
        )


def _end_of(log: str) -> str:
    """The end of a log; keys are masked before it is cut, for half a key looks like none."""
    return log if len(log) <= _KEPT_LOG else hiding(os.environ)(log)[-_KEPT_LOG:]


def _with_result(step: Step, result: Result, checks: tuple[Check, ...], took: float) -> StepReport:
    written = write_step_result(result)
    return StepReport(
        input=step.input,
        output=result.public_output,
        evaluation_context=result.evaluation_context,
        tool_calls=tuple(write_tool_call(call) for call in result.tool_calls or ()),
        logs=result.logs,
        checks=checks,
        exit_reason="judge_error" if any(check.error for check in checks) else "ok",
        duration_ms=round(took, 3),
        usage=written.get("usage"),
        agent_status=result.status,
        constraints=step.constraints,
    )


def _without_result(step: Step, status: Any, why: str) -> StepReport:
    check = Check(type="execution", field="agent", passed=False, score=0.0, reasoning=why)
    return StepReport(
        input=step.input,
        status=status,
        exit_reason="skipped" if status == "skipped" else "error",
        checks=(check,),
        error=why,
        constraints=step.constraints,
    )

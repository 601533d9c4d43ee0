"""The run of one scenario: its steps, their checks, and its report.

A step without a result fails with one check that says why; later steps are skipped and counted as
failed. An agent's failure raises nothing here, and a bug of ours fails only one scenario.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import attrs
import trio

from eca_protocol.ecp import AgentConnection, AgentError, InitializeResult, Result
from eca_protocol.ecp.messages import write_step_result, write_tool_call
from eca_server.ecp.agent_pool import AgentPool, AgentSession, VersionUnsupported
from eca_server.ecp.batch import Batch, PlannedScenario
from eca_server.ecp.graders import Graders
from eca_server.ecp.manifest.model import Scenario, Step
from eca_server.ecp.reports.masking import make_masker, mask_beginning
from eca_server.ecp.results import Check, ExitReason, ScenarioReport, StepReport

_log = logging.getLogger("eca_server.ecp")

_LOG_EXCERPT: Final = 4096  # characters of the agent's log in the report of a failed scenario


def needed_capabilities(scenarios: Iterable[Scenario]) -> frozenset[str]:
    """Return the capabilities that an agent needs for the checks of these scenarios."""
    needed = set()
    for grader in (g for s in scenarios for step in s.steps for g in step.graders):
        if grader.type == "tool_usage":
            needed.add("tool_calls")
        elif grader.field != "public_output":
            needed.add("evaluation_context")
    return frozenset(needed)


def make_skipped_report(planned: PlannedScenario, reason: ExitReason, why: str) -> ScenarioReport:
    """Make the report of a scenario that was not started."""
    steps = tuple(_without_result(step, "skipped", why) for step in planned.scenario.steps)
    return ScenarioReport(
        name=planned.scenario.name,
        index=planned.index,
        repeat=planned.repeat,
        status="failed",
        exit_reason=reason,
        steps=steps,
    )


async def run_batch(batch: Batch, on_report: Callable[[ScenarioReport], bool]) -> None:
    """Run the scenarios of a batch one by one, until `on_report` returns False."""
    deadline = math.inf if batch.limits.run is None else trio.current_time() + batch.limits.run
    unsupported: str | None = None
    async with Graders(batch.graders) as graders, AgentPool(batch) as pool:
        for planned in batch.planned:
            if unsupported is not None:
                report = make_skipped_report(planned, "protocol_error", unsupported)
            elif trio.current_time() >= deadline:
                why = "the run's time limit was exceeded"
                report = make_skipped_report(planned, "max_duration_exceeded", why)
            else:
                try:
                    report = await run_scenario(batch, planned, pool, graders, deadline)
                except VersionUnsupported as fault:
                    unsupported = str(fault)
                    report = make_skipped_report(planned, "protocol_error", unsupported)
            if not on_report(report):
                return


async def run_scenario(
    batch: Batch,
    planned: PlannedScenario,
    pool: AgentPool,
    graders: Graders,
    run_deadline: float = math.inf,
) -> ScenarioReport:
    """Run one scenario.

    Raises:
        VersionUnsupported: no scenario can run with this agent.
    """
    started = trio.current_time()
    limit = batch.limits.scenario
    run = _ScenarioRun(batch, planned, graders, math.inf if limit is None else started + limit)
    if run_deadline <= run.deadline:
        run.deadline, run.late_reason = run_deadline, "max_duration_exceeded"
    try:
        async with pool.acquire(run.seconds_left) as session:
            await run.execute(session)
    except VersionUnsupported:
        raise
    except AgentError as fault:
        run.fail(fault.kind, str(fault))
    except Exception as fault:  # noqa: BLE001 - the other scenarios are to run
        _log.debug("the scenario %s could not be run", planned.scenario.name, exc_info=True)
        text = f"the scenario could not be run: {type(fault).__name__}: {fault}"
        run.fail("error", mask_beginning(text, 8192)[:8192])
    if run.failed:
        await pool.discard()
        run.read_log()
    return run.report(trio.current_time() - started)


@attrs.define
class _ScenarioRun:
    batch: Batch
    planned: PlannedScenario
    graders: Graders
    deadline: float
    late_reason: ExitReason = "timeout"
    steps: list[StepReport] = attrs.field(factory=list)
    failed: bool = False
    reason: ExitReason = "ok"
    why: str = ""
    agent: InitializeResult | None = None
    warnings: list[str] = attrs.field(factory=list)
    log: str = ""
    connection: AgentConnection | None = None

    def seconds_left(self) -> float:
        """Return the seconds until the nearest limit, never below zero."""
        return max(0.0, self.deadline - trio.current_time())

    async def execute(self, session: AgentSession) -> None:
        """Run the steps, until the end or the first step without a result."""
        self.agent = session.agent
        self.warnings = session.warnings
        missing = needed_capabilities([self.planned.scenario]) - {*session.agent.capabilities}
        if missing:
            text = f"the agent does not declare {', '.join(sorted(missing))}"
            if self.batch.require_capabilities:
                self.reason, self.why = "protocol_error", text
                return
            self.warnings.append(text)
        try:
            for step in self.planned.scenario.steps:
                if not await self._step(session, step):
                    break
        finally:
            self.connection = session.connection
            self.read_log()
            self.warnings += session.connection.warnings

    def read_log(self) -> None:
        """Read the agent's log; it is complete after the agent has ended."""
        if self.connection is not None:
            self.log = self.connection.log()

    def fail(self, reason: ExitReason, why: str) -> None:
        """Note a failure; a time-out gets the exit reason of the nearest limit."""
        self.failed = True
        self.reason, self.why = reason, why
        if reason == "timeout" and not self.seconds_left():
            self.reason = self.late_reason

    async def _step(self, session: AgentSession, step: Step) -> bool:
        """Send one input and check the result; return False to stop."""
        seconds_left = self.seconds_left()
        if not seconds_left:
            self.reason, self.why = self.late_reason, "its time limit was exceeded"
            return False
        started = trio.current_time()
        deadline = min(self.batch.limits.rpc, seconds_left)
        try:
            result = await session.connection.step(step.input, deadline=deadline)
        except AgentError as fault:
            self.fail(fault.kind, str(fault))
            failed = _without_result(step, "failed", str(fault))
            milliseconds = 1000 * (trio.current_time() - started)
            self.steps.append(
                attrs.evolve(failed, exit_reason=self.reason, duration_ms=round(milliseconds, 3))
            )
            return False
        milliseconds = 1000 * (trio.current_time() - started)
        checks = await self.graders.grade(step, result, seconds=self.seconds_left())
        self.steps.append(_with_result(step, result, checks, milliseconds))
        if not self.seconds_left() and any(check.error for check in checks):
            self.reason, self.why = self.late_reason, "its time limit was exceeded"
        return self.reason == "ok"

    def report(self, seconds: float) -> ScenarioReport:
        """Make the report; steps that were not started are skipped."""
        scenario = self.planned.scenario
        has_failed_step = any(step.status == "failed" for step in self.steps)
        if self.failed and not has_failed_step and len(self.steps) < len(scenario.steps):
            failed = _without_result(scenario.steps[len(self.steps)], "failed", self.why)
            self.steps.append(attrs.evolve(failed, exit_reason=self.reason))
        why = f"the scenario ended before this step: {self.why}"
        rest = [_without_result(step, "skipped", why) for step in scenario.steps[len(self.steps) :]]
        steps = (*self.steps, *rest)
        reason = self.reason
        has_check_error = any(check.error for step in steps for check in step.checks)
        is_complete = reason == "ok"
        if is_complete and has_check_error:
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
            status="ok" if is_complete else "failed",
            exit_reason=reason,
            steps=steps,
            duration_ms=round(1000 * seconds, 3),
            agent=agent,
            log=None if is_complete else _log_excerpt(self.log) or None,
            warnings=tuple(self.warnings),
        )


def _log_excerpt(log: str) -> str:
    """Return the end of a log; keys are masked before the cut, since half a key is not found."""
    return log if len(log) <= _LOG_EXCERPT else make_masker(os.environ)(log)[-_LOG_EXCERPT:]


def _with_result(
    step: Step, result: Result, checks: tuple[Check, ...], milliseconds: float
) -> StepReport:
    written = write_step_result(result)
    return StepReport(
        input=step.input,
        output=result.public_output,
        evaluation_context=result.evaluation_context,
        tool_calls=tuple(write_tool_call(call) for call in result.tool_calls or ()),
        logs=result.logs,
        checks=checks,
        exit_reason="judge_error" if any(check.error for check in checks) else "ok",
        duration_ms=round(milliseconds, 3),
        usage=written.get("usage"),
        agent_status=result.status,
        constraints=step.constraints,
    )


def _without_result(step: Step, status: Any, why: str) -> StepReport:
    check = Check(type="execution", field="agent", passed=False, reasoning=why)
    return StepReport(
        input=step.input,
        status=status,
        exit_reason="skipped" if status == "skipped" else "error",
        checks=(check,),
        error=why,
        constraints=step.constraints,
    )

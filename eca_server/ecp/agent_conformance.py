"""`ecp conformance`: checks of an agent's protocol conformance.

Each check has a new connection to the agent. The checks go beyond the needs of a run: any evaluator
can work with an agent that passes.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import sys
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

import attrs

from eca_protocol.ecp import AgentConnection, AgentError, AgentLimits, connect_agent
from eca_server.ecp.leftovers import MARK_VARIABLE, kill_leftovers
from eca_server.ecp.manifest.model import Unusable
from eca_server.ecp.reports.masking import make_masker
from eca_server.ecp.target import Target, resolve_target
from eca_server.printable import printable_json, printable_line
from eca_server.system.command_line import fail, write_to_user
from eca_server.system.signals import run_until_a_signal
from eca_server.workbench.report_files import OutputsInvalid, check_file, write_file

_Case: TypeAlias = tuple[str, str, Callable[[AgentConnection, float], Awaitable[str]]]
"""A name, a method, and a function that raises if the agent breaches the protocol."""

_NOT_REQUIRED: Final = frozenset({"step without input", "another major version"})


@attrs.frozen(kw_only=True)
class ConformanceCheck:
    """One check with its result. A warning does not count as failed."""

    name: str
    method: str
    passed: bool
    message: str
    warning: bool = False

    def __str__(self) -> str:
        mark = "passed" if self.passed else "warning" if self.warning else "FAILED"
        lines = [printable_line(line) for line in self.message[:500].splitlines()]
        return f"{mark} {self.name}: " + "\n    ".join(lines)


@attrs.frozen(kw_only=True)
class ConformanceReport:
    """All checks of one agent."""

    target: str
    checks: tuple[ConformanceCheck, ...]

    @property
    def conformant(self) -> bool:
        """True if no required check failed."""
        return all(check.passed or check.warning for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return the report in the upstream runtime's format, with our warnings."""
        passed = sum(check.passed for check in self.checks)
        return {
            "target": self.target,
            "conformant": self.conformant,
            "passed": passed,
            "failed": len(self.checks) - passed,
            "total": len(self.checks),
            "checks": [attrs.asdict(check) for check in self.checks],
        }


def run_conformance(options: argparse.Namespace) -> int:
    """Check an agent by the options of `ecp conformance`, and return the exit code.

    Raises:
        OSError: the findings cannot be written.
    """
    file: Path | None = options.json_out
    try:
        if file is not None:
            check_file(file)
        agent = resolve_target(
            options.target, environment=os.environ, cwd=Path.cwd(), shell=options.shell
        )
    except (Unusable, OutputsInvalid) as fault:
        return fail("ecp conformance", fault)
    text, deadline = options.input, options.timeout
    report, signalled = run_until_a_signal(
        partial(check_agent, agent, environment=os.environ, text=text, deadline=deadline),
    )
    if report is None:
        return 128 + (signalled or 0)
    output = f"{json.dumps(report.to_json(), indent=2, ensure_ascii=False)}\n"
    if file is not None:
        write_file(file, output)
    if options.json:
        sys.stdout.write(printable_json(output))
    else:
        sys.stdout.write("".join(f"{check}\n" for check in report.checks))
    return 0 if report.conformant else 1


async def check_agent(
    target: Target, *, environment: Mapping[str, str], text: str, deadline: float
) -> ConformanceReport:
    """Check an agent, and kill the processes that it leaves behind.

    Keys in the environment are masked in the report. Each step has the same input, `text`.
    """
    mark = secrets.token_hex(8)
    try:
        return await _check_agent(target, {**environment, MARK_VARIABLE: mark}, text, deadline)
    finally:
        kill_leftovers(mark)


async def _check_agent(
    target: Target, environment: Mapping[str, str], text: str, deadline: float
) -> ConformanceReport:
    mask = make_masker(environment)
    checks: list[ConformanceCheck] = []
    is_live = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    for name, method, run in _cases(text):
        if is_live:
            write_to_user(f"\r\x1b[K{len(checks)} checks done, next: {name}", sys.stderr)
        try:
            async with connect_agent(
                target.url or target.command,
                cwd=target.cwd,
                env=environment,
                limits=AgentLimits(start=deadline),
            ) as connection:
                outcome = await run(connection, deadline)
                warnings = "; ".join(connection.warnings)
                passed, message = True, f"{outcome}; {warnings}" if warnings else outcome
        except (AgentError, _Breach) as fault:
            passed, message = False, str(fault)
        checks.append(
            ConformanceCheck(
                name=name,
                method=method,
                passed=passed,
                message=mask(message),
                warning=not passed and name in _NOT_REQUIRED,
            )
        )
    if is_live:
        write_to_user("\r\x1b[K", sys.stderr)
    return ConformanceReport(target=mask(target.text), checks=tuple(checks))


class _Breach(Exception):
    """A breach of the protocol."""


def _cases(text: str) -> tuple[_Case, ...]:
    async def initialize(agent: AgentConnection, deadline: float) -> str:
        result = await agent.initialize(deadline=deadline)
        return f"{result.name}, protocol version {result.protocol_version or 'not named'}"

    async def step(agent: AgentConnection, deadline: float) -> str:
        await agent.initialize(deadline=deadline)
        result = await agent.step(text, deadline=deadline)
        return f"status {result.status}"

    async def steps(agent: AgentConnection, deadline: float) -> str:
        await agent.initialize(deadline=deadline)
        for _ in range(3):
            await agent.step(text, deadline=deadline)
        return "three steps, three results"

    async def reset(agent: AgentConnection, deadline: float) -> str:
        await agent.initialize(deadline=deadline)
        await agent.reset(deadline=deadline)
        await agent.step(text, deadline=deadline)
        return "true, and then a step's result"

    async def again(agent: AgentConnection, deadline: float) -> str:
        first = await agent.initialize(deadline=deadline)
        second = await agent.initialize(deadline=deadline)
        if first.name != second.name:
            raise _Breach(f"expected the name {first.name!r} again, got {second.name!r}")
        return "the same name both times"

    async def odd_text(agent: AgentConnection, deadline: float) -> str:
        await agent.initialize(deadline=deadline)
        for odd in ("", "\u2028 \U0001f600 é", "x" * 100_000):
            await agent.step(odd, deadline=deadline)
        return "answers to an empty input, one beyond ASCII, and one of 100,000 characters"

    version = _expects_error("agent/initialize", {"protocol_version": "99.0"}, -32001)
    return (
        ("initialize", "agent/initialize", initialize),
        ("step", "agent/step", step),
        ("reset", "agent/reset", reset),
        ("several steps", "agent/step", steps),
        ("initialize again", "agent/initialize", again),
        ("odd texts", "agent/step", odd_text),
        ("unknown method", "agent/unknown", _expects_error("agent/unknown", {}, -32601)),
        ("step without input", "agent/step", _expects_error("agent/step", {}, -32602)),
        ("another major version", "agent/initialize", version),
    )


def _expects_error(method: str, params: Any, code: int) -> Any:
    async def run(agent: AgentConnection, deadline: float) -> str:
        await agent.initialize(deadline=deadline)
        try:
            await agent.request_raw(method, params, deadline=deadline)
        except AgentError as fault:
            if fault.kind != "agent_error":
                raise
            if fault.code != code:
                raise _Breach(f"expected the error {code}, got {fault.code}") from fault
            return f"the error {fault.code}"
        raise _Breach("expected an error, got a result")

    return run

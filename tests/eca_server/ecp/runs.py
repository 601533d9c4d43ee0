"""Runs without a command line: batches of scenarios, and an agent that obeys its inputs."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import attrs
import trio

from eca_server.ecp.batch import Batch, PlannedScenario, RunLimits
from eca_server.ecp.manifest.model import Grader, Manifest, Scenario, Step
from eca_server.ecp.results import ScenarioReport
from eca_server.ecp.scheduler import Collector, run_all
from eca_server.ecp.target import Target
from tests.eca_protocol.ecp.agents import script
from tests.eca_server.processes import processes_in

OBEDIENT = """
count = 0
identity = {"name": "obedient", "capabilities": {"tool_calls": {}}, "protocol_version": "1.0"}
def fail(request, code, message):
    line({"jsonrpc": "2.0", "id": request["id"], "error": {"code": code, "message": message}})
def forget(request):
    answer(request, True)
def hang():
    while True:
        read()
%s
while True:
    r = read()
    if r["method"] == "agent/initialize":
        answer(r, identity)
        continue
    if r["method"] == "agent/reset":
        count = 0
        forget(r)
        continue
    count += 1
    text = r["params"]["input"]
    if text == "count":
        done(r, str(count))
    elif text == "pid":
        done(r, str(os.getpid()))
    elif text == "fail":
        fail(r, 7, "no such book")
    elif text == "hang":
        hang()
    elif text == "exit":
        sys.exit("out of books")
    else:
        done(r, text)
"""


KILLS_ITS_WORKER = """
def done(r, text, answered=done):
    if text.startswith("kill after "):
        while not os.path.exists(text[11:]):
            time.sleep(0.01)
        os.kill(os.getppid(), 9)
        sys.exit(0)
    if text == "kill":
        os.kill(os.getppid(), 9)
        sys.exit(0)
    if text.startswith("kill once ") and not os.path.exists(text[10:]):
        open(text[10:], "w").close()
        os.kill(os.getppid(), 9)
        sys.exit(0)
    answered(r, text)
"""
"""A change for `obedient`: the agent kills its worker before an answer."""


def obedient(change: str = "") -> Sequence[str]:
    """Return the command of an agent that obeys its inputs; `change` runs first."""
    return script(OBEDIENT % change)


def contains(text: str) -> Grader:
    """Make a check of the public output."""
    return Grader(type="text_match", condition="contains", value=text)


def equals(text: str) -> Grader:
    """Make a check of the whole public output."""
    return Grader(type="text_match", condition="equals", value=text)


def step(text: str, *graders: Grader) -> Step:
    """Make a step."""
    return Step(input=text, graders=graders)


def scenario(name: str, *steps: Step | str) -> Scenario:
    """Make a scenario of steps, or of inputs with any non-empty answer."""
    made = [step(each, contains("")) if isinstance(each, str) else each for each in steps]
    return Scenario(name=name, steps=tuple(made))


def manifest(*scenarios: Scenario, path: Path = Path("m.yaml")) -> Manifest:
    """Make a manifest of scenarios."""
    return Manifest(path=path, digest="0" * 64, name="n", target="t", scenarios=scenarios)


def batch(
    agent: Sequence[str] | str,
    *scenarios: Scenario,
    cwd: Path | str | None = None,
    rpc: float = 20.0,
    start: float = 20.0,
    limit: float | None = None,
    run: float | None = None,
    **more: Any,
) -> Batch:
    """Make a batch; its limits are generous by default."""
    target = Target(url=agent) if isinstance(agent, str) else Target(command=tuple(agent))
    if cwd is not None:
        target = attrs.evolve(target, cwd=str(cwd))
    planned = tuple(PlannedScenario(scenario=each, index=i) for i, each in enumerate(scenarios))
    limits = RunLimits(rpc=rpc, start=start, scenario=limit, run=run, max_message=1_000_000)
    return Batch(target=target, planned=planned, limits=limits, **more)


async def reports_of(whole: Batch) -> tuple[ScenarioReport, ...]:
    """Run a batch in this process, and return its reports."""
    return (await collected(whole)).reports


async def collected(whole: Batch, *, fail_fast: bool = False, **options: Any) -> Collector:
    """Run a batch, and return its reports and how it ended."""
    collector = Collector(whole.planned, fail_fast=fail_fast)
    await run_all(whole, collector, **options)
    return collector


def outputs(report: ScenarioReport) -> list[str | None]:
    """Return the agent's outputs, step by step."""
    return [each.output for each in report.steps]


def outcome(report: ScenarioReport) -> tuple[str, str, list[str]]:
    """Return the status, the exit reason, and the exit reason of each step."""
    return report.status, report.exit_reason, [each.exit_reason for each in report.steps]


async def nothing_is_left_in(folder: Path) -> None:
    """Wait until no process runs in `folder`: a killed one may take a moment to disappear."""
    with trio.fail_after(5):
        while processes_in(folder):
            await trio.sleep(0.02)

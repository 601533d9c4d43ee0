"""Scenarios: their checks, their limits, and reused or new agents."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from eca_protocol import http_server, json
from eca_protocol.ecp.stdio_agent import StdioAgent
from eca_protocol.http_server import HTTPRequest, Responder
from eca_server.ecp.manifest.model import Grader, Scenario
from eca_server.ecp.results import ScenarioReport
from tests.eca_server.ecp.runs import (
    batch,
    collected,
    contains,
    equals,
    obedient,
    outcome,
    outputs,
    reports_of,
    scenario,
    step,
)


async def test_a_step_without_a_result_ends_its_scenario_and_no_other():
    reports = await reports_of(
        batch(
            obedient("sys.stderr.write('reading\\n'); sys.stderr.flush()"),
            scenario("good", step("a", contains("a"), contains("b")), "count"),
            scenario("error", "a", "fail", "b"),
            scenario("crash", "exit", "b"),
            scenario("again", "count"),
        )
    )
    good, error, crash, again = reports
    assert outcome(good) == ("ok", "ok", ["ok", "ok"])
    assert ([check.passed for check in good.checks], good.passed) == ([True, False, True], False)
    assert good.steps[0].duration_ms > 0
    assert outcome(error) == ("failed", "agent_error", ["ok", "agent_error", "skipped"])
    assert error.steps[1].error == "agent/step: no such book (7)"
    assert [check.type for check in error.checks] == ["text_match", "execution", "execution"]
    assert [each.status for each in error.steps] == ["ok", "failed", "skipped"]
    assert error.checks[2].reasoning == (
        "the scenario ended before this step: agent/step: no such book (7)"
    )
    assert outcome(crash) == ("failed", "transport_error", ["transport_error", "skipped"])
    assert crash.log == "reading\nout of books\n"
    assert "exit code 1; the end of its error output:\nreading\nout of books" in str(
        crash.steps[0].error
    )
    assert (outputs(again), again.passed, again.log) == (["1"], True, None)
    assert (again.agent["name"], again.agent["protocol_version"]) == ("obedient", "1.0")


async def test_every_field_of_a_result_is_reported_and_the_agent_sees_no_hidden_variable(
    monkeypatch,
):
    monkeypatch.setenv("THE_JUDGES_KEY", "k")
    monkeypatch.setenv("THE_AGENTS_KEY", "l")
    more = {
        "tool_calls": [{"name": "find", "arguments": {"q": 1}, "id": "c1"}],
        "logs": "looked",
        "usage": {"input_tokens": 3, "cost": 0.5},
        "private_thought": "why",
        "status": "paused",
    }
    change = f"done = lambda r, text: answer(r, {{'public_output': os.getenv(text), **{more!r}}})"
    names = scenario("s", "THE_JUDGES_KEY", "THE_AGENTS_KEY")
    whole = batch(obedient(change), names, hidden_variables=frozenset({"THE_JUDGES_KEY"}))
    (report,) = await reports_of(whole)
    assert outputs(report) == [None, "l"]
    for each in report.steps:
        assert (each.evaluation_context, each.logs, each.agent_status) == (
            "why",
            "looked",
            "paused",
        )
        assert each.tool_calls == ({"name": "find", "arguments": {"q": 1}, "id": "c1"},)
        assert each.usage == {"input_tokens": 3, "cost": 0.5}
    assert ScenarioReport.from_json(report.to_json()) == report


async def test_a_bug_of_ours_fails_only_one_scenario(monkeypatch):
    original_step = StdioAgent.step

    async def broken(self: StdioAgent, text: str, *, deadline: float) -> Any:
        if text == "break":
            raise ValueError("a mistake")
        return await original_step(self, text, deadline=deadline)

    monkeypatch.setattr(StdioAgent, "step", broken)
    scenarios = [scenario("s", "a", "break", "b"), scenario("t", "break"), scenario("u", "count")]
    for reuse in (False, True):
        reports = await reports_of(batch(obedient(), *scenarios, reuse_agent=reuse))
        assert [outcome(each) for each in reports] == [
            ("failed", "error", ["ok", "error", "skipped"]),
            ("failed", "error", ["error"]),
            ("ok", "ok", ["ok"]),
        ]
        assert reports[0].steps[1].error == "the scenario could not be run: ValueError: a mistake"


async def test_every_part_of_a_scenario_is_within_its_limits(monkeypatch):
    """A hang ends at the nearest limit, whose exit reason it has.

    A limit that ends before the agent has started, on a busy machine, is followed by a longer one.
    """

    async def never(*_: Any) -> None:
        await trio.sleep_forever()

    monkeypatch.setattr("eca_server.ecp.graders.installed.run_installed", never)
    agent, silent = obedient(), obedient("hang()")
    mute = obedient("identity = None; answer = lambda r, v: hang()")
    hang, hangs, starts = scenario("s", "hang"), scenario("s", "hang", "b"), scenario("s", "a")
    checks = scenario("s", step("a", Grader(type="slow"), contains("a")))
    late, over = "timeout", "max_duration_exceeded"
    rows: list[tuple[Sequence[str], str, Scenario, bool, str, list[str]]] = [
        (agent, "rpc", hangs, True, late, [late, "skipped"]),
        (agent, "limit", hangs, True, late, [late, "skipped"]),
        (agent, "run", hang, True, over, [over]),
        (silent, "start", starts, False, late, [late]),
        (mute, "limit", starts, False, late, [late]),
        (mute, "run", starts, False, over, [over]),
        (agent, "run", checks, True, over, ["judge_error"]),
    ]

    async def run(
        command: Sequence[str], limit: str, one: Scenario, starts: bool, *reasons: str | list[str]
    ) -> None:
        expected = starts, "failed", *reasons
        for seconds in (0.5, 4.0, 20.0):
            (report,) = await reports_of(batch(command, one, **{limit: seconds}))
            got = report.agent is not None, *outcome(report)
            if got == expected:
                break
        assert got == expected, limit

    async def run_out() -> None:
        scenarios = [hang, scenario("t", "a"), scenario("u", "a")]
        for seconds in (0.5, 4.0, 20.0):
            done = await collected(batch(agent, *scenarios, run=seconds))
            if done.reports[0].steps[0].status != "skipped":  # the agent has started in time
                break
        assert [each.exit_reason for each in done.reports] == [over] * 3
        assert [each.steps[0].status for each in done.reports] == ["failed", "skipped", "skipped"]
        assert done.reports[2].checks[0].reasoning == "the run's time limit was exceeded"
        assert done.exit_reason == over

    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(run_out)
            for row in rows:
                nursery.start_soon(run, *row)


CONTEXT = Grader(type="text_match", field="private_thought", condition="equals", value="w")


async def test_a_missing_capability_that_the_checks_need_is_named():
    scenarios = (
        scenario("calls", step("a", Grader(type="tool_usage", max_calls=0, min_calls=0))),
        scenario("context", step("a", CONTEXT), "b"),
    )
    calls, context = await reports_of(batch(obedient(), *scenarios))
    assert (calls.warnings, outcome(calls)[0]) == ((), "ok")
    assert context.warnings == ("the agent does not declare evaluation_context",)
    assert outcome(context)[0] == "ok"
    whole = batch(obedient(), *scenarios, require_capabilities=True)
    calls, context = await reports_of(whole)
    assert outcome(calls)[0] == "ok"
    assert outcome(context) == ("failed", "protocol_error", ["skipped", "skipped"])
    assert "does not declare evaluation_context" in context.checks[0].reasoning


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ("identity['protocol_version'] = '2.0'", "the agent speaks protocol version 2.0"),
        ("answer = lambda r, v: fail(r, -32001, 'only 2.0')", "only 2.0 (-32001)"),
    ],
)
async def test_another_major_version_ends_the_run(change, why):
    one, two = scenario("s", "a", "b"), scenario("t", "a")
    reports = await reports_of(batch(obedient(change), one, two))
    assert [outcome(each) for each in reports] == [
        ("failed", "protocol_error", ["skipped", "skipped"]),
        ("failed", "protocol_error", ["skipped"]),
    ]
    assert all(why in each.checks[0].reasoning for each in reports)


async def test_unusual_but_allowed_behaviour_is_a_warning():
    change = """
identity = {"name": "old", "capabilities": {"reset": True}}
def done(request, text):
    result = {"status": "done", "public_output": text}
    for _ in range(2 if text == "a" else 1):
        answer(request, result)
"""
    first, second = await reports_of(batch(obedient(change), *[scenario("s", "a", "b")] * 2))
    assert first.passed
    assert second.passed
    assert first.warnings[:2] == (
        "the agent names no protocol version: 0.1 is assumed",
        "capabilities that are not objects: reset",
    )
    assert "a second answer to request 2 was ignored" in first.warnings
    same = batch(obedient(change), scenario("s", "a", "b"), scenario("t", "b"), reuse_agent=True)
    _, second = await reports_of(same)
    assert second.warnings == (), "the warnings of the scenario before are repeated"
    newer = "identity['protocol_version'] = '1.9'; identity['name'] = f'agent {os.getpid()}'"
    first, second = await reports_of(batch(obedient(newer), *[scenario("s", "a")] * 2))
    assert (first.warnings, first.passed) == ((), True)
    changed = "the agent's name, version or capabilities changed since the last scenario"
    assert second.warnings == (changed,)


RESETS = {
    "fails": ("forget = lambda r: fail(r, 5, 'not now')", "not now (5)"),
    "is unknown": ("forget = lambda r: fail(r, -32601, 'unknown')", "unknown (-32601)"),
    "is not done": ("forget = lambda r: answer(r, False)", "result: expected true, got false"),
    "hangs": ("forget = lambda r: hang()", "agent/reset: no answer in 0.5 s"),
    "crashes": ("forget = lambda r: sys.exit(4)", "the agent ended with exit code 4"),
}


async def test_an_agent_that_cannot_be_reset_is_restarted():
    async def run(name: str) -> None:
        change, why = RESETS[name]
        scenarios = [scenario(each, "pid", "count") for each in "st"]
        rpc = 0.5 if name == "hangs" else 20.0
        whole = batch(obedient(change), *scenarios, reuse_agent=True, rpc=rpc)
        one, two = await reports_of(whole)
        assert (one.passed, two.passed) == (True, True), name
        assert outputs(one)[0] != outputs(two)[0], name
        assert outputs(two)[1] == "2", name
        assert one.warnings == ()
        assert two.warnings[-1].startswith("the agent was restarted, since a reset failed: "), name
        assert why in two.warnings[-1]

    async def run_on() -> None:
        scenarios = [scenario("s", "count", "exit"), scenario("t", "count"), scenario("u", "hang")]
        whole = batch(obedient(), *scenarios, scenario("v", "count"), reuse_agent=True, rpc=0.7)
        reports = await reports_of(whole)
        assert [each.exit_reason for each in reports] == ["transport_error", "ok", "timeout", "ok"]
        assert outputs(reports[1]) == outputs(reports[3]) == ["1"]
        assert reports[1].warnings == reports[3].warnings == ()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_on)
        for name in RESETS:
            nursery.start_soon(run, name)


@asynccontextmanager
async def shared_server(*, clears_at: str, reset_error: int | None = None) -> AsyncIterator[str]:
    """Run a server with one conversation for all callers, cleared by one method only."""
    count = 40

    async def handle(request: HTTPRequest, responder: Responder) -> None:
        nonlocal count
        message = json.loads(request.body)
        outcome: dict[str, Any] = {"result": True}
        if message["method"] == clears_at:
            count = 0
        if message["method"] == "agent/initialize":
            identity = {"name": "one", "capabilities": {}, "protocol_version": "1.0"}
            outcome = {"result": identity}
        elif message["method"] == "agent/step":
            count += 1
            outcome = {"result": {"status": "done", "public_output": str(count)}}
        elif reset_error is not None:
            outcome = {"error": {"code": reset_error, "message": "not here"}}
        answer = {"jsonrpc": "2.0", "id": message["id"], **outcome}
        await responder.respond(200, json.dumps(answer), {"content-type": "application/json"})

    async with http_server.serve(handle) as server:
        yield server.url


async def test_scenarios_behind_a_url_share_no_state_with_each_other_or_earlier_callers():
    scenarios = [scenario(name, step("a", equals("1")), step("b", equals("2"))) for name in "st"]
    warning = ("the agent has no agent/reset: it was only initialized",)
    kinds: list[tuple[str, int | None, tuple[str, ...]]] = [
        ("agent/reset", None, ()),
        ("agent/initialize", -32601, warning),
    ]
    for clears_at, error, warned in kinds:
        async with shared_server(clears_at=clears_at, reset_error=error) as url:
            reports = await reports_of(batch(url, *scenarios))
        assert [each.passed for each in reports] == [True, True], reports
        assert [each.warnings for each in reports] == [warned, warned]
    async with shared_server(clears_at="agent/initialize", reset_error=-32000) as url:
        reports = await reports_of(batch(url, *scenarios))
    assert [outcome(each)[1] for each in reports] == ["agent_error", "agent_error"]
    gone = await reports_of(batch(url, *scenarios))
    assert [outcome(each)[1] for each in gone] == ["transport_error", "transport_error"]


async def test_processes_that_exclude_each_other_start_one_after_the_other(tmp_path) -> None:
    lock = tmp_path / "lock"
    change = f"""
import fcntl
lock = open({str(lock)!r}, "w")
try:
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    sys.exit("a different agent runs")
def done(r, text, answered=done):
    time.sleep(0.2)  # a process that starts now finds the lock
    answered(r, str(os.getpid()))
"""
    reports = await reports_of(batch(obedient(change), *(scenario(n, n) for n in "stu")))
    pids = [output for report in reports for output in outputs(report)]
    assert len({*pids} - {None}) == 3, [outcome(each) for each in reports]


async def test_the_next_process_starts_ahead_and_serves_one_scenario(tmp_path) -> None:
    started = tmp_path / "started"
    change = f"""
open({str(started)!r}, "a").write(f"{{os.getpid()}}\\n")
def done(r, text, answered=done):
    while text.isdigit() and len(open({str(started)!r}).readlines()) < int(text):
        time.sleep(0.01)
    answered(r, str(os.getpid()))
"""
    one, two = await reports_of(
        batch(obedient(), scenario("s", "pid"), scenario("t", "pid"), reuse_agent=True)
    )
    assert outputs(one) == outputs(two)
    steps = ["2", "3", "3"]  # the processes that run, or have run, before the answer
    reports = await reports_of(batch(obedient(change), *(scenario(f"{n}", n) for n in steps)))
    pids = [output for report in reports for output in outputs(report)]
    assert sorted(pids) == sorted(started.read_text().split())
    assert len({*pids}) == len(steps)

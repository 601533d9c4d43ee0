"""Scheduling: planning, spreading over workers, and equal reports in either case."""

import os
import pickle
import signal
from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures import ProcessPoolExecutor as Processes
from multiprocessing import forkserver
from typing import Any

import attrs
import pytest
import trio

from eca_server.ecp import scheduler
from eca_server.ecp.batch import Batch
from eca_server.ecp.manifest.model import Scenario
from eca_server.ecp.results import ScenarioReport
from eca_server.ecp.scheduler import Collector, plan, run_all, run_in_worker
from tests.eca_server.ecp.runs import (
    KILLS_ITS_WORKER,
    batch,
    collected,
    contains,
    manifest,
    obedient,
    outcome,
    outputs,
    reports_of,
    scenario,
    step,
)
from tests.eca_server.forking import FORKING
from tests.eca_server.processes import processes_in


class Inline(Executor):
    """An executor of one thread, which copies batches as a pool of processes does.

    Its worker is lost for some of them.
    """

    def __init__(self, losing: Callable[[Batch], bool] = lambda _: False) -> None:
        self._threads = ThreadPoolExecutor(1)
        self._losing = losing
        self.alone: list[int] = []

    def submit(self, run: Callable[..., Any], /, *arguments: Any, **_: Any) -> Future[Any]:
        self.alone.append(len(arguments[0].planned))
        if self._losing(arguments[0]):
            lost: Future[Any] = Future()
            lost.set_exception(RuntimeError("the machine is gone"))
            return lost
        return self._threads.submit(run, *pickle.loads(pickle.dumps(arguments)))

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._threads.shutdown(wait, cancel_futures=cancel_futures)


@pytest.fixture(scope="module", autouse=True)
def _processes_are_prepared() -> None:
    """Let the process that workers are forked from import its modules while tests run here."""
    forkserver.ensure_running()


def four() -> list[Scenario]:
    return [
        scenario("good", step("a", contains("a")), "count"),
        scenario("bad", step("a", contains("b"))),
        scenario("error", "fail", "a"),
        scenario("crash", "exit"),
    ]


def timeless(report: ScenarioReport) -> dict[str, Any]:
    """Return a report without its durations."""
    values = report.to_json()
    for each in (values, *values["steps"]):
        del each["duration_ms"]
    return values


async def test_every_executor_gives_the_same_report(tmp_path):
    whole = batch(obedient(), *four(), cwd=tmp_path)
    here = await collected(whole)
    reasons = ["ok", "ok", "agent_error", "transport_error"]
    assert [outcome(each)[1] for each in here.reports] == reasons
    for make, workers in ((lambda: ThreadPoolExecutor(2), 2), (Inline, 1)):
        there = await collected(whole, make_executor=make, workers=workers)
        assert [*map(timeless, there.reports)] == [*map(timeless, here.reports)]
        assert there.exit_reason == here.exit_reason


async def test_scenarios_lost_twice_run_alone():
    scenarios = [scenario(f"s{number}", "count") for number in range(8)]
    executor = Inline(lambda each: any(p.index == 5 for p in each.planned))
    whole = batch(obedient(), *scenarios, reuse_agent=True)  # only these run several in a batch
    done = await collected(whole, make_executor=lambda: executor, workers=1)
    assert executor.alone == [2, 2, 2, 2, 2, 1, 1]
    assert [report.index for report in done.reports] == [*range(8)]
    assert [report.passed for report in done.reports] == [index != 5 for index in range(8)]
    why = done.reports[5].checks[0].reasoning
    assert why == "the worker that ran it was lost 3 times: RuntimeError: the machine is gone"


async def test_workers_have_the_rest_of_the_run_s_time_and_stop_after_a_failure():
    scenarios = [scenario(f"s{number}", "hang" if number == 1 else "count") for number in range(8)]
    for seconds in (0.5, 4, 20):  # the first agent may start late
        whole = batch(obedient(), *scenarios, run=seconds)
        done = await collected(whole, make_executor=Inline, workers=1)
        reasons = [report.exit_reason for report in done.reports]
        if reasons[0] == "ok":
            break
    assert (done.not_run, done.exit_reason) == (0, "max_duration_exceeded")
    assert reasons == ["ok", *["max_duration_exceeded"] * 7]
    bad = [scenario("good", "a"), scenario("bad", step("a", contains("b")))]
    many = [scenario(f"s{number}", "count") for number in range(6)]
    stopping: dict[str, Any] = {"fail_fast": True, "make_executor": Inline, "workers": 1}
    done = await collected(batch(obedient(), *bad, *many), **stopping)
    assert ([report.name for report in done.reports], done.not_run) == (["good", "bad"], 6)
    many *= 4  # enough for several in a batch
    done = await collected(batch(obedient(), bad[1], *many, reuse_agent=True), **stopping)
    assert ([report.name for report in done.reports], done.not_run) == (["bad"], 24)
    here = await collected(batch(obedient(), *bad, *many), fail_fast=True)
    assert ([report.name for report in here.reports], here.not_run) == (["good", "bad"], 24)


async def test_workers_that_never_answer_do_not_delay_the_end_of_the_run(monkeypatch):
    monkeypatch.setattr(scheduler, "_GRACE", 0.01)

    class Deaf(Inline):
        def submit(self, run: Callable[..., Any], /, *_: Any, **__: Any) -> Future[Any]:
            return Future()

    whole = batch(obedient(), *[scenario(f"s{number}", "count") for number in range(8)], run=0.01)
    with trio.fail_after(20):
        done = await collected(whole, make_executor=Deaf, workers=2)
    assert (len(done.reports), done.exit_reason) == (8, "max_duration_exceeded")


async def test_scenarios_are_chosen_by_name_and_repeated_in_the_manifest_s_order():
    whole = manifest(*[scenario(name, "count") for name in ("Renew a", "renew b", "drop [x]")])
    for include, exclude, names in [
        ((), (), ["Renew a", "renew b", "drop [x]"]),
        (("renew*",), (), ["renew b"]),
        (("?enew ?", "none"), (), ["Renew a", "renew b"]),
        (("drop [x]",), (), ["drop [x]"]),
        (("*[?]",), (), ["drop [x]"]),
        (("[Rr]enew*",), (), []),
        ((), ("drop [x]", "*a"), ["renew b"]),
        ((), ("*b", "Ren*"), ["drop [x]"]),
        (("*",), ("*",), []),
    ]:
        planned = plan(whole, include=include, exclude=exclude)
        assert [each.scenario.name for each in planned] == names
    planned = plan(whole, include=["*e*"], repeat=2)
    assert [(each.index, each.repeat) for each in planned] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    reports = await reports_of(attrs.evolve(batch(obedient()), planned=planned))
    assert [each.name for each in reports] == ["Renew a", "Renew a", "renew b", "renew b"]
    assert [each.repeat for each in reports] == [0, 1, 0, 1]
    assert [outputs(each) for each in reports] == [["1"]] * 4


async def test_the_scenarios_of_a_lost_worker_are_run_again(tmp_path):
    once = scenario("once", f"kill once {tmp_path / 'killed'}")
    always = scenario("always", f"kill after {tmp_path / 'killed'}")  # else it takes the last try
    others = [scenario(f"s{number}", "count") for number in range(3)]
    whole = batch(obedient(KILLS_ITS_WORKER), others[0], once, always, *others[1:])
    done = await collected(whole, make_executor=lambda: Processes(2, FORKING), workers=2)
    assert (len(done.reports), done.not_run) == (5, 0)
    for report in done.reports:
        if report.name != "always":
            assert report.passed, report
    (lost,) = [report for report in done.reports if report.name == "always"]
    assert outcome(lost) == ("failed", "transport_error", ["skipped"])
    assert "the worker that ran it was lost 3 times: BrokenProcessPool" in lost.checks[0].reasoning
    assert done.exit_reason == "transport_error"


async def test_a_run_that_is_cancelled_has_the_report_of_each_scenario_that_ended():
    whole = batch(obedient(), scenario("ended", "count"), *[scenario("s", "hang")] * 8)
    names: list[str] = []
    with trio.move_on_after(20) as running:

        def cancel(report: ScenarioReport) -> None:
            names.append(report.name)
            running.cancel()

        collector = Collector(whole.planned, cancel)
        await run_all(whole, collector, make_executor=lambda: Processes(1, FORKING), workers=1)
    assert names == ["ended"] == [report.name for report in collector.reports]


async def test_a_worker_that_is_ended_ends_its_agents(tmp_path):
    whole = batch(obedient(), scenario("s", "hang"), cwd=tmp_path)
    worker = FORKING.Process(target=run_in_worker, args=(whole,))
    worker.start()
    with trio.fail_after(20):
        while not processes_in(tmp_path):
            await trio.sleep(0.02)
        os.kill(worker.pid, signal.SIGTERM)
        os.kill(worker.pid, signal.SIGHUP)  # a second signal while it ends its agents
        with trio.fail_after(10):
            await trio.to_thread.run_sync(worker.join, abandon_on_cancel=True)
    assert worker.exitcode in (-signal.SIGTERM, -signal.SIGHUP)  # whichever it handled first
    assert not processes_in(tmp_path)

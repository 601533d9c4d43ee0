"""A whole run: scenarios planned, spread over workers, and their reports put in order again.

Scenarios run in this process, one after the other, unless there is an executor (any of
`concurrent.futures`): then batches of them are sent to it. What a lost worker had is run again. The
report is the same whoever ran what: it is ordered as the manifest is.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final

import attrs
import trio

from eca_server.ecp.batch import Batch, Planned
from eca_server.ecp.leftovers import end_leftovers
from eca_server.ecp.manifest import Manifest
from eca_server.ecp.results import ExitReason, ScenarioReport
from eca_server.ecp.scenario import run_batch, skipped
from eca_server.signals import until_a_signal

__all__ = ["OnReport", "Outcome", "plan", "run_all", "work"]

OnReport = Callable[[ScenarioReport], None]
MakeExecutor = Callable[[], Executor]

_MAX_BATCH: Final = 25
_ATTEMPTS: Final = 3
_GRACE: Final = 10.0  # seconds that workers have to end their agents, the run's time being over


@attrs.frozen(kw_only=True)
class Outcome:
    """What a run gave: reports in the manifest's order, and how many scenarios were not run."""

    reports: tuple[ScenarioReport, ...]
    left_out: int = 0

    @property
    def exit_reason(self) -> ExitReason:
        """The run's: its budget before all, then the first scenario's that did not run well."""
        reasons = [report.exit_reason for report in self.reports]
        if "max_duration_exceeded" in reasons:
            return "max_duration_exceeded"
        return next((reason for reason in reasons if reason != "ok"), "ok")


def plan(
    manifest: Manifest,
    *,
    only: Sequence[str] = (),
    without: Sequence[str] = (),
    repeat: int = 1,
) -> tuple[Planned, ...]:
    """The scenarios to be run, by name (patterns with `*` and `?`), each `repeat` times."""
    return tuple(
        Planned(scenario=scenario, index=index, repeat=number)
        for index, scenario in enumerate(manifest.scenarios)
        if not only or any(fnmatchcase(scenario.name, pattern) for pattern in only)
        if not any(fnmatchcase(scenario.name, pattern) for pattern in without)
        for number in range(repeat)
    )


async def run_all(
    batch: Batch,
    *,
    on_report: OnReport = lambda _: None,
    fail_fast: bool = False,
    make_executor: MakeExecutor | None = None,
    workers: int = 1,
) -> Outcome:
    """Run everything that `batch` plans.

    Args:
        batch: all of it; `limits.run` bounds the whole run.
        on_report: called with each report when it comes, in whatever order.
        fail_fast: nothing is begun after a scenario that did not pass.
        make_executor: makes whoever runs the batches; called again if its workers are lost. None:
            this process.
        workers: how many batches run at once.
    """
    gathered = _Gathered(batch.planned, on_report, fail_fast=fail_fast)
    try:
        if make_executor is None:
            await run_batch(batch, gathered.take)
        else:
            await _Spread(batch, gathered, make_executor, workers).run()
    finally:
        end_leftovers(batch.mark)
    return gathered.outcome()


class _Gathered:
    """The reports so far, by place."""

    def __init__(self, planned: Iterable[Planned], on_report: OnReport, *, fail_fast: bool) -> None:
        self._places = [(each.index, each.repeat) for each in planned]
        self._reports: dict[tuple[int, int], ScenarioReport] = {}
        self._on_report = on_report
        self.fail_fast = fail_fast
        self.stopped = False

    def take(self, report: ScenarioReport) -> bool:
        """Take in a report; whether to go on."""
        place = report.index, report.repeat
        if place not in self._reports:
            self._reports[place] = report
            self._on_report(report)
            self.stopped = self.stopped or (self.fail_fast and not report.passed)
        return not self.stopped

    def outcome(self) -> Outcome:
        """The reports in order."""
        found = [self._reports[place] for place in self._places if place in self._reports]
        return Outcome(reports=tuple(found), left_out=len(self._places) - len(found))


def work(batch: Batch) -> list[dict[str, Any]]:
    """What a worker does with a batch: run it to its end; its reports as plain values."""
    reports: list[dict[str, Any]] = []

    def take(report: ScenarioReport) -> bool:
        reports.append(report.to_json())
        return True

    run = partial(run_batch, batch, take)
    if threading.current_thread() is threading.main_thread():
        trio.run(until_a_signal, run)  # a process that is ended takes its agents with it
    else:
        trio.run(run)
    return reports


@attrs.define
class _Portion:
    """Scenarios for one worker, and how often whoever had them was lost."""

    planned: tuple[Planned, ...]
    lost: int = 0


class _Spread:
    """Batches over an executor, at most so many at once.

    A worker that is lost takes others' scenarios with it, in a pool of processes. What was lost
    twice is a suspect: each of its scenarios is run once more, alone, when all else is done.
    """

    def __init__(
        self, batch: Batch, gathered: _Gathered, make_executor: MakeExecutor, workers: int
    ) -> None:
        size = max(1, min(_MAX_BATCH, math.ceil(len(batch.planned) / (workers * 4))))
        if gathered.fail_fast:
            size = 1  # a worker does not learn what others find, and would begin the next
        whole = batch.planned
        self._waiting = [
            _Portion(whole[start : start + size]) for start in range(0, len(whole), size)
        ]
        self._suspects: list[_Portion] = []
        self._batch = batch
        self._gathered = gathered
        self._make_executor = make_executor
        self._workers = workers
        self._executor: Executor | None = None
        self._ends = math.inf
        if batch.limits.run is not None:
            self._ends = trio.current_time() + batch.limits.run

    async def run(self) -> None:
        """Run every batch; what is lost is run again, by new workers if need be."""
        try:
            while (self._waiting or self._suspects) and not self._gathered.stopped:
                if not self._waiting:
                    self._waiting.append(self._suspects.pop(0))
                async with trio.open_nursery() as nursery:
                    for _ in range(min(self._workers, len(self._waiting))):
                        nursery.start_soon(self._work)
        finally:
            self._leave(self._executor)

    async def _work(self) -> None:
        """One of the workers' places: a batch after the other."""
        while self._waiting and not self._gathered.stopped:
            portion = self._waiting.pop(0)
            executor = self._executor = self._executor or self._make_executor()
            try:
                future = executor.submit(work, self._batch_of(portion))
                with trio.move_on_at(self._ends + _GRACE) as in_time:
                    await _ended(future)
                if in_time.cancelled_caught:
                    self._give_up(portion)
                    continue
                reports = future.result()
            except Exception as fault:  # noqa: BLE001 - whatever a worker dies of
                if isinstance(fault, BrokenExecutor):
                    self._leave(executor)
                self._run_again(portion, fault)
            else:
                for report in reports:
                    self._gathered.take(ScenarioReport.from_json(report))

    def _leave(self, executor: Executor | None) -> None:
        """Let go of an executor, and end the processes it may have."""
        if executor is None:
            return
        if executor is self._executor:
            self._executor = None
        processes = dict(getattr(executor, "_processes", None) or {})
        executor.shutdown(wait=False, cancel_futures=True)
        for process in processes.values():
            process.terminate()

    def _batch_of(self, portion: _Portion) -> Batch:
        limits = self._batch.limits
        if self._ends != math.inf:
            limits = attrs.evolve(limits, run=max(0.0, self._ends - trio.current_time()))
        return attrs.evolve(self._batch, planned=portion.planned, limits=limits)

    def _give_up(self, portion: _Portion) -> None:
        """The run's time is over, and whoever has these does not say so."""
        for planned in portion.planned:
            why = "the run's time was over, and no worker told of it"
            self._gathered.take(skipped(planned, "max_duration_exceeded", why))

    def _run_again(self, portion: _Portion, fault: Exception) -> None:
        portion.lost += 1
        if portion.lost < _ATTEMPTS - 1:
            self._waiting.append(portion)
        elif portion.lost < _ATTEMPTS:
            self._suspects += [_Portion((each,), portion.lost) for each in portion.planned]
        else:
            name = type(fault).__name__
            why = f"the worker that ran it was lost {_ATTEMPTS} times: {name}: {fault}"
            self._gathered.take(skipped(portion.planned[0], "transport_error", why))


async def _ended(future: Future[Any]) -> None:
    """Wait for a future's end; cancelled, it is cancelled, too."""
    ended = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def tell(_: object) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(ended.set)

    future.add_done_callback(tell)
    try:
        await ended.wait()
    except trio.Cancelled:
        future.cancel()
        raise

"""The scheduling of a run: scenarios are planned, spread over workers, and their reports collected.

Without an executor, scenarios run one by one in this process. With one (any of
`concurrent.futures`) they are sent to it in batches, and the work of a lost worker is run again.
Reports are in the order of the manifest in either case.
"""

from __future__ import annotations

import math
import signal
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Final

import attrs
import trio

from eca_server.ecp.batch import Batch, PlannedScenario
from eca_server.ecp.leftovers import kill_leftovers
from eca_server.ecp.manifest.model import Manifest
from eca_server.ecp.results import ExitReason, ScenarioReport
from eca_server.ecp.scenario import make_skipped_report, run_batch
from eca_server.system.signals import run_until_a_signal

OnReport = Callable[[ScenarioReport], None]
MakeExecutor = Callable[[], Executor]

_MAX_BATCH: Final = 25
_ATTEMPTS: Final = 3
_GRACE: Final = 10.0  # seconds for workers to end their agents after the run's time limit


class Collector:
    """The reports of a run, so far.

    Attributes:
        fail_fast: whether nothing starts after a scenario that did not pass.
        stopped: whether such a scenario has ended.
    """

    def __init__(
        self,
        planned: Iterable[PlannedScenario],
        on_report: OnReport = lambda _: None,
        *,
        fail_fast: bool = False,
    ) -> None:
        """Prepare to collect; `on_report` is called with each report as it comes, in any order."""
        self._keys = [(each.index, each.repeat) for each in planned]
        self._reports: dict[tuple[int, int], ScenarioReport] = {}
        self._on_report = on_report
        self.fail_fast = fail_fast
        self.stopped = False

    def add(self, report: ScenarioReport) -> bool:
        """Add a report; return False if the run is to stop."""
        key = report.index, report.repeat
        if key not in self._reports:
            self._reports[key] = report
            self._on_report(report)
            self.stopped = self.stopped or (self.fail_fast and not report.passed)
        return not self.stopped

    @property
    def reports(self) -> tuple[ScenarioReport, ...]:
        """The reports in the order of the manifest."""
        return tuple(self._reports[key] for key in self._keys if key in self._reports)

    @property
    def not_run(self) -> int:
        """The number of scenarios without a report."""
        return len(self._keys) - len(self._reports)

    @property
    def exit_reason(self) -> ExitReason:
        """The run's reason: its time limit first, then that of the first failed scenario."""
        reasons = [report.exit_reason for report in self.reports]
        if "max_duration_exceeded" in reasons:
            return "max_duration_exceeded"
        return next((reason for reason in reasons if reason != "ok"), "ok")


def plan(
    manifest: Manifest,
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    repeat: int = 1,
) -> tuple[PlannedScenario, ...]:
    """Select scenarios by name (patterns with `*` and `?`), each `repeat` times."""
    return tuple(
        PlannedScenario(scenario=scenario, index=index, repeat=number)
        for index, scenario in enumerate(manifest.scenarios)
        if not include or _matches(scenario.name, include)
        if not _matches(scenario.name, exclude)
        for number in range(repeat)
    )


def _matches(name: str, patterns: Sequence[str]) -> bool:
    """Return True if a pattern matches; `[` stands for itself, unlike in `fnmatch`."""
    return any(fnmatchcase(name, pattern.replace("[", "[[]")) for pattern in patterns)


async def run_all(
    batch: Batch,
    collector: Collector,
    *,
    make_executor: MakeExecutor | None = None,
    workers: int = 1,
) -> None:
    """Run all scenarios of a batch.

    Args:
        batch: the whole run; `limits.run` limits all of it.
        collector: takes the reports, even if this is cancelled.
        make_executor: makes the executor of the batches; called again if its workers are lost.
            None runs them in this process.
        workers: the number of batches that run at once.
    """
    try:
        if make_executor is None:
            await run_batch(batch, collector.add)
        else:
            await _Scheduler(batch, collector, make_executor, workers).run()
    finally:
        kill_leftovers(batch.mark)


def run_in_worker(batch: Batch) -> list[dict[str, Any]]:
    """Run a batch in a worker, and return its reports as plain values."""
    reports: list[dict[str, Any]] = []

    def add(report: ScenarioReport) -> bool:
        reports.append(report.to_json())
        return True

    run = partial(run_batch, batch, add)
    if threading.current_thread() is threading.main_thread():
        _, number = run_until_a_signal(run)
        if number is not None:  # the agents have ended: now it ends the worker
            signal.raise_signal(number)
    else:
        trio.run(run)
    return reports


@attrs.define
class _Chunk:
    """Scenarios for one worker, and the number of workers that were lost with them."""

    planned: tuple[PlannedScenario, ...]
    losses: int = 0


class _Scheduler:
    """Runs batches on an executor, at most `workers` at once.

    In a pool of processes, a lost worker loses the other workers' scenarios, too. A chunk that was
    lost twice is a suspect: each of its scenarios runs once more, alone, after all others.
    """

    def __init__(
        self, batch: Batch, collector: Collector, make_executor: MakeExecutor, workers: int
    ) -> None:
        size = 1  # reports arrive with their batch: a signal loses those of unfinished ones
        if batch.reuse_agent and not collector.fail_fast:
            size = max(1, min(_MAX_BATCH, math.ceil(len(batch.planned) / (workers * 4))))
        planned = batch.planned
        self._waiting = [
            _Chunk(planned[start : start + size]) for start in range(0, len(planned), size)
        ]
        self._suspects: list[_Chunk] = []
        self._batch = batch
        self._collector = collector
        self._make_executor = make_executor
        self._workers = workers
        self._executor: Executor | None = None
        self._deadline = math.inf
        if batch.limits.run is not None:
            self._deadline = trio.current_time() + batch.limits.run

    async def run(self) -> None:
        """Run every batch; run lost ones again, with new workers if needed."""
        try:
            while (self._waiting or self._suspects) and not self._collector.stopped:
                if not self._waiting:
                    self._waiting.append(self._suspects.pop(0))
                async with trio.open_nursery() as nursery:
                    for _ in range(min(self._workers, len(self._waiting))):
                        nursery.start_soon(self._work)
        finally:
            self._shut_down(self._executor)

    async def _work(self) -> None:
        while self._waiting and not self._collector.stopped:
            chunk = self._waiting.pop(0)
            executor = self._executor = self._executor or self._make_executor()
            try:
                future = executor.submit(run_in_worker, self._make_batch(chunk))
                with trio.move_on_at(self._deadline + _GRACE) as in_time:
                    await _wait_for(future)
                if in_time.cancelled_caught:
                    self._give_up(chunk)
                    continue
                reports = future.result()
            except Exception as fault:  # noqa: BLE001 - any failure of a worker
                if isinstance(fault, BrokenExecutor):
                    self._shut_down(executor)
                self._run_again(chunk, fault)
            else:
                for report in reports:
                    self._collector.add(ScenarioReport.from_json(report))

    def _shut_down(self, executor: Executor | None) -> None:
        if executor is None:
            return
        if executor is self._executor:
            self._executor = None
        processes = dict(getattr(executor, "_processes", None) or {})
        executor.shutdown(wait=False, cancel_futures=True)
        for process in processes.values():
            process.terminate()

    def _make_batch(self, chunk: _Chunk) -> Batch:
        limits = self._batch.limits
        if self._deadline != math.inf:
            limits = attrs.evolve(limits, run=max(0.0, self._deadline - trio.current_time()))
        return attrs.evolve(self._batch, planned=chunk.planned, limits=limits)

    def _give_up(self, chunk: _Chunk) -> None:
        """Report scenarios as skipped whose worker does not answer after the run's time limit."""
        for planned in chunk.planned:
            why = "the run's time limit was exceeded, and its worker did not answer"
            report = make_skipped_report(planned, "max_duration_exceeded", why)
            self._collector.add(report)

    def _run_again(self, chunk: _Chunk, fault: Exception) -> None:
        chunk.losses += 1
        if chunk.losses < _ATTEMPTS - 1:
            self._waiting.append(chunk)
        elif chunk.losses < _ATTEMPTS:
            self._suspects += [_Chunk((each,), chunk.losses) for each in chunk.planned]
        else:
            name = type(fault).__name__
            why = f"the worker that ran it was lost {_ATTEMPTS} times: {name}: {fault}"
            report = make_skipped_report(chunk.planned[0], "transport_error", why)
            self._collector.add(report)


async def _wait_for(future: Future[Any]) -> None:
    """Wait for the end of a future; cancel it if this wait is cancelled."""
    done = trio.Event()
    token = trio.lowlevel.current_trio_token()

    def notify(_: object) -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(done.set)

    future.add_done_callback(notify)
    try:
        await done.wait()
    except trio.Cancelled:
        future.cancel()
        raise

"""`ecp run`: run a manifest, print its results, write its reports, and return an exit code.

Exit codes: 0 every check passed; 2 a check failed, a step had no result, or there was nothing to
check; 1 the manifest or an output cannot be used; 130 and 143 a signal ended the run, with a report
of the scenarios until then.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from contextlib import redirect_stdout
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, TextIO

import attrs
import trio

from eca_server.ecp.audit import make_audit
from eca_server.ecp.batch import Batch, RunLimits
from eca_server.ecp.cluster import Cluster
from eca_server.ecp.datasets import load_datasets
from eca_server.ecp.graders import read_settings
from eca_server.ecp.manifest.model import Manifest, Unusable
from eca_server.ecp.manifest.reading import load_manifest
from eca_server.ecp.progress import Progress, flaky_lines
from eca_server.ecp.reports.masking import make_masker, mask_report, redact_scenario
from eca_server.ecp.results import NOTHING_CHECKED, ExitReason, RunReport, ScenarioReport
from eca_server.ecp.scheduler import Collector, plan, run_all
from eca_server.ecp.target import find_target
from eca_server.printable import printable_json, printable_line
from eca_server.system.command_line import write_to_user
from eca_server.system.signals import ignore_signals, run_until_a_signal
from eca_server.workbench.report_files import Outputs, OutputsInvalid

PASSED: Final = 0
UNUSABLE: Final = 1
FAILED: Final = 2

_JUDGE_KEY: Final = "ECP_LLM_JUDGE_API_KEY"


def run_manifest(options: argparse.Namespace) -> int:
    """Run a manifest by the options of `ecp run`, and return the exit code."""
    files: dict[str, Path | None] = {
        "json": options.json_out,
        "audit": options.audit_out,
        "junit": options.junit,
        "html": options.report,
    }
    outputs = Outputs({kind: file for kind, file in files.items() if file is not None})
    try:
        manifest, batch = _prepare(options)
        outputs.check()
    except (Unusable, OutputsInvalid) as fault:
        _say(str(fault))
        return UNUSABLE
    except OSError as fault:
        _say(f"{options.manifest}: {fault.strerror or fault}")
        return UNUSABLE
    for warning in manifest.warnings:
        _say(f"warning: {warning}")
    for name in (*options.scenario, *options.exclude):
        if not plan(manifest, include=[name]):
            _say(f"warning: no scenario is called {name!r}")
    if options.jobs > 1 and batch.target.url is not None:
        _say("warning: scenarios run in parallel; the agent behind the URL must support that")
    if not any(p.scenario.steps for p in batch.planned):
        _say("nothing to check: no scenario with steps is selected")
        return FAILED
    try:
        cluster = None if options.dask is None else Cluster(options.dask)
    except Unusable as fault:
        _say(str(fault))
        return UNUSABLE
    return _Run(options, manifest, batch, outputs, cluster).run()


def _prepare(options: argparse.Namespace) -> tuple[Manifest, Batch]:
    """Return the manifest and the batch to run, after all checks that need no agent."""
    settings = read_settings(
        os.environ,
        allow_empty=options.allow_empty,
        nested_subset=options.nested_arguments == "subset",
        judge_cache=options.judge_cache,
        config_file=options.config_file,
    )
    manifest = load_datasets(
        load_manifest(options.manifest), os.environ, allow_outside=options.allow_outside
    )
    cwd = None if options.cwd == "manifest" else Path.cwd()
    target = find_target(manifest, cwd, shell=options.shell, finds_script=False)
    planned = plan(
        manifest, include=options.scenario, exclude=options.exclude, repeat=options.repeat
    )
    return manifest, Batch(
        target=target,
        planned=planned,
        hidden_variables=frozenset({_JUDGE_KEY}),
        limits=RunLimits(
            rpc=options.timeout,
            start=options.start_timeout,
            scenario=options.scenario_timeout,
            run=options.max_duration,
            max_message=options.max_message_bytes,
        ),
        graders=settings,
        reuse_agent=options.reuse_agent,
        require_capabilities=manifest.require_capabilities,
    )


@attrs.define
class _Run:
    """A run, from its first scenario to its exit code."""

    options: argparse.Namespace
    manifest: Manifest
    batch: Batch
    outputs: Outputs
    cluster: Cluster | None
    signal_number: int | None = None

    def run(self) -> int:
        """Run the batch, write the reports, print a summary, and return the exit code."""
        started, start_time = datetime.now(UTC), time.monotonic()
        progress = Progress(
            sys.stderr,
            len(self.batch.planned),
            results=self._stream(),
            mask=make_masker(os.environ),
            verbose=self.options.verbose,
        )

        def on_report(report: ScenarioReport) -> None:
            progress.add(redact_scenario(report) if self.options.redact else report)

        fail_fast: bool = self.options.fail_fast
        collector = Collector(self.batch.planned, on_report, fail_fast=fail_fast)
        with redirect_stdout(sys.stderr):  # graders of others may print
            run = partial(self._run_all, progress, collector)
            _, self.signal_number = run_until_a_signal(run)
        progress.finish()
        reason = collector.exit_reason
        if self.signal_number is not None:
            ignore_signals()  # a second Ctrl-C would lose the reports
            reason = "interrupted"
        report = self._report(collector, reason, started, time.monotonic() - start_time)
        faults = self.outputs.write(report, _RENDERERS)
        if self.options.json:
            sys.stdout.write(f"{printable_json(_json(report))}\n")
            sys.stdout.flush()
        for fault in faults:
            _say(fault)
        self._say_summary(report, collector.not_run)
        return self._exit_code(report, faults)

    async def _run_all(self, progress: Progress, collector: Collector) -> None:
        jobs, executor = self.options.jobs, self._executor()
        workers = jobs if self.cluster is None or jobs > 1 else self.cluster.slots
        async with trio.open_nursery() as nursery:
            nursery.start_soon(progress.line.keep_current)
            await run_all(self.batch, collector, make_executor=executor, workers=workers)
            nursery.cancel_scope.cancel()

    def _executor(self) -> Callable[[], Executor] | None:
        cluster = self.cluster
        if cluster is not None:
            return lambda: cluster
        return partial(_processes, self.options.jobs) if self.options.jobs > 1 else None

    def _report(
        self, collector: Collector, reason: ExitReason, started: datetime, seconds: float
    ) -> RunReport:
        warnings = [str(problem) for problem in self.manifest.warnings]
        if collector.not_run:
            warnings.append(_not_run(collector.not_run))
        report = RunReport(
            manifest=_relative(self.options.manifest),
            name=self.manifest.name,
            exit_reason=reason,
            scenarios=collector.reports,
            warnings=tuple(warnings),
        )
        if not self.outputs.files and not self.options.json:
            return report  # no output needs the audit record
        finished, limits = datetime.now(UTC), self.batch.limits
        audit = make_audit(
            report, self.manifest, limits, started=started, finished=finished, seconds=seconds
        )
        report = attrs.evolve(report, audit=audit)
        return mask_report(report, os.environ, redact=self.options.redact)

    def _say_summary(self, report: RunReport, not_run: int) -> None:
        failed = [scenario for scenario in report.scenarios if not scenario.passed]
        counts = f"{len(report.scenarios) - len(failed)} of {len(report.scenarios)} scenarios"
        why = "" if report.exit_reason == "ok" else f" ({report.exit_reason})"
        why += f"; {_not_run(not_run)}" if not_run else ""
        summary = f"{counts} and {report.passed} of {report.total} checks passed{why}"
        if report.exit_reason == "ok" and not report.total:
            summary = NOTHING_CHECKED
        for line in (*flaky_lines(report.scenarios), summary):
            _say(line, self._stream())

    def _stream(self) -> TextIO:
        """Return the stream of the results: with `--json` standard output has the report."""
        return sys.stderr if self.options.json else sys.stdout

    def _exit_code(self, report: RunReport, faults: list[str]) -> int:
        if self.signal_number is not None:
            return 128 + self.signal_number
        if faults:
            return UNUSABLE
        if report.exit_reason != "ok" or report.total == 0:
            return FAILED
        return FAILED if report.failed and self.options.fail_on_error else PASSED


def _not_run(count: int) -> str:
    return f"{count} scenario{'s were' if count > 1 else ' was'} not run"


def _processes(jobs: int) -> Executor:
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 - only for more than one
    from multiprocessing import get_context  # noqa: PLC0415 - only for more than one

    return ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_prepare_worker)


def _prepare_worker() -> None:
    """Ignore Ctrl-C in a worker: its parent ends it by SIGTERM, and so does the parent's end."""
    from multiprocessing import parent_process  # noqa: PLC0415 - only for more than one

    sys.stdout = sys.stderr  # as in `run`
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    assert parent is not None

    def end_with_parent() -> None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=end_with_parent, daemon=True).start()


def _html(report: RunReport) -> str:
    from eca_server.ecp.reports.html import render_html  # noqa: PLC0415 - only if used

    return render_html(report)


def _junit(report: RunReport) -> str:
    from eca_server.ecp.reports.junit import render_junit  # noqa: PLC0415 - only if used

    return render_junit(report)


_RENDERERS: Final[Mapping[str, Callable[[RunReport], str]]] = {
    "json": lambda report: f"{_json(report)}\n",
    "audit": lambda report: f"{_dump(dict(report.audit))}\n",
    "junit": _junit,
    "html": _html,
}


def _json(report: RunReport) -> str:
    return _dump(report.to_json())


def _dump(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)


def _relative(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _say(text: str, out: TextIO | None = None) -> None:
    mask = make_masker(os.environ)
    lines = [printable_line(mask(line), longest=2000) for line in text.splitlines()]
    write_to_user("".join(f"{line}\n" for line in lines), out or sys.stderr)

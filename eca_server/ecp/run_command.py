"""`ecp run`: a manifest from its file to its reports and an exit code.

Exit codes: 0 every check passed; 2 one did not, or a step gave no result; 1 the manifest or an
output cannot be used; 130 and 143 a signal ended it, with the report of what ran until then.
Nothing checked is never success.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs
import trio

from eca_server.command_line import write_to_user
from eca_server.ecp.audit import RunFacts, audit
from eca_server.ecp.batch import Batch, RunLimits
from eca_server.ecp.datasets import with_datasets
from eca_server.ecp.graders import SettingsInvalid, settings_from
from eca_server.ecp.manifest import Manifest, ManifestInvalid, load_manifest
from eca_server.ecp.progress import Progress
from eca_server.ecp.reports.masking import hiding, masked
from eca_server.ecp.results import ExitReason, RunReport, ScenarioReport
from eca_server.ecp.running import Outcome, plan, run_all
from eca_server.ecp.target import TargetInvalid, resolve_target
from eca_server.printable import printable_json, printable_line
from eca_server.report_files import Outputs, OutputsInvalid
from eca_server.signals import until_a_signal

if TYPE_CHECKING:
    from eca_server.ecp.cluster import Cluster

__all__ = ["RunOptions", "run_manifest"]

PASSED: Final = 0
UNUSABLE: Final = 1
FAILED: Final = 2

_JUDGE_KEY: Final = "ECP_LLM_JUDGE_API_KEY"


@attrs.frozen(kw_only=True)
class RunOptions:
    """What the command line asks of a run; see `ecp run --help`."""

    manifest: Path
    outputs: Mapping[str, Path] = attrs.field(factory=dict)
    prints_json: bool = False
    verbose: bool = False
    fail_on_error: bool = True
    limits: RunLimits = attrs.field(factory=RunLimits)
    only: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    repeat: int = 1
    jobs: int = 1
    dask: str | None = None
    fail_fast: bool = False
    reuse_agent: bool = False
    shell: bool = False
    cwd: Literal["caller", "manifest"] = "caller"
    allow_outside: bool = False
    allow_empty: bool = False
    nested_subset: bool = False
    judge_cache: str | None = None
    config_file: str | None = None
    redact: bool = False


class Unusable(Exception):
    """Nothing was run; the text says why."""


def run_manifest(options: RunOptions) -> int:
    """Run a manifest; the exit code."""
    try:
        manifest, batch = _prepared(options)
        outputs = Outputs(options.outputs)
        outputs.check()
    except (Unusable, OutputsInvalid) as fault:
        _say(str(fault))
        return UNUSABLE
    for warning in manifest.warnings:
        _say(f"warning: {warning}")
    if options.jobs > 1 and batch.target.url is not None:
        _say("warning: scenarios are run at once, which an agent behind a URL has to keep apart")
    if not any(p.scenario.steps for p in batch.planned):
        _say("nothing to check: no scenario is left to run")
        return FAILED
    try:
        cluster = _connected(options)
    except Unusable as fault:
        _say(str(fault))
        return UNUSABLE
    return _Run(options, manifest, batch, outputs, cluster).run()


def _prepared(options: RunOptions) -> tuple[Manifest, Batch]:
    """What is to be run, with everything that could be wrong before it found out."""
    environment = os.environ
    try:
        settings = settings_from(
            environment,
            allow_empty=options.allow_empty,
            nested_subset=options.nested_subset,
            judge_cache=options.judge_cache,
            config_file=options.config_file,
        )
        manifest = with_datasets(
            load_manifest(options.manifest), environment, allow_outside=options.allow_outside
        )
        folder = options.manifest.resolve().parent if options.cwd == "manifest" else Path.cwd()
        target = resolve_target(
            manifest.target, environment=environment, cwd=folder, shell=options.shell
        )
    except (ManifestInvalid, SettingsInvalid) as fault:
        raise Unusable(str(fault)) from fault
    except TargetInvalid as fault:
        raise Unusable(f"{options.manifest}: target: {fault}") from fault
    except OSError as fault:
        raise Unusable(f"{options.manifest}: {fault.strerror or fault}") from fault
    planned = plan(manifest, only=options.only, without=options.without, repeat=options.repeat)
    return manifest, Batch(
        target=target,
        planned=planned,
        hidden=frozenset({_JUDGE_KEY}),
        limits=options.limits,
        graders=settings,
        reuse_agent=options.reuse_agent,
        require_capabilities=manifest.require_capabilities,
    )


@attrs.define
class _Run:
    """A run from its first scenario to its exit code."""

    options: RunOptions
    manifest: Manifest
    batch: Batch
    outputs: Outputs
    cluster: Cluster | None
    reports: list[ScenarioReport] = attrs.field(factory=list)
    signalled: int | None = None

    def run(self) -> int:
        """Run it, write its reports, and say what came of it."""
        started, began = datetime.now(UTC), time.monotonic()
        progress = Progress(
            sys.stderr,
            len(self.batch.planned),
            hide=hiding(os.environ),
            verbose=self.options.verbose,
        )
        outcome, self.signalled = trio.run(until_a_signal, partial(self._run_all, progress))
        progress.end()
        if outcome is None:
            found = sorted(self.reports, key=lambda report: (report.index, report.repeat))
            outcome = Outcome(reports=tuple(found), left_out=len(self.batch.planned) - len(found))
        reason: ExitReason = "interrupted" if self.signalled is not None else outcome.exit_reason
        report = self._report(outcome, reason, started, time.monotonic() - began)
        faults = self.outputs.write(report, _RENDERERS)
        if self.options.prints_json:
            sys.stdout.write(f"{printable_json(_json(report))}\n")
            sys.stdout.flush()
        for fault in faults:
            _say(fault)
        self._say_sum(report)
        return self._code(report, faults)

    async def _run_all(self, progress: Progress) -> Outcome:
        def on_report(report: ScenarioReport) -> None:
            self.reports.append(report)
            progress.take(report)

        return await run_all(
            self.batch,
            on_report=on_report,
            fail_fast=self.options.fail_fast,
            make_executor=self._executor(),
            workers=self._workers(),
        )

    def _workers(self) -> int:
        if self.cluster is None or self.options.jobs > 1:
            return self.options.jobs
        return self.cluster.places

    def _executor(self) -> Callable[[], Executor] | None:
        cluster = self.cluster
        if cluster is not None:
            return lambda: cluster
        if self.options.jobs > 1:
            return partial(_processes, self.options.jobs)
        return None

    def _report(
        self, outcome: Outcome, reason: ExitReason, started: datetime, seconds: float
    ) -> RunReport:
        path = _relative(self.options.manifest)
        warnings = [str(problem) for problem in self.manifest.warnings]
        if outcome.left_out:
            warnings.append(f"{outcome.left_out} scenarios were not run")
        report = RunReport(
            manifest=path,
            name=self.manifest.name,
            exit_reason=reason,
            scenarios=outcome.reports,
            warnings=tuple(warnings),
        )
        if not self.options.outputs and not self.options.prints_json:
            return report  # nobody is to read the rest of it
        facts = RunFacts(
            manifest=self.manifest,
            shown_path=path,
            shown_target=self.manifest.target,
            limits=self.options.limits,
            started=started,
            finished=datetime.now(UTC),
            duration_ms=1000 * seconds,
        )
        report = attrs.evolve(report, audit=audit(report, facts))
        return masked(report, os.environ, redact=self.options.redact)

    def _say_sum(self, report: RunReport) -> None:
        failed = [scenario for scenario in report.scenarios if not scenario.passed]
        counts = f"{len(report.scenarios) - len(failed)} of {len(report.scenarios)} scenarios"
        why = "" if report.exit_reason == "ok" else f" ({report.exit_reason})"
        _say(f"{counts} and {report.passed} of {report.total} checks passed{why}")

    def _code(self, report: RunReport, faults: list[str]) -> int:
        if self.signalled is not None:
            return 128 + self.signalled
        if faults:
            return UNUSABLE
        if report.exit_reason != "ok" or report.total == 0:
            return FAILED
        return FAILED if report.failed and self.options.fail_on_error else PASSED


def _processes(jobs: int) -> Executor:
    """An executor of that many processes of this machine."""
    from concurrent.futures import ProcessPoolExecutor  # noqa: PLC0415 - only for more than one
    from multiprocessing import get_context  # noqa: PLC0415 - likewise

    return ProcessPoolExecutor(jobs, get_context("spawn"), initializer=_leave_signals)


def _connected(options: RunOptions) -> Cluster | None:
    """The cluster that is to run it, if one is."""
    if options.dask is None:
        return None
    from eca_server.ecp.cluster import Cluster, ClusterUnusable  # noqa: PLC0415 - only if asked

    try:
        return Cluster(options.dask)
    except ClusterUnusable as fault:
        raise Unusable(str(fault)) from fault


def _leave_signals() -> None:
    """In a worker: Ctrl-C is its parent's affair, which ends it by SIGTERM."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _html(report: RunReport) -> str:
    from eca_server.ecp.reports.html import html  # noqa: PLC0415 - only where it is asked for

    return html(report)


def _junit(report: RunReport) -> str:
    from eca_server.ecp.reports.junit import junit  # noqa: PLC0415 - only where it is asked for

    return junit(report)


_RENDERERS: Final[Mapping[str, Callable[[RunReport], str]]] = {
    "json": lambda report: f"{_json(report)}\n",
    "audit": lambda report: f"{_dumped(dict(report.audit))}\n",
    "junit": _junit,
    "html": _html,
}


def _json(report: RunReport) -> str:
    return _dumped(report.to_json())


def _dumped(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)


def _relative(path: Path) -> str:
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _say(text: str) -> None:
    hide = hiding(os.environ)
    lines = [printable_line(hide(line), longest=2000) for line in text.splitlines()]
    write_to_user("".join(f"{line}\n" for line in lines), sys.stderr)

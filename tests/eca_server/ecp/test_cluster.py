"""A run on a Dask cluster: the same report, also when a worker is killed in the middle of it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.eca_server.ecp.runs import KILLS_ITS_WORKER
from tests.eca_server.ecp.test_run import REPOSITORY, manifest
from tests.eca_server.processes import run_to_end

ENVIRONMENT = os.environ | {"PYTHONPATH": str(REPOSITORY)}


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Run a scheduler and two workers in separate processes."""
    file = tmp_path / "scheduler.json"
    folder = tmp_path / "workers"
    common = ["--no-dashboard", "--scheduler-file", str(file)]
    workers = ["--nworkers", "2", "--nthreads", "1", "--local-directory", str(folder)]
    commands = [
        ["dask_scheduler", "--host", "127.0.0.1", "--port", "0", *common],
        ["dask_worker", *workers, *common],
    ]
    started = [
        subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{name}", *arguments],
            cwd=tmp_path,
            env=ENVIRONMENT,
            stderr=subprocess.DEVNULL,
        )
        for name, *arguments in commands
    ]
    try:
        while not file.exists() or not file.read_text("utf-8").endswith("}"):
            assert started[0].poll() is None
            time.sleep(0.05)
        yield str(json.loads(file.read_text("utf-8"))["address"])
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(20)


def run(folder: Path, *more: str) -> tuple[int, dict[str, Any], str]:
    arguments = [sys.executable, "-m", "eca_server", "ecp", "run", "-m", "m.yaml", "--json", *more]
    done = run_to_end(arguments, cwd=folder, env=ENVIRONMENT)
    return done.returncode, json.loads(done.stdout or "{}"), done.stderr


def summary(report: dict[str, Any]) -> list[tuple[Any, ...]]:
    keys = ("name", "passed", "exit_reason")
    return [
        (*(each[key] for key in keys), [step["output"] for step in each["steps"]])
        for each in report["scenarios"]
    ]


@pytest.mark.long
def test_a_cluster_that_loses_a_worker_gives_the_report_of_one_machine(address, tmp_path):
    inputs = ["count"] * 5 + ["fail", f"kill once {tmp_path / 'killed'}"] + ["count"] * 5
    manifest(tmp_path, *inputs, change=KILLS_ITS_WORKER, value="1")
    code, report, errors = run(tmp_path, "--dask", address)
    assert (code, len(report["scenarios"])) == (2, 12), errors
    assert (tmp_path / "killed").exists(), "no worker was killed"
    code, here, errors = run(tmp_path)
    assert (code, summary(here)) == (2, summary(report)), errors
    assert [each["exit_reason"] for each in report["scenarios"]].count("ok") == 11
    for place in ("tcp://127.0.0.1:9", "nonsense://x"):
        code, _, errors = run(tmp_path, "--dask", place)
        assert (code, "Traceback" in errors) == (1, False)
        assert errors.startswith(f"--dask {place}: ")

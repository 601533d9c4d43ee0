"""Run all fuzz targets, some in parallel, and print the number of inputs of each."""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
RUNS = re.compile(rb"number_of_executed_units: (\d+)|hypothesis, (\d+) runs")
NOISE = (b"INFO:", b"WARNING:")
TARGETS = sorted(path.stem.removeprefix("fuzz_") for path in HERE.glob("fuzz_*.py"))


def fuzz(target: str, seconds: int) -> tuple[str, int, bytes]:
    """Run a target; return its name, its number of inputs, and its output if it failed."""
    command = [sys.executable, str(HERE / f"fuzz_{target}.py"), "--seconds", str(seconds)]
    ended = subprocess.run(command, capture_output=True, check=False)
    output = ended.stdout + ended.stderr
    runs = sum(int(number) for groups in RUNS.findall(output) for number in groups if number)
    errors = [line for line in output.splitlines(keepends=True) if not line.startswith(NOISE)]
    return target, runs, b"".join(errors) if ended.returncode else b""


def main() -> None:
    """Run all targets; exit with 1 and the failing input if an invariant was broken."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=60, help="for all together (default: 60)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="targets at once")
    parser.add_argument("targets", nargs="*", default=TARGETS, help="these alone")
    options = parser.parse_args()
    share = max(1, options.seconds * options.jobs // len(options.targets))
    began, total, failed = time.monotonic(), 0, 0
    with ThreadPoolExecutor(options.jobs) as jobs:
        for target, runs, output in jobs.map(lambda each: fuzz(each, share), options.targets):
            total += runs
            failed += bool(output)
            print(f"{target:16} {runs:>12,}{'  FAILED' if output else ''}", flush=True)
            sys.stdout.buffer.write(output)
            sys.stdout.flush()
    took = time.monotonic() - began
    print(f"{'all':16} {total:>12,} in {took:.0f} s, {share} s each, {failed} failed")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()

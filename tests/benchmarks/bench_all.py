"""Every benchmark, then one table of what is promised and what was measured.

Run it from the repository: `python tests/benchmarks/bench_all.py`; it takes some minutes. Arguments
name some of the benchmarks, such as `bench_peer`. The load is printed with them: on a busy machine
ratios hold and latencies do not. With `--compare BASE` it measures a revision or a checkout in
turns with this one, and prints what moved.
"""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from comparison import compare_with
from report import Row, print_rows

BENCHMARKS = sorted(
    {path.stem for path in Path(__file__).parent.glob("bench_*.py")} - {"bench_all"}
)


def main() -> None:
    parser = argparse.ArgumentParser(description="Run the benchmarks.")
    parser.add_argument("benchmarks", nargs="*", metavar="BENCHMARK", help="all if none is named")
    parser.add_argument("--compare", metavar="BASE", help="a revision or a checkout's directory")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of a comparison")
    options = parser.parse_args()
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
    if unknown := [name for name in options.benchmarks if name not in BENCHMARKS]:
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(BENCHMARKS)}")
    names = options.benchmarks or BENCHMARKS
    if options.compare:
        compare_with(options.compare, names, options.rounds)
    else:
        run_all(names)
    print(f"\n  load: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


def run_all(names: Sequence[str]) -> None:
    rows: list[Row] = []
    for name in names:
        print(f"\n== {name}")
        rows += importlib.import_module(name).main()
    print("\n== all")
    print_rows(rows)


if __name__ == "__main__":
    main()

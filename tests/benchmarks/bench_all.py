"""Every benchmark, then one table of what is promised and what was measured.

Run it from the repository: `python tests/benchmarks/bench_all.py`; it takes some minutes. The load
is printed with it: on a busy machine ratios hold and latencies do not. With `--compare BASE` it
measures a revision or a checkout in turns with this one, and prints what moved; arguments name
the benchmarks, such as `bench_peer`.
"""

import argparse
import os
from collections.abc import Sequence

import bench_acp
import bench_codec
import bench_completion
import bench_decoders
import bench_ecp
import bench_framing
import bench_grep
import bench_index
import bench_inspector
import bench_jobs
import bench_long_chat
import bench_many_chats
import bench_mcp
import bench_mcp_http
import bench_peer
import bench_revisions
import bench_rollback
import bench_sessions
import bench_start
import bench_stop
import bench_stream
import bench_subagents
import bench_tap
import bench_tools
from comparison import compare_with
from report import Row, print_rows

BENCHMARKS = (
    bench_framing,
    bench_codec,
    bench_revisions,
    bench_peer,
    bench_start,
    bench_stop,
    bench_completion,
    bench_jobs,
    bench_subagents,
    bench_stream,
    bench_decoders,
    bench_many_chats,
    bench_long_chat,
    bench_tools,
    bench_rollback,
    bench_grep,
    bench_index,
    bench_mcp,
    bench_mcp_http,
    bench_tap,
    bench_acp,
    bench_inspector,
    bench_ecp,
    bench_sessions,
)


def main() -> None:
    names = [benchmark.__name__ for benchmark in BENCHMARKS]
    parser = argparse.ArgumentParser(description="Run the benchmarks.")
    parser.add_argument("benchmarks", nargs="*", metavar="BENCHMARK", help="all if none is named")
    parser.add_argument("--compare", metavar="BASE", help="a revision or a checkout's directory")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of a comparison")
    options = parser.parse_args()
    if unknown := [name for name in options.benchmarks if name not in names]:
        parser.error(f"unknown: {', '.join(unknown)}; choose from {', '.join(names)}")
    names = options.benchmarks or names
    if options.compare:
        compare_with(options.compare, names, options.rounds)
    else:
        run_all(names)
    print(f"\n  load: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")


def run_all(names: Sequence[str]) -> None:
    rows: list[Row] = []
    for benchmark in BENCHMARKS:
        if benchmark.__name__ in names:
            print(f"\n== {benchmark.__name__}")
            rows += benchmark.main()
    print("\n== all")
    print_rows(rows)


if __name__ == "__main__":
    main()

"""The cost of the tap: the time of a message with it and without it.

Run it from the repository: `python tests/benchmarks/bench_tap.py`. A server writes 10,000 content
notifications a second, each with the time it was written; the client notes when it has each whole.
The runs are the same processes but for the tap between them, without and with an inspector beside
it. Bound: 1 ms more in the median.
"""

import os
import re
import statistics
import sys
import time
from collections.abc import Sequence

from report import Row, machine, print_rows, print_table
from rig import Rig, rig

COUNT = 30_000
PER_SECOND = 10_000
SERVER = """\
import os, sys, time
count, period = int(sys.argv[1]), 1 / int(sys.argv[2])
content = '{"type":"text","text":"words of it"}'
due = time.monotonic() + 0.5
for _ in range(count):
    while (left := due - time.monotonic()) > 0:
        time.sleep(left)
    due += period
    body = (
        '{"jsonrpc":"2.0","method":"chat/contentReceived","params":{"chatId":"c",'
        f'"role":"assistant","content":{content}}},"at":{time.monotonic_ns():020d}}}'
    )
    os.write(1, f"Content-Length: {len(body)}\\r\\n\\r\\n{body}".encode())
"""
WRITTEN = re.compile(rb'"at":0*(\d+)}')


def delays(rig: Rig, command: Sequence[str]) -> list[float]:
    """Return the time of each message, in milliseconds."""
    latencies: list[float] = []
    with rig.process(command) as process:
        assert process.stdout is not None
        output, rest = process.stdout.fileno(), b""
        while data := os.read(output, 65_536):
            now = time.monotonic_ns()
            data = rest + data
            end = 0
            for written in WRITTEN.finditer(data):
                latencies.append((now - int(written[1])) / 1e6)
                end = written.end()
            rest = data[end:]
        process.wait(10)
    assert len(latencies) == COUNT, len(latencies)
    return latencies


def shown(name: str, taken: list[float], cpu: float) -> tuple[str, ...]:
    ordered = sorted(taken)
    return name, *(f"{ordered[int(len(ordered) * q)]:.3f}" for q in (0.5, 0.9, 0.99)), f"{cpu:.1f}"


def children_seconds() -> float:
    """CPU time of all children that have ended, and of theirs."""
    times = os.times()
    return times.children_user + times.children_system


def main() -> list[Row]:
    print(machine("anyio", "orjson", "trio"))
    with rig() as ours:
        server = (sys.executable, "-S", "-c", SERVER, str(COUNT), str(PER_SECOND))
        record = ours.folder / "record.jsonl"
        tap = (sys.executable, "-m", "eca_server", "tap", "--out", str(record))
        inspected = (*tap[:-1], f"{record}.inspected", "--inspect", "--no-open")
        rows, medians = [], []
        for name, command in (
            ("direct", server),
            ("through the tap", (*tap, "--", *server)),
            ("inspected, too", (*inspected, "--", *server)),
        ):
            before = children_seconds()
            taken = delays(ours, command)
            rows.append(shown(name, taken, children_seconds() - before))
            medians.append(statistics.median(taken))
        entries = sum(line.startswith(b'{"at":') for line in record.read_bytes().splitlines())
        assert entries == COUNT + 2, entries
    print_table(
        f"{COUNT} messages, {PER_SECOND} a second: milliseconds from write to read",
        ("", "median", "90%", "99%", "CPU s"),
        rows,
    )
    direct, *others = medians
    return [
        Row(
            f"{what} adds, median at {PER_SECOND} messages a second",
            "<= 1 ms",
            f"{median - direct:.3f} ms",
            median - direct <= 1,
        )
        for what, median in zip(("the tap", "the tap with an inspector"), others, strict=True)
    ]


if __name__ == "__main__":
    print_rows(main())

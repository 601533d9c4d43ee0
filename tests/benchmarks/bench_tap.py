"""The cost of the tap: the time of a message with it and without it.

A server writes 10,000 content notifications a second, each with the time it was written; the client
notes when it has each whole. The runs are the same processes but for the tap between them, without
and with an inspector beside it. Bound: 1 ms more in the median.
"""

import os
import statistics
import sys
from collections.abc import Sequence

from bench_acp import COUNT, PER_SECOND, Reader, quantiles_of
from report import Row, at_most, machine, print_table
from rig import Rig, rig

SERVER = """\
import os, sys, time
count, period = int(sys.argv[1]), 1 / int(sys.argv[2])
due = time.monotonic() + 0.5
for _ in range(count):
    while (left := due - time.monotonic()) > 0:
        time.sleep(left)
    due += period
    body = (
        '{"jsonrpc":"2.0","method":"chat/contentReceived","params":{"chatId":"c","role":"assistant",'
        f'"content":{{"type":"text","text":"words, at{time.monotonic_ns():020d};"}}}}}}'
    )
    os.write(1, f"Content-Length: {len(body)}\\r\\n\\r\\n{body}".encode())
"""


def delays(rig: Rig, command: Sequence[str]) -> list[float]:
    """Return the time of each message, in milliseconds."""
    with rig.process(command) as process:
        latencies = Reader(process).collect()
        process.wait(10)
    return latencies


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
            cpu = children_seconds() - before
            rows.append((name, *quantiles_of(taken), f"{cpu:.1f}"))
            medians.append(statistics.median(taken))
        entries = sum(line.startswith(b'{"at":') for line in record.read_bytes().splitlines())
        assert entries == COUNT + 2, entries
    print_table(
        f"{COUNT} messages, {PER_SECOND} a second: milliseconds from write to read",
        ("", "median", "90%", "99%", "CPU s"),
        rows,
    )
    direct, *others = medians
    what = f"{{}} adds, median at {PER_SECOND} messages a second"
    return [
        at_most(what.format(name), median - direct, 1, " ms", digits=3)
        for name, median in zip(("the tap", "the tap with an inspector"), others, strict=True)
    ]

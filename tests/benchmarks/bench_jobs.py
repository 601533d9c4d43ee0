"""The time until a turn has ended after `chat/promptStop`, while 50 background jobs run and write.

Run it from the repository: `python tests/benchmarks/bench_jobs.py`. Bounds, on an idle machine: the
median with jobs is at most 2 ms above that without them, also while ten of them write as fast as
they can (the others write a line ten times a second); all end within the 2 s of a shutdown, though
they ignore TERM.
"""

import json
import time
from statistics import median

from bench_stop import stop_once
from report import Row, machine, print_rows, print_table
from rig import FINISHED, SCRIPT, BareClient, rig

TALKING, FLOODING = 40, 10
STOPS = 60
TALKS = "trap '' TERM; while :; do echo a line of a server; sleep 0.1; done"
FLOODS = "trap '' TERM; yes"
TODAY = {"codeAssistant": {"chatCapabilities": {"askQuestion": True}}}


def start_jobs(client: BareClient, command: str, count: int) -> None:
    """Jobs by one answer's calls; all run when this returns."""
    call = json.dumps({"command": command, "background": "job"})
    client.prompt("jobs", "\n".join([f"call eca_shell_command {call}"] * count), model=SCRIPT)
    client.read_until(FINISHED)


def stops(client: BareClient) -> float:
    """Seconds from a stop to `finished`, the median."""
    message = "repeat 99999999 words of it"
    return median(stop_once(client, f"chat-{each % 5}", message, SCRIPT) for each in range(STOPS))


def main() -> list[Row]:
    print(machine("trio"))
    with rig() as here, here.server(root=here.folder, capabilities=TODAY) as client:
        alone = stops(client)
        start_jobs(client, TALKS, TALKING)
        talking = stops(client)
        start_jobs(client, FLOODS, FLOODING)
        flooding = stops(client)
        begun = time.perf_counter()
        client.request("shutdown", None)
        ended = time.perf_counter() - begun
    figures = {"no job": alone, f"{TALKING} jobs": talking, f"and {FLOODING} that flood": flooding}
    print_table(
        "Stop to finished, median, ms",
        ("beside", "ms"),
        [(name, f"{seconds * 1e3:.2f}") for name, seconds in figures.items()],
    )
    rows = [
        Row(
            f"stop to finished beside {beside}, more than alone",
            "<= 2 ms",
            f"{(seconds - alone) * 1e3:.2f} ms",
            seconds - alone <= 0.002,
        )
        for beside, seconds in (("40 jobs", talking), ("50 jobs, 10 flooding", flooding))
    ]
    return [*rows, Row("50 jobs that ignore TERM end", "<= 2 s", f"{ended:.2f} s", ended <= 2)]


if __name__ == "__main__":
    print_rows(main())

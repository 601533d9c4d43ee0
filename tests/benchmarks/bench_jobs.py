"""How soon a turn has ended once `chat/promptStop` is sent, while 50 background jobs run and write.

Run it from the repository: `python tests/benchmarks/bench_jobs.py`. Bounds, on an idle machine: the
median with jobs is at most 2 ms above that without them; all 50 end within the 2 s of a shutdown,
though they ignore TERM. A job writes a line ten times a second, as servers and watchers do; that
one floods its output is measured, too, and has no bound: it takes a processor for itself.
"""

from __future__ import annotations

import json
import time
from statistics import median

from bench_stop import stop_once
from report import Row, machine, print_rows, print_table
from rig import FINISHED, SCRIPT, BareClient, rig

JOBS = 50
STOPS = 60
TALKS = "trap '' TERM; while :; do echo a line of a server; sleep 0.1; done"
FLOODS = "yes"
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
        start_jobs(client, TALKS, JOBS - 1)
        with_jobs = stops(client)
        start_jobs(client, FLOODS, 1)
        flooded = stops(client)
        begun = time.perf_counter()
        client.request("shutdown", None)
        ended = time.perf_counter() - begun
    figures = [
        (name, f"{each * 1e3:.2f}")
        for name, each in (
            ("no job", alone),
            (f"{JOBS - 1} jobs", with_jobs),
            ("and one that floods", flooded),
        )
    ]
    print_table("Stop to finished, median, ms", ("beside", "ms"), figures)
    return [
        Row(
            f"stop to finished beside {JOBS - 1} jobs, more than alone",
            "<= 2 ms",
            f"{(with_jobs - alone) * 1e3:.2f} ms",
            with_jobs - alone <= 0.002,
        ),
        Row(f"{JOBS} jobs that ignore TERM end", "<= 2 s", f"{ended:.2f} s", ended <= 2),
    ]


if __name__ == "__main__":
    print_rows(main())

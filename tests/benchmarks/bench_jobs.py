"""The time until a turn has ended after `chat/promptStop`, while 50 background jobs run and write.

Bounds, on an idle machine: the median with jobs is at most 2 ms above that without them, also while
ten of them write as fast as they can (the others write a line ten times a second); all end within
the 2 s of a shutdown, though they ignore TERM.
"""

import json
from statistics import median

from bench_stop import stop_once
from report import Row, at_most, clock_of, machine, milliseconds, print_table
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
        ended = clock_of(lambda: client.request("shutdown", None))()
    figures = {"no job": alone, f"{TALKING} jobs": talking, f"and {FLOODING} that flood": flooding}
    print_table(
        "Stop to finished, median, ms",
        ("beside", "ms"),
        [(name, *milliseconds(seconds)) for name, seconds in figures.items()],
    )
    what = "stop to finished beside {}, more than alone"
    return [
        at_most(what.format("40 jobs"), (talking - alone) * 1e3, 2, " ms"),
        at_most(what.format("50 jobs, 10 flooding"), (flooding - alone) * 1e3, 2, " ms"),
        at_most("50 jobs that ignore TERM end", ended, 2, " s"),
    ]

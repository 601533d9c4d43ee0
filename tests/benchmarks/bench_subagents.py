"""The time until a turn has ended after `chat/promptStop`, while eight subagents work for it.

Bound, on an idle machine: with eight models that stream at full speed the median is at most 5 ms
above that of one; all of them end before their parent does.
"""

import json
import time
from statistics import median

from bench_stop import DELTAS, TEXT, stop_once
from report import Row, at_most, machine, milliseconds, print_table
from rig import FINISHED, SCRIPT, SERVER, BareClient, rig

SUBAGENTS = 8
STOPS = 40
ENDLESS = "repeat 99999999 words of it"
SPAWN = f"call eca_spawn_agent {json.dumps({'agent': 'scout', 'task': ENDLESS})}"
SCOUT = "---\nmode: subagent\ndescription: Looks around.\n---\n"
TODAY = {"codeAssistant": {"chatCapabilities": {"askQuestion": False}}}


def stop_eight(client: BareClient) -> float:
    """Seconds from the stop to the parent's `finished`; all of its subagents stream by then."""
    client.prompt("parent", "\n".join([SPAWN] * SUBAGENTS), model=SCRIPT)
    for _ in range(SUBAGENTS + 1):
        client.read_until(b'"text":"Generating"')
    read = 0
    while read < DELTAS:
        read += len(TEXT.findall(client.read()))
    stopped = time.perf_counter()
    client.stop("parent")
    for _ in range(SUBAGENTS + 1):
        client.read_until(FINISHED)
    return time.perf_counter() - stopped


def main() -> list[Row]:
    print(machine("trio"))
    with rig() as here:
        agents = here.folder / ".eca" / "agents"
        agents.mkdir(parents=True)
        (agents / "scout.md").write_text(SCOUT)
        command = (*SERVER, "--trust-workspace")
        with here.server(root=here.folder, command=command, capabilities=TODAY) as client:
            alone = median(stop_once(client, "alone", ENDLESS, SCRIPT) for _ in range(STOPS))
            eight = median(stop_eight(client) for _ in range(STOPS))
    print_table(
        "Stop to finished, median, ms",
        ("of", "ms"),
        [("one model", *milliseconds(alone)), ("eight subagents", *milliseconds(eight))],
    )
    what = "stop to finished of eight subagents, more than of one model"
    return [at_most(what, (eight - alone) * 1e3, 5, " ms")]

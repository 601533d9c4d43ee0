"""The time until a turn has ended after `chat/promptStop`, while its model streams at full speed.

Bounds, on an idle machine: median at most 2 ms, the worst of 200 at most 25 ms, and the connection
to the provider is closed. Measured is the time from the write of the stop to the read of
`finished`, by a client that reads as fast as it can: all that was written before the stop is on its
way there, too.
"""

import re
from collections.abc import Callable
from statistics import median, quantiles

from report import Row, at_most, clock_of, machine, milliseconds, print_table
from rig import FINISHED, SCRIPT, SCRIPTED, BareClient, ScriptedProvider, rig

STOPS = 200
DELTAS = 300
"""Deltas read before each stop: the stream is at full speed by then."""
TEXT = re.compile(rb'"type":"text"')


def stop_once(client: BareClient, chat: str, message: str, model: str) -> float:
    """Seconds from the stop to `finished`."""
    client.prompt(chat, message, model=model)
    read = 0
    while read < DELTAS:
        read += len(TEXT.findall(client.read()))
    return clock_of(lambda: (client.stop(chat), client.read_until(FINISHED)))()


def stops(
    client: BareClient, message: str, model: str, *, after: Callable[[], None] = lambda: None
) -> list[float]:
    waits = []
    for number in range(STOPS):
        waits.append(stop_once(client, f"chat-{number % 10}", message, model))
        after()
    return waits


def main() -> list[Row]:
    print(machine("trio", "httpx"))
    closed: list[bool] = []

    def look_at(provider: ScriptedProvider) -> None:
        closed.append(provider.next_record()["closed_by_client"])

    with rig() as here:
        with here.server() as client:
            simulated = stops(client, "repeat 99999999 words of it", SCRIPT)
        with here.provider() as provider, here.server(provider=provider.url) as client:
            streamed = stops(client, "burst 99999999", SCRIPTED, after=lambda: look_at(provider))
    rows = []
    figures = []
    for name, waits in (("simulator", simulated), ("HTTP provider", streamed)):
        typical, late, worst = median(waits), quantiles(waits, n=100)[94], max(waits)
        figures.append((name, *milliseconds(typical, late, worst)))
        rows += [
            at_most(f"stop to finished, {name}, median", typical * 1e3, 2, " ms"),
            at_most(f"stop to finished, {name}, worst of {STOPS}", worst * 1e3, 25, " ms"),
        ]
    print_table("Stop to finished, ms", ("model", "median", "95 %", "worst"), figures)
    dropped = sum(closed)
    return [
        *rows,
        Row("HTTP connections closed by a stop", f"{STOPS}", f"{dropped}", dropped == STOPS),
    ]

"""The start and the cost of a turn in a long chat and in a short one; a long answer.

Bounds: with 2,000 messages a turn starts within 1.5 times what it takes with 20, from the write of
the prompt to the last byte of the request at the provider; a delta costs the same however long the
answer is. The whole history is sent with each request, and taken in at the other end: that share
grows. CPU is that of the server's main thread.
"""

import time
from statistics import median

from report import Row, at_most, machine, milliseconds, print_table
from rig import FINISHED, SCRIPTED, BareClient, ProviderByHand, rig

SHORT, MIDDLE, LONG = LENGTHS = (20, 200, 2_000)
"""Messages in the history; each turn adds two."""
SAMPLES = 20
DELTAS = (2_000, 20_000)
TEXT = "Some words of a question, and as many of its answer."
BOUND = 1.5


def turn_by_hand(client: BareClient, provider: ProviderByHand, chat: str) -> tuple[float, float]:
    """Wall seconds to the request, CPU seconds of the whole turn."""
    cpu = client.cpu_seconds()
    began = time.perf_counter()
    client.prompt(chat, TEXT, model=SCRIPTED)
    provider.receive()
    wall = time.perf_counter() - began
    provider.answer(TEXT)
    client.read_until(FINISHED)
    return wall, client.cpu_seconds() - cpu


def burst(client: BareClient, count: int, chat: str) -> float:
    """CPU seconds of a turn with a long answer."""
    before = client.cpu_seconds()
    client.prompt(chat, f"burst {count}", model=SCRIPTED)
    client.read_until(FINISHED)
    return client.cpu_seconds() - before


def main() -> list[Row]:
    print(machine("trio", "httpx"))
    walls: dict[int, float] = {}
    cpus: dict[int, float] = {}
    by_deltas: dict[int, float] = {}
    with rig() as here, ProviderByHand() as by_hand, here.server(provider=by_hand.url) as client:
        for length in LENGTHS:  # grown first: what is compared is then measured side by side
            for _ in range(length // 2):
                turn_by_hand(client, by_hand, f"{length}")
        rounds = [
            [turn_by_hand(client, by_hand, f"{length}") for length in LENGTHS]
            for _ in range(SAMPLES)
        ]
    for length, samples in zip(LENGTHS, zip(*rounds, strict=True), strict=True):
        walls[length], cpus[length] = map(median, zip(*samples, strict=True))
    with rig() as here, here.provider() as provider, here.server(provider=provider.url) as client:
        for count in DELTAS:
            costs = [burst(client, count, f"{count}-{n}") for n in range(5)]
            by_deltas[count] = min(costs) / count
    print_table(
        "A turn, by the history's length",
        ("messages", "ms to the request", "CPU ms in all"),
        [(f"{n:,}", *milliseconds(walls[n], cpus[n])) for n in LENGTHS],
    )
    print_table(
        "A delta, by the answer's length",
        ("deltas", "CPU us"),
        [(f"{count:,}", f"{cost * 1e6:.1f}") for count, cost in by_deltas.items()],
    )
    start, cost = walls[LONG] / walls[SHORT], cpus[LONG] / cpus[SHORT]
    growth = by_deltas[DELTAS[1]] / by_deltas[DELTAS[0]]
    beside = f"after {LONG:,} messages beside {SHORT}"
    return [
        at_most(f"start of a turn {beside}", start, BOUND),
        at_most(f"CPU of a turn {beside}", cost, BOUND),
        at_most(f"a delta of {DELTAS[1]:,} beside one of {DELTAS[0]:,}", growth, 1.2),
    ]

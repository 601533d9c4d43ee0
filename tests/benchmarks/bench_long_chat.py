"""What a turn costs the server in a short and in a long chat, and in a short and a long answer.

Run it from the repository: `python tests/benchmarks/bench_long_chat.py`. Bound: linear in the new
content, never in the square of the history's length. The history is sent with each request, so a
turn has a share that grows with it; that share per message must not grow, nor may a delta's cost
with the length of the answer. Figures are CPU time of the server's main thread.
"""

from __future__ import annotations

from statistics import median

from report import Row, machine, print_rows, print_table
from rig import FINISHED, SCRIPTED, BareClient, rig

LENGTHS = (20, 200, 2_000)
"""Messages in the history; each turn adds two."""
SAMPLES = 10
DELTAS = (2_000, 20_000)


def turn(client: BareClient, message: str, chat: str = "long") -> float:
    """CPU seconds of one turn."""
    before = client.cpu_seconds()
    client.prompt(chat, message, model=SCRIPTED)
    client.read_until(FINISHED)
    return client.cpu_seconds() - before


def main() -> list[Row]:
    print(machine("trio", "httpx"))
    by_length: dict[int, float] = {}
    by_deltas: dict[int, float] = {}
    with rig() as here, here.provider() as provider, here.server(provider=provider.url) as client:
        for _ in range(5):
            turn(client, "hello", "warm")
        messages = 0
        for length in LENGTHS:
            costs = []
            while messages < length + 2 * SAMPLES:
                cost = turn(client, "hello")
                costs += [cost] if messages >= length else []
                messages += 2
            by_length[length] = median(costs)
        for count in DELTAS:
            costs = [turn(client, f"burst {count}", f"{count}-{n}") for n in range(5)]
            by_deltas[count] = min(costs) / count
    print_table(
        "A turn of three words, by the history's length",
        ("messages", "CPU ms"),
        [(f"{length:,}", f"{cost * 1e3:.2f}") for length, cost in by_length.items()],
    )
    print_table(
        "A delta, by the answer's length",
        ("deltas", "CPU us"),
        [(f"{count:,}", f"{cost * 1e6:.1f}") for count, cost in by_deltas.items()],
    )
    short, middle, long = LENGTHS
    early = (by_length[middle] - by_length[short]) / (middle - short)
    late = (by_length[long] - by_length[middle]) / (long - middle)
    growth = by_deltas[DELTAS[1]] / by_deltas[DELTAS[0]]
    return [
        Row(
            f"share of one old message, after {middle:,} beside before it",
            "<= 1.5x",
            f"{late * 1e6:.1f} / {early * 1e6:.1f} us",
            late <= 1.5 * early,
        ),
        Row(
            f"a delta of {DELTAS[1]:,} beside one of {DELTAS[0]:,}",
            "<= 1.2x",
            f"{growth:.2f}x",
            growth <= 1.2,
        ),
    ]


if __name__ == "__main__":
    print_rows(main())

"""Many chats that stream at once: none starves, and nothing is left of them in memory.

Bounds: of 32 answers of 20,000 deltas each that begin together the slowest ends within 1.5 times
the time of the fastest; no chat is silent for longer than half a second while others speak;
resident memory is flat from one such round to the next. Three processes take part (provider,
server, client); the provider serves all chats in one task each.
"""

import re
import time
from typing import NamedTuple

from report import Row, at_most, flat, machine, print_table
from rig import SCRIPTED, BareClient, rig

CHATS = 32
DELTAS = 20_000
ROUNDS = (DELTAS, DELTAS)
"""Deltas of each answer; the first round brings what is allocated once."""

HEAD = ("deltas each", "deltas/s", "CPU us", "first end", "last end", "silence ms", "peak", "left")
MOST_UNEVEN = 1.5
LONGEST_SILENCE = 500  # milliseconds
MOST_LEFT = 8  # MiB, of what a round with all of its answers takes at its peak
LONGEST_END = 300
"""Bytes of a message that ends a turn, at most."""

SPOKEN = re.compile(rb'"chatId":\s*"many-(\d+)",\s*"role":\s*"assistant"')
ENDED = re.compile(rb'"chatId":\s*"many-(\d+)"[^{}]*\{[^{}]*"state":\s*"finished"')


class Round(NamedTuple):
    """The measurements; seconds, MiB.

    Attributes:
        fastest: until the first chat had ended.
        slowest: until the last had.
        silence: the longest that one chat had to wait while others spoke.
        cpu: of the server.
        peak: resident memory of the server at most, less that at the round's beginning.
        retained_mib: the same when the chats are deleted.
    """

    fastest: float
    slowest: float
    silence: float
    cpu: float
    peak: float
    retained_mib: float


def stream_at_once(client: BareClient, deltas: int) -> Round:
    before, cpu = client.resident_mib(), client.cpu_seconds()
    peak = before
    for chat in range(CHATS):
        client.prompt(f"many-{chat}", f"burst {deltas}", model=SCRIPTED)
    began = time.perf_counter()
    last_times: dict[bytes, float] = {}
    ends: dict[bytes, float] = {}
    silence, rest, reads = 0.0, b"", 0
    while len(ends) < CHATS:
        data = rest + client.read()
        rest = data[-LONGEST_END:]
        now = time.perf_counter() - began
        for chat in set(SPOKEN.findall(data)):
            silence = max(silence, now - last_times.get(chat, now))
            last_times[chat] = now
        for chat in ENDED.findall(data):
            ends.setdefault(chat, now)
        reads += 1
        if reads % 100 == 0:
            peak = max(peak, client.resident_mib())
    cpu = client.cpu_seconds() - cpu
    for chat in range(CHATS):
        client.request("chat/delete", {"chatId": f"many-{chat}"})
    retained_mib = client.resident_mib() - before
    return Round(min(ends.values()), max(ends.values()), silence, cpu, peak - before, retained_mib)


def main() -> list[Row]:
    print(machine("trio", "httpx", "orjson"))
    with rig() as here, here.provider() as provider, here.server(provider=provider.url) as client:
        rounds = [stream_at_once(client, deltas) for deltas in ROUNDS]
    print_table(
        f"{CHATS} chats at once",
        HEAD,
        [
            (
                f"{deltas:,}",
                f"{CHATS * deltas / each.slowest:,.0f}",
                f"{each.cpu / CHATS / deltas * 1e6:.1f}",
                f"{each.fastest:.2f} s",
                f"{each.slowest:.2f} s",
                f"{each.silence * 1e3:.0f}",
                f"{each.peak:+.1f} MiB",
                f"{each.retained_mib:+.1f} MiB",
            )
            for deltas, each in zip(ROUNDS, rounds, strict=True)
        ],
    )
    uneven = max(each.slowest / each.fastest for each in rounds)
    silence = max(each.silence for each in rounds)
    retained_mib = rounds[-1].retained_mib
    what = f"{CHATS} chats at once"
    return [
        at_most(f"{what}, slowest beside fastest", uneven, MOST_UNEVEN),
        at_most(f"{what}, longest silence of one", silence * 1e3, LONGEST_SILENCE, " ms", digits=0),
        flat(f"{what}, memory after {CHATS * DELTAS:,}", retained_mib, MOST_LEFT),
    ]

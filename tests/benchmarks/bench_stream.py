"""A long answer through an HTTP stream to the client: deltas per second, memory, the first token.

Bounds: 20,000 deltas at 15,000/s at least, resident memory flat. Three processes take part
(provider, server, client), each at full speed; the server's own share is its CPU time. The first
token's time is what the server adds to that of a bare HTTP request to the same provider.
"""

import socket
import time
from statistics import median
from urllib.parse import urlsplit

import trio
from report import Row, at_least, at_most, flat, machine, print_table
from rig import (
    FINISHED,
    SCRIPTED,
    SERVER,
    SERVER_WITHOUT_ORJSON,
    BareClient,
    Rig,
    ScriptedProvider,
    rig,
)

from eca_protocol import connect

DELTAS = 20_000
ROUNDS = 5
PROMPT = f"burst {DELTAS}"
FIRST_TEXT = b'"role":"assistant"'


def answer_time(client: BareClient) -> tuple[float, float]:
    """Wall seconds from the first delta to the end, and CPU seconds of the server for all of it."""
    cpu = client.cpu_seconds()
    client.prompt("chat", PROMPT, model=SCRIPTED)
    client.read_until(FIRST_TEXT)
    start = time.perf_counter()
    client.read_until(FINISHED)
    wall = time.perf_counter() - start
    cpu = client.cpu_seconds() - cpu
    client.request("chat/delete", {"chatId": "chat"})  # or its history would count as memory
    return wall, cpu


async def answer_time_in_sdk(here: Rig, provider: ScriptedProvider) -> list[float]:
    """Wall seconds from the first delta to the end, as a program with our client sees them."""
    times = []
    environment = here.environment | here.configuration(provider.url)
    async with connect(command=SERVER, env=environment, cwd=here.folder) as client:
        for number in range(ROUNDS):
            deltas = 0
            async for content in client.chat(f"chat-{number}").prompt(PROMPT, model=SCRIPTED):
                if content.type == "text":
                    if not deltas:
                        start = time.perf_counter()
                    deltas += 1
            times.append(time.perf_counter() - start)
            assert deltas == DELTAS
    return times


def first_token(client: BareClient, number: int) -> float:
    start = time.perf_counter()
    client.prompt(f"first-{number}", "hello", model=SCRIPTED)
    client.read_until(FIRST_TEXT)
    seconds = time.perf_counter() - start
    client.read_until(FINISHED)
    return seconds


def first_token_of_provider(url: str) -> float:
    """The same request by hand, over a connection that is open already."""
    parts = urlsplit(url)
    assert parts.hostname is not None
    body = b'{"model":"any","stream":true,"messages":[{"role":"user","content":"hello"}]}'
    head = f"POST {parts.path}/chat/completions HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        start = time.perf_counter()
        connection.sendall(head.encode() + body)
        data = b""
        while b'"content"' not in data:
            data += connection.recv(65_536)
        seconds = time.perf_counter() - start
        while b"[DONE]" not in data:
            data += connection.recv(65_536)
    return seconds


def main() -> list[Row]:
    print(machine("trio", "httpx", "orjson"))
    figures = []
    rates: dict[str, float] = {}
    growth = 0.0
    with rig() as here, here.provider() as provider:
        for name, command in (("orjson", SERVER), ("stdlib json", SERVER_WITHOUT_ORJSON)):
            with here.server(provider=provider.url, command=command) as client:
                for _ in range(2):  # imports, allocations
                    answer_time(client)
                before = client.resident_mib()
                walls, cpus = zip(*[answer_time(client) for _ in range(ROUNDS)], strict=True)
                growth = max(growth, client.resident_mib() - before)
                if command is SERVER:
                    ours = [first_token(client, number) for number in range(50)]
                    floor = [first_token_of_provider(provider.url) for _ in range(50)]
            rates[name] = DELTAS / median(walls)
            cpu = f"{min(cpus) / DELTAS * 1e6:.1f}"
            figures.append((f"raw client, {name}", f"{rates[name]:,.0f}", cpu))
        in_sdk = trio.run(answer_time_in_sdk, here, provider)
        rates["SDK"] = DELTAS / median(in_sdk)
        figures.append(("our SDK's client, orjson", f"{rates['SDK']:,.0f}", ""))
    print_table(f"{DELTAS:,} deltas", ("client", "deltas/s", "server's CPU us"), figures)
    added = median(ours) - median(floor)
    print(
        f"\n  first token: {median(ours) * 1e3:.2f} ms, of the provider {median(floor) * 1e3:.2f}"
    )
    return [
        *(
            at_least(f"{DELTAS:,} deltas, {name}", rate, 15_000, "/s", digits=0)
            for name, rate in rates.items()
        ),
        flat(f"memory after {ROUNDS * DELTAS:,} more deltas", growth, 4),
        at_most("time added to the first token (aim)", added * 1e3, 3, " ms"),
    ]

"""The cost of the ACP bridge: the time of a delta through it, and its start.

An ECA server writes 10,000 deltas a second, each with the time it was written; a client notes when
it has each whole, from the server itself and as an ACP client from `eca-server acp -- SERVER`.
Bounds: 0.2 ms more in the median, and 1.2x the CPU time of `eca-server server` to the answer of
`initialize`.
"""

import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from bench_start import cpu_of, start_to_the_answer
from report import Row, at_most, in_turns, machine, print_table
from rig import Rig, rig

COUNT = 30_000
PER_SECOND = 10_000
ROUNDS = 15
SERVER = """\
import json, os, sys, threading, time
count, period = int(sys.argv[1]), 1 / int(sys.argv[2])

def write(**message):
    body = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":"))
    os.write(1, f"Content-Length: {len(body)}\\r\\n\\r\\n{body}".encode())

def content(role, content):
    params = {"chatId": chat, "role": role, "content": content}
    write(method="chat/contentReceived", params=params)

def stream():
    due = time.monotonic() + 0.5
    for _ in range(count):
        while (left := due - time.monotonic()) > 0:
            time.sleep(left)
        due += period
        content("assistant", {"type": "text", "text": f"at{time.monotonic_ns():020d};"})
    content("system", {"type": "progress", "state": "finished", "text": ""})

while True:
    head = sys.stdin.buffer.readline()
    if not head:
        break
    sys.stdin.buffer.readline()
    message = json.loads(sys.stdin.buffer.read(int(head.split(b":")[1])))
    method = message["method"]
    if method == "initialized":
        write(method="config/updated", params={"chat": {"models": ["p/m"], "variants": []}})
    elif method == "chat/prompt":
        chat = message["params"]["chatId"]
        write(id=message["id"], result={"chatId": chat, "model": "p/m", "status": "prompting"})
        threading.Thread(target=stream).start()
    elif "id" in message:
        write(id=message["id"], result={"commands": []} if "query" in method else {})
    elif method == "exit":
        break
"""
WRITTEN = re.compile(rb"at0*(\d+);")


class Reader:
    """Reads a process's output, and collects the time of each delta in milliseconds."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert process.stdin is not None
        self.output, self.input = process.stdout.fileno(), process.stdin.fileno()
        self.delays: list[float] = []
        self.rest = b""

    def read_until(self, mark: bytes) -> bytes:
        while mark not in self.rest:
            self.rest += os.read(self.output, 65_536)
        before, _, self.rest = self.rest.partition(mark)
        return before

    def collect(self) -> list[float]:
        while len(self.delays) < COUNT:
            data = os.read(self.output, 65_536)
            now = time.monotonic_ns()
            assert data, f"it ended after {len(self.delays)} messages"
            data, end = self.rest + data, 0
            for written in WRITTEN.finditer(data):
                self.delays.append((now - int(written[1])) / 1e6)
                end = written.end()
            self.rest = data[end:]
        return self.delays


def quantiles_of(delays: Sequence[float]) -> tuple[str, ...]:
    """Return the cells of the median, 90% and 99%."""
    ordered = sorted(delays)
    return tuple(f"{ordered[int(len(ordered) * q)]:.3f}" for q in (0.5, 0.9, 0.99))


def _message(number: int | None, method: str, params: Any) -> bytes:
    request = {} if number is None else {"id": number}
    message = {"jsonrpc": "2.0", **request, "method": method, "params": params}
    return json.dumps(message).encode()


def direct(here: Rig, server: Sequence[str]) -> list[float]:
    with here.process(server) as process:
        reader = Reader(process)
        for message in (
            _message(1, "initialize", {}),
            _message(None, "initialized", {}),
            _message(2, "chat/prompt", {"chatId": "c", "message": "go"}),
        ):
            os.write(reader.input, b"Content-Length: %d\r\n\r\n%s" % (len(message), message))
        return reader.collect()


def bridged(here: Rig, server: Sequence[str]) -> list[float]:
    with here.process((sys.executable, "-m", "eca_server", "acp", "--", *server)) as process:
        reader = Reader(process)
        os.write(reader.input, _message(1, "initialize", {"protocolVersion": 1}) + b"\n")
        new = {"cwd": str(here.folder), "mcpServers": []}
        os.write(reader.input, _message(2, "session/new", new) + b"\n")
        reader.read_until(b'"sessionId":"')
        session = reader.read_until(b'"').decode()
        prompt = {"sessionId": session, "prompt": [{"type": "text", "text": "go"}]}
        os.write(reader.input, _message(3, "session/prompt", prompt) + b"\n")
        return reader.collect()


def acp_start(here: Rig) -> float:
    with here.process((sys.executable, "-m", "eca_server", "acp")) as process:
        reader = Reader(process)
        os.write(reader.input, _message(1, "initialize", {"protocolVersion": 1}) + b"\n")
        reader.read_until(b'"agentInfo"')
        process.kill()
        return cpu_of(process)


def main() -> list[Row]:
    print(machine("anyio", "orjson", "trio"))
    server = (sys.executable, "-S", "-c", SERVER, str(COUNT), str(PER_SECOND))
    with rig() as here:
        rows, medians = [], []
        for name, run in (("direct", direct), ("through the bridge", bridged)):
            delays = run(here, server)
            rows.append((name, *quantiles_of(delays)))
            medians.append(statistics.median(delays))
        contenders = {"acp": partial(acp_start, here), "server": partial(start_to_the_answer, here)}
        in_turns(contenders, 1)  # the first time compiles
        starts = in_turns(contenders, ROUNDS)
    print_table(
        f"{COUNT} deltas, {PER_SECOND} a second: milliseconds from write to read",
        ("", "median", "90%", "99%"),
        rows,
    )
    adds = medians[1] - medians[0]
    ratio = statistics.median(starts["acp"]) / statistics.median(starts["server"])
    return [
        at_most(
            f"a delta through the ACP bridge, median at {PER_SECOND} a second",
            *(adds, 0.2, " ms more"),
            digits=3,
        ),
        at_most(
            "`eca-server acp` to the answer of initialize, CPU", ratio, 1.2, "x of the server's"
        ),
    ]

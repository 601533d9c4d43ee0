"""Pipelined requests and a burst of notifications between two processes, beside other libraries.

Every figure is taken by the contender itself at one end of real pipes, with its own library at the
other end too; contenders take turns, the best round of each counts. vscode-jsonrpc is installed by
npm into a temporary folder, and left out where that fails. Bounds: requests, and notifications that
are typed where they arrive, at least 3x vscode-jsonrpc with orjson and 2x without; requests 1.5x
the Agent Client Protocol's Python SDK.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

from report import Row, at_least, in_turns, machine, print_table

from eca_protocol import json
from eca_protocol.framing import encode_frame

ROOT = Path(__file__).parents[2]
PAIRS = Path(__file__).with_name("peer_pairs.py")
REQUESTS, NOTIFICATIONS, ROUNDS = 20_000, 50_000, 5

VSCODE_SERVER = """
const rpc = require('vscode-jsonrpc/node');
const connection = rpc.createMessageConnection(
  new rpc.StreamMessageReader(process.stdin), new rpc.StreamMessageWriter(process.stdout));
connection.onRequest('add', params => params);
connection.onClose(() => process.exit(0));
connection.listen();
"""

VSCODE_CLIENT = """
const rpc = require('vscode-jsonrpc/node');
const child = require('child_process').spawn(
  process.execPath, ['server.js'], {stdio: ['pipe', 'pipe', 'inherit']});
const connection = rpc.createMessageConnection(
  new rpc.StreamMessageReader(child.stdout), new rpc.StreamMessageWriter(child.stdin));
connection.listen();
async function calls(count) {
  for (let start = 0; start < count; start += 1000) {
    const batch = [];
    for (let n = start; n < start + 1000; n++)
      batch.push(connection.sendRequest('add', {n, text: 'some words of a request'}));
    await Promise.all(batch);
  }
}
(async () => {
  await calls(1000);
  const count = Number(process.argv[2]);
  const start = process.hrtime.bigint();
  await calls(count);
  console.log(count / (Number(process.hrtime.bigint() - start) / 1e9));
  child.kill();
  process.exit(0);
})();
"""

VSCODE_RECEIVER = """
const rpc = require('vscode-jsonrpc/node');
const connection = rpc.createMessageConnection(
  new rpc.StreamMessageReader(process.stdin), new rpc.StreamMessageWriter(process.stdout));
const count = Number(process.argv[2]);
let seen = 0, start;
connection.onNotification('chat/contentReceived', () => {
  if (seen++ === 0) start = process.hrtime.bigint();
  if (seen === count) {
    console.error(count / (Number(process.hrtime.bigint() - start) / 1e9));
    process.exit(0);
  }
});
connection.listen();
"""


VSCODE_SENDER = """
const rpc = require('vscode-jsonrpc/node');
const connection = rpc.createMessageConnection(
  new rpc.StreamMessageReader(process.stdin), new rpc.StreamMessageWriter(process.stdout));
connection.onClose(() => process.exit(0));
connection.listen();
(async () => {
  const count = Number(process.argv[2]);
  for (let start = 0; start < count; start += 1000) {
    const batch = [];
    for (let n = start; n < start + 1000; n++)
      batch.push(connection.sendNotification('chat/contentReceived', {
        chatId: 'chat-1', role: 'assistant',
        content: {type: 'text', text: `words ${n} of it`}}));
    await Promise.all(batch);
  }
})();
"""


def burst() -> bytes:
    """Content notifications of about 150 bytes each."""
    message: dict[str, Any] = {"jsonrpc": "2.0", "method": "chat/contentReceived"}
    contents = ({"type": "text", "text": f"words {n} of it"} for n in range(NOTIFICATIONS))
    params = ({"chatId": "chat-1", "role": "assistant", "content": each} for each in contents)
    return b"".join(encode_frame(json.dumps({**message, "params": each})) for each in params)


def with_vscode(folder: Path) -> bool:
    """Install vscode-jsonrpc and write its three programs there; False where it cannot be."""
    for name, source in {
        "server.js": VSCODE_SERVER,
        "client.js": VSCODE_CLIENT,
        "receiver.js": VSCODE_RECEIVER,
        "sender.js": VSCODE_SENDER,
    }.items():
        (folder / name).write_text(source)
    command = ["npm", "install", "--no-audit", "--no-fund", "vscode-jsonrpc@8.2.1"]
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=120)
    except (OSError, subprocess.SubprocessError) as error:
        print(f"vscode-jsonrpc: not available ({error})")
        return False
    return True


def measure(
    contenders: Mapping[str, Sequence[str]],
    folder: Path,
    *,
    senders: Mapping[str, Sequence[str]] | None = None,
) -> dict[str, float]:
    """Operations a second of each, the best of the rounds; its sender writes into its stdin."""
    measured = {
        name: partial(once, command, folder, senders and senders[name])
        for name, command in contenders.items()
    }
    return {name: max(each) for name, each in in_turns(measured, ROUNDS).items()}


def once(command: Sequence[str], folder: Path, sends: Sequence[str] | None) -> float:
    """One figure, which the contender prints last on its stdout or stderr."""
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    source: int | IO[bytes] = subprocess.DEVNULL
    sender = None
    if sends is not None:
        pipe = subprocess.PIPE
        sender = subprocess.Popen(sends, cwd=folder, env=env, stdin=pipe, stdout=pipe)
        assert sender.stdout is not None
        source = sender.stdout
    done = subprocess.run(
        command,
        cwd=folder,
        env=env,
        stdin=source,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    if sender is not None:
        sender.communicate()
    return float((done.stdout + done.stderr).split()[-1])


def show(title: str, best: Mapping[str, float], baselines: Sequence[str]) -> None:
    present = [name for name in baselines if name in best]
    rows = [
        (name, f"{figure:,.0f}", *(f"{figure / best[other]:.2f}" for other in present))
        for name, figure in best.items()
    ]
    print_table(title, ("contender", "a second", *(f"x {name}" for name in present)), rows)


def main() -> list[Row]:
    python = [sys.executable, str(PAIRS)]
    print(machine("anyio", "trio", "orjson", "agent-client-protocol"))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        vscode = with_vscode(folder)
        ours = [("trio", "orjson"), ("trio", "stdlib"), ("asyncio", "orjson")]

        def role(name: str, count: int) -> dict[str, list[str]]:
            return {
                f"ours, {backend}, {engine}": [*python, name, backend, engine, str(count)]
                for backend, engine in ours
            }

        requests = role("client", REQUESTS)
        requests["acp"] = [*python, "acp-client", "asyncio", "stdlib", str(REQUESTS)]
        receivers = role("receiver", NOTIFICATIONS)
        senders = role("sender", NOTIFICATIONS)
        if vscode:
            requests["vscode-jsonrpc"] = ["node", "client.js", str(REQUESTS)]
            receivers["vscode-jsonrpc"] = ["node", "receiver.js", str(NOTIFICATIONS)]
            senders["vscode-jsonrpc"] = ["node", "sender.js", str(NOTIFICATIONS)]
        (folder / "burst").write_bytes(burst())
        answered = measure(requests, folder)
        received = measure(receivers, folder, senders=senders)
        alone = measure(receivers, folder, senders={each: ["cat", "burst"] for each in receivers})
    show(f"{REQUESTS} pipelined requests", answered, ["vscode-jsonrpc", "acp"])
    show(f"{NOTIFICATIONS} typed notifications, a pair", received, ["vscode-jsonrpc"])
    show(f"{NOTIFICATIONS} typed notifications, read from a pipe", alone, ["vscode-jsonrpc"])
    bounds = [("requests", answered, "orjson", "acp", 1.5)]
    if vscode:
        bounds += [
            (what, best, engine, "vscode-jsonrpc", bound)
            for what, best in (("requests", answered), ("notifications", received))
            for engine, bound in (("orjson", 3.0), ("stdlib", 2.0))
        ]
    return [
        at_least(
            f"{what}, {engine}, against {other}",
            best[f"ours, trio, {engine}"] / best[other],
            bound,
            digits=2,
        )
        for what, best, engine, other, bound in bounds
    ]

"""Bad agents: each fails only its own scenario, in time, with a reason, and leaves no process."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path

import attrs
import pytest
import trio

from eca_server.ecp.batch import Batch
from eca_server.ecp.results import ScenarioReport
from tests.eca_protocol.ecp.agents import BROKEN, ODD, script
from tests.eca_server.ecp.runs import (
    batch,
    nothing_is_left_in,
    obedient,
    outcome,
    outputs,
    processes_in,
    reports_of,
    scenario,
)

LONGEST = 6.0
"""The time limit of a scenario, in seconds: half a second for a request, three to end the agent."""

TABLE = """
hello(read())
table = %r
while True:
    r = read()
    body = table.get(r["params"]["input"])
    if body is None:
        done(r)
    else:
        exec(body)
"""

STUBBORN = "signal.signal(signal.SIGTERM, signal.SIG_IGN); "
CHILD = "subprocess.Popen(['sleep', '600']); "
LEAVES = "subprocess.Popen(['sleep', '600'], start_new_session=True); "

UNENDING = """
def read():
    while True:
        text = stdin.readline()
        if text:
            return json.loads(text)
        time.sleep(0.05)
"""

WORSE: dict[str, tuple[str, str, str]] = {
    "hangs and ignores SIGTERM": (
        STUBBORN + "time.sleep(600)",
        "timeout",
        "agent/step: no answer in 0.5 s",
    ),
    "hangs with children": (STUBBORN + CHILD + LEAVES + "time.sleep(600)", "timeout", "no answer"),
    "leaves children that hold its pipes": (
        CHILD + "os._exit(5)",
        "transport_error",
        "the agent ended with exit code 5",
    ),
    "lets go of its output": (
        "os.close(1); time.sleep(600)",
        "transport_error",
        "the agent closed its output",
    ),
    "prints for ever": (
        "while True: raw(b'noise ' * 1000 + b'\\n')",
        "timeout",
        "lines were no messages: 'noise noise",
    ),
    "logs for ever": ("while True: sys.stderr.write('x' * 60000)", "timeout", "no answer in 0.5 s"),
    "a line without end": (
        "while True: raw(b'{' * 60000)",
        "protocol_error",
        "a line of more than 65536 bytes",
    ),
    "drips": ("while True: raw(b' '); time.sleep(0.02)", "timeout", "no answer in 0.5 s"),
    "numbers without end": (
        """raw(b'{"jsonrpc": "2.0", "id": 2, "result": ' + b'9' * 5000 + b'}\\n')""",
        "protocol_error",
        "not strict JSON",
    ),
    "depth without end": (
        """raw(b'{"jsonrpc": "2.0", "id": 2, "result": ' + b'[' * 5000 + b']' * 5000 + b'}\\n')""",
        "protocol_error",
        "not strict JSON",
    ),
    "more than all numbers": (
        """raw(b'{"jsonrpc": "2.0", "id": 2, "result": {"status": "done", "n": 1e999}}\\n')""",
        "protocol_error",
        "not strict JSON",
    ),
    "an error that is none": (
        "line({'jsonrpc': '2.0', 'id': 2, 'error': None})",
        "protocol_error",
        "error: expected an object, got None",
    ),
    "a long error": (
        "line({'jsonrpc': '2.0', 'id': 2, 'error': {'code': 1, 'message': 'm' * 60000}})",
        "agent_error",
        "characters left out",
    ),
    "long last words": (
        "sys.exit('w' * 100000)",
        "transport_error",
        "the end of its error output:\nwww",
    ),
    "wrong tool calls": (
        "done(r, tool_calls=[{'name': 't', 'arguments': None}])",
        "protocol_error",
        "result.tool_calls[0].arguments: expected an object, got null",
    ),
    "tokens below zero": (
        "done(r, usage={'input_tokens': -1})",
        "protocol_error",
        "result.usage.input_tokens: expected an integer not below zero",
    ),
    "no status": (
        "answer(r, {})",
        "protocol_error",
        'result.status: expected "done" or "paused", got nothing',
    ),
}

FIRST_WORDS: dict[str, tuple[str, str, str]] = {
    "silent": ("while True: read()", "timeout", "agent/initialize: no answer in 0.5 s"),
    "deaf": ("time.sleep(600)", "timeout", "agent/initialize: no answer in 0.5 s"),
    "gone": ("sys.exit(2)", "transport_error", "exit code 2"),
    "no program": ("import no_such_module", "transport_error", "No module named 'no_such_module'"),
    "no name": (
        "answer(read(), {'capabilities': {}})",
        "protocol_error",
        "result.name: expected a string that is not empty, got nothing",
    ),
    "no capabilities": (
        "answer(read(), {'name': 'x'})",
        "protocol_error",
        "result.capabilities: expected an object, got nothing",
    ),
    "no version": (
        "answer(read(), {'name': 'x', 'capabilities': {}, 'protocol_version': None})",
        "protocol_error",
        'result.protocol_version: expected a version like "1.0", got null',
    ),
}


async def in_time(
    whole: Batch, expected: dict[str, tuple[str, str]], seconds: float = LONGEST
) -> None:
    """Check that each scenario ends as expected, with its reason, and that good ones pass."""
    started = trio.current_time()
    reports = await reports_of(whole)
    assert trio.current_time() - started < seconds * len(reports)
    for report in reports:
        if report.name == "good":
            assert report.passed, report
            continue
        kind, why = expected[report.name]
        failed = report.steps[0]
        assert outcome(report) == ("failed", kind, [kind, "skipped"]), report
        assert why in str(failed.error), report
        assert failed.error == failed.checks[0].reasoning
        assert len(str(failed.error)) < 9000
        assert len(report.log or "") <= 4096


def rpc_of(kind: str) -> float:
    return 0.5 if kind == "timeout" else 20.0


@pytest.mark.long
async def test_every_bad_agent_fails_its_scenario_alone_and_leaves_no_process(tmp_path):
    bad = {name: row for name, row in BROKEN.items() if row[1] != "timeout"} | WORSE
    table = TABLE % {name: body for name, (body, _, _) in bad.items()}
    expected = {name: (kind, why) for name, (_, kind, why) in bad.items()}

    async def run(names: list[str], rpc: float) -> None:
        scenarios = []
        for name in names:
            scenarios += [scenario(name, name, "after it"), scenario("good", "fine")]
        whole = batch(script(table), *scenarios[:-1], cwd=tmp_path, rpc=rpc)
        whole = attrs.evolve(whole, limits=attrs.evolve(whole.limits, max_message=65536))
        await in_time(whole, expected)

    async def run_mute(name: str) -> None:
        body, kind, why = FIRST_WORDS[name]
        mute = batch(script(body), scenario(name, "a", "b"), cwd=tmp_path, start=rpc_of(kind))
        await in_time(mute, {name: (kind, why)})

    hanging = [name for name, row in bad.items() if row[1] == "timeout"]
    others = [name for name in bad if name not in hanging]
    async with trio.open_nursery() as nursery:
        for name in hanging:
            nursery.start_soon(run, [name], 0.5)
        for start in range(3):
            nursery.start_soon(run, others[start::3], 20.0)
        for name in FIRST_WORDS:
            nursery.start_soon(run_mute, name)
        missing = batch(["/no/such/agent"], scenario("missing", "a", "b"))
        await in_time(missing, {"missing": ("transport_error", "cannot start '/no/such/agent'")})
    await nothing_is_left_in(tmp_path)


@pytest.mark.long
async def test_unusual_agents_pass_and_a_killed_agent_harms_no_other(tmp_path):
    """Unusual output, large inputs, and agents that do not read, do not end or leave processes."""
    table = script(TABLE % ODD)
    whole = batch(table, *[scenario(name, name, "x" * 300_000) for name in ODD], cwd=tmp_path)
    deaf = script("hello(read()); raw(b'noise\\n' * 50000); time.sleep(600)")
    unread = batch(deaf, scenario("unread", "y" * 900_000, "z"), cwd=tmp_path, rpc=0.5)
    stays = obedient(f"{CHILD}{LEAVES}\n{UNENDING}")

    async def run_odd() -> None:
        for report in await reports_of(whole):
            assert report.passed, report

    async def run_staying() -> None:
        (report,) = await reports_of(batch(stays, scenario("stays", "a", "count"), cwd=tmp_path))
        assert outputs(report) == ["a", "2"]

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_odd)
        nursery.start_soon(run_staying)
        nursery.start_soon(in_time, unread, {"unread": ("timeout", "no answer in 0.5 s")})
    await nothing_is_left_in(tmp_path)


async def test_an_agent_that_goes_between_two_steps_or_scenarios_is_noticed(tmp_path):
    goes = obedient(
        "def done(r, text):\n    answer(r, {'status': 'done', 'public_output': text})\n"
        "    if text == 'last': sys.exit(7)"
    )
    (report,) = await reports_of(batch(goes, scenario("goes", "last", "a", "b"), cwd=tmp_path))
    assert outcome(report) == ("failed", "transport_error", ["ok", "transport_error", "skipped"])
    assert "the agent ended with exit code 7" in str(report.steps[1].error)
    both = [scenario("s", "last"), scenario("t", "count")]
    one, two = await reports_of(batch(goes, *both, cwd=tmp_path, reuse_agent=True))
    assert (one.passed, outputs(two)) == (True, ["1"])
    assert "the agent was restarted" in two.warnings[0]
    await nothing_is_left_in(tmp_path)


@pytest.mark.long
async def test_floods_cost_neither_time_nor_memory(tmp_path):
    line = "raw(b'{' + b'\"' + b'x' * 100_000_000 + b'\"}\\n')"
    floods = {
        "a line of 100 MB": (line, "protocol_error", "a line of more than 65536 bytes"),
        "a log of 100 MB": ("sys.stderr.write('x' * 100_000_000); read()", "timeout", "no answer"),
        "noise without end": (
            "while True: raw(b'noise ' * 10_000 + b'\\n')",
            "protocol_error",
            "bytes of noise before an answer",
        ),
    }
    table = script(TABLE % {name: body for name, (body, _, _) in floods.items()})
    before = memory()
    for name, (_, kind, why) in floods.items():
        whole = batch(
            table, scenario(name, name, "a"), cwd=tmp_path, rpc=30 if kind != "timeout" else 3
        )
        whole = attrs.evolve(whole, limits=attrs.evolve(whole.limits, max_message=65536))
        await in_time(whole, {name: (kind, why)}, 40)
    assert memory() - before < 50_000_000
    await nothing_is_left_in(tmp_path)


def memory() -> int:
    """Return the resident memory of this process in bytes."""
    pages = Path("/proc/self/statm").read_text("ascii").split()[1]
    return int(pages) * os.sysconf("SC_PAGE_SIZE")


Answer = Callable[[trio.SocketStream, int], Awaitable[None]]

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n"
RESULT = b'{"jsonrpc": "2.0", "id": $ID, "result": {"status": "done", "public_output": "ok"}}'
JSON, EVENTS = HEAD % b"application/json", HEAD % b"text/event-stream"


def bytes_of(data: bytes, *, ending: str = "close", drip: bytes = b"") -> Answer:
    async def answer(stream: trio.SocketStream, request_id: int) -> None:
        await stream.send_all(data.replace(b"$ID", str(request_id).encode()))
        while drip:
            await stream.send_all(drip)
            await trio.sleep(0.02)
        if ending == "stay":
            await trio.sleep_forever()
        if ending == "reset":
            linger = b"\1\0\0\0\0\0\0\0"
            stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)

    return answer


SERVERS: dict[str, tuple[Answer, str, str]] = {
    "says nothing": (
        bytes_of(b"", ending="stay"),
        "timeout",
        "agent/step: no complete answer in 0.5 s",
    ),
    "hangs up": (bytes_of(b""), "transport_error", "agent/step"),
    "resets": (bytes_of(JSON, ending="reset"), "transport_error", "agent/step"),
    "no http": (bytes_of(b"SSH-2.0-x\r\n"), "transport_error", "agent/step"),
    "drips its head": (bytes_of(JSON, drip=b"X: y\r\n"), "timeout", "no complete answer in 0.5 s"),
    "drips its body": (
        bytes_of(JSON + b"\r\n", drip=b" "),
        "timeout",
        "no complete answer in 0.5 s",
    ),
    "drips comments": (
        bytes_of(EVENTS + b"\r\n", drip=b": still here\n\n"),
        "timeout",
        "no complete answer in 0.5 s",
    ),
    "a cut body": (
        bytes_of(JSON + b"Content-Length: 500\r\n\r\n" + RESULT),
        "transport_error",
        "agent/step",
    ),
    "cut chunks": (
        bytes_of(JSON + b"Transfer-Encoding: chunked\r\n\r\n20\r\n{"),
        "transport_error",
        "agent/step",
    ),
    "cut events": (
        bytes_of(EVENTS + b"\r\ndata: " + RESULT),
        "protocol_error",
        "the events ended before the answer",
    ),
    "no json": (bytes_of(JSON + b'\r\n{"jsonrpc": "2.0"'), "protocol_error", "not strict JSON"),
    "broken text": (
        bytes_of(JSON + b"\r\n" + RESULT.replace(b"ok", b"\xff")),
        "protocol_error",
        "not strict JSON",
    ),
    "events of broken text": (
        bytes_of(EVENTS + b"\r\ndata: {\n\n", ending="stay"),
        "protocol_error",
        "not strict JSON",
    ),
    "a page": (
        bytes_of(HEAD % b"text/html" + b"\r\n<html>Log in"),
        "protocol_error",
        "got text/html: '<html>Log in'",
    ),
    "a body without end": (
        bytes_of(JSON + b"\r\n" + b" " * 2_000_000, ending="stay"),
        "protocol_error",
        "more than 1000000 bytes",
    ),
    "a redirect": (
        bytes_of(b"HTTP/1.1 307 X\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n"),
        "transport_error",
        "status 307 to http://127.0.0.1:1/; redirects are not followed",
    ),
    "moved by events": (
        bytes_of(EVENTS + b"\r\ndata: " + RESULT.replace(b"$ID", b"999") + b"\n\n", ending="stay"),
        "protocol_error",
        "an answer with the id 999",
    ),
    "busy": (
        bytes_of(b"HTTP/1.1 503 X\r\nContent-Length: 4\r\n\r\nbusy"),
        "transport_error",
        "status 503: busy",
    ),
}

FINE = {
    "chunks": JSON + b"Transfer-Encoding: chunked\r\n\r\n" + b"$CHUNKS",
    "until it hangs up": JSON + b"\r\n" + RESULT,
    "events": EVENTS + b"\r\n: hi\r\n\r\nevent: message\r\ndata: " + RESULT + b"\r\n\r\n",
}


@asynccontextmanager
async def bad_server() -> AsyncIterator[str]:
    """Run a server that initializes correctly and answers a step as its input names."""

    async def serve(stream: trio.SocketStream) -> None:
        with suppress(trio.BrokenResourceError):
            async with stream:
                await answer(stream)

    async def answer(stream: trio.SocketStream) -> None:
        data = b""
        while not data.endswith(b"}"):
            data += await stream.receive_some()
        request = json.loads(data.partition(b"\r\n\r\n")[2])
        if request["method"] != "agent/step":
            identity = {"name": "bad", "capabilities": {}, "protocol_version": "1.0"}
            result = identity if request["method"] == "agent/initialize" else True
            body = json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result})
            await stream.send_all(JSON + b"\r\n" + body.encode())
            return
        name = request["params"]["input"]
        if name in SERVERS:
            await SERVERS[name][0](stream, request["id"])
            return
        whole = RESULT.replace(b"$ID", str(request["id"]).encode())
        pieces = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in (whole[:9], whole[9:], b""))
        fine = FINE.get(name, FINE["events"]).replace(RESULT, whole).replace(b"$CHUNKS", pieces)
        await stream.send_all(fine)

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/ecp"
        nursery.cancel_scope.cancel()


async def test_every_bad_server_fails_its_scenario_alone():
    expected = {name: (kind, why) for name, (_, kind, why) in SERVERS.items()}
    async with bad_server() as url:

        async def run(names: list[str], rpc: float) -> None:
            scenarios = []
            for name in names:
                scenarios += [scenario(name, name, "after it"), scenario("good", "fine")]
            await in_time(batch(url, *scenarios, rpc=rpc), expected, 2.5)

        async with trio.open_nursery() as nursery:
            for name, (_, kind, _) in SERVERS.items():
                nursery.start_soon(run, [name], rpc_of(kind))
        for report in await reports_of(batch(url, *[scenario(name, name) for name in FINE])):
            assert report.passed, report


async def test_a_cancelled_scenario_leaves_no_process(tmp_path):
    reports: list[ScenarioReport] = []

    async def run() -> None:
        whole = batch(obedient(STUBBORN + CHILD + LEAVES), scenario("s", "hang"), cwd=tmp_path)
        reports.extend(await reports_of(whole))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        with trio.fail_after(20):
            while len(processes_in(tmp_path)) < 3:
                await trio.sleep(0.02)
        nursery.cancel_scope.cancel()
    assert not reports
    await nothing_is_left_in(tmp_path)

"""Bad agents: each fails only its own scenario, in time, with a reason, and leaves no process."""

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
from tests import promises
from tests.eca_protocol.ecp.agents import script
from tests.eca_server.ecp.runs import (
    batch,
    nothing_is_left_in,
    obedient,
    outcome,
    outputs,
    reports_of,
    scenario,
)
from tests.eca_server.processes import processes_in

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


NOISE = "raw(b'noise ' * 10_000 + b'\\n')"
WORSE: dict[str, tuple[str, str, str]] = {
    "hangs and ignores SIGTERM": (STUBBORN + "time.sleep(600)", "timeout", "no answer in 0.5 s"),
    "hangs with children": (STUBBORN + CHILD + LEAVES + "time.sleep(600)", "timeout", "no answer"),
    "leaves children with its pipes": (CHILD + "os._exit(5)", "transport_error", "exit code 5"),
    "lets go": ("os.close(1); time.sleep(600)", "transport_error", "the agent closed its output"),
    "prints for ever": (
        f"while True: {NOISE}; time.sleep(0.1)",
        "timeout",
        "lines were no messages: 'noise",
    ),
    "floods": (f"while True: {NOISE}", "protocol_error", "bytes of noise before an answer"),
    "logs for ever": ("while True: sys.stderr.write('x' * 60000)", "timeout", "no answer in 0.5 s"),
    "no end": (
        "while True: raw(b'{' * 60000)",
        "protocol_error",
        "a line of more than 65536 bytes",
    ),
    "drips": ("while True: raw(b' '); time.sleep(0.02)", "timeout", "no answer in 0.5 s"),
    "long last words": ("sys.exit('w' * 100000)", "transport_error", "its error output:\nwww"),
    "a long error": (
        "line({'jsonrpc': '2.0', 'id': 2, 'error': {'code': 1, 'message': 'm' * 60000}})",
        *("agent_error", "characters left out"),
    ),
}
FIRST_WORDS: dict[str, tuple[str, str, str]] = {
    "silent": ("while True: read()", "timeout", "agent/initialize: no answer in 0.5 s"),
    "deaf": ("time.sleep(600)", "timeout", "agent/initialize: no answer in 0.5 s"),
    "gone": ("sys.exit(2)", "transport_error", "exit code 2"),
    "no program": ("import no_such_module", "transport_error", "No module named 'no_such_module'"),
}


async def in_time(
    whole: Batch, expected: dict[str, tuple[str, str]], seconds: float = LONGEST
) -> None:
    """Check that each scenario ends as expected, with its reason, and that good ones pass."""
    started = trio.current_time()
    reports = await reports_of(whole)
    promises.check(trio.current_time() - started, limit=seconds * len(reports))
    for report in reports:
        if report.name == "good":
            if report.exit_reason == "timeout":  # it has the limit of the bad one
                raise promises.TooSlow(report)
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
async def test_every_bad_agent_fails_its_scenario_alone_and_leaves_nothing(tmp_path):
    table = TABLE % {name: body for name, (body, _, _) in WORSE.items()}
    expected = {name: (kind, why) for name, (_, kind, why) in (WORSE | FIRST_WORDS).items()}
    before = memory()

    async def run(name: str) -> None:
        scenarios = scenario(name, name, "after it"), scenario("good", "fine")
        whole = batch(script(table), *scenarios, cwd=tmp_path, rpc=rpc_of(expected[name][0]))
        whole = attrs.evolve(whole, limits=attrs.evolve(whole.limits, max_message=65536))
        await in_time(whole, expected)

    async def run_mute(name: str) -> None:
        seconds = rpc_of(expected[name][0])
        mute = scenario(name, "a", "b")
        await in_time(
            batch(script(FIRST_WORDS[name][0]), mute, cwd=tmp_path, start=seconds), expected
        )

    async with trio.open_nursery() as nursery:
        for name in WORSE:
            nursery.start_soon(run, name)
        for name in FIRST_WORDS:
            nursery.start_soon(run_mute, name)
        missing = batch(["/no/such/agent"], scenario("missing", "a", "b"))
        await in_time(missing, {"missing": ("transport_error", "cannot start '/no/such/agent'")})
    assert memory() - before < 50_000_000
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


STILL = "no complete answer in 0.5 s"
CHUNKED = JSON + b"Transfer-Encoding: chunked\r\n\r\n20\r\n{"
SERVERS: dict[str, tuple[Answer, str, str]] = {
    "says nothing": (bytes_of(b"", ending="stay"), "timeout", STILL),
    "drips its head": (bytes_of(JSON, drip=b"X: y\r\n"), "timeout", STILL),
    "drips its body": (bytes_of(JSON + b"\r\n", drip=b" "), "timeout", STILL),
    "drips comments": (bytes_of(EVENTS + b"\r\n", drip=b": here\n\n"), "timeout", STILL),
    "hangs up": (bytes_of(b""), "transport_error", "agent/step"),
    "resets": (bytes_of(JSON, ending="reset"), "transport_error", "agent/step"),
    "no http": (bytes_of(b"SSH-2.0-x\r\n"), "transport_error", "agent/step"),
    "a cut body": (
        bytes_of(JSON + b"Content-Length: 500\r\n\r\n" + RESULT),
        *("transport_error", "agent/step"),
    ),
    "cut chunks": (bytes_of(CHUNKED), "transport_error", "agent/step"),
    "cut events": (
        bytes_of(EVENTS + b"\r\ndata: " + RESULT),
        *("protocol_error", "the events ended before the answer"),
    ),
    "broken text": (
        bytes_of(JSON + b"\r\n" + RESULT.replace(b"ok", b"\xff")),
        *("protocol_error", "not strict JSON"),
    ),
    "a body without end": (
        bytes_of(JSON + b"\r\n" + b" " * 2_000_000, ending="stay"),
        *("protocol_error", "more than 1000000 bytes"),
    ),
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
        bad = SERVERS.get(request["params"]["input"])
        reply = bytes_of(JSON + b"\r\n" + RESULT) if bad is None else bad[0]
        await reply(stream, request["id"])

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield f"http://127.0.0.1:{listeners[0].socket.getsockname()[1]}/ecp"
        nursery.cancel_scope.cancel()


async def test_every_bad_server_fails_its_scenario_alone():
    expected = {name: (kind, why) for name, (_, kind, why) in SERVERS.items()}
    async with bad_server() as url:

        async def run(name: str) -> None:
            scenarios = scenario(name, name, "after it"), scenario("good", "fine")
            await in_time(batch(url, *scenarios, rpc=rpc_of(expected[name][0])), expected, 2.5)

        async with trio.open_nursery() as nursery:
            for name in SERVERS:
                nursery.start_soon(run, name)


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

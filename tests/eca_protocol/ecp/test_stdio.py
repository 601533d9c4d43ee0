"""Agents over standard input and output: correct ones, and ones that break the protocol."""

import asyncio
import subprocess
import sys
import time

import pytest

from eca_protocol import json
from eca_protocol.ecp import AgentError, AgentLimits, connect_agent, stdio_agent
from eca_protocol.ecp.errors import first_words
from eca_protocol.ecp.lines import AgentLineReader, envelope_fault
from tests import promises
from tests.eca_protocol.ecp.agents import BROKEN, ODD, OK, script, stepping
from tests.eca_server.processes import is_alive, open_descriptors

pytestmark = pytest.mark.anyio

DESK = """
import sys, time
from eca_protocol.ecp import Result, agent, on_step, on_initialize, serve_stdio

print("a print that is not the wire's")

@agent(name="desk")
class Desk:
    def __init__(self):
        self.count = 0
        self.greeting = ""

    @on_initialize
    def greet(self, config):
        self.greeting = config.get("greeting", "")

    @on_step
    def answer(self, text):
        print("another one")
        self.count += 1
        if text == "fail":
            raise ValueError("no such book")
        if text == "nonsense":
            return 3
        if text == "nan":
            return Result(tool_calls=[{"name": "t", "arguments": {"n": float("nan")}}])
        if text == "compute":
            time.sleep(600)
        return Result(public_output=f"{self.greeting}{self.count}", logs="noted")

serve_stdio(Desk, backend=sys.argv[1])
"""


async def test_a_class_is_an_agent_whose_conversations_know_nothing_of_each_other(
    anyio_backend, tmp_path
):
    file = tmp_path / "desk.py"
    file.write_text(DESK, "utf-8")
    async with connect_agent([sys.executable, str(file), anyio_backend]) as agent:
        initialized = await agent.initialize({"greeting": "Book "}, deadline=20)
        assert (initialized.name, initialized.protocol_version) == ("desk", "1.0")
        assert initialized.capabilities == {"reset": {}}
        assert (await agent.step("a", deadline=20)).public_output == "Book 1"
        assert (await agent.step("b", deadline=20)).public_output == "Book 2"
        for text, why in [
            ("fail", "agent/step: ValueError: no such book (-32000)"),
            ("nonsense", "agent/step: TypeError: expected the step to return a Result"),
            ("nan", "agent/step: LocalProtocolError"),
        ]:
            with pytest.raises(AgentError) as caught:
                await agent.step(text, deadline=20)
            assert caught.value.kind == "agent_error"
            assert caught.value.message.startswith(why)
        await agent.reset(deadline=20)
        assert (await agent.step("c", deadline=20)).public_output == "1"
        await agent.initialize(deadline=20)
        assert (await agent.step("d", deadline=20)).public_output == "1"
        assert "another one" in agent.log()
        assert "Traceback" in agent.log()
        with pytest.raises(AgentError, match=r"no answer in 0[.]1 s"):
            await agent.step("compute", deadline=0.1)
        started = time.monotonic()
    promises.check(time.monotonic() - started, limit=0.9)  # the end waits for no busy agent


@pytest.mark.requirement("W-5f")
@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_bad_answer_is_an_error_of_its_kind_that_says_what_came(name, monkeypatch):
    body, kind, why = BROKEN[name]
    if name == "closed output":  # which runs as long as it is waited for
        monkeypatch.setattr(stdio_agent, "_EXIT", 0.1)
    deadline = 0.2 if kind == "timeout" else 20
    async with connect_agent(stepping(body), limits=AgentLimits(max_message=65536)) as agent:
        await agent.initialize(deadline=20)
        with pytest.raises(AgentError) as caught:
            await agent.step("x", deadline=deadline)
    assert caught.value.kind == kind
    assert why in caught.value.message


@pytest.mark.parametrize("name", ODD)
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_unusual_but_allowed_output_is_ignored(name):
    async with connect_agent(stepping(ODD[name])) as agent:
        await agent.initialize(deadline=20)
        for _ in range(2):
            result = await agent.step("y" * 100_000, deadline=20)
            assert result.public_output == "ok"
        assert len(agent.log()) <= 65536


async def test_a_mark_at_the_start_and_a_last_line_without_its_end_are_read():
    body = "raw(b'\\xef\\xbb\\xbf'); hello(read()); r = read()\n"
    body += "raw(json.dumps({'jsonrpc': '2.0', 'id': 2, 'result': {'status': 'done'}}).encode())\n"
    async with connect_agent(script(body)) as agent:
        await agent.initialize(deadline=20)
        assert (await agent.step("x", deadline=20)).status == "done"
        with pytest.raises(AgentError, match="exit code 0"):
            await agent.step("x", deadline=20)


def test_a_task_cancelled_by_asyncio_itself_leaves_neither_process_nor_descriptor():
    pids: list[int] = []

    async def talk() -> None:
        async with connect_agent(script("time.sleep(60)")) as agent:
            pids.append(agent._child.pid)

    async def main() -> list[int]:
        counts = []
        for _ in range(2):
            task = asyncio.create_task(talk())
            while not pids:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert not is_alive(pids.pop())
            counts.append(open_descriptors())
        return counts

    first, second = asyncio.run(main())
    assert first == second


async def test_a_command_that_is_not_there_is_named():
    with pytest.raises(AgentError, match="no-such-agent") as caught:
        async with connect_agent(["no-such-agent"]):
            pass
    assert caught.value.kind == "transport_error"


def test_an_interrupt_ends_a_script_at_once_whatever_it_computes(anyio_backend):
    body = f"""
import os, signal, sys, time
from eca_protocol.ecp import serve_stdio
def answer(text):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(600)
serve_stdio(answer, backend={anyio_backend!r})
"""
    step = {"jsonrpc": "2.0", "id": 1, "method": "agent/step", "params": {"input": "x"}}
    command, pipe = [sys.executable, "-c", body], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as running:
        running.stdin.write(json.dumps(step) + b"\n")
        running.stdin.flush()
        assert (running.wait(20), running.stderr.read()) == (0, b"")


@pytest.mark.parametrize("cut", [False, True], ids=["one write", "two writes"])
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_an_answer_counts_even_if_a_later_message_breaks_a_rule(cut):
    bad = """b'\\n{"jsonrpc": "2.0", "id": 99, "result": 1}\\n'"""
    body = f"raw({OK}); raw({bad})" if cut else f"raw({OK} + {bad})"
    async with connect_agent(stepping(body)) as agent:
        await agent.initialize(deadline=20)
        assert (await agent.step("x", deadline=20)).status == "done"
        with pytest.raises(AgentError, match="an answer with the id 99") as caught:
            await agent.step("x", deadline=20)
    assert caught.value.kind == "protocol_error"


KEY = "correct-horse-battery"


def test_second_answers_are_warned_of_a_few_times_and_then_break_the_protocol() -> None:
    warnings: list[str] = []
    violations: list[str] = []
    reader = AgentLineReader(
        pending=lambda: {1},
        on_violation=violations.append,
        on_warning=warnings.append,
        max_noise=10_000,
    )
    answer = b'{"jsonrpc": "2.0", "id": 1, "result": true}'
    assert len(reader.read([answer] * 100)) == 1
    assert (len(warnings), violations) == (5, [])
    reader.read([answer] * 1000)
    assert (len(warnings), len(violations)) == (5, 1)
    assert "noise" in violations[0]


@pytest.mark.parametrize(
    ("text", "excerpt"),
    [
        (b"one two", "one two"),
        (b"one two3", "one ..."),
        (b"one two three", "one ..."),
        (b"onetwothree", "..."),
        ("ééé ééé".encode(), "ééé ééé"),
        ("é\U0001f600é ééééé".encode(), "é\U0001f600é ..."),
        ("one two3", "one ..."),
    ],
)
def test_an_excerpt_ends_with_a_whole_word(text: str | bytes, excerpt: str) -> None:
    assert first_words(text, 7) == excerpt


def test_a_cut_line_or_value_shows_no_half_of_a_key() -> None:
    violations: list[str] = []
    reader = AgentLineReader(
        pending=lambda: {1}, on_violation=violations.append, on_warning=violations.append
    )
    reader.read([b"x" * 180 + KEY.encode(), b"x " * 95 + KEY.encode()])
    reader.read([f'{{"jsonrpc": "2.0", "id": "{"x" * 50}{KEY}", "result": 1}}'.encode()])
    assert (reader.noise_excerpts, len(violations)) == (["...", "x " * 95 + "..."], 1)
    faults = [
        envelope_fault({"jsonrpc": "x" * 50 + KEY}),
        envelope_fault({"jsonrpc": "2.0", "error": "x" * 50 + KEY}),
    ]
    assert "corr" not in f"{violations} {faults}"

"""Agents over standard input and output: good ones of ours, and whatever else may be started."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import pytest

from eca_protocol.ecp import AgentFault, AgentLimits, connect_agent
from tests.eca_protocol.ecp.agents import script, stepping

pytestmark = pytest.mark.anyio

DESK = """
import sys, time
from eca_protocol.ecp import Result, agent, on_step, on_initialize, serve_stdio

print("a print that is not the wire's")

@agent(name="desk")
class Desk:
    def __init__(self):
        self.seen = 0
        self.greeting = ""

    @on_initialize
    def greet(self, config):
        self.greeting = config.get("greeting", "")

    @on_step
    def answer(self, text):
        print("another one")
        self.seen += 1
        if text == "fail":
            raise ValueError("no such book")
        if text == "nonsense":
            return 3
        if text == "nan":
            return Result(tool_calls=[{"name": "t", "arguments": {"n": float("nan")}}])
        if text == "compute":
            time.sleep(600)
        return Result(public_output=f"{self.greeting}{self.seen}", logs="noted")

serve_stdio(Desk, backend=sys.argv[1])
"""


@pytest.mark.parametrize("served_by", ["trio", "asyncio"])
async def test_a_class_is_an_agent_whose_conversations_know_nothing_of_each_other(
    served_by: str, tmp_path: Path
) -> None:
    file = tmp_path / "desk.py"
    file.write_text(DESK, "utf-8")
    async with connect_agent([sys.executable, str(file), served_by]) as agent:
        told = await agent.initialize({"greeting": "Book "}, deadline=20)
        assert (told.name, told.capabilities, told.protocol_version) == (
            "desk",
            {"reset": {}},
            "1.0",
        )
        assert (await agent.step("a", deadline=20)).public_output == "Book 1"
        assert (await agent.step("b", deadline=20)).public_output == "Book 2"
        for text, why in [
            ("fail", "agent/step: ValueError: no such book (-32000)"),
            ("nonsense", "agent/step: TypeError: the step gave int"),
            ("nan", "agent/step: LocalProtocolError"),
        ]:
            with pytest.raises(AgentFault) as caught:
                await agent.step(text, deadline=20)
            assert caught.value.kind == "agent_error"
            assert caught.value.message.startswith(why)
        await agent.reset(deadline=20)
        assert (await agent.step("c", deadline=20)).public_output == "1"
        await agent.initialize(deadline=20)
        assert (await agent.step("d", deadline=20)).public_output == "1"
        assert "another one" in agent.log()
        assert "Traceback" in agent.log()
        with pytest.raises(AgentFault, match=r"no answer in 0[.]1 s"):
            await agent.step("compute", deadline=0.1)
        began = time.monotonic()
    assert time.monotonic() - began < 0.9, "an agent that computes was waited for"


FAULTS: dict[str, tuple[Sequence[str], str, str]] = {
    "no answer": (stepping("time.sleep(60)"), "timeout", "no answer in 0.2 s"),
    "exit": (stepping("sys.exit(3)"), "transport_error", "exit code 3"),
    "killed": (stepping("os.kill(os.getpid(), 9)"), "transport_error", "ended by SIGKILL"),
    "last words": (stepping("sys.exit('my fault')"), "transport_error", "my fault"),
    "closed output": (
        stepping("os.close(1); read()"),
        "transport_error",
        "the agent closed its output",
    ),
    "wrong id": (
        stepping("r['id'] = 99; done(r)"),
        "protocol_error",
        "an answer with the id 99, expected 2",
    ),
    "id as text": (stepping("r['id'] = '2'; done(r)"), "protocol_error", "id '2', expected 2"),
    "id as float": (stepping("r['id'] = 2.0; done(r)"), "protocol_error", "id 2.0, expected 2"),
    "no id": (stepping("line({'jsonrpc': '2.0', 'result': 1})"), "protocol_error", "id None"),
    "cut line": (
        stepping("""raw(b'{"jsonrpc": "2.0", "id": 2, "res\\n')"""),
        "protocol_error",
        "not strict JSON",
    ),
    "not a number": (
        stepping("done(r, usage={'input_tokens': float('nan')})"),
        "protocol_error",
        "not strict JSON",
    ),
    "equal keys": (
        stepping(
            """raw(b'{"jsonrpc": "2.0", "id": 2, "id": 2, "result": {"status": "done"}}\\n')"""
        ),
        "protocol_error",
        "not strict JSON",
    ),
    "broken text": (
        stepping("""raw(b'{"jsonrpc": "2.0", "id": 2, "result": "\\xff"}\\n')"""),
        "protocol_error",
        "not strict JSON",
    ),
    "too long": (
        stepping("raw(b'{' + b' ' * 70000 + b'}')"),
        "protocol_error",
        "a line of more than 65536 bytes",
    ),
    "an array": (
        stepping("line([{'jsonrpc': '2.0', 'id': 2, 'result': {'status': 'done'}}])"),
        "protocol_error",
        "an array of answers",
    ),
    "both": (
        stepping("line({'jsonrpc': '2.0', 'id': 2, 'result': 1, 'error': None})"),
        "protocol_error",
        "one of result and error, got both",
    ),
    "no version": (
        stepping("line({'id': 2, 'result': {'status': 'done'}})"),
        "protocol_error",
        'jsonrpc: expected "2.0"',
    ),
    "true as a code": (
        stepping("line({'jsonrpc': '2.0', 'id': 2, 'error': {'code': True, 'message': ''}})"),
        "protocol_error",
        "error.code: expected an integer",
    ),
    "a wrong type": (
        stepping("answer(r, {'status': 'done', 'public_output': 3})"),
        "protocol_error",
        "result.public_output: expected a string or null, got 3",
    ),
    "its own error": (
        stepping("line({'jsonrpc': '2.0', 'id': 2, 'error': {'code': 5, 'message': 'no'}})"),
        "agent_error",
        "no (5)",
    ),
}


@pytest.mark.requirement("W-5f")
@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_a_bad_answer_is_a_fault_of_its_kind_that_says_what_came(name: str) -> None:
    command, kind, why = FAULTS[name]
    patience = 0.2 if kind == "timeout" else 20
    async with connect_agent(command, limits=AgentLimits(max_message=65536)) as agent:
        await agent.initialize(deadline=20)
        with pytest.raises(AgentFault) as caught:
            await agent.step("x", deadline=patience)
    assert caught.value.kind == kind
    assert why in caught.value.message


TOLERATED = {
    "noise": "print('loading', flush=True); line([1]); line(7); line({'level': 'info'}); done(r)",
    "notifications": "line({'jsonrpc': '2.0', 'method': 'log', 'params': {}}); done(r)",
    "a second answer": "done(r); done(r, 'again')",
    "blank lines": "raw(b'\\r\\n\\n  \\n'); done(r)",
    "carriage returns": "raw(json.dumps({'jsonrpc': '2.0', 'id': r['id'], 'result': "
    "{'status': 'done', 'public_output': 'ok'}}).encode() + b'\\r\\n')",
    "one byte at a time": "for b in json.dumps({'jsonrpc': '2.0', 'id': r['id'], 'result': "
    "{'status': 'done', 'public_output': 'ok'}}).encode() + b'\\n': raw(bytes([b]))",
    "floods of its log": "sys.stderr.write('x' * 300000); sys.stderr.flush(); done(r)",
    "unknown fields": "done(r, mood='fine')",
    "printing before it reads": "raw(b'x\\n' * 40000); done(r)",
    "a question": "line({'jsonrpc': '2.0', 'id': 'q', 'method': 'ask'}); "
    "assert read()['error']['code'] == -32601; done(r)",
}


@pytest.mark.parametrize("name", TOLERATED)
@pytest.mark.parametrize("anyio_backend", ["trio"])
async def test_what_is_odd_and_harmless_is_passed_over(name: str) -> None:
    async with connect_agent(stepping(TOLERATED[name])) as agent:
        await agent.initialize(deadline=20)
        for _ in range(2):
            result = await agent.step("y" * 100_000, deadline=20)
            assert result.public_output == "ok"
        assert len(agent.log()) <= 65536


async def test_a_mark_at_the_start_and_a_last_line_without_its_end_are_read() -> None:
    body = "raw(b'\\xef\\xbb\\xbf'); hello(read()); r = read()\n"
    body += "raw(json.dumps({'jsonrpc': '2.0', 'id': 2, 'result': {'status': 'done'}}).encode())\n"
    async with connect_agent(script(body)) as agent:
        await agent.initialize(deadline=20)
        assert (await agent.step("x", deadline=20)).status == "done"
        with pytest.raises(AgentFault, match="exit code 0"):
            await agent.step("x", deadline=20)


async def test_nothing_of_its_group_is_left_and_a_grandchild_holds_nothing_up(
    tmp_path: Path,
) -> None:
    note = tmp_path / "pid"
    body = f"""
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen(["sleep", "600"])
open({str(note)!r}, "w").write(str(child.pid))
hello(read())
read()
os._exit(4)
"""
    began = time.monotonic()
    async with connect_agent(script(body)) as agent:
        await agent.initialize(deadline=20)
        with pytest.raises(AgentFault, match="exit code 4"):
            await agent.step("x", deadline=20)
    assert time.monotonic() - began < 5
    assert not is_alive(int(note.read_text()))


def is_alive(pid: int) -> bool:
    """Whether the process runs; one that nobody has reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_a_command_that_is_not_there_is_named() -> None:
    with pytest.raises(AgentFault, match="no-such-agent") as caught:
        async with connect_agent(["no-such-agent"]):
            pass
    assert caught.value.kind == "transport_error"

"""The suite for agents: our agent keeps every row, and each mutant of it breaks its own."""

import copy
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import attrs
import pytest

from eca_protocol.streams import Transport
from eca_protocol.testing.conformance.acp.harness import acp_cases
from eca_protocol.testing.conformance.acp.suite import AcpSuite
from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.suite import run_suite
from eca_protocol.testing.conformance.target import Target
from eca_protocol.testing.requirements import ACP_REQUIREMENTS
from eca_server.acp.agent import Agent
from eca_server.connection.features.host import Options
from eca_server.connection.server import Server

Message: TypeAlias = dict[str, Any]
Mutate: TypeAlias = Callable[[str, Message, Message], Iterable[Message | bytes]]
"""Called with the kind of a message (`=METHOD` for an answer), it, and the request it answers."""

CANCELS = {"ACP-24", "ACP-40", "ACP-41", "ACP-42", "ACP-43", "ACP-44"}


@attrs.define
class Mutant:
    """The transport of an agent whose messages are changed on their way."""

    inner: Transport
    mutate: Mutate
    _requests: dict[Any, Message] = attrs.field(factory=dict)
    _input: bytes = b""

    async def receive(self) -> bytes:
        data = await self.inner.receive()
        *lines, self._input = (self._input + data).split(b"\n")
        for line in lines:
            try:
                message = json.loads(line)
            except ValueError:
                continue
            if "method" in message and "id" in message:
                self._requests.setdefault(message["id"], message)
        return data

    async def send(self, data: bytes) -> None:
        changed = b""
        for line in data.splitlines():
            message = json.loads(line)
            request = self._requests.get(message.get("id"), {}) if "method" not in message else {}
            update = message.get("params", {}).get("update", {})
            kind = (
                update.get("sessionUpdate") or message.get("method") or f"={request.get('method')}"
            )
            for each in self.mutate(kind, message, request):
                changed += each if isinstance(each, bytes) else json.dumps(each).encode() + b"\n"
        await self.inner.send(changed)

    async def aclose(self) -> None:
        await self.inner.aclose()


def answers_early() -> Mutate:
    """Send the last letter of a turn after the answer of its prompt."""
    late: list[Message] = []

    def mutate(kind: str, message: Message, _: Message) -> list[Message | bytes]:
        if kind == "agent_message_chunk":
            *before, late[:] = *late, [copy.deepcopy(message)]
            text = message["params"]["update"]["content"]["text"]
            message["params"]["update"]["content"]["text"] = text[:-1]
            late[0]["params"]["update"]["content"]["text"] = text[-1:]
            return [*before, message]
        if kind in {"=session/prompt", "=session/load"}:
            last, late[:] = late[:], []
            return [message, *last] if kind == "=session/prompt" else [*last, message]
        return [message]

    return mutate


def replays_nothing() -> Mutate:
    """Send nothing of a conversation before the first prompt."""
    return lambda kind, message, _: () if kind == "user_message_chunk" else (message,)


def changing(kind: str, change: Callable[[Message, Message], object]) -> Callable[[], Mutate]:
    """Change the messages of a kind in place; a list of more bytes is sent before them."""

    def mutate(kind_: str, message: Message, request: Message) -> list[Message | bytes]:
        more = change(message, request) if kind_ == kind else None
        return [*(more if isinstance(more, list) else ()), message]

    return lambda: mutate


def dropping(kind: str, is_dropped: Callable[[Message], bool]) -> Callable[[], Mutate]:
    """Drop messages of a kind."""

    def mutate(kind_: str, message: Message, _: Message) -> list[Message | bytes]:
        return [] if kind_ == kind and is_dropped(message) else [message]

    return lambda: mutate


def result(member: str, value: object) -> Callable[[Message, Message], None]:
    def change(message: Message, _: Message) -> None:
        if "result" in message:
            message["result"][member] = value

    return change


def refusal_to_result(message: Message, _: Message) -> None:
    if message.pop("error", None):
        message["result"] = {"stopReason": "refusal"}


def cancelled_to_end(message: Message, _: Message) -> None:
    if message.get("result") == {"stopReason": "cancelled"}:
        message["result"] = {"stopReason": "end_turn"}


def replay(_: Message, request: Message) -> list[bytes]:
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "old"}}
    params = {"sessionId": request["params"]["sessionId"], "update": chunk}
    message = {"jsonrpc": "2.0", "method": "session/update", "params": params}
    return [json.dumps(message).encode() + b"\n"]


MUTANTS: Mapping[str, tuple[set[str], Callable[[], Mutate]]] = {
    "answers a prompt before its last text": ({"ACP-31"}, answers_early),
    "ends a cancelled prompt": (CANCELS, changing("=session/prompt", cancelled_to_end)),
    "updates calls without announcing them": ({"ACP-34"}, dropping("tool_call", lambda _: True)),
    "prints a line": ({"ACP-1"}, changing("=session/new", lambda *_: [b"a log line\n"])),
    "has a usage without numbers": (
        {"ACP-2"},
        changing("usage_update", lambda m, _: m["params"]["update"].update(used="many")),
    ),
    "answers twice": (
        {"ACP-3"},
        changing("=session/new", lambda m, _: [json.dumps(m).encode() + b"\n"]),
    ),
    "has its own code": (
        {"ACP-5"},
        changing("=_eca/unknown", lambda m, _: m["error"].update(code=-32603)),
    ),
    "speaks version 2": ({"ACP-13"}, changing("=initialize", result("protocolVersion", 2))),
    "repeats the version": (
        {"ACP-14"},
        changing(
            "=initialize",
            lambda m, r: m["result"].update(protocolVersion=r["params"]["protocolVersion"]),
        ),
    ),
    "has no name": ({"ACP-15"}, changing("=initialize", result("agentInfo", None))),
    "answers unknown sessions": ({"ACP-11"}, changing("=session/prompt", refusal_to_result)),
    "replays no prompt": ({"ACP-20"}, replays_nothing),
    "replays a resumed session": ({"ACP-21"}, changing("=session/resume", replay)),
    "lists nothing": ({"ACP-23"}, changing("=session/list", result("sessions", []))),
    "changes the text": (
        {"ACP-29"},
        changing(
            "agent_message_chunk",
            lambda m, _: m["params"]["update"]["content"].update(
                text=m["params"]["update"]["content"]["text"].replace("two", "2")
            ),
        ),
    ),
    "ends no rejected call": (
        {"ACP-36"},
        dropping("tool_call_update", lambda m: m["params"]["update"].get("status") == "failed"),
    ),
    "offers no rejection": (
        {"ACP-39"},
        changing("session/request_permission", lambda m, _: m["params"]["options"].pop()),
    ),
}


async def judged(tmp_path: Any, make: Callable[[], Mutate] | None = None, **options: Any) -> Run:
    """Run the suite on our agent inside this process."""

    async def serve(transport: Transport, config: Mapping[str, Any]) -> int:
        environ = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        environ["ECA_CONFIG"] = json.dumps(config)
        agent = Agent(
            transport if make is None else Mutant(transport, make()),
            server=lambda: Server(Options(environ=environ, keeps_chats=True)),
        )
        return 0 if (await agent.serve()).kind == "eof" else 1

    return await run_suite(Target(serve=serve), kind=AcpSuite, jobs=4, **options)


def broken(run: Run) -> set[str]:
    return {finding.id for finding in run.findings if finding.verdict in {"fail", "warn"}}


@pytest.mark.parametrize("chapter", {name.partition(".")[0]: None for name in acp_cases()})
async def test_our_agent_keeps_every_row(tmp_path, chapter):
    cases = [case for name, case in acp_cases().items() if name.startswith(f"{chapter}.")]
    run = await judged(tmp_path, seconds=400, cases=cases)
    assert [each for each in run.findings if each.verdict in {"fail", "warn"}] == []
    rows = {row for case in cases for row in case.rows}
    verdicts = {finding.id: finding.verdict for finding in run.findings if finding.id in rows}
    assert verdicts == {row: "not-applicable" if row == "ACP-26" else "pass" for row in rows}
    assert (run.incidents, run.suite_errors) == ((), ())


@pytest.mark.long
@pytest.mark.parametrize("name", MUTANTS)
async def test_a_mutant_breaks_its_row(tmp_path, name):
    rows, make = MUTANTS[name]
    assert broken(await judged(tmp_path, make, seconds=400)) == rows


@pytest.mark.parametrize("name", ["lists nothing", "answers a prompt before its last text"])
async def test_a_mutant_is_noticed(tmp_path, name):
    rows, make = MUTANTS[name]
    cases = [case for case in acp_cases().values() if rows & {*case.rows}]
    run = await judged(tmp_path, make, seconds=400, cases=cases)
    assert rows <= broken(run)


def test_each_row_is_judged_by_one_case_at_least():
    assert {row for case in acp_cases().values() for row in case.rows} == {*ACP_REQUIREMENTS}

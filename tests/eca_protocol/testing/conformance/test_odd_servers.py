"""Servers that take their time break nothing; one that leaves members out is still judged."""

import itertools
import os
import signal
from typing import Any

import anyio
import pytest

from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.server import faults, stops
from eca_protocol.testing.conformance.server.reading import finishes
from eca_protocol.testing.conformance.target import Target
from tests.eca_protocol.testing.conformance.mutants.registry import parts_with
from tests.eca_protocol.testing.conformance.reference.chat import Chat
from tests.eca_protocol.testing.conformance.reference.mcp import MCPServer
from tests.eca_protocol.testing.conformance.reference.model import Model, ModelFault
from tests.eca_protocol.testing.conformance.reference.server import Parts, Server
from tests.eca_protocol.testing.conformance.reference.tool_call import ToolCall
from tests.eca_protocol.testing.conformance.reference.workspace import Workspace
from tests.eca_protocol.testing.conformance.test_mutants import broken, judged
from tests.eca_protocol.testing.conformance.test_variants import AsksNobody, HasNoPatience

Message = dict[str, Any]

INTRODUCTION = "configuration.it_introduces_itself"
TURNS = (
    "turns.a_turn_has_its_parts_in_order",
    "turns.the_models_text_is_passed_on_as_it_comes",
    "turns.a_chat_continues_with_its_history",
)
CALLS = (
    "approvals.a_rejected_command_does_not_run",
    "approvals.an_approved_command_runs",
    "stops.a_stop_ends_a_call_that_waits_and_one_that_runs",
)


class ReadsItsFoldersLater(Workspace):
    """Finds nothing in the roots before it has looked through them, and first a part."""

    def __init__(self, folders: list[Any]) -> None:
        super().__init__(folders)
        self._began = anyio.current_time()

    def query(self, *asked: Any) -> list[Message]:
        found, age = super().query(*asked), anyio.current_time() - self._began
        return found[: int((age - 0.4) * 200)] if age > 0.4 else []


class LooksUpItsModelsFirst(Server):
    """Tells of itself when it knows what its models can do."""

    def introduce(self) -> None:
        self.tasks.start_soon(self._introduce_later)

    async def _introduce_later(self) -> None:
        await anyio.sleep(5.5)
        super().introduce()


class TakesNoNoteOfEnds(MCPServer):
    """Ends the process of an MCP server, and takes note of that when it starts another."""

    async def _listen(self, child: Any) -> None:
        await super()._listen(child)
        if self.status == "stopped":
            await anyio.sleep_forever()

    async def stop(self) -> None:
        if self._child is None or self.owner.state != "ready":
            await super().stop()
            return
        if self.status != "stopped":
            os.kill(self._child.pid, signal.SIGKILL)
        self.announce("stopped")

    def start(self) -> None:
        if self.status == "stopped" and self._child is not None:
            self.owner.tasks.start_soon(self._start_again)
        else:
            super().start()

    async def _start_again(self) -> None:
        self._scope.cancel()
        await self._ended.wait()
        super().start()


PATIENT: list[Any] = [
    (ReadsItsFoldersLater, ("queries.contexts_are_found", "roots.folders_are_roots")),
    (TakesNoNoteOfEnds, ("mcp.mcp_servers_are_stopped_and_started",)),
    pytest.param(
        LooksUpItsModelsFirst,
        (
            INTRODUCTION,
            "configuration.the_welcome_is_the_configured_one",
            "lifecycle.nothing_overtakes_the_handshake",
            "tools.files_are_read",
        ),
        marks=pytest.mark.long,
    ),
]
"""One part of the reference server, slower, and the cases that have to wait for it."""


class TellsNoSettings(Server):
    """Updates a client with null for the settings."""

    def notify(self, method: str, params: Any, **how: Any) -> None:
        super().notify(method, {"chat": None} if method == "config/updated" else params, **how)


class _Lacks(ToolCall):
    """Tells of calls without a member of their contents."""

    lacks = ("", "")

    def say(self, kind: str, **fields: Any) -> None:
        super().say(kind, **{name: fields[name] for name in fields if (kind, name) != self.lacks})


class RejectsWithoutAReason(_Lacks):
    lacks = ("toolCallRejected", "reason")


class CallsWithoutAnError(_Lacks):
    lacks = ("toolCalled", "error")


class RunsWithoutAnId(ToolCall):
    """Announces calls without their ids."""

    def announce(self, *, manual: bool) -> None:
        id_, self.id = self.id, None
        super().announce(manual=manual)
        self.id = id_


class AnswersInEitherOrder(Chat):
    """Answers every second prompt of an idle chat before its turn begins."""

    def start_turn(self) -> None:
        orders = vars(self.server).setdefault("orders", itertools.cycle((True, False)))
        if next(orders):
            super().start_turn()
        else:
            self.server.tasks.start_soon(self._start_later)

    async def _start_later(self) -> None:
        if self.turn is None and self.queue:
            super().start_turn()


ODD: list[tuple[type[Any], tuple[str, ...], set[str]]] = [
    (TellsNoSettings, (INTRODUCTION,), {"FIELD:ConfigUpdatedParams.chat", "W-11a"}),
    (RejectsWithoutAReason, CALLS, {"W-32b"}),
    (CallsWithoutAnError, CALLS, {"FIELD:ChatToolCalledContent.error"}),
    (AnswersInEitherOrder, TURNS, {"W-20c"}),
    (RunsWithoutAnId, CALLS, {"FIELD:ChatToolCallRunContent.id"}),
]
"""One part of the reference server that leaves something out, the cases that meet it, the rows."""


def run_of(own: type[Any], cases: tuple[str, ...]) -> Run:
    parts: Parts = parts_with(own)

    async def serve(transport: Any, config: Message) -> int:
        return await parts.server(transport, config, parts).run()

    return judged(Target(serve=serve), *cases)


@pytest.mark.long
@pytest.mark.parametrize(("slow", "cases"), PATIENT)
def test_a_server_may_take_its_time(slow, cases):
    run = run_of(slow, cases)
    assert broken(run) == set()
    assert not [
        each for each in run.findings if each.case in cases and each.verdict not in ("pass", "fail")
    ]


class _AsksAgain(Model):
    """Asks again where nothing of an answer came, after longer and longer pauses."""

    longest = 0.0

    async def ask(self, messages: list[Message], tools: list[Message], take: Any) -> None:
        came: list[Message] = []
        pause = 0.01
        while True:
            try:
                return await super().ask(
                    messages, tools, lambda event: (came.append(event), take(event))
                )
            except ModelFault:
                if came:
                    raise
            await (anyio.sleep_forever() if pause > self.longest else anyio.sleep(pause))
            pause *= 2


class NeverGivesUp(_AsksAgain):
    longest = 1000.0


class HangsInTheEnd(_AsksAgain):
    longest = 0.1


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    ("own", "seconds", "rows"), [(NeverGivesUp, 0.5, set()), (HangsInTheEnd, 10, {"W-21d"})]
)
def test_a_turn_hangs_where_the_model_is_asked_no_more(own, seconds, rows, monkeypatch):
    refused = "a key that is refused"
    monkeypatch.setattr(faults, "ERRORS", {refused: faults.ERRORS[refused]})
    monkeypatch.setattr(faults, "AT_ONCE_SECONDS", 0.1)
    monkeypatch.setattr(faults, "QUIET_SECONDS", 0.4)
    monkeypatch.setattr(faults, "RETRY_SECONDS", seconds)
    assert broken(run_of(own, ("faults.an_error_of_the_model_is_shown_and_ends_the_turn",))) == rows


@pytest.mark.parametrize(("odd", "cases", "rows"), ODD)
def test_what_is_missing_is_a_breach_and_no_error_of_the_suite(odd, cases, rows):
    run = run_of(odd, cases)
    assert run.suite_errors == ()
    assert broken(run) == rows


def test_a_turn_that_is_over_before_the_stop_shows_nothing(monkeypatch):
    monkeypatch.setattr(stops, "STATES", {"in a wait before another try": (stops.BUSY, "")})
    monkeypatch.setattr(stops, "wait_for_requests", finishes)  # the stop is late
    case = "stops.a_stop_ends_the_turn_in_each_state_of_the_answer"
    run = run_of(HasNoPatience, (case,))
    shown = {each.verdict for each in run.findings if each.case == case}
    assert shown == {"untestable"}


def test_a_decision_of_a_user_who_is_not_asked_is_not_judged():
    run = run_of(AsksNobody, ("approvals.a_decision_without_a_waiting_call_is_ignored",))
    assert broken(run) == set()

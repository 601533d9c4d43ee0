"""Servers that take their time break nothing; one that leaves members out is still judged."""

import itertools
import os
import signal
from collections.abc import Mapping
from typing import Any

import anyio
import pytest

from eca_protocol.testing.conformance.chat_session import ChatSession
from eca_protocol.testing.conformance.run import Run
from eca_protocol.testing.conformance.server import asking, faults, stops
from eca_protocol.testing.conformance.target import Target
from eca_protocol.testing.conformance.verdicts import Unmet
from tests.eca_protocol.testing.conformance.mutants import MUTANTS
from tests.eca_protocol.testing.conformance.mutants.filters import (
    Filter,
    Filtered,
    Knowing,
    change,
    content,
    params,
    put,
    result,
    without,
)
from tests.eca_protocol.testing.conformance.mutants.registry import altered
from tests.eca_protocol.testing.conformance.reference.chat import Chat
from tests.eca_protocol.testing.conformance.reference.mcp import MCPServer
from tests.eca_protocol.testing.conformance.reference.server import Server
from tests.eca_protocol.testing.conformance.test_mutants import broken, judged
from tests.eca_protocol.testing.conformance.test_variants import (
    AsksAgain,
    AsksNobody,
    HasNoPatience,
)

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


def read_so_far(answer: Message, server: Filtered) -> Message:
    """Find nothing in the roots before they were looked through, and first a part."""
    age = anyio.current_time() - server.notes.setdefault("began", anyio.current_time())
    return change(contexts=lambda contexts: contexts[: max(0, int((age - 0.4) * 200))])(answer)


PATIENT: list[Any] = [
    (
        Filter(result("chat/queryContext"), Knowing(read_so_far)),
        ("queries.contexts_are_found", "roots.folders_are_roots"),
    ),
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


ODD: list[tuple[type[Any] | Filter, tuple[str, ...], set[str]]] = [
    (
        Filter(params("config/updated"), put(chat=None)),
        (INTRODUCTION,),
        {"FIELD:ConfigUpdatedParams.chat", "W-11a"},
    ),
    (Filter(content("toolCallRejected"), without("reason")), CALLS, {"W-32b"}),
    (Filter(content("toolCalled"), without("error")), CALLS, {"FIELD:ChatToolCalledContent.error"}),
    (Filter(content("toolCallRun"), put(id=None)), CALLS, {"FIELD:ChatToolCallRunContent.id"}),
    (AnswersInEitherOrder, TURNS, {"W-20c"}),
]
"""A part or messages of the reference server that lack something, the cases, the rows."""


def run_of(own: type[Any] | Filter, cases: tuple[str, ...]) -> Run:
    return judged(Target(serve=altered(own).serve), *cases)


@pytest.mark.long
@pytest.mark.parametrize(("slow", "cases"), PATIENT)
def test_a_server_may_take_its_time(slow, cases):
    run = run_of(slow, cases)
    assert broken(run) == set()
    assert not [
        each for each in run.findings if each.case in cases and each.verdict not in ("pass", "fail")
    ]


class NeverGivesUp(AsksAgain):
    longest = 1000.0


class HangsInTheEnd(AsksAgain):
    hangs = True


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
    prompt = ChatSession.prompt

    async def prompt_to_the_end(chat: ChatSession, text: str) -> Mapping[str, Any]:
        answer = await prompt(chat, text)
        await chat.finishes()  # the stop is late
        return answer

    monkeypatch.setattr(ChatSession, "prompt", prompt_to_the_end)
    case = "stops.a_stop_ends_the_turn_in_each_state_of_the_answer"
    run = run_of(HasNoPatience, (case,))
    shown = {each.verdict for each in run.findings if each.case == case}
    assert shown == {"untestable"}


def test_a_decision_of_a_user_who_is_not_asked_is_not_judged():
    run = run_of(AsksNobody, ("approvals.a_decision_without_a_waiting_call_is_ignored",))
    assert broken(run) == set()


def test_a_breach_counts_although_its_case_gets_no_further(monkeypatch):
    try_bytes, lost = asking.try_bytes, list[asking.Outcome]()

    async def try_until_a_server_is_lost(*trial: Any, **options: Any) -> asking.Outcome:
        if lost:
            raise Unmet("more time")
        outcome = await try_bytes(*trial, **options, seconds=0.3)
        lost.extend([outcome] * (not outcome.still_serves))
        return outcome

    monkeypatch.setattr(asking, "try_bytes", try_until_a_server_is_lost)
    target = Target(serve=MUTANTS["BASE-10"].serve)
    assert broken(judged(target, "framing.headers_come_in_every_spelling")) == {"BASE-10"}

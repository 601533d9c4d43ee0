"""The suite for servers, and the run of any suite: several cases at once, each with a deadline."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import ClassVar, Final, Self

import anyio
import attrs
from typing_extensions import override

from eca_protocol.errors import StartFailed
from eca_protocol.revisions import Revision, detect_server
from eca_protocol.testing.conformance.cases import server_cases
from eca_protocol.testing.conformance.chat_session import comes
from eca_protocol.testing.conformance.duplicates import DUPLICATES
from eca_protocol.testing.conformance.harness import Harness, Servers
from eca_protocol.testing.conformance.judge import (
    Case,
    OnCase,
    Suite,
    unjudged,
)
from eca_protocol.testing.conformance.model import Model
from eca_protocol.testing.conformance.recorder import Recorder
from eca_protocol.testing.conformance.run import Incident, Run, SuiteError, binds
from eca_protocol.testing.conformance.server import RUN_ORDER
from eca_protocol.testing.conformance.server.asking import QUERY
from eca_protocol.testing.conformance.session import ClientSession
from eca_protocol.testing.conformance.target import MODEL, Target, temporary_directory
from eca_protocol.testing.conformance.untestable import UNTESTABLE
from eca_protocol.testing.conformance.verdicts import (
    OUT_OF_STEP,
    Finding,
    NotApplicable,
    OutOfStep,
    ServerExited,
    Unmet,
    Verdict,
    with_stderr,
)
from eca_protocol.testing.conformance.wire import Wire
from eca_protocol.testing.members import at
from eca_protocol.testing.requirements import REQUIREMENTS
from eca_protocol.testing.script import reply

__all__ = ["ServerSuite", "run_suite"]

SECONDS: Final = 150.0

_LEAST_INTRODUCTION: Final = 3.0  # the least time for announcements, if the first server sent them
_SHORT_INTRODUCTION: Final = 0.5
"""The time for announcements, if the first server did not send them."""

_STARTS: Final = 6  # servers that a case starts, at most

_STDERR_LINES: Final = 20  # lines of stderr in the error of a server that does not start
_SHOWN_BYTES: Final = 80  # bytes of the output in that error, if they are no message
_NO_CONFIG: Final = (
    "the server does not use the suite's configuration; if it asks a model, pass --config-template "
    "or --env"
)
_NO_MESSAGE: Final = "it did not occur in any message"

_COMMON: Final = "CHAT-39"  # the row that a common history of chats breaks
_IN_COMMON: Final = f"a request had messages of several chats, which breaks {_COMMON}"
"""The reason of rows that could not be judged because of that only."""

_FORESEEN: Final = (Unmet, NotApplicable, StartFailed, TimeoutError)
"""Exceptions that may end a case early; any other is an error of the suite."""


class ServerSuite(Suite):
    """A server with its model, ready to run cases."""

    all_cases = staticmethod(server_cases)
    duplicates = DUPLICATES
    end_seconds = 5.0
    make_wire: ClassVar[type[Wire]] = Wire
    make_harness: ClassVar[type[Harness]] = Harness

    def __init__(self, servers: Servers) -> None:
        super().__init__(servers.target)
        self.servers = servers
        self._judged: set[str] = set()
        self._doubtful: list[Finding] = []
        self._observed_rows: set[str] = set()
        self._absent: Mapping[str, str] = {}

    @override
    @classmethod
    @asynccontextmanager
    async def opened(cls, target: Target, *, seconds: float = math.inf) -> AsyncIterator[Self]:
        with temporary_directory() as root:
            async with Model() as model, anyio.create_task_group() as group:
                servers = Servers(group, target, model, root, make_wire=cls.make_wire)
                suite = cls(servers)
                try:
                    failure = await suite.start(seconds)
                    if failure is None:
                        yield suite
                finally:
                    for wire in servers.started:
                        wire.process.stop()
        if failure is not None:
            raise failure

    @override
    def bound_rows(self) -> tuple[str, ...]:
        return tuple(id_ for id_ in REQUIREMENTS if binds(id_, self.edition))

    async def start(self, seconds: float) -> StartFailed | None:
        """Start the first server and detect its edition; return the error if it cannot start.

        The error of a target that starts and does not answer has its output and the end of stderr.
        One that answers and is not ready within `seconds` leaves no time for cases.
        """
        try:
            await self._look_for(seconds)
        except Unmet as stuck:
            wire = self.servers.started[-1]
            stderr_lines = wire.process.errors.splitlines()[-_STDERR_LINES:]
            lines = [str(stuck), *_not_messages(wire.recorder), *stderr_lines]
            return StartFailed("\n".join(lines))
        except StartFailed as failure:
            return failure
        return None

    async def _look_for(self, seconds: float) -> None:
        with anyio.move_on_after(seconds) as limit:
            await self._look(self.harness("the start"))
        messages = self.servers.started[-1].recorder.messages
        if limit.cancelled_caught and all(received.method for received in messages):
            raise Unmet("an answer of the target", f"none in {seconds:g} s, the limit of a run")

    async def _look(self, harness: Harness) -> None:
        """Start a server once, and see what it needs and lacks."""
        start = anyio.current_time()
        async with harness.session() as session:
            if self.servers.target.edition is None:
                self.edition = detect_server(session.config.get("variants"))
            self.servers.start_seconds = round(session.wire.recorder.messages[0].at)
            took = 2 * (anyio.current_time() - start)
            self._absent = await _absent_needs(session)
            self.servers.introduction_seconds = (
                max(_LEAST_INTRODUCTION, took) if session.is_introduced else _SHORT_INTRODUCTION
            )

    def harness(self, case: str, *, alone: bool = False) -> Harness:
        """Return the harness of a case."""
        return self.make_harness(self.servers, edition=self.edition, case=case, alone=alone)

    @override
    async def judge(self, case: Case) -> list[Finding]:
        """Run a case; return at least one finding for each of its rows, and the watchers' new ones.

        If a shared server ends, the case is run once more with its own. If no case ends its own,
        the last of those at the shared server is named. A case also gets its own server if it fails
        while a request to the model mixes its chats with those of other cases, which breaks CHAT-39
        only.
        """
        lacking = self._lacking(case)
        if lacking:
            return [unjudged(case, id_, lacking) for id_ in case.rows] + self._take_observed()
        harness = self.harness(case.name)
        seconds = case.seconds + _STARTS * self.servers.start_seconds
        findings, death, error = await _judge(case, harness, seconds)
        has_passed = all(finding.verdict == "pass" for finding in findings)
        if harness.died or (harness.mixes_chats(of_others=True) and not has_passed):
            harness = self.harness(case.name, alone=True)
            findings, death, error = await _judge(case, harness, seconds)
        if harness.mixes_chats():
            self._doubtful += findings
        if death:
            self.incidents.append(Incident(case=case.name, what=death))
        if error is not None:
            self.suite_errors.append(error)
        self._judged.add(case.name)
        self._name_ends()
        return findings + self._take_observed()

    def _name_ends(self) -> None:
        """Name a case of each shared server that has ended, unless one of them ended its own."""
        for wire in self.servers.take_ended(self._judged):
            *others, last = wire.suspects
            if not {*wire.suspects} & {incident.case for incident in self.incidents}:
                which = f"in this case, or in {', '.join(others)}" if others else "in this case"
                how = f"{wire.process.end_description}, {which}; none ends a server of its own"
                what = with_stderr(how, wire.process.errors)
                self.incidents.append(Incident(case=last, what=what))

    def _take_observed(self) -> list[Finding]:
        """Return the watchers' new findings of all servers."""
        findings = []
        for wire in tuple(self.servers.started):
            findings += [
                wire.finding(observation)
                for observation in wire.recorder.take_observations()
                if observation.side == "server"
            ]
            self._observed_rows |= wire.recorder.observed_rows
            if wire.process.gone.is_set():
                self.servers.started.remove(wire)
        return findings

    @override
    async def close(self) -> list[Finding]:
        """Shut the shared servers down; return the last findings, and a pass for each field."""
        self._name_ends()
        await self.servers.shut_down()
        observed, came = self._take_observed(), "occurred without a breach"
        return observed + [Finding(id=id_, verdict="pass", got=came) for id_ in self._observed_rows]

    @override
    def without_consequences(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return findings without breaches that only chats with a common history cause."""
        if all(finding.id != _COMMON or finding.verdict != "fail" for finding in findings):
            return list(findings)
        doubtful = {id(finding) for finding in self._doubtful if finding.id != _COMMON}
        return [
            attrs.evolve(finding, verdict="untestable", got=_IN_COMMON)
            if finding.verdict in {"fail", "warn"} and id(finding) in doubtful
            else finding
            for finding in findings
        ]

    @override
    def why_unjudged(self, id_: str) -> str:
        why = _NO_MESSAGE if _is_field_or_value(id_) else "no case judges it"
        return UNTESTABLE.get(id_, why)

    def _lacking(self, case: Case) -> str:
        if "process" in case.needs and self.servers.target.serve is not None:
            return "the server runs inside the suite, not as a process"
        if "config" in case.needs and not self.servers.target.takes_config:
            return "the target has its own form of configuration"
        return next((why for need, why in self._absent.items() if need in case.needs), "")


def _not_messages(recorder: Recorder) -> Iterator[str]:
    """Yield a line about the first bytes that a server wrote and that are no message.

    A frame that was cut behind messages is the consequence of the end.
    """
    recorder.record_rest("server")
    has_messages = False
    for each in recorder.record:
        if each.side != "server":
            continue
        if each.is_message:
            has_messages = True
        elif not (has_messages and each.data.startswith(b"Content-Length:")):
            start = each.data[:_SHOWN_BYTES].decode("utf-8", "replace")
            yield f"its output is no message: {start!r}"
            return


async def _absent_needs(session: ClientSession) -> Mapping[str, str]:
    """Return what a server lacks that does not use the suite's configuration, with the reasons.

    It may offer its tools to the model only, which a turn shows; or it answers without a model, and
    finds contexts only if its author has written that. A turn may wait for the user.
    """
    models = session.config.get("models", ())
    if MODEL in models and session.native_tools:
        return {}
    chat = session.chat(reply("Hello."))
    has_ended = await comes(chat.take_turn("Hello."))
    absent: dict[str, str] = {}
    if (has_ended or models) and not chat.model.requests and MODEL not in models:
        absent["model"] = absent["config"] = _NO_CONFIG
    if absent and not session.native_tools:
        absent["native-tools"] = "the server announces no tools, and offers none to a model"
    if absent:
        session.file("probe.txt", "probe\n")
        with contextlib.suppress(Unmet):
            answer = await session.ask(QUERY, {"query": ""})
            if at(answer, "result", "contexts") == []:
                absent["contexts"] = "the server finds no contexts"
    return absent


async def _judge(
    case: Case, harness: Harness, seconds: float
) -> tuple[list[Finding], str, SuiteError | None]:
    """Return the findings of a case, and the end of the server or the error that ended it early."""
    verdict: Verdict = "untestable"
    why, death, error = "", "", None
    try:
        with anyio.fail_after(seconds):
            await case.run(harness)
    except Exception as group:  # noqa: BLE001 - reported as an error of the suite
        raised = _decisive_error(group)
        why = str(raised)
        if isinstance(raised, OutOfStep):
            why = OUT_OF_STEP
        elif isinstance(raised, ServerExited):
            death = with_stderr(why, raised.stderr)
        elif isinstance(raised, NotApplicable):
            verdict = "not-applicable"
        elif isinstance(raised, TimeoutError):
            why = why or f"the case exceeded {seconds:g} s"
        elif not isinstance(raised, _FORESEEN):
            error = SuiteError.of(case.name, inspect.getfile(inspect.unwrap(case.run)), raised)
            why = error.reason
    result = {finding.id for finding in harness.findings}
    other = "the case did not trigger it"
    reasons = {id_: _NO_MESSAGE if _is_field_or_value(id_) else other for id_ in case.rows}
    rest = [
        unjudged(case, id_, why or reason, verdict)
        for id_, reason in reasons.items()
        if id_ not in result
    ]
    return harness.findings + rest, death, error


def _is_field_or_value(id_: str) -> bool:
    return id_.startswith(("FIELD:", "VALUE:"))


def _decisive_error(raised: Exception) -> Exception:
    """Return a group's decisive error: the server's end, the suite's own, or the first."""
    each = tuple(_leaf_errors(raised))
    ends = [one for one in each if isinstance(one, ServerExited | OutOfStep)]
    errors = [one for one in each if not isinstance(one, _FORESEEN)]
    return (*ends, *errors, *each)[0]


def _leaf_errors(raised: Exception) -> Iterator[Exception]:
    if isinstance(raised, ExceptionGroup):
        for part in raised.exceptions:
            yield from _leaf_errors(part)
    else:
        yield raised


async def run_suite(
    target: Target,
    *,
    kind: type[Suite] = ServerSuite,
    cases: Iterable[Case] | None = None,
    name: str = "",
    jobs: int | None = None,
    seconds: float = SECONDS,
    on_case: OnCase | None = None,
) -> Run:
    """Judge a target.

    Args:
        target: what is tested.
        kind: the suite.
        cases: the cases; None: all.
        name: the target's name in reports.
        jobs: the number of cases at once; None: the number of processors.
        seconds: the time limit of the run; cases without time are untestable.
        on_case: called as each case ends.

    Raises:
        StartFailed: the target cannot be started.
    """
    start, started = anyio.current_time(), datetime.now(UTC)
    chosen = tuple(kind.all_cases().values() if cases is None else cases)
    end = start + seconds - min(kind.end_seconds, seconds / 10)
    async with kind.opened(target, seconds=end - start) as suite:
        edition = suite.edition
        findings = await suite.judge_all(
            _by_weight(case for case in chosen if case.window.holds(edition)),
            jobs=jobs,
            end=end,
            seconds=seconds,
            on_case=on_case,
        )
        findings = suite.without_consequences([*findings, *await suite.close()])
    others = _rows_of_other_editions(chosen, edition)
    return Run(
        target=name or " ".join(target.command),
        edition=suite.edition_name,
        started=started,
        seconds=anyio.current_time() - start,
        findings=tuple(suite.final_findings(findings, others)),
        incidents=tuple(suite.incidents),
        suite_errors=tuple(suite.suite_errors),
    )


def _by_weight(cases: Iterable[Case]) -> list[Case]:
    """Return the cases in the order in which they run; unknown chapters come first."""
    places = {chapter: place for place, chapter in enumerate(RUN_ORDER)}
    return sorted(cases, key=lambda case: places.get(case.name.partition(".")[0], -1))


def _rows_of_other_editions(cases: Iterable[Case], edition: Revision) -> frozenset[str]:
    cases = tuple(cases)
    others = {id_ for case in cases if not case.window.holds(edition) for id_ in case.rows}
    return frozenset(
        others.difference(*(case.rows for case in cases if case.window.holds(edition)))
    )

"""Runs cases against a target: several at once, each with a deadline, the whole with one."""

from __future__ import annotations

import inspect
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Final

import anyio
import attrs

from eca_protocol.errors import StartFailed
from eca_protocol.revisions import Revision, detect_server
from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import Case, Died, NotApplicable, Stuck, server_cases
from eca_protocol.testing.conformance.model import Model
from eca_protocol.testing.conformance.run import Incident, Run, SuiteFault, binds
from eca_protocol.testing.conformance.same import SAME
from eca_protocol.testing.conformance.server import BY_WEIGHT
from eca_protocol.testing.conformance.servers import Servers
from eca_protocol.testing.conformance.target import Target, own_folder
from eca_protocol.testing.conformance.unseen import UNSEEN
from eca_protocol.testing.conformance.verdicts import NO_TIME, Finding, Verdict, failing, worst
from eca_protocol.testing.conformance.watched import watched
from eca_protocol.testing.requirements import REQUIREMENTS

__all__ = ["Suite", "run_suite"]

SECONDS: Final = 150.0

_END_SECONDS: Final = 5.0
"""What of the whole time is kept for ending the servers."""

_LEAST_INTRODUCTION: Final = 3.0
"""Seconds that are waited for what the first server, which had the machine alone, told sooner."""

_SHORT_INTRODUCTION: Final = 0.5
"""Seconds that are waited for what it did not tell."""

_SAID: Final = 20
"""Lines of stderr that are told of a server which does not start."""

_NO_MESSAGE: Final = "no message had it"

_FORESEEN: Final = (Stuck, NotApplicable, StartFailed, TimeoutError)
"""How a case may end before its last line; anything else is a fault of its own."""

Told = Callable[[Case, Sequence[Finding]], None]


class Suite:
    """A target with its model and its servers, ready to run cases; made by `open_suite`.

    Attributes:
        edition: the edition that is spoken.
        incidents: servers that ended while they were talked to.
        faults: cases that failed by themselves.
    """

    def __init__(self, target: Target, model: Model, servers: Servers) -> None:
        self.edition = target.edition or Revision.R2025_10
        self.incidents: list[Incident] = []
        self.faults: list[SuiteFault] = []
        self.servers = servers
        self._seen: set[str] = set()
        self._target = target
        self._model = model

    async def start(self) -> StartFailed | None:
        """Start the first server, and learn which edition it speaks; why that cannot be, if so."""
        bench, began = self.bench("the start"), anyio.current_time()
        try:
            async with bench.seat() as seat:
                if self._target.edition is None:
                    self.edition = detect_server(seat.config.get("variants"))
                took = 2 * (anyio.current_time() - began)
                self.servers.introduction_seconds = (
                    max(_LEAST_INTRODUCTION, took) if seat.is_introduced else _SHORT_INTRODUCTION
                )
        except Stuck as stuck:
            said = self.servers.started[-1].errors.splitlines()[-_SAID:]
            return StartFailed("\n".join([str(stuck), *said]))
        except StartFailed as failure:
            return failure
        return None

    def bench(self, case: str, *, alone: bool = False) -> Bench:
        """The surroundings of a case."""
        return Bench(
            self.servers, self._target, self._model, edition=self.edition, case=case, alone=alone
        )

    async def judge(self, case: Case) -> list[Finding]:
        """Run a case; a finding at least for each row that it declares.

        When a server ends at which other cases sat, too, the case is run once more alone.
        """
        lacking = self._lacking(case)
        if lacking:
            return [_untold(case, id_, "untestable", lacking) for id_ in case.rows]
        bench = self.bench(case.name)
        judged = await _judge(case, bench)
        if bench.died:
            judged = await _judge(case, self.bench(case.name, alone=True))
        if judged.death:
            self.incidents.append(Incident(case=case.name, what=judged.death))
        if judged.fault is not None:
            self.faults.append(judged.fault)
        return judged.findings

    def observed(self) -> list[Finding]:
        """What the watchers of all servers have seen since the last time."""
        findings = []
        for wire in tuple(self.servers.started):
            findings += [
                watched(wire, observation)
                for observation in wire.take_observations()
                if observation.side == "server"
            ]
            self._seen |= wire.seen
            if wire.gone.is_set():
                self.servers.started.remove(wire)
        return findings

    async def close(self) -> list[Finding]:
        """Shut the shared servers down in order; what was observed, and what passed rightly."""
        await self.servers.leave()
        observed = self.observed()
        came = "it came, as it should"
        return observed + [Finding(id=id_, verdict="pass", got=came) for id_ in self._seen]

    def _lacking(self, case: Case) -> str:
        if "process" in case.needs and self._target.serve is not None:
            return "the server is inside the suite and no process"
        if "config" in case.needs and not self._target.takes_config:
            return "the target has a configuration of its own"
        return ""


@attrs.frozen
class _Judged:
    """What came of a case: its findings, and what cut it short if the target or it has failed."""

    findings: list[Finding]
    death: str = ""
    fault: SuiteFault | None = None


async def _judge(case: Case, bench: Bench) -> _Judged:
    """Run a case."""
    verdict: Verdict = "untestable"
    why, death, fault = "", "", None
    try:
        with anyio.fail_after(case.seconds):
            await case.run(bench)
    except Exception as group:  # noqa: BLE001 - it is told as a fault of the suite's own
        raised = _telling(group)
        why = str(raised)
        if isinstance(raised, Died):
            death = why
        elif isinstance(raised, NotApplicable):
            verdict = "not-applicable"
        elif isinstance(raised, TimeoutError):
            why = why or f"the case took more than {case.seconds:g} s"
        elif not isinstance(raised, _FORESEEN):
            fault = SuiteFault.of(case.name, inspect.getfile(case.run), raised)
            why = fault.told
    judged = {finding.id for finding in bench.findings}
    rest = [
        _untold(case, id_, verdict, why or _unshown(id_)) for id_ in case.rows if id_ not in judged
    ]
    return _Judged(bench.findings + rest, death, fault)


def _unshown(id_: str) -> str:
    """Why a case that has come to its end leaves a row open."""
    return _NO_MESSAGE if _is_letter(id_) else "what the case did has not shown it"


def _is_letter(id_: str) -> bool:
    return id_.startswith(("FIELD:", "VALUE:"))


def _telling(raised: Exception) -> Exception:
    """Of a group the one that tells most: the target's end, a fault of ours, or the first."""
    each = tuple(_each(raised))
    ends = [one for one in each if isinstance(one, Died)]
    faults = [one for one in each if not isinstance(one, _FORESEEN)]
    return (*ends, *faults, *each)[0]


def _each(raised: Exception) -> Iterator[Exception]:
    if isinstance(raised, ExceptionGroup):
        for part in raised.exceptions:
            yield from _each(part)
    else:
        yield raised


def _untold(case: Case, id_: str, verdict: Verdict, why: str) -> Finding:
    return Finding(id=id_, verdict=verdict, case=case.name, got=why)


@asynccontextmanager
async def open_suite(target: Target) -> AsyncIterator[Suite]:
    """A target ready to be judged; whatever was started has ended behind the block.

    Raises:
        StartFailed: the target cannot be started.
    """
    with own_folder() as root:
        async with Model() as model, anyio.create_task_group() as group:
            servers = Servers(group, target, root, url=model.url)
            suite = Suite(target, model, servers)
            try:
                failure = await suite.start()
                if failure is None:
                    yield suite
            finally:
                for wire in servers.started:
                    wire.stop()
    if failure is not None:
        raise failure


async def run_suite(
    target: Target,
    *,
    cases: Iterable[Case] | None = None,
    shown: str = "",
    jobs: int | None = None,
    seconds: float = SECONDS,
    told: Told | None = None,
) -> Run:
    """Judge a target.

    Args:
        target: what is tested.
        cases: which cases; None: all.
        shown: what the target is called in reports.
        jobs: how many cases run at once; None: as many as there are processors.
        seconds: how long the whole may take; what has no time then is untestable.
        told: called as each case ends.

    Raises:
        StartFailed: the target cannot be started.
    """
    began, started = anyio.current_time(), datetime.now(UTC)
    chosen = tuple(server_cases().values() if cases is None else cases)
    found: dict[str, list[Finding]] = {}
    async with open_suite(target) as suite:
        mine = [case for case in chosen if case.window.holds(suite.edition)]
        waiting, undone = deque(_by_weight(mine)), {case.name: case for case in mine}

        async def work() -> None:
            while waiting:
                case = waiting.popleft()
                findings = [*await suite.judge(case), *suite.observed()]
                del undone[case.name]
                for finding in findings:
                    found.setdefault(finding.id, []).append(finding)
                if told is not None:
                    told(case, findings)

        kept_for_the_end = min(_END_SECONDS, seconds / 10)
        with anyio.move_on_after(began + seconds - kept_for_the_end - anyio.current_time()):
            async with anyio.create_task_group() as workers:
                for _ in range(jobs or os.cpu_count() or 1):
                    workers.start_soon(work)
        late = f"{NO_TIME} {seconds:g} s"
        unjudged = [
            _untold(case, id_, "untestable", late) for case in undone.values() for id_ in case.rows
        ]
        for finding in await suite.close() + unjudged:
            found.setdefault(finding.id, []).append(finding)
        edition = suite.edition
    return Run(
        target=shown or " ".join(target.command),
        edition=edition,
        started=started,
        seconds=anyio.current_time() - began,
        findings=tuple(_of_each_row(found, edition, _of_other_editions(chosen, edition))),
        incidents=tuple(suite.incidents),
        faults=tuple(suite.faults),
    )


def _by_weight(cases: Iterable[Case]) -> list[Case]:
    """The cases as they are run; those of nobody's chapter come first."""
    places = {chapter: place for place, chapter in enumerate(BY_WEIGHT)}
    return sorted(cases, key=lambda case: places.get(case.name.partition(".")[0], -1))


def _of_other_editions(cases: Iterable[Case], edition: Revision) -> frozenset[str]:
    """The rows that only cases of other editions judge."""
    cases = tuple(cases)
    others = {id_ for case in cases if not case.window.holds(edition) for id_ in case.rows}
    return frozenset(
        others.difference(*(case.rows for case in cases if case.window.holds(edition)))
    )


def _of_each_row(
    found: Mapping[str, Sequence[Finding]], edition: Revision, elsewhere: frozenset[str]
) -> Iterable[Finding]:
    """One finding for each row that binds a server of that edition."""
    for id_ in REQUIREMENTS:
        if not binds(id_, edition):
            continue
        judged = found.get(id_) or found.get(SAME.get(id_, ""))
        if judged:
            finding = worst(judged)
            is_broken = finding.verdict in {"fail", "warn"}
            verdict = failing(id_) if is_broken else finding.verdict
            yield attrs.evolve(finding, id=id_, verdict=verdict)
        elif id_ in elsewhere or SAME.get(id_) in elsewhere:
            yield Finding(id=id_, verdict="not-applicable", got="it is about other editions")
        else:
            unjudged = _NO_MESSAGE if _is_letter(id_) else "no case judges it"
            yield Finding(id=id_, verdict="untestable", got=UNSEEN.get(id_, unjudged))

"""The verdicts of one case, the base of suites, and the run of many cases until a deadline."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, ClassVar, Literal, Self

import anyio
import attrs

from eca_protocol.revisions import EVER, Revision, Window
from eca_protocol.testing.conformance.run import Incident, SuiteError
from eca_protocol.testing.conformance.target import Target
from eca_protocol.testing.conformance.verdicts import (
    NO_TIME,
    Finding,
    Transmission,
    Verdict,
    failing,
    shown,
    worst,
)

__all__ = ["Case", "Judge", "Need", "OnCase", "Suite", "unjudged"]

_LONGEST = 600  # characters of `got`
_OF_OTHER_EDITIONS = "it applies to other editions"

Need = Literal["process", "config", "model", "contexts", "native-tools", "mcp"]
"""The requirements of a case on its target.

`process`: the target is a process, not a function inside the suite. `config`: configuration beyond
the model's can be given to it. `model`: it uses the scripted model. `contexts`: it finds contexts.
A server without native tools may lack the last three: it has an author's handlers in their place.
"""


@attrs.frozen(kw_only=True)
class Case:
    """A case and what it declares.

    Attributes:
        name: chapter and function: `chats.a_turn_has_its_parts_in_order`.
        summary: what it does, in a sentence for people.
        rows: the ids of the rows that it judges.
        run: an async function of the harness; of a case for clients the class of its server.
        window: the editions it is for.
        needs: its requirements on the target.
        seconds: its deadline.
    """

    name: str
    summary: str
    rows: tuple[str, ...]
    run: Any
    window: Window = EVER
    needs: frozenset[Need] = frozenset()
    seconds: float = 20.0


OnCase = Callable[[Case, Sequence[Finding]], None]
"""Called as a case ends."""


class Judge:
    """The verdicts of one case."""

    def __init__(self, case: str) -> None:
        self.case = case
        self.findings: list[Finding] = []

    def exchange(self) -> Iterable[Transmission]:
        """Return the messages to show with a breach."""
        return ()

    def excuse(self) -> str:
        """Return the reason why a breach may be the consequence of another one."""
        return ""

    def check(self, id: str, ok: object, expected: str, got: object) -> bool:  # noqa: A002
        """Judge a row without raising; return `ok`.

        A breach is recorded as untestable if there is an excuse for it.
        """
        if not ok and (why := self.excuse()):
            self.untestable(id, why)
            return False
        text = shown(got)
        self.findings.append(
            Finding(
                id=id,
                verdict="pass" if ok else failing(id),
                case=self.case,
                expected=expected,
                got=text if len(text) <= _LONGEST else f"{text[:_LONGEST]}...",
                exchange=() if ok else tuple(self.exchange()),
            )
        )
        return bool(ok)

    def record_pass(self, *ids: str) -> None:
        """Pass these rows, unless the watcher fails them: their subject occurred."""
        for id_ in ids:
            self._record(id_, "pass", "occurred without a breach")

    def not_applicable(self, id: str, why: str) -> None:  # noqa: A002
        """Record that the row does not concern this target."""
        self._record(id, "not-applicable", why)

    def untestable(self, id: str, why: str) -> None:  # noqa: A002
        """Record that the row could not be judged in this run."""
        self._record(id, "untestable", why)

    def _record(self, id_: str, verdict: Verdict, why: str) -> None:
        self.findings.append(Finding(id=id_, verdict=verdict, case=self.case, got=why))


class Suite(ABC):
    """A target that is ready to run cases.

    Attributes:
        all_cases: returns the suite's cases by name.
        duplicates: a row -> the row that is judged in its place.
        end_seconds: seconds of the whole time that are reserved for `close`.
        incidents: servers that ended during a case.
        suite_errors: errors of the suite's own cases.
    """

    all_cases: ClassVar[Callable[[], Mapping[str, Case]]]
    duplicates: ClassVar[Mapping[str, str]]
    end_seconds: ClassVar[float] = 0.0

    def __init__(self, target: Target) -> None:
        self.edition: Revision = target.edition or Revision.R2025_10
        self.incidents: list[Incident] = []
        self.suite_errors: list[SuiteError] = []

    @classmethod
    @abstractmethod
    def opened(
        cls, target: Target, *, seconds: float = math.inf
    ) -> AbstractAsyncContextManager[Self]:
        """Prepare a target to be judged; everything started has ended after the block.

        `seconds` is the time limit of the preparation.

        Raises:
            StartFailed: the target cannot be started, or not within that time.
        """

    @property
    def edition_name(self) -> str:
        """The edition, for reports."""
        return self.edition.value

    @abstractmethod
    def bound_rows(self) -> tuple[str, ...]:
        """Return the ids of the rows that bind the target."""

    @abstractmethod
    async def judge(self, case: Case) -> list[Finding]:
        """Run a case; return at least one finding for each of its rows."""

    @abstractmethod
    async def close(self) -> list[Finding]:
        """End what the cases share; return the last findings."""

    def without_consequences(self, findings: Sequence[Finding]) -> list[Finding]:
        """Return findings without breaches that are the consequence of another one."""
        return list(findings)

    @abstractmethod
    def why_unjudged(self, id_: str) -> str:
        """Return the reason why no case has judged a row."""

    async def judge_all(
        self,
        cases: Iterable[Case],
        *,
        jobs: int | None,
        end: float,
        seconds: float,
        on_case: OnCase | None,
    ) -> list[Finding]:
        """Judge cases; return all findings, and untestable ones for the rows of unfinished cases.

        `jobs` run at once; None: as many as there are processors. `end` is the time at which to
        stop, and `seconds` the limit of the run, for people.
        """
        waiting = deque(cases)
        unfinished = {case.name: case for case in waiting}
        all_findings: list[Finding] = []

        async def work() -> None:
            while waiting:
                case = waiting.popleft()
                findings = await self.judge(case)
                del unfinished[case.name]
                all_findings.extend(findings)
                if on_case is not None:
                    on_case(case, findings)

        with anyio.move_on_after(end - anyio.current_time()):
            async with anyio.create_task_group() as workers:
                for _ in range(jobs or os.cpu_count() or 1):
                    workers.start_soon(work)
        why = f"{NO_TIME} {seconds:g} s"
        late = [unjudged(case, id_, why) for case in unfinished.values() for id_ in case.rows]
        return all_findings + late

    def final_findings(
        self, findings: Iterable[Finding], other_rows: frozenset[str]
    ) -> Iterator[Finding]:
        """Yield the finding on each row that binds the target.

        A row without findings has those of its duplicate, the row that is judged in its place.
        `other_rows` are those that only cases for other editions judge.
        """
        by_row: dict[str, list[Finding]] = {}
        for finding in findings:
            by_row.setdefault(finding.id, []).append(finding)
        for id_ in self.bound_rows():
            duplicate = self.duplicates.get(id_, "")
            judged = by_row.get(id_) or by_row.get(duplicate)
            if judged:
                finding = worst(judged)
                is_broken = finding.verdict in {"fail", "warn"}
                verdict = failing(id_) if is_broken else finding.verdict
                yield attrs.evolve(finding, id=id_, verdict=verdict)
            elif not other_rows.isdisjoint((id_, duplicate)):
                yield Finding(id=id_, verdict="not-applicable", got=_OF_OTHER_EDITIONS)
            else:
                yield Finding(id=id_, verdict="untestable", got=self.why_unjudged(id_))


def unjudged(case: Case, id_: str, why: str, verdict: Verdict = "untestable") -> Finding:
    """Build the finding for a row that its case leaves open."""
    return Finding(id=id_, verdict=verdict, case=case.name, got=why)

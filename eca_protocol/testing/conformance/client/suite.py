"""Runs a client under test against every play, and says what each row makes of it."""

from __future__ import annotations

import inspect
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Final

import anyio
import attrs

from eca_protocol.errors import StartFailed
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.client import oddities, reading, talking
from eca_protocol.testing.conformance.client.bench import ClientBench, Play
from eca_protocol.testing.conformance.client.stage import Played, play
from eca_protocol.testing.conformance.client.watched import watched
from eca_protocol.testing.conformance.run import Run, SuiteFault, binds
from eca_protocol.testing.conformance.target import Folders, Target, own_folder
from eca_protocol.testing.conformance.verdicts import NO_TIME, Finding, worst
from eca_protocol.testing.requirements import REQUIREMENTS

__all__ = [
    "PLAYS",
    "SAME",
    "UNSEEN",
    "ClientCase",
    "ClientSuite",
    "client_cases",
    "open_client_suite",
    "run_client_suite",
]

PLAYS: Final = (talking.Plain, *reading.PLAYS, *talking.PLAYS, *oddities.PLAYS)
"""Every play, the plain one first: the others are measured by it."""


@attrs.frozen(kw_only=True)
class ClientCase:
    """A play, as a list of cases tells of it.

    Attributes:
        name: chapter and class: `reading.HeadersInLowerCase`.
        does: what is odd about the server, in a sentence for people.
        rows: the ids of the rows that it judges.
        play: the server that is played.
    """

    name: str
    does: str
    rows: tuple[str, ...]
    play: type[Play]


def client_cases() -> Mapping[str, ClientCase]:
    """The cases for clients, by name."""
    cases = {}
    for kind in PLAYS:
        name = f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
        does = " ".join((kind.__doc__ or "").split())
        cases[name] = ClientCase(name=name, does=does, rows=kind.rows, play=kind)
    return MappingProxyType(cases)


SAME: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ARROW:initialization-1": "LIFE-1",
        "ARROW:initialization-3": "LIFE-12",
        "ARROW:chat-tool-call-1": "ARROW:chat-text-1",
        "ARROW:chat-tool-call-8": "TOOL-16",
        "BASE-3": "W-1",
        "BASE-4": "W-1",
        "W-4d": "BASE-25",
        "W-5a": "BASE-6",
    }
)
"""A row that binds clients -> the row that is judged in its place."""

_SCREEN: Final = "What a client shows its user, or its program, cannot be seen from the server."
_OURS: Final = "It binds the client of this project alone."

UNSEEN: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("CHAT-22", "CHAT-23", "CHAT-37", "TOOL-2", "CONF-4", "CONF-5", "GEN-2"), _SCREEN
        ),
        **dict.fromkeys(("GEN-3", "GEN-4", "GEN-5", "W-16a", "W-16b", "W-16c"), _OURS),
        "BASE-22": "A client's requests have params of its own; those of a server are objects.",
        "BASE-26": "What a client makes of strange params cannot be brought about for all of them.",
        "BASE-27": "No fault of a client's own can be brought about from outside.",
        "BASE-31": "A client answers at once: there is nothing to cancel.",
        "CTX-8": "A client that sends no contexts keeps it, too.",
        "EDIT-5": "Where a diagnostic begins in a file is known to the editor alone.",
        "W-2c": "A client answers at once: no request of the same id is pending.",
        "W-5f": "It binds who reads the Evaluation Context Protocol.",
        "W-5h": "A client shows one JSON engine only.",
        "W-6d": "A pipe joins writes, so how the bytes were written cannot be told from reading.",
    }
)
"""A row that binds clients -> why nobody outside can judge it."""

Told = Callable[[ClientCase, Sequence[Finding]], None]


class ClientSuite:
    """A client that can be judged by any case; made by `open_client_suite`.

    Attributes:
        edition: the edition that is spoken.
        faults: cases that failed by themselves.
    """

    def __init__(self, target: Target, root: Path, *, seconds_a_play: float) -> None:
        self.edition = target.edition or Revision.R2025_10
        self.faults: list[SuiteFault] = []
        self._target = target
        self._root = root
        self._seconds_a_play = seconds_a_play
        self._numbers = count(1)
        self._plain: Played

    async def start(self) -> None:
        """Play the plain server: all others are measured by what the client does with it.

        Raises:
            StartFailed: the client cannot be started, starts no server, or says nothing to it.
        """
        self._plain = await self._play(talking.Plain, calls=True)
        if self._plain.server is None:
            raise StartFailed(f"the client starts no server: {self._plain.obituary}")
        if all(said.side == "server" for said in self._plain.server.said):
            raise StartFailed(f"the client says nothing: {self._plain.obituary}")

    async def judge(self, case: ClientCase) -> list[Finding]:
        """Start the client once more, for that case; a finding at least for each of its rows."""
        plain = self._plain
        assert plain.server is not None
        if case.play is talking.Plain:
            return [*self._judged(case, plain), *watched(plain.server, self.edition)]
        try:
            played = await self._play(case.play, calls=bool(plain.server.decided))
        except StartFailed as failure:
            return [_untold(case, row, str(failure)) for row in case.rows]
        except Exception as raised:  # noqa: BLE001 - it is told as a fault of the suite's own
            why = self._failed(case, raised)
            return [_untold(case, row, why) for row in case.rows]
        return list(self._judged(case, played))

    def _failed(self, case: ClientCase, raised: Exception) -> str:
        """The suite has failed in a case; why its rows were not judged."""
        fault = SuiteFault.of(case.name, inspect.getfile(case.play), raised)
        self.faults.append(fault)
        return fault.told

    def _judged(self, case: ClientCase, played: Played) -> Iterator[Finding]:
        """What a play shows; it is judged by the server that was played."""
        bench = ClientBench(case.name, played, self._plain)
        why = f"the play did not come to it: {played.obituary}"
        if isinstance(played.server, Play):
            try:
                played.server.judge(bench)
            except Exception as raised:  # noqa: BLE001 - it is told as a fault of the suite's own
                why = self._failed(case, raised)
        yield from bench.findings
        judged = {finding.id for finding in bench.findings}
        yield from (_untold(case, row, why) for row in case.rows if row not in judged)

    async def _play(self, kind: type[Play], *, calls: bool) -> Played:
        folders = Folders(root=self._root / f"client-{next(self._numbers)}")
        make = partial(kind, edition=self.edition, calls=calls)
        return await play(make, self._target, folders, seconds=self._seconds_a_play)


@asynccontextmanager
async def open_client_suite(
    target: Target, *, seconds_a_play: float = 30.0
) -> AsyncIterator[ClientSuite]:
    """A client ready to be judged.

    Args:
        target: the client; `stage.SERVER` in its command stands for the server it has to start.
        seconds_a_play: after which a client that has not ended by itself is ended.

    Raises:
        StartFailed: the client cannot be started, starts no server, or says nothing to it.
    """
    with own_folder() as root:
        suite = ClientSuite(target, root, seconds_a_play=seconds_a_play)
        await suite.start()
        yield suite


async def run_client_suite(
    target: Target,
    *,
    cases: Iterable[ClientCase] | None = None,
    shown: str = "",
    jobs: int | None = None,
    seconds: float = 150.0,
    seconds_a_play: float = 30.0,
    told: Told | None = None,
) -> Run:
    """Judge a client, by what it does each time it is started.

    Args:
        target: the client; `stage.SERVER` in its command stands for the server it has to start.
        cases: which; None: all. The plain server is always played.
        shown: what the target is called in reports.
        jobs: how many clients run at once; None: as many as there are processors.
        seconds: how long the whole may take; what has no time then is untestable.
        seconds_a_play: after which a client that has not ended by itself is ended.
        told: called as each case ends.

    Raises:
        StartFailed: the client cannot be started, starts no server, or says nothing to it.
    """
    began, started = anyio.current_time(), datetime.now(UTC)
    found: dict[str, list[Finding]] = {}
    known = client_cases()
    plain = next(iter(known.values()))
    wanted = known if cases is None else {case.name: case for case in cases}
    undone = {plain.name: plain, **wanted}
    waiting = deque(undone.values())
    async with open_client_suite(target, seconds_a_play=seconds_a_play) as suite:

        async def work() -> None:
            while waiting:
                case = waiting.popleft()
                findings = await suite.judge(case)
                del undone[case.name]
                for finding in findings:
                    found.setdefault(finding.id, []).append(finding)
                if told is not None and case.name in wanted:
                    told(case, findings)

        with anyio.move_on_after(began + seconds - anyio.current_time()):
            async with anyio.create_task_group() as workers:
                for _ in range(jobs or os.cpu_count() or 1):
                    workers.start_soon(work)
    for case in undone.values():
        for row in case.rows:
            late = _untold(case, row, f"{NO_TIME} {seconds:g} s")
            found.setdefault(row, []).append(late)
    return Run(
        target=shown or " ".join(target.command),
        edition=suite.edition,
        started=started,
        seconds=anyio.current_time() - began,
        findings=tuple(_of_each_row(found, suite.edition)),
        faults=tuple(suite.faults),
    )


def _untold(case: ClientCase, row: str, why: str) -> Finding:
    return Finding(id=row, verdict="untestable", case=case.name, got=why)


def _of_each_row(found: Mapping[str, Sequence[Finding]], edition: Revision) -> Iterator[Finding]:
    for id_ in REQUIREMENTS:
        if binds(id_, edition, side="client"):
            judged = found.get(id_) or found.get(SAME.get(id_, ""))
            if judged:
                yield attrs.evolve(worst(judged), id=id_)
            else:
                why = UNSEEN.get(id_, "it has not happened in this run")
                yield Finding(id=id_, verdict="untestable", got=why)

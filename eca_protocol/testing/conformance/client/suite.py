"""The suite for clients: it runs a client against every scenario and judges each row."""

from __future__ import annotations

import inspect
import math
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

import anyio
from typing_extensions import override

from eca_protocol.errors import StartFailed
from eca_protocol.revisions import Revision, Window
from eca_protocol.testing.conformance.client import oddities, reading, talking
from eca_protocol.testing.conformance.client.harness import (
    ClientHarness,
    ClientRun,
    Scenario,
    run_client,
)
from eca_protocol.testing.conformance.client.scripted_server import ScriptedServer
from eca_protocol.testing.conformance.duplicates import CLIENT_DUPLICATES
from eca_protocol.testing.conformance.judge import Case, Suite, unjudged
from eca_protocol.testing.conformance.run import SuiteError, binds
from eca_protocol.testing.conformance.target import Directories, Target, temporary_directory
from eca_protocol.testing.conformance.verdicts import Finding, failing
from eca_protocol.testing.requirements import REQUIREMENTS
from eca_protocol.testing.watching import Observation

__all__ = ["SCENARIOS", "UNTESTABLE", "ClientSuite", "client_cases"]

SCENARIOS: Final[tuple[type[Scenario], ...]] = tuple(
    dict.fromkeys((talking.Plain, *reading.SCENARIOS, *talking.SCENARIOS, *oddities.SCENARIOS))
)
"""All scenarios; the plain one, the baseline of the others, comes first."""


def client_cases() -> Mapping[str, Case]:
    """Return the cases for clients by name."""
    cases = {}
    for kind in SCENARIOS:
        name = f"{kind.__module__.rpartition('.')[2]}.{kind.__name__}"
        summary = " ".join((kind.__doc__ or "").split())
        window = Window(since=Revision.DRAFT)
        cases[name] = Case(name=name, summary=summary, rows=kind.rows, run=kind, window=window)
    return MappingProxyType(cases)


_SCREEN: Final = "A server cannot see what a client shows to its user."
_OURS: Final = "It binds only the client of this project."

UNTESTABLE: Final[Mapping[str, str]] = MappingProxyType(
    {
        **dict.fromkeys(
            ("CHAT-22", "CHAT-23", "CHAT-37", "TOOL-2", "CONF-4", "CONF-5", "GEN-2"), _SCREEN
        ),
        **dict.fromkeys(("GEN-3", "GEN-4", "GEN-5", "W-16a", "W-16b", "W-16c"), _OURS),
        "BASE-22": "A client's requests have params of its own; those of a server are objects.",
        "BASE-26": "No test can make every client handle params of a wrong type.",
        "BASE-27": "An internal error of a client cannot be caused from outside.",
        "BASE-31": "A client answers at once: no request is pending that could be cancelled.",
        "CTX-8": "A client that sends no contexts complies, too.",
        "EDIT-5": "Only the editor knows the lines of its diagnostics.",
        "W-2c": "A client answers at once: no request of the same id is pending.",
        "W-5f": "It binds readers of the Evaluation Context Protocol.",
        "W-5h": "A client uses one JSON engine only.",
        "W-6d": "A pipe joins writes, so a reader cannot see how the bytes were written.",
    }
)
"""A row that binds clients -> the reason why no test can judge it."""

_SLOWER: Final = 3
"""The time that a client may take at least, in times of that with the plain server."""

_CASE = "talking.Plain"
_ALWAYS = ("BASE-10", "BASE-13", "LIFE-1", "LIFE-5", "W-1", "W-2d")
"""Rows that every conversation shows."""

_AROUND = 10  # entries of an exchange, before and behind the breach


class ClientSuite(Suite):
    """A client that any case can judge.

    Attributes:
        seconds_per_case: after which a client that has not ended by itself is ended; more if it
            takes long with the plain server, too.
    """

    all_cases = staticmethod(client_cases)
    duplicates = CLIENT_DUPLICATES
    seconds_per_case: float = 30.0

    def __init__(self, target: Target, root: Path) -> None:
        super().__init__(target)
        self._target = target
        self._root = root
        self._numbers = count(1)
        self._baseline: ClientRun
        self._judged: set[str] = set()

    @override
    @classmethod
    @asynccontextmanager
    async def opened(cls, target: Target, *, seconds: float = math.inf) -> AsyncIterator[Self]:
        with temporary_directory() as root:
            suite = cls(target, root)
            with anyio.move_on_after(seconds) as limit:
                await suite.start()
            if limit.cancelled_caught:
                raise StartFailed(f"the client does not end in {seconds:g} s, the limit of a run")
            yield suite

    @override
    def bound_rows(self) -> tuple[str, ...]:
        return tuple(id_ for id_ in REQUIREMENTS if binds(id_, self.edition, side="client"))

    @override
    def why_unjudged(self, id_: str) -> str:
        return UNTESTABLE.get(id_, "it did not occur in this run")

    async def start(self) -> None:
        """Run the client with the plain server, the baseline of all scenarios.

        Raises:
            StartFailed: the client cannot be started, starts no server, or sends it nothing.
        """
        start = anyio.current_time()
        self._baseline = await self._run_scenario(talking.Plain, calls=True)
        if self._baseline.exit_code is not None:  # it ended by itself: a slow one has more time
            took = anyio.current_time() - start
            self.seconds_per_case = max(self.seconds_per_case, _SLOWER * took)
        if self._baseline.server is None:
            raise StartFailed(f"the client starts no server: {self._baseline.exit_description}")
        if all(entry.side == "server" for entry in self._baseline.server.record):
            raise StartFailed(f"the client sends nothing: {self._baseline.exit_description}")

    @override
    async def judge(self, case: Case) -> list[Finding]:
        """Start the client once more, for that case; return at least one finding for each row."""
        self._judged.add(case.name)
        baseline = self._baseline
        assert baseline.server is not None
        if case.run is talking.Plain:
            return [
                *self._findings(case, baseline),
                *_observed_findings(baseline.server),
            ]
        try:
            run = await self._run_scenario(case.run, calls=bool(baseline.server.decisions))
        except StartFailed as failure:
            return [unjudged(case, row, str(failure)) for row in case.rows]
        except Exception as raised:  # noqa: BLE001 - reported as an error of the suite
            why = self._failed(case, raised)
            return [unjudged(case, row, why) for row in case.rows]
        return list(self._findings(case, run))

    @override
    async def close(self) -> list[Finding]:
        """Return the findings of the plain server, if no case has: they are part of each run."""
        return [] if _CASE in self._judged else await self.judge(client_cases()[_CASE])

    def _failed(self, case: Case, raised: Exception) -> str:
        """Record an error of the suite; return the reason why its rows were not judged."""
        error = SuiteError.of(case.name, inspect.getfile(case.run), raised)
        self.suite_errors.append(error)
        return error.reason

    def _findings(self, case: Case, run: ClientRun) -> Iterator[Finding]:
        """Yield the verdicts of a run, and an untestable one for each other row."""
        harness = ClientHarness(case.name, run, self._baseline)
        why = f"the client did not get that far: {run.exit_description}"
        if run.server is not None:
            try:
                run.server.judge(harness)
            except Exception as raised:  # noqa: BLE001 - reported as an error of the suite
                why = self._failed(case, raised)
        yield from harness.findings
        judged = {finding.id for finding in harness.findings}
        yield from (unjudged(case, row, why) for row in case.rows if row not in judged)

    async def _run_scenario(self, kind: type[Scenario], *, calls: bool) -> ClientRun:
        directories = Directories(root=self._root / f"client-{next(self._numbers)}")
        make = partial(kind, edition=self.edition, calls=calls)
        return await run_client(make, self._target, directories, seconds=self.seconds_per_case)


def _observed_findings(server: ScriptedServer) -> Iterator[Finding]:
    """Yield the watcher's findings in the conversation with the plain server."""
    server.recorder.finish()
    for observation in server.recorder.take_observations():
        if observation.side == "client":
            yield _finding_of(server, observation)
    for row in (*_ALWAYS, *sorted(server.recorder.observed_rows)):
        yield Finding(id=row, verdict="pass", case=_CASE, got="as expected")


def _finding_of(server: ScriptedServer, observation: Observation) -> Finding:
    place = observation.index
    first = max(0, place - _AROUND)
    return Finding(
        id=observation.requirement,
        verdict=failing(observation.requirement),
        case=_CASE,
        expected=observation.expected,
        got=observation.got,
        exchange=[entry.transmission for entry in server.record[first : place + _AROUND]],
        breach=place - first,
    )

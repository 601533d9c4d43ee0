"""A pytest plugin that runs the suite as tests, and gives tests of one's own its fixtures.

It is loaded only where it is asked for. Each case is a test, called after it, and so is the end of
the servers that the cases have shared (`leave_taking`):

    pytest -p eca_protocol.testing.conformance.pytest_plugin --eca-command "my-server --stdio"

`--eca-cases PATTERN` chooses among them by name (`stops`, `*.files_*`; `none` for none), `-k` does
as well. What `--eca-known-failures FILE` lists, as `conformance --write-known-failures` writes it,
fails no test. With `--eca-client` the command starts a client, and the suite is its server;
`{{server}}` in the command stands for the program that it has to start.

A test of one's own takes `eca_bench`, or a seat at a server that is the test's alone:

    pytestmark = pytest.mark.anyio

    async def test_it_greets(eca_seat):
        chat = eca_seat.chat(reply("Hello!"))
        await chat.prompt("Hi")
        await chat.finished()
        assert chat.said == "Hello!"

Whatever breaks a row of the requirements table meanwhile fails the test at its end.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import AsyncIterator, Collection, Generator, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, ExitStack
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from eca_protocol.errors import StartFailed
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import Case, is_named, server_cases
from eca_protocol.testing.conformance.client.suite import (
    ClientCase,
    ClientSuite,
    client_cases,
    open_client_suite,
)
from eca_protocol.testing.conformance.known import known_failures
from eca_protocol.testing.conformance.run import SuiteFault
from eca_protocol.testing.conformance.seat import Seat
from eca_protocol.testing.conformance.suite import Suite, open_suite
from eca_protocol.testing.conformance.target import Target
from eca_protocol.testing.conformance.verdicts import Finding

__all__ = ["eca_bench", "eca_seat", "eca_target"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    group = parser.getgroup("eca", "conformance of ECA servers and clients")
    group.addoption("--eca-command", metavar="COMMAND", help="what starts the server")
    group.addoption("--eca-client", action="store_true", help="it starts a client, and no server")
    group.addoption(
        "--eca-edition",
        type=Revision,
        metavar="EDITION",
        help="2025-06, 2025-09, 2025-10 or current (default: what it speaks by itself)",
    )
    group.addoption(
        "--eca-known-failures", metavar="FILE", help="rows and cases that fail no test, one a line"
    )
    group.addoption(
        "--eca-cases",
        default="*",
        metavar="PATTERN",
        help="which cases of the suite are run as tests (default: all)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Make ready to run cases; no server is started before the first.

    Raises:
        UsageError: there are no known failures in the file that is to have them.
    """
    config.stash[_RUNNER] = _Runner()
    config.stash[_KNOWN] = frozenset()
    if path := config.getoption("--eca-known-failures"):
        try:
            config.stash[_KNOWN] = known_failures(Path(path).read_text("utf-8"))
        except (OSError, ValueError) as fault:
            raise pytest.UsageError(f"--eca-known-failures: {fault}") from fault


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what was started."""
    config.stash[_RUNNER].close()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, items: list[pytest.Item]
) -> Generator[None]:
    """Put the cases behind the tests that were collected, and the leave-taking behind those."""
    if session.config.getoption("--eca-command"):
        _put_cases(session, items)
    yield
    if any(isinstance(item, CaseItem) and item.is_of_servers for item in items):
        nodeid = f"conformance::{_LEAVING}"
        items.append(LeavingItem.from_parent(session, name=_LEAVING, nodeid=nodeid))


def _put_cases(session: pytest.Session, items: list[pytest.Item]) -> None:
    pattern = session.config.getoption("--eca-cases")
    is_client = session.config.getoption("--eca-client")
    cases = client_cases() if is_client else server_cases()
    for name, case in cases.items():
        if is_named(name, pattern):
            nodeid = f"conformance::{name}"
            items.append(CaseItem.from_parent(session, name=name, nodeid=nodeid, case=case))


AnyCase: TypeAlias = Case | ClientCase


class Broken(AssertionError):
    """Rows that are not kept; the text tells of each, once."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        times = Counter(finding.id for finding in findings)
        first = {finding.id: finding for finding in reversed(findings)}
        super().__init__("\n\n".join(_told(first[id_], times[id_]) for id_ in times))


class Ended(AssertionError):
    """The target ended while the case talked to it."""


class SuiteFailed(Exception):
    """A fault of the suite's own: the target has neither kept nor broken what the case judges."""

    def __init__(self, fault: SuiteFault) -> None:
        super().__init__(f"{fault.told}\n\n{fault.traceback}")


class _Item(pytest.Item):
    """A test whose findings decide."""

    does: str
    """What it does, in a sentence for people."""

    def tell(self, findings: Sequence[Finding]) -> None:
        """Pass, warn or be skipped, as the findings want it; those that fail it were seen to."""
        odd = [finding for finding in findings if finding.verdict == "warn"]
        if odd:
            self.add_report_section("call", "warnings", str(Broken(odd)))
        elif all(finding.verdict != "pass" for finding in findings):
            pytest.skip("; ".join(dict.fromkeys(finding.got for finding in findings)))

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None
    ) -> str:
        """The rows, without a traceback: that of a case says nothing of the target."""
        if isinstance(excinfo.value, Broken):
            return f"{self.does}\n\n{excinfo.value}"
        if isinstance(excinfo.value, SuiteFailed | Ended):
            return str(excinfo.value)
        if isinstance(excinfo.value, StartFailed):
            return f"The target cannot be started: {excinfo.value}"
        return str(excinfo.getrepr(style="short"))

    def reportinfo(self) -> tuple[str, int | None, str]:
        """Where it is from, and its name."""
        return "conformance", None, self.name


class CaseItem(_Item):
    """A case as a test."""

    def __init__(self, *, case: AnyCase, **options: Any) -> None:
        super().__init__(**options)
        self._case = case
        self.does = case.does

    @property
    def is_of_servers(self) -> bool:
        """Whether it judges a server, and no client."""
        return isinstance(self._case, Case)

    def runtest(self) -> None:
        """Run the case.

        Raises:
            Broken: binding rows are not kept.
            Ended: the target ended while it was talked to.
            SuiteFailed: the case failed by itself.
        """
        runner, known = self.config.stash[_RUNNER], self.config.stash[_KNOWN]
        findings = runner.judge(_target(self.config), self._case)
        _raise_for(findings, known)
        if self._case.name not in known:
            runner.raise_for(self._case.name)
        self.tell(findings)


class LeavingItem(_Item):
    """The end of the servers that cases have shared, as the last test."""

    does = "The shared servers are shut down; what is open then is not to be."

    def runtest(self) -> None:
        """Shut them down.

        Raises:
            Broken: binding rows are not kept.
        """
        runner, known = self.config.stash[_RUNNER], self.config.stash[_KNOWN]
        findings = runner.leave()
        _raise_for(findings, known)
        self.tell(findings)


_Opened = TypeVar("_Opened")


class _Runner:
    """The suite of a whole test run, in a thread of its own, started with its first case."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._suite: Suite | ClientSuite | StartFailed | None = None

    def raise_for(self, case: str) -> None:
        """See what went wrong in a case beside the rows.

        Raises:
            Ended: the target ended while it was talked to.
            SuiteFailed: the case failed by itself.
        """
        suite = self._suite
        for incident in suite.incidents if isinstance(suite, Suite) else ():
            if incident.case == case:
                raise Ended(f"the target ended: {incident.what}")
        for fault in suite.faults if isinstance(suite, Suite | ClientSuite) else ():
            if fault.case == case:
                raise SuiteFailed(fault)

    def judge(self, target: Target, case: AnyCase) -> list[Finding]:
        """Run a case; what it finds.

        Raises:
            StartFailed: the target cannot be started, now or at the first case.
        """
        portal = self._portal
        if portal is None:
            portal = self._portal = self._stack.enter_context(start_blocking_portal("trio"))
            try:
                if isinstance(case, ClientCase):
                    self._suite = self._open(portal, open_client_suite(target))
                else:
                    self._suite = self._open(portal, open_suite(target))
            except StartFailed as failure:
                self._suite = failure
        if isinstance(self._suite, StartFailed):
            raise self._suite
        if isinstance(case, ClientCase):
            assert isinstance(self._suite, ClientSuite)
            return portal.call(self._suite.judge, case)
        assert isinstance(self._suite, Suite)
        if not case.window.holds(self._suite.edition):
            pytest.skip(f"not a case for edition {self._suite.edition.value}")
        return portal.call(_judge, self._suite, case)

    def _open(
        self, portal: BlockingPortal, suite: AbstractAsyncContextManager[_Opened, bool | None]
    ) -> _Opened:
        return self._stack.enter_context(portal.wrap_async_context_manager(suite))

    def leave(self) -> list[Finding]:
        """Shut the shared servers down in order; what their watchers saw last."""
        if self._portal is None or not isinstance(self._suite, Suite):
            pytest.skip("no server was started")
        return self._portal.call(self._suite.close)

    def close(self) -> None:
        """End what was started."""
        self._stack.close()


_LEAVING: Final = "leave_taking"
_RUNNER: Final = pytest.StashKey[_Runner]()
_KNOWN: Final = pytest.StashKey[frozenset[str]]()


async def _judge(suite: Suite, case: Case) -> list[Finding]:
    return [*await suite.judge(case), *suite.observed()]


def _target(config: pytest.Config) -> Target:
    command = config.getoption("--eca-command")
    if not command:
        pytest.fail("name what is tested: --eca-command", pytrace=False)
    return Target(command=tuple(shlex.split(command)), edition=config.getoption("--eca-edition"))


def _broken(findings: Iterable[Finding], known: Collection[str]) -> list[Finding]:
    """What fails a test."""
    return [each for each in findings if each.verdict == "fail" and each.id not in known]


def _raise_for(findings: Iterable[Finding], known: Collection[str]) -> None:
    if broken := _broken(findings, known):
        raise Broken(broken)


def _told(finding: Finding, times: int) -> str:
    row = finding.requirement
    again = f" ({times} times)" if times > 1 else ""
    return (
        f"{finding.id} ({row.section}): {row.statement}\n"
        f"  expected: {finding.expected}\n"
        f"  got:      {finding.got}{again}"
    )


@pytest.fixture(scope="session")
def eca_target(request: pytest.FixtureRequest) -> Target:
    """The server of `--eca-command`."""
    return _target(request.config)


@pytest.fixture
async def eca_bench(
    request: pytest.FixtureRequest, anyio_backend: object, eca_target: Target
) -> AsyncIterator[Bench]:
    """What a case has, with a model and servers of the test's own."""
    async with open_suite(eca_target) as suite:
        bench = suite.bench(request.node.name)
        yield bench
        known = request.config.stash[_KNOWN]
        broken = _broken([*bench.findings, *await suite.close()], known)
    if broken:
        pytest.fail(str(Broken(broken)), pytrace=False)


@pytest.fixture
async def eca_seat(eca_bench: Bench) -> AsyncIterator[Seat]:
    """A client's seat at a server that is the test's alone; the server has said hello."""
    async with eca_bench.seat() as seat:
        yield seat

"""A pytest plugin that runs the suite as tests, and provides fixtures for your own tests.

It is loaded only with `-p`. Each case is a test of the same name; the shutdown of the servers that
the cases share is one, too (`leave_taking`):

    pytest -p eca_protocol.testing.conformance.pytest_plugin --eca-command "my-server --stdio"

`--eca-cases PATTERN` selects cases by name (`stops`, `*.files_*`; `none` for none), as does `-k`.
Failures listed in `--eca-known-failures FILE`, as `conformance --write-known-failures` writes it,
fail no test. With `--eca-client` the command starts a client, and the suite is its server;
`{{server}}` in the command is the program that it has to start.

Your own test takes `eca_harness`, or a client session at a new server:

    pytestmark = pytest.mark.anyio

    async def test_it_greets(eca_session):
        chat = eca_session.chat(reply("Hello!"))
        await chat.prompt("Hi")
        await chat.finished()
        assert chat.assistant_text == "Hello!"

A row of the requirements table that is broken meanwhile fails the test at its end.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import AsyncIterator, Collection, Generator, Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
from anyio.from_thread import BlockingPortal, start_blocking_portal

from eca_protocol.errors import StartFailed
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import Case, is_named
from eca_protocol.testing.conformance.client.suite import ClientSuite
from eca_protocol.testing.conformance.harness import Harness
from eca_protocol.testing.conformance.judge import Suite
from eca_protocol.testing.conformance.run import known_failures
from eca_protocol.testing.conformance.session import ClientSession
from eca_protocol.testing.conformance.suite import ServerSuite
from eca_protocol.testing.conformance.target import Target
from eca_protocol.testing.conformance.verdicts import Finding

__all__ = ["eca_harness", "eca_session", "eca_target"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options."""
    add = parser.getgroup("eca", "conformance of ECA servers and clients").addoption
    add("--eca-command", metavar="COMMAND", help="the command that starts the server")
    add("--eca-client", action="store_true", help="the command starts a client, not a server")
    editions = "2025-06, 2025-09, 2025-10 or current (default: the target's own)"
    add("--eca-edition", type=Revision, metavar="EDITION", help=editions)
    known = "known failures, which fail no test: one row or case a line"
    add("--eca-known-failures", metavar="FILE", help=known)
    cases = "the cases to run as tests (default: all)"
    add("--eca-cases", default="*", metavar="PATTERN", help=cases)


def pytest_configure(config: pytest.Config) -> None:
    """Prepare to run cases; no server is started before the first.

    Raises:
        UsageError: the file of known failures cannot be read.
    """
    config.stash[_RUNNER] = _Runner()
    config.stash[_KNOWN] = frozenset()
    if path := config.getoption("--eca-known-failures"):
        try:
            config.stash[_KNOWN] = known_failures(Path(path).read_text("utf-8"))
        except (OSError, ValueError) as error:
            raise pytest.UsageError(f"--eca-known-failures: {error}") from error


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the servers."""
    if (runner := config.stash.get(_RUNNER, None)) is not None:  # no other plugin failed before
        runner.close()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(
    session: pytest.Session, items: list[pytest.Item]
) -> Generator[None]:
    """Append the cases to the collected tests, and the shutdown to the cases."""
    if session.config.getoption("--eca-command"):
        _append_cases(session, items)
    yield
    has_servers = not session.config.getoption("--eca-client")
    if has_servers and any(isinstance(item, CaseItem) for item in items):
        items.append(_item(session, _LEAVING, None))


def _append_cases(session: pytest.Session, items: list[pytest.Item]) -> None:
    pattern = session.config.getoption("--eca-cases")
    for name, case in _kind(session.config).all_cases().items():
        if is_named(name, pattern):
            items.append(_item(session, name, case))


def _item(session: pytest.Session, name: str, case: Case | None) -> pytest.Item:
    return CaseItem.from_parent(session, name=name, nodeid=f"conformance::{name}", case=case)


class BrokenRequirements(AssertionError):
    """Rows that the target breaks; the text describes each once."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        times = Counter(finding.id for finding in findings)
        first = {finding.id: finding for finding in reversed(findings)}
        super().__init__("\n\n".join(_describe(first[id_], times[id_]) for id_ in times))


class CaseFailed(Exception):
    """The target ended while the case talked to it, or the suite itself failed in it."""


class CaseItem(pytest.Item):
    """A case as a test; without a case, the shutdown of the servers that the cases share."""

    def __init__(self, *, case: Case | None, **options: Any) -> None:
        super().__init__(**options)
        self._case = case

    def runtest(self) -> None:
        """Run the case.

        Raises:
            BrokenRequirements: the target breaks binding rows.
            CaseFailed: the target ended during the case, or the suite itself failed.
        """
        runner, known = self.config.stash[_RUNNER], self.config.stash[_KNOWN]
        findings = runner.judge(self.config, self._case) if self._case else runner.shut_down()
        if failures := _failures(findings, known):
            raise BrokenRequirements(failures)
        if self._case is not None and self._case.name not in known:
            runner.raise_for(self._case.name)
        self._report_outcome(findings)

    def _report_outcome(self, findings: Sequence[Finding]) -> None:
        """Warn or skip according to findings, none of which fails the test."""
        warnings = [finding for finding in findings if finding.verdict == "warn"]
        if warnings:
            self.add_report_section("call", "warnings", str(BrokenRequirements(warnings)))
        elif all(finding.verdict != "pass" for finding in findings):
            pytest.skip("; ".join(dict.fromkeys(finding.got for finding in findings)))

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[BaseException], style: object = None
    ) -> str:
        """Return the rows without a traceback, which would say nothing about the target."""
        if isinstance(excinfo.value, BrokenRequirements):
            return f"{self._case.summary if self._case else _SHUTDOWN}\n\n{excinfo.value}"
        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        if isinstance(excinfo.value, StartFailed):
            return f"The target cannot be started: {excinfo.value}"
        return str(excinfo.getrepr(style="short"))

    def reportinfo(self) -> tuple[str, int | None, str]:
        return "conformance", None, self.name


class _Runner:
    """The suite of a whole test run, in a thread of its own, started with its first case."""

    def __init__(self) -> None:
        self._stack = ExitStack()
        self._portal: BlockingPortal | None = None
        self._suite: Suite | StartFailed | None = None

    def raise_for(self, case: str) -> None:
        """Raise an error for a failure in a case other than its rows.

        Raises:
            CaseFailed: the target ended during the case, or the suite itself failed.
        """
        assert isinstance(self._suite, Suite)
        for incident in self._suite.incidents:
            if incident.case == case:
                raise CaseFailed(f"the target ended: {incident.what}")
        for error in self._suite.suite_errors:
            if error.case == case:
                raise CaseFailed(f"{error.reason}\n\n{error.traceback}")

    def judge(self, config: pytest.Config, case: Case) -> list[Finding]:
        """Run a case; return its findings.

        Raises:
            StartFailed: the target cannot be started, now or at the first case.
        """
        target = _target(config)
        if self._portal is None:
            self._portal = self._stack.enter_context(start_blocking_portal("trio"))
            try:
                running = self._portal.wrap_async_context_manager(_kind(config).opened(target))
                self._suite = self._stack.enter_context(running)
            except StartFailed as failure:
                self._suite = failure
        if isinstance(self._suite, StartFailed):
            raise self._suite
        assert self._suite is not None
        if not case.window.holds(self._suite.edition):
            pytest.skip(f"not a case for edition {self._suite.edition.value}")
        return self._portal.call(self._suite.judge, case)

    def shut_down(self) -> list[Finding]:
        """Shut the shared servers down; return the last findings of their watchers."""
        if self._portal is None or not isinstance(self._suite, Suite):
            pytest.skip("no server was started")
        return self._portal.call(self._suite.close)

    def close(self) -> None:
        self._stack.close()


_SHUTDOWN: Final = "Shut the shared servers down, and judge what is unfinished then."
_LEAVING: Final = "leave_taking"
_RUNNER: Final = pytest.StashKey[_Runner]()
_KNOWN: Final = pytest.StashKey[frozenset[str]]()


def _kind(config: pytest.Config) -> type[Suite]:
    return ClientSuite if config.getoption("--eca-client") else ServerSuite


def _target(config: pytest.Config) -> Target:
    command = config.getoption("--eca-command")
    if not command:
        pytest.fail("no target: pass --eca-command COMMAND", pytrace=False)
    return Target(command=tuple(shlex.split(command)), edition=config.getoption("--eca-edition"))


def _failures(findings: Iterable[Finding], known: Collection[str]) -> list[Finding]:
    return [each for each in findings if each.verdict == "fail" and each.id not in known]


def _describe(finding: Finding, times: int) -> str:
    row = finding.requirement
    again = f" ({times} times)" if times > 1 else ""
    return (
        f"{finding.id} ({row.section}): {row.statement}\n"
        f"  expected: {finding.expected}\n"
        f"  got:      {finding.got}{again}"
    )


@pytest.fixture(scope="session")
def eca_target(request: pytest.FixtureRequest) -> Target:
    """Return the target of `--eca-command`."""
    return _target(request.config)


@pytest.fixture
async def eca_harness(
    request: pytest.FixtureRequest, anyio_backend: object, eca_target: Target
) -> AsyncIterator[Harness]:
    """Yield a harness with a model and servers of the test's own."""
    async with ServerSuite.opened(eca_target) as suite:
        harness = suite.harness(request.node.name)
        yield harness
        known = request.config.stash[_KNOWN]
        failures = _failures([*harness.findings, *await suite.close()], known)
    if failures:
        pytest.fail(str(BrokenRequirements(failures)), pytrace=False)


@pytest.fixture
async def eca_session(eca_harness: Harness) -> AsyncIterator[ClientSession]:
    """Yield a client session at a new server, after the handshake."""
    async with eca_harness.session() as session:
        yield session

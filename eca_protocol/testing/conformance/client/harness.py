"""The harness of a scenario's judge: the client's run, and its run with the plain server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from eca_protocol.testing.conformance.client.client_run import ClientRun
from eca_protocol.testing.conformance.client.scripted_server import ScriptedServer
from eca_protocol.testing.conformance.verdicts import Finding, Transmission, judgement

__all__ = ["ClientHarness", "Scenario"]

_SHOWN: Final = 30  # messages of an exchange


class Scenario(ScriptedServer):
    """A server with one deviation; its docstring describes it for people.

    Attributes:
        rows: the client's requirements that it judges.
        triggers: methods, one of which the client has to send before the deviation occurs.
    """

    rows: ClassVar[tuple[str, ...]] = ()
    triggers: ClassVar[tuple[str, ...]] = ("initialized",)

    def judge(self, harness: ClientHarness) -> None:
        """Judge the rows; by default the client must do all that it does with the plain server."""
        for row in self.rows:
            harness.check_undisturbed(row)


class ClientHarness:
    """The verdicts on one run of the client.

    Attributes:
        run: the client's run with the scenario.
        baseline: its run with the plain server.
        case: the scenario's name.
        findings: the verdicts.
    """

    def __init__(self, case: str, run: ClientRun, baseline: ClientRun) -> None:
        self.case = case
        self.run = run
        self.baseline = baseline
        self.findings: list[Finding] = []

    def check(self, id: str, ok: object, *, expected: str, got: object) -> bool:  # noqa: A002
        """Judge a row; return `ok`."""
        finding = judgement(
            id, ok, case=self.case, expected=expected, got=got, exchange=self._exchange
        )
        self.findings.append(finding)
        return bool(ok)

    def untestable(self, id: str, why: str) -> None:  # noqa: A002
        """Record that the row could not be judged in this run."""
        self.findings.append(Finding(id=id, verdict="untestable", case=self.case, got=why))

    def check_undisturbed(self, id: str) -> None:  # noqa: A002
        """Check that the client did the same, and ended the same, as with the plain server.

        The row is untestable if the client never triggers the deviation.
        """
        server = self.run.server
        if isinstance(server, Scenario) and not self.baseline.methods.intersection(server.triggers):
            self.untestable(id, f"the client never sends {' or '.join(server.triggers)}")
            return
        missing = sorted(self.baseline.methods - self.run.methods)
        ended = self.run.exit_code == self.baseline.exit_code
        got = f"no {', '.join(missing)}; " if missing else ""
        self.check(
            id,
            not missing and ended,
            expected=f"the methods as with the plain server: {_joined(self.baseline.methods)}; and "
            f"exit code {self.baseline.exit_code}",
            got=f"{got}{self.run.exit_description}"
            if missing or not ended
            else "the same methods and exit code",
        )

    def _exchange(self) -> list[Transmission]:
        record = self.run.server.record if self.run.server is not None else []
        return [each.transmission for each in record[-_SHOWN:]]


def _joined(methods: Iterable[str]) -> str:
    return ", ".join(sorted(methods))

"""The harness of a scenario's judge: the client's run, and its run with the plain server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Final

from eca_protocol.testing.conformance.client.client_run import ClientRun
from eca_protocol.testing.conformance.client.scripted_server import ScriptedServer
from eca_protocol.testing.conformance.judge import Judge
from eca_protocol.testing.conformance.verdicts import Transmission

_SHOWN: Final = 30  # messages of an exchange


class Scenario(ScriptedServer):
    """A server with one deviation; its docstring describes it for people.

    Attributes:
        rows: the client's requirements that it judges; a subclass names them as it is declared.
        triggers: methods, one of which the client has to send before the deviation occurs.
    """

    rows: ClassVar[tuple[str, ...]] = ()
    triggers: ClassVar[tuple[str, ...]] = ("initialized",)

    def __init_subclass__(cls, *, rows: str = "", triggers: tuple[str, ...] = ()) -> None:
        cls.rows = tuple(rows.split())
        cls.triggers = triggers or cls.triggers

    def judge(self, harness: ClientHarness) -> None:
        """Judge the rows; by default the client must do all that it does with the plain server."""
        for row in self.rows:
            harness.check_undisturbed(row)


def scenarios_in(module: Mapping[str, object]) -> tuple[type[Scenario], ...]:
    """Return the scenarios among the names of a module."""
    classes = (each for each in module.values() if isinstance(each, type))
    return tuple(each for each in classes if issubclass(each, Scenario) and each.rows)


class ClientHarness(Judge):
    """The verdicts on one run of the client.

    Attributes:
        run: the client's run with the scenario.
        baseline: its run with the plain server.
    """

    def __init__(self, case: str, run: ClientRun, baseline: ClientRun) -> None:
        super().__init__(case)
        self.run = run
        self.baseline = baseline

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
        methods = ", ".join(sorted(self.baseline.methods))
        code = f"exit code {self.baseline.exit_code}"
        got = f"no {', '.join(missing)}; " if missing else ""
        got = f"{got}{self.run.exit_description}"
        if ended and not missing:
            got = "the same methods and exit code"
        expected = f"the methods as with the plain server: {methods}; and {code}"
        self.check(id, not missing and ended, expected, got)

    def exchange(self) -> list[Transmission]:
        """Return the last messages of the run."""
        record = self.run.server.record if self.run.server is not None else []
        return [each.transmission for each in record[-_SHOWN:]]

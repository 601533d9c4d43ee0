"""What the judge of a play has in its hands: what became of it, and of the plain one before."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Final

from eca_protocol.testing.conformance.client.played import PlayedServer
from eca_protocol.testing.conformance.client.stage import Played
from eca_protocol.testing.conformance.verdicts import Exchanged, Finding, judgement

__all__ = ["ClientBench", "Play"]

_SHOWN: Final = 30  # messages of an exchange


class Play(PlayedServer):
    """A server that does one odd thing; its docstring says which, for people.

    Attributes:
        rows: what it shows, of the client.
        behind: methods of which the client has to say one before the odd thing happens.
    """

    rows: ClassVar[tuple[str, ...]] = ()
    behind: ClassVar[tuple[str, ...]] = ("initialized",)

    def judge(self, bench: ClientBench) -> None:
        """Judge the rows; by default the client must have done all that it does otherwise."""
        for row in self.rows:
            bench.undisturbed(row)


class ClientBench:
    """Judges one play.

    Attributes:
        played: what became of it.
        plain: what became of the plain one.
        case: the play's name.
        findings: what was judged.
    """

    def __init__(self, case: str, played: Played, plain: Played) -> None:
        self.case = case
        self.played = played
        self.plain = plain
        self.findings: list[Finding] = []

    def check(self, id: str, ok: object, *, expected: str, got: object) -> bool:  # noqa: A002
        """Judge a row: whether that is so; whether it was."""
        finding = judgement(
            id, ok, case=self.case, expected=expected, got=got, exchange=self._exchange
        )
        self.findings.append(finding)
        return bool(ok)

    def untestable(self, id: str, why: str) -> None:  # noqa: A002
        """The row could not be judged in this run."""
        self.findings.append(Finding(id=id, verdict="untestable", case=self.case, got=why))

    def undisturbed(self, id: str) -> None:  # noqa: A002
        """Judge by whether the client did what it did with the plain server, and ended alike.

        Of a client that never comes so far that the odd thing happens it says nothing.
        """
        server = self.played.server
        if isinstance(server, Play) and not self.plain.methods.intersection(server.behind):
            self.untestable(id, f"the client never says {' or '.join(server.behind)}")
            return
        missing = sorted(self.plain.methods - self.played.methods)
        ended = self.played.exit_code == self.plain.exit_code
        got = f"no {', '.join(missing)}; " if missing else ""
        self.check(
            id,
            not missing and ended,
            expected=f"what it does with the plain server: {_list(self.plain.methods)}; and "
            f"exit code {self.plain.exit_code}",
            got=f"{got}{self.played.obituary}" if missing or not ended else "the same",
        )

    def _exchange(self) -> list[Exchanged]:
        said = self.played.server.said if self.played.server is not None else []
        return [each.exchanged for each in said[-_SHOWN:]]


def _list(methods: Iterable[str]) -> str:
    return ", ".join(sorted(methods))

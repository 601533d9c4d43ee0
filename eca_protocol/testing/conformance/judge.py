"""The verdicts of one case: the rows that it passes, breaks or leaves open."""

from __future__ import annotations

from collections.abc import Iterable

from eca_protocol.testing.conformance.verdicts import Finding, Transmission, Verdict, failing, shown

__all__ = ["Judge"]

_LONGEST = 600  # characters of `got`


class Judge:
    """The verdicts of one case.

    Attributes:
        case: the case's name.
        findings: the verdicts so far.
    """

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

        Args:
            id: the row.
            ok: whether the target complies.
            expected: the behaviour that the row requires.
            got: the observed behaviour.
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

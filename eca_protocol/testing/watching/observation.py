"""The findings of a watcher: each is one violation of one row of the requirements table."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal, TypeAlias

import attrs

from eca_protocol.revisions import Revision

Side: TypeAlias = Literal["client", "server"]


def other_side(side: Side) -> Side:
    """Return the peer of this side."""
    return "client" if side == "server" else "server"


@attrs.frozen(kw_only=True)
class Observation:
    """One violation of a requirement.

    Attributes:
        requirement: the id of the violated row.
        index: the index of the violating entry, from 0; for a missing message, the index of the
            entry that required it.
        expected: the behaviour that the row requires.
        chat_id: the id of the chat; empty outside of chats.
        at: the time of the entry, in the seconds that `feed` received.
    """

    requirement: str
    side: Side
    index: int
    expected: str
    got: str
    chat_id: str = ""
    at: float | None = None


@attrs.define
class ObservationLog:
    """The observations about a conversation, its edition and the current entry.

    Attributes:
        revision: the edition, as far as it is known.
        index: the index of the current entry.
        at: its time in seconds; None if it was not measured.
        is_ambiguous: whether a violation makes the meaning of the entry uncertain. Further
            violations may follow from it and are suppressed.
    """

    revision: Revision = Revision.R2025_10
    index: int = -1
    at: float | None = None
    is_ambiguous: bool = False
    _invalid_paths: set[str] = attrs.field(factory=set)
    _rows: set[str] = attrs.field(factory=set)
    _observations: list[Observation] = attrs.field(factory=list)

    def next_entry(self, at: float | None) -> None:
        """Start the next entry."""
        self.index += 1
        self.at = at
        self.is_ambiguous = False
        self._invalid_paths.clear()
        self._rows.clear()

    def mark_invalid(self, path: str) -> None:
        """Mark the value at a path, `params.content.details` for example, as invalid."""
        self._invalid_paths.add(path)

    def is_in_doubt(self, *paths: str) -> bool:
        """Return whether the entry is ambiguous, or the value at one of the paths is invalid."""
        return self.is_ambiguous or any(
            f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")
            for one in self._invalid_paths
            for other in paths
        )

    def report(self, requirement: str, expected: str, got: str, **place: Any) -> None:
        """Report that the entry violates a row, from which further violations of it may follow.

        See `note` for the arguments.
        """
        self.is_ambiguous = self.note(requirement, expected, got, **place) or self.is_ambiguous

    def note(
        self,
        requirement: str,
        expected: str,
        got: str,
        *,
        chat_id: str = "",
        side: Side = "server",
        paths: Collection[str] = (),
    ) -> bool:
        """Report that the entry violates a row; return whether it was reported.

        A violation that may follow from a reported one is not; a row is reported once for an
        entry, and not if one of the checked places in `paths` is invalid.
        """
        if self.is_in_doubt(*paths) or requirement in self._rows:
            return False
        self._rows.add(requirement)
        self.report_missing(self.index, requirement, expected, got, chat_id=chat_id, side=side)
        return True

    def report_missing(
        self,
        index: int,
        requirement: str,
        expected: str,
        got: str,
        *,
        chat_id: str = "",
        side: Side = "server",
    ) -> None:
        """Report that a message which an earlier entry required is missing."""
        self._observations.append(
            Observation(
                requirement=requirement,
                side=side,
                index=index,
                expected=expected,
                got=got,
                chat_id=chat_id,
                at=self.at,
            )
        )

    def drain(self) -> list[Observation]:
        """Return the observations since the last call."""
        observations, self._observations = self._observations, []
        return observations

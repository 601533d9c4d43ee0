"""What a watcher says: one breach of one row of the requirements table."""

from __future__ import annotations

from typing import Literal, TypeAlias

import attrs

__all__ = ["Notes", "Observation", "Side", "other_side"]

Side: TypeAlias = Literal["client", "server"]


def other_side(side: Side) -> Side:
    """Whom that side talks to."""
    return "client" if side == "server" else "server"


@attrs.frozen(kw_only=True)
class Observation:
    """One breach.

    Attributes:
        requirement: the row that is broken.
        side: who broke it.
        index: the entry that breaks it, counted from 0; of what never came, the entry that it
            was owed to.
        expected: what the row asks for.
        got: what came.
        chat_id: the chat in which it happened; empty outside of any.
        at: when the breach was seen, in the seconds that the watcher was told.
    """

    requirement: str
    side: Side
    index: int
    expected: str
    got: str
    chat_id: str = ""
    at: float | None = None


@attrs.define
class Notes:
    """Where the rules of a watcher write down what they see, and at which entry they are.

    Attributes:
        index: the entry being looked at.
        at: when it passed, in seconds; None where nobody measured.
        is_flawed: whether a rule was broken by the entry already: what else is odd about it
            follows from that and is not told.
    """

    index: int = -1
    at: float | None = None
    is_flawed: bool = False
    _found: list[Observation] = attrs.field(factory=list)

    def turn_page(self, at: float | None) -> None:
        """Go on to the next entry."""
        self.index += 1
        self.at = at
        self.is_flawed = False

    def tell(
        self,
        requirement: str,
        *,
        expected: str,
        got: str,
        chat_id: str = "",
        side: Side = "server",
    ) -> None:
        """The entry breaks that row; only the first breach of an entry is taken."""
        if self.is_flawed:
            return
        self.is_flawed = True
        self.tell_of(
            self.index, requirement, expected=expected, got=got, chat_id=chat_id, side=side
        )

    def tell_of(
        self,
        index: int,
        requirement: str,
        *,
        expected: str,
        got: str,
        chat_id: str = "",
        side: Side = "server",
    ) -> None:
        """An entry of before breaks that row, by what did not follow it."""
        self._found.append(
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

    def take(self) -> list[Observation]:
        """What was told since the last time."""
        found, self._found = self._found, []
        return found

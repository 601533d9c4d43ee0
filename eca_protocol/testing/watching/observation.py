"""What a watcher says: one breach of one row of the requirements table."""

from __future__ import annotations

from collections.abc import Collection
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
        is_flawed: whether a rule was broken by the entry that leaves its meaning open: what else is
            odd about it may follow from that and is not told.
    """

    index: int = -1
    at: float | None = None
    is_flawed: bool = False
    _places: set[str] = attrs.field(factory=set)
    _rows: set[str] = attrs.field(factory=set)
    _found: list[Observation] = attrs.field(factory=list)

    def turn_page(self, at: float | None) -> None:
        """Go on to the next entry."""
        self.index += 1
        self.at = at
        self.is_flawed = False
        self._places.clear()
        self._rows.clear()

    def doubt(self, place: str) -> None:
        """What stands there, `params.content.details` for example, is not what it should be."""
        self._places.add(place)

    def doubts(self, *places: str) -> bool:
        """Whether the entry's meaning is open, or what stands at one of these places."""
        return self.is_flawed or any(
            f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")
            for one in self._places
            for other in places
        )

    def tell(
        self,
        requirement: str,
        *,
        expected: str,
        got: str,
        chat_id: str = "",
        side: Side = "server",
        about: Collection[str] = (),
        harms: bool = True,
    ) -> None:
        """The entry breaks that row; it is told once, unless it may follow from what was told.

        Args:
            requirement: the row.
            expected: what it asks for.
            got: what came.
            chat_id: the chat.
            side: who broke it.
            about: the places that were looked at, where the letter may be broken, too.
            harms: whether what else is odd about the entry may follow from this.
        """
        if self.doubts(*about) or requirement in self._rows:
            return
        self.is_flawed = harms
        self._rows.add(requirement)
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

"""A day with each client, spent once, and looked at by many tests."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest

from tests.eca_server.personalities.day import CONFIG, PARTS, Evening, goes_home
from tests.eca_server.personalities.personality import PERSONALITIES, Personality
from tests.eca_server.personalities.seat import Place, Seat


@attrs.frozen(kw_only=True)
class Day:
    """What a client heard in a day, and how it ended."""

    who: Personality
    seat: Seat
    evening: Evening

    @property
    def contents(self) -> list[Mapping[str, Any]]:
        """The params of each content, in order."""
        return [value["params"] for value in self.of("chat/contentReceived")]

    def of(self, method: str) -> list[Mapping[str, Any]]:
        """The notifications, or requests, of that method."""
        return [value for value in self.seat.heard if value.get("method") == method]


SpendDay = Callable[[str], Day]


@pytest.fixture(scope="session")
def spend_day(tmp_path_factory: pytest.TempPathFactory) -> SpendDay:
    """A day with a client, by its name; the second time it is only told of."""
    spent: dict[str, Day] = {}

    def spend(name: str) -> Day:
        if name not in spent:
            who = PERSONALITIES[name]
            seat = Seat(who, Place.make(tmp_path_factory.mktemp("home")), config=CONFIG)
            try:
                seat.hello()
                for part, needed in PARTS:
                    if not needed & who.never:
                        part(seat)
                spent[name] = Day(who=who, seat=seat, evening=goes_home(seat))
            finally:
                seat.line.close()
        return spent[name]

    return spend


@pytest.fixture
def days(spend_day: SpendDay) -> list[Day]:
    """A day with every client."""
    return [spend_day(name) for name in PERSONALITIES]

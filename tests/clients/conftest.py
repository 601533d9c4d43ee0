"""A day with each client, spent once, and looked at by many tests."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import pytest

from tests.clients.day import CONFIG, NEWER, PARTS, Evening, goes_home
from tests.clients.personality import PERSONALITIES, Personality
from tests.clients.seat import Place, Seat
from tests.eca_server.conftest import start_server
from tests.promises import TooSlow

__all__ = ["Day", "SpendDay", "days", "spend", "spend_day", "start_server"]


@attrs.frozen(kw_only=True)
class Day:
    """The messages of a client in a day, and its end.

    Attributes:
        received: what came until the newer parts began.
        prompted: what was written until then.
        opened: the chats of that time.
        seat: the client, with all that came.
    """

    who: Personality
    received: Sequence[Mapping[str, Any]]
    prompted: Sequence[str]
    opened: frozenset[str]
    seat: Seat
    evening: Evening

    @property
    def contents(self) -> list[Mapping[str, Any]]:
        """The params of each content, in order."""
        return [value["params"] for value in self.of("chat/contentReceived")]

    def of(self, method: str) -> list[Mapping[str, Any]]:
        """The notifications, or requests, of that method."""
        return [value for value in self.received if value.get("method") == method]


def spend(seat: Seat) -> Day:
    """All parts that the client has buttons for."""
    seat.hello()
    for part, needed in PARTS:
        if not needed & seat.who.never:
            part(seat)
    received, prompted, opened = tuple(seat.received), tuple(seat.prompted), frozenset(seat.opened)
    for part, needed in NEWER:
        if not needed & seat.who.never:
            part(seat)
    return Day(
        who=seat.who,
        received=received,
        prompted=prompted,
        opened=opened,
        seat=seat,
        evening=goes_home(seat),
    )


SpendDay = Callable[[str], Day]


@pytest.fixture(scope="session")
def spend_day(tmp_path_factory: pytest.TempPathFactory) -> SpendDay:
    """Return a client's day by the client's name; it is played once."""
    spent: dict[str, Day | None] = {}

    def of(name: str) -> Day:
        if name not in spent:
            spent[name] = None
            place = Place.make(tmp_path_factory.mktemp("home"))
            seat = Seat(PERSONALITIES[name], place, config=CONFIG)
            try:
                spent[name] = spend(seat)
            except TooSlow:
                del spent[name]  # the test runs again
                raise
            finally:
                seat.line.close()
        day = spent[name]
        return day or pytest.fail(f"the day with {name} went wrong, see there")

    return of


@pytest.fixture
def days(spend_day: SpendDay) -> list[Day]:
    """A day with every client."""
    return [spend_day(name) for name in PERSONALITIES]

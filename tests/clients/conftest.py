"""A day with each client, spent once, and looked at by many tests."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import attrs
import pytest

from tests.clients.day import CONFIG, NEWER, PARTS, Evening, goes_home
from tests.clients.editors import answer, send
from tests.clients.personality import PERSONALITIES, Personality
from tests.clients.seat import Place, Seat
from tests.eca_server.conftest import Start, start_server
from tests.eca_server.stranger import Stranger
from tests.promises import TooSlow

__all__ = ["Arrive", "Day", "SpendDay", "days", "seated", "spend", "spend_day", "start_server"]


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


@contextmanager
def seated(name: str, home: Path, *arguments: str) -> Iterator[Seat]:
    """A client of that name, with its server."""
    seat = Seat(PERSONALITIES[name], Place.make(home), *arguments, config=CONFIG)
    try:
        yield seat
    finally:
        seat.line.close()


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
Arrive = Callable[..., Stranger]


@pytest.fixture(scope="session")
def spend_day(tmp_path_factory: pytest.TempPathFactory) -> SpendDay:
    """Return a client's day by the client's name; it is played once."""
    spent: dict[str, Day | None] = {}

    def of(name: str) -> Day:
        if name not in spent:
            spent[name] = None
            with seated(name, tmp_path_factory.mktemp("home")) as seat:
                try:
                    spent[name] = spend(seat)
                except TooSlow:
                    del spent[name]  # the test runs again
                    raise
        day = spent[name]
        return day or pytest.fail(f"the day with {name} went wrong, see there")

    return of


@pytest.fixture
def days(spend_day: SpendDay) -> list[Day]:
    """A day with every client."""
    return [spend_day(name) for name in PERSONALITIES]


@pytest.fixture
def arrive(start_server: Start, tmp_path: Path) -> Arrive:
    """Start a server with variables, and initialize as an editor does, with one folder."""

    def arrive(
        hello: bytes, env: Mapping[str, str] | None = None, folder: str = "project"
    ) -> Stranger:
        server = start_server(cwd=tmp_path, env=env)
        assert "result" in answer(server, hello % (tmp_path / folder).as_uri().encode())
        send(server, b'{"jsonrpc":"2.0","method":"initialized","params":{}}')
        server.until(lambda m: m.get("method") == "$/progress" and m["params"]["type"] == "finish")
        return server

    return arrive

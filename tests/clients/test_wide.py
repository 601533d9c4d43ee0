"""Days as they may go as well: parts in any order, slow clients, every way to leave."""

import random
import signal

import pytest

from tests.clients.conftest import seated
from tests.clients.day import NEWER, PARTS, goes_home, has_work
from tests.clients.personality import PERSONALITIES
from tests.eca_server.processes import assert_gone, children

pytestmark = pytest.mark.long


@pytest.mark.parametrize("name", PERSONALITIES)
@pytest.mark.parametrize("seed", range(2))
def test_the_parts_of_a_day_come_in_any_order(name, seed, tmp_path):
    parts = [part for part, needed in (*PARTS, *NEWER) if not needed & PERSONALITIES[name].never]
    random.Random(seed).shuffle(parts)
    with seated(name, tmp_path) as seat:
        seat.hello(late=0.5 if name == "IntelliJ" else 0.0)
        for part in parts:
            part(seat)
        assert not goes_home(seat).children


@pytest.mark.parametrize("name", PERSONALITIES)
@pytest.mark.parametrize(
    ("way", "codes"),
    [
        ("exit", {1}),
        ("end of input", {0}),
        ("SIGTERM", {143, -signal.SIGTERM}),
        ("SIGINT", {130, -signal.SIGINT}),
    ],
)
def test_work_ends_however_the_client_leaves(name, way, codes, tmp_path):
    with seated(name, tmp_path) as seat:
        seat.hello()
        has_work(seat)
        at_work = children(seat.server_pid)
        assert at_work
        match way:
            case "exit":
                seat.tell("exit")
            case "end of input":
                seat.line.close_input()
            case _:
                seat.line.kill(signal.Signals[way])
        assert seat.line.exit_code(within=3.0) in codes
        assert_gone(at_work)

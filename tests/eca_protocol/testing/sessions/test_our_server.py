"""Our own server, tested with random sessions of every edition."""

import pytest

from eca_protocol.revisions import Revision
from eca_protocol.testing.sessions.check import check_sessions
from tests.eca_server import fork_server


def server() -> tuple[str, ...]:
    return (*fork_server.command(), "--log-level", "error", "server")


def test_nothing_is_found_in_a_few_sessions() -> None:
    outcome = check_sessions(server(), edition="current", steps=150)
    assert outcome.failure is None, outcome.script


@pytest.mark.long
@pytest.mark.parametrize("revision", list(Revision))
def test_nothing_is_found_in_many_sessions(revision: Revision) -> None:
    outcome = check_sessions(server(), edition=revision.value, steps=20_000, seconds=40, seed=1)
    assert outcome.failure is None, outcome.script
    assert outcome.steps > 1000

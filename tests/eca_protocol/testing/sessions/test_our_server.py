"""Our own server, tested with random sessions of every edition."""

import pytest

from eca_protocol.revisions import Revision
from eca_protocol.testing.sessions.check import check_sessions
from eca_protocol.testing.sessions.machine import machine_for
from eca_protocol.testing.sessions.run import Run
from tests.eca_server import fork_server


def server() -> tuple[str, ...]:
    return (*fork_server.command(), "--log-level", "error", "server")


def test_nothing_is_found_in_a_few_sessions() -> None:
    outcome = check_sessions(server(), edition="current", steps=80, seed=24)  # actions of all kinds
    assert outcome.failure is None, outcome.script


def test_a_delayed_message_is_sent_before_the_session_ends() -> None:
    run = Run(command=server(), edition="2025-10", seconds=20)
    machine = machine_for(run)()
    machine.begin(variant=0)
    prompt = {"chatId": "c", "message": "mark-1", "model": "scripted/any"}
    run.do("replies", "mark-1", [[{"wait": "gate"}]])
    run.do("send", [{"jsonrpc": "2.0", "id": 1, "method": "chat/prompt", "params": prompt}])
    run.do("rest")
    machine.do_something_odd(odd="no message", which=0, way=-1)
    machine.teardown()
    assert run.failure is None
    run.end()


@pytest.mark.long
@pytest.mark.parametrize("revision", list(Revision))
def test_nothing_is_found_in_many_sessions(revision: Revision) -> None:
    outcome = check_sessions(server(), edition=revision.value, steps=20_000, seconds=40, seed=1)
    assert outcome.failure is None, outcome.script
    assert outcome.steps > 1000

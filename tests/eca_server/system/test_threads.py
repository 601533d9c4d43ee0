"""Work waits for its thread while none can be started."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable

import pytest
import trio
import trio.testing

from eca_server.system.threads import run_in_thread


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Returns a function that refuses so many starts of threads."""
    start = trio.lowlevel.start_thread_soon
    refusals = [0]

    def refuse(*arguments: object) -> None:
        if refusals[0]:
            refusals[0] -= 1
            raise RuntimeError("can't start new thread")
        start(*arguments)

    def set_refusals(number: int) -> None:
        refusals[0] = number

    monkeypatch.setattr("trio._threads.start_thread_soon", refuse)
    return set_refusals


async def test_it_waits_until_a_thread_can_be_started(refused, autojump_clock):
    refused(3)
    assert await run_in_thread(threading.get_ident) != threading.get_ident()


async def test_after_the_limit_there_is_an_error_as_of_a_process(refused, autojump_clock):
    refused(1_000)
    with pytest.raises(OSError, match="no thread") as raised:
        await run_in_thread(pytest.fail, seconds=1)
    assert raised.value.errno == errno.EAGAIN


async def test_an_error_of_the_work_is_raised_at_once(refused):
    def work() -> None:
        refused(1_000)
        raise RuntimeError("of the work")

    with pytest.raises(RuntimeError, match="of the work"):
        await run_in_thread(work)

"""Work in threads: while none can be started, and while a disk does not answer."""

import errno
import threading
from collections.abc import Callable
from typing import Any

import pytest
import trio
import trio.testing

from eca_server.system import threads
from eca_server.system.threads import run_in_thread, run_on_disk
from eca_server.workspace.boundary import Place, Workspace
from tests.eca_server.agent.chat.editor import SCRIPT, editor, text


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


class Work:
    """Work on a disk that waits for `answers`, and is cancelled meanwhile.

    Attributes:
        result: the result; None: the work sees that it was cancelled.
    """

    def __init__(self, result: str | None) -> None:
        self.result = result
        self.answers, self.has_ended = threading.Event(), threading.Event()
        self._has_begun = threading.Event()

    def __call__(self) -> str:
        self._has_begun.set()
        self.answers.wait()
        self.has_ended.set()
        if self.result is None:
            trio.from_thread.check_cancelled()
        return str(self.result)

    async def run_and_stop(self, on_stop: Callable[[], None] = lambda: None) -> str | None:
        """Return the result, or None if the task was cancelled."""
        async with trio.open_nursery() as nursery:
            with trio.CancelScope() as scope:

                async def stop() -> None:
                    await trio.to_thread.run_sync(self._has_begun.wait)
                    scope.cancel()
                    on_stop()

                nursery.start_soon(stop)
                return await run_on_disk(self)
        return None


async def test_a_disk_that_does_not_answer_holds_up_no_stop(autojump_clock):
    work, began = Work("late"), trio.current_time()
    assert await work.run_and_stop() is None
    assert trio.current_time() - began == pytest.approx(0.5)
    work.answers.set()


async def test_threads_of_a_disk_that_does_not_answer_leave_places_to_others(autojump_clock):
    limiter = trio.to_thread.current_default_thread_limiter()
    places = limiter.total_tokens
    works = [Work("late") for _ in range(3)]
    for work in works:
        await work.run_and_stop()
    assert limiter.available_tokens == places
    for work in works:
        work.answers.set()
    while (limiter.total_tokens, limiter.borrowed_tokens) != (places, 0):
        await trio.to_thread.run_sync(lambda: None)


async def test_threads_of_a_disk_that_does_not_answer_are_limited(autojump_clock, monkeypatch):
    limiter = trio.to_thread.current_default_thread_limiter()
    places = int(limiter.total_tokens)
    monkeypatch.setattr(threads, "MOST_PLACES", places + 1)
    works = [Work("late") for _ in range(3)]
    for work in works:
        await work.run_and_stop()
    assert (limiter.total_tokens, limiter.available_tokens) == (places + 1, places - 2)
    for work in works:
        work.answers.set()
    while (limiter.total_tokens, limiter.borrowed_tokens) != (places, 0):
        await trio.to_thread.run_sync(lambda: None)


async def test_work_that_waits_for_a_thread_holds_up_no_stop(autojump_clock):
    limiter = trio.to_thread.current_default_thread_limiter()
    free, limiter.total_tokens = limiter.total_tokens, 1
    limiter.acquire_on_behalf_of_nowait("a different work")
    began = trio.current_time()
    with trio.move_on_after(1):
        await run_on_disk(pytest.fail)
    assert trio.current_time() - began == pytest.approx(1)
    limiter.release_on_behalf_of("a different work")
    limiter.total_tokens = free


@pytest.mark.parametrize("result", ["written", None])
async def test_a_stop_waits_until_the_work_ends_or_sees_it(result):
    work = Work(result)
    assert await work.run_and_stop(work.answers.set) == result
    assert work.has_ended.is_set()


async def test_work_of_a_stopped_task_is_not_begun(autojump_clock):
    began = trio.current_time()
    with trio.CancelScope() as scope:
        scope.cancel()
        await run_on_disk(pytest.fail)
    assert (scope.cancelled_caught, trio.current_time()) == (True, began)


async def test_errors_of_work_on_a_disk_are_raised():
    def work() -> None:
        raise FileNotFoundError("x")

    with pytest.raises(FileNotFoundError):
        await run_on_disk(work)


async def test_a_turn_stops_and_the_server_ends_though_a_disk_does_not_answer(monkeypatch):
    answers, has_begun, locate = threading.Event(), threading.Event(), Workspace.locate

    def hanging(self: Workspace, text: str, **options: Any) -> Place:
        if text == "/net/dead":
            has_begun.set()
            answers.wait()
        return locate(self, text, **options)

    monkeypatch.setattr(Workspace, "locate", hanging)
    async with editor() as ours:
        call = 'call eca_read_file {"path": "/net/dead"}'
        await ours.send(ours.prompt_request(call, model=SCRIPT))
        await trio.to_thread.run_sync(has_begun.wait)
        await ours.expect_stopped()
        assert text(await ours.turn("say next", model=SCRIPT)).endswith("next")
    answers.set()

"""A command that a signal cancels, and further signals during its clean-up."""

import signal

import trio
import trio.testing

from eca_server.system.clock import RunningClock
from eca_server.system.signals import run_until_a_signal, until_a_signal


async def test_a_signal_cancels_and_those_behind_it_disturb_nothing() -> None:
    ended = []

    async def command() -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                signal.raise_signal(signal.SIGINT)
                await trio.testing.wait_all_tasks_blocked()
                signal.raise_signal(signal.SIGTERM)
                await trio.testing.wait_all_tasks_blocked()
                ended.append("in order")

    assert await until_a_signal(command) == (None, signal.SIGTERM)
    assert ended == ["in order"]

    async def undisturbed() -> str:
        return "done"

    assert await until_a_signal(undisturbed) == ("done", None)


def test_no_deadline_of_a_command_passes_while_its_process_is_stopped():
    async def clock() -> trio.abc.Clock:
        return trio.lowlevel.current_clock()

    assert isinstance(run_until_a_signal(clock)[0], RunningClock)

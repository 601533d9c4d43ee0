"""A command that a signal cancels, and further signals during its clean-up."""

import signal

import trio
import trio.testing

from eca_server.system.signals import until_a_signal


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

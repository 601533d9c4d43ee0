"""The lifecycle of a connection whose configuration is loaded after the answer to `initialize`.

The answer waits for no disk scan. Every later message waits for the whole configuration, and the
messages keep their order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal

import trio

from eca_protocol.endpoint import Verdict
from eca_protocol.lifecycle import LifecycleGate, State


class ConfigurationGate(LifecycleGate):
    """A lifecycle gate that holds every message while it is closed.

    Attributes:
        is_open: whether messages pass; the lifecycle still applies.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_open = True
        self._opened = trio.Event()

    def close(self) -> None:
        """Hold all further messages."""
        self.is_open = False
        self._opened = trio.Event()

    def open(self) -> bool:
        """Let messages pass; return whether the gate was closed."""
        was_closed, self.is_open = not self.is_open, True
        self._opened.set()
        return was_closed

    async def wait(self) -> None:
        """Wait until the gate is open, so that the end of input does not overtake held messages."""
        if not self.is_open:
            await self._opened.wait()

    @contextmanager
    def opened_after(self, seconds: float, on_late: Callable[[], None]) -> Iterator[None]:
        """Call `on_late` if the block takes longer, measured in real time.

        The block waits for a disk, which a test's virtual clock does not measure.
        """
        token = trio.lowlevel.current_trio_token()

        def be_late() -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(lambda: None if self.is_open else on_late())

        timer = threading.Timer(seconds, be_late)
        timer.daemon = True
        try:
            timer.start()
        except RuntimeError:  # no thread can be started, also not for the block's work
            be_late()
        try:
            yield
        finally:
            timer.cancel()

    def admit(self, method: str, kind: Literal["request", "notification"]) -> Verdict:
        """Decide as the lifecycle does, but hold admitted messages while the gate is closed.

        Raises:
            RPCError: the message is refused; the error answers a request.
        """
        before = self.state, self.was_shut_down
        verdict = super().admit(method, kind)
        if verdict is not Verdict.ADMIT or self.is_open or before[0] is State.NEW:
            return verdict
        self.state, self.was_shut_down = before
        return Verdict.HOLD

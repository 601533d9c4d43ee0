"""The lifecycle of a connection whose configuration is read behind the answer to `initialize`.

The rule it keeps: the answer waits for no disk scan (design decision 16), and still every later
message meets the whole configuration, in the order in which the client has sent them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Literal

import trio

from eca_protocol.endpoint import Verdict
from eca_protocol.lifecycle import LifecycleGate, State

__all__ = ["ConfigurationGate"]


class ConfigurationGate(LifecycleGate):
    """A lifecycle gate that holds every message while it is closed.

    Attributes:
        is_open: messages pass as the lifecycle says.
    """

    def __init__(self) -> None:
        super().__init__()
        self.is_open = True
        self._opened = trio.Event()

    def close(self) -> None:
        """Hold what comes from now on."""
        self.is_open = False
        self._opened = trio.Event()

    def open(self) -> bool:
        """Let pass what comes; return whether it was held until now."""
        was_closed, self.is_open = not self.is_open, True
        self._opened.set()
        return was_closed

    async def wait(self) -> None:
        """Wait until it is open: the end of the input must not overtake what is held."""
        if not self.is_open:
            await self._opened.wait()

    @contextmanager
    def opened_after(self, seconds: float, on_late: Callable[[], None]) -> Iterator[None]:
        """Call `on_late` if the block takes longer, in the time of the machine.

        The block waits for a disk, of which a test's clock knows nothing.
        """
        token = trio.lowlevel.current_trio_token()

        def be_late() -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(lambda: None if self.is_open else on_late())

        timer = threading.Timer(seconds, be_late)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def admit(self, method: str, kind: Literal["request", "notification"]) -> Verdict:
        """Decide as the lifecycle does, but hold what would pass.

        Raises:
            RPCError: the message is refused; the error is what a request is answered with.
        """
        before = self.state, self.was_shut_down
        verdict = super().admit(method, kind)
        if verdict is not Verdict.ADMIT or self.is_open or before[0] is State.NEW:
            return verdict
        self.state, self.was_shut_down = before
        return Verdict.HOLD

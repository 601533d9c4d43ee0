"""A line on the terminal when a turn shows nothing for a while."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Final

import attrs
import trio

from eca_protocol import messages as m
from eca_server.printable import printable_line

_PATIENCE: Final = 3.0  # seconds


@attrs.define(eq=False)
class WaitNotice:
    """The notice of one wait after another: for the model, its reasoning, or its next call.

    Attributes:
        end_line: completes the last line of the answer, before the notice.
    """

    end_line: Callable[[], None] = lambda: None
    _text: str = attrs.field(default="", init=False)
    _changed: trio.Event = attrs.field(factory=trio.Event, init=False)

    async def run(self) -> None:
        """Write the notice of each wait that lasts, until it is cancelled."""
        while True:
            text, changed = self._text, self._changed
            with trio.move_on_after(_PATIENCE if text else math.inf):
                await changed.wait()
            if not changed.is_set():
                self.end_line()
                sys.stderr.write(f"[{printable_line(text)}]\n")
                await changed.wait()

    def take(self, received: m.ChatContentReceivedParams) -> None:
        """Begin or end a wait by a content of the turn."""
        match received.content:
            case _ if received.role == "user":
                pass
            case m.ChatProgressContent(text="Waiting model"):
                self._set("Waiting for the model")
            case m.ChatReasonStartedContent() | m.ChatReasonTextContent():
                self._set("The model is thinking")
            case m.ChatToolCallPrepareContent(name=name):
                self._set(f"The model is writing a call of {name}")
            case m.ChatProgressContent(text="Generating") | m.ChatUsageContent():
                pass
            case _:
                self.end()

    def end(self) -> None:
        """End the wait, if there is one."""
        self._set("")

    def _set(self, text: str) -> None:
        if text != self._text:
            self._text = text
            self._changed.set()
            self._changed = trio.Event()

"""One turn of a chat: its cancel scope, its open contents, and its end (W-20, W-22, W-23).

Whatever ends the handler, the turn is closed exactly once: open calls and reasonings are finished,
then its conversation writes the one `finished`. What the handler still writes is dropped.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Final

import anyio
import attrs

from eca_protocol import messages as m
from eca_protocol.errors import LocalProtocolError
from eca_protocol.handler_runner import is_failure
from eca_protocol.server.calls import Call, CallState
from eca_protocol.server.reasonings import Reasonings
from eca_protocol.server.texts import Paragraphs, Role, closing_text, split
from eca_protocol.server.values import Prompt

__all__ = ["Turn"]

_log = logging.getLogger("eca_protocol.server")

STOP_SECONDS: Final = 0.3
"""The time that a stopped handler has to end before its turn is closed without it (W-23)."""

TOOL_STOP_SECONDS: Final = 0.9
"""The same if a tool was running."""

TEXT_LIMIT: Final = 4096
"""The limit of one text content, in bytes of UTF-8 (W-6)."""

_FAILED = "An internal error ended this turn. See the server's log for details."


@attrs.define(eq=False)
class Turn:
    """A running prompt.

    Args:
        prompt: the prompt.
        emit: writes a content of the chat.
        usage: returns the usage that is written at the end, unless the turn is stopped (W-27).
        closed: called once when the turn is closed.

    Attributes:
        ended: set when the handler has ended.
        steers: messages to the running turn that the handler has not taken.
        is_stopped: the turn was ended early.
    """

    prompt: Prompt
    _emit: Callable[[Role, m.ChatContent], None] = attrs.field(kw_only=True)
    _usage: Callable[[], m.ChatUsageContent] = attrs.field(kw_only=True)
    _closed: Callable[[], None] = attrs.field(kw_only=True)
    ended: anyio.Event = attrs.field(factory=anyio.Event)
    calls: dict[str, Call] = attrs.field(factory=dict)
    reasonings: Reasonings = attrs.field(init=False)
    steers: list[str] = attrs.field(factory=list)
    is_stopped: bool = False
    _is_closed: bool = False
    _ran_tool: bool = False
    _scope: anyio.CancelScope = attrs.field(factory=anyio.CancelScope)
    _paragraphs: Paragraphs = attrs.field(factory=Paragraphs)

    def __attrs_post_init__(self) -> None:
        self.reasonings = Reasonings(partial(self.emit, "assistant"))

    def begin(self) -> None:
        """Write the first contents: the progress, and the echo of the prompt."""
        self.progress("Working")
        echo = m.ChatTextContent(text=self.prompt.text, content_id=self.prompt.content_id)
        self._emit("user", echo)

    def emit(self, role: Role, content: m.ChatContent) -> None:
        """Write a content; drop it if the turn was stopped.

        Raises:
            LocalProtocolError: the turn has ended, or the content's text is none.
        """
        text: object = getattr(content, "text", "")
        if not isinstance(text, str):
            raise LocalProtocolError(f"{content.type}: expected a text, got {text!r}")
        if self.is_stopped:
            return
        if self._is_closed:
            raise LocalProtocolError("the turn has ended: nothing more can be written in it")
        self.write(role, content)

    def write(self, role: Role, content: m.ChatContent) -> None:
        """Write a content, also after a stop."""
        spaced = self._paragraphs.spaced(role, content)
        for piece in () if spaced is None else split(spaced, TEXT_LIMIT):
            self._emit(role, piece)

    def progress(self, text: str) -> None:
        """Show the current activity; the text is never empty."""
        self.emit("system", m.ChatProgressContent(state="running", text=text or "Working"))

    async def run(self, body: Awaitable[None]) -> None:
        """Run the handler to its end, and close the turn."""
        try:
            with self._scope:
                await body
        except BaseException as error:
            if not is_failure(error):
                raise
            _log.exception("the handler of a prompt failed")
            if not self._is_closed:
                self.write("system", m.ChatTextContent(text=_FAILED))
        finally:
            self.close()
            self.ended.set()

    def stop(self) -> None:
        """End the handler early: close its open contents now, and drop what it still writes."""
        if self.is_stopped or self._is_closed:
            return
        self._ran_tool = any(call.state is CallState.RUNNING for call in self.calls.values())
        self._close_contents()
        self.is_stopped = True
        self._scope.cancel()

    async def close_late(self) -> None:
        """Close the stopped turn without its handler, if that does not end soon."""
        with anyio.move_on_after(TOOL_STOP_SECONDS if self._ran_tool else STOP_SECONDS):
            await self.ended.wait()
        self.close()

    def close(self) -> None:
        """Close the turn, once, whatever contents cannot be written."""
        if self._is_closed:
            return
        if not self.is_stopped:
            self._close_contents()
            with _logged_failure():
                self.write("system", self._usage())
        self._is_closed = True
        self._closed()

    def _close_contents(self) -> None:
        self.reasonings.finish_all()
        for call in self.calls.values():
            with _logged_failure():
                call.stop()

    def finish(self, dropped: Sequence[str]) -> None:
        """Write the messages that were dropped, and the one `finished`."""
        if text := closing_text([*self.steers, *dropped], is_stopped=self.is_stopped):
            self.write("system", m.ChatTextContent(text=text))
        self._emit("system", m.ChatProgressContent(state="finished", text=""))


@contextmanager
def _logged_failure() -> Iterator[None]:
    """Log an exception of the block: the end of the turn is written nevertheless."""
    try:
        yield
    except Exception:  # noqa: BLE001 - see above
        _log.exception("a content at the end of a turn could not be written")

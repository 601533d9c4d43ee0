"""The contents of one turn on their way to the client.

Rules: texts are spaced and deltas merged; each reasoning and each hook that was shown to start is
shown to end (W-26); after `silence` nothing is written. A content that cannot be written raises in
the turn's body; once the turn is being closed it is only logged.
"""

from __future__ import annotations

import logging
from functools import partial

import trio

from eca_protocol import messages as m
from eca_protocol.server.reasonings import Reasonings
from eca_protocol.server.texts import Paragraphs, Role
from eca_server.agent.chat.markdown import OpenCode, Sources
from eca_server.agent.chat.merging import Merger
from eca_server.agent.chat.outlet import Outlet

_log = logging.getLogger("eca_server.agent.chat")

_ENDED_BY_A_STOP = 143
"""The exit code that a shell reports for a command ended by TERM."""


class Writer:
    """Writes the contents of one turn.

    Attributes:
        failed: there is no complete answer, and the reason was shown.
        reasons: why there is no complete answer, as it was shown; a replay repeats it.
        is_mute: nothing more is written.
        reasonings: the blocks of reasoning, by the model's keys.
    """

    def __init__(self, outlet: Outlet) -> None:
        self.outlet = outlet
        self.session = outlet.services.session
        self.stopped = False
        self.failed = False
        self.reasons: list[str] = []
        self.is_closing = False
        self.is_mute = False
        self.reasonings = Reasonings(partial(self.emit, "assistant"))
        self.sources = Sources()
        self._hooks: dict[str, m.ChatHookActionFinishedContent] = {}
        self._paragraphs = Paragraphs()
        profile = self.session.profile
        self._open_code = OpenCode() if profile.display.shows_one_text else None
        self._merger = Merger(outlet.emit, profile.writing, outlet.services.nursery)

    def emit(self, role: Role, content: m.ChatContent) -> None:
        """Write a content; drop it if the turn is stopped or finished."""
        if not self.stopped:
            self.write(role, content)

    def write(self, role: Role, content: m.ChatContent) -> None:
        """Write a content, also after a stop; drop it if the turn is finished."""
        if self.is_mute:
            return
        try:
            spaced = self._paragraphs.spaced(role, content)
            if spaced is not None:
                self._merger.write(role, spaced)
                if self._open_code is not None and role == "assistant":
                    self._open_code.read(spaced)
        except Exception:
            if not self.is_closing:
                raise
            _log.exception("a content of chat %s cannot be written", self.outlet.id)

    def say(self, text: str) -> None:
        """Write a piece of the model's text."""
        self.emit("assistant", m.ChatTextContent(text=text))

    def report(self, text: str) -> None:
        """Write a text of the server."""
        self.emit("system", m.ChatTextContent(text=text))

    def progress(self, text: str) -> None:
        """Show the turn's current activity in the client's status line; the text is never empty."""
        self.emit("system", m.ChatProgressContent(state="running", text=text))

    def fail(self, text: str) -> None:
        """Show why there is no complete answer; the turn then ends like any other."""
        self.failed = True
        self.conclude(text)

    def conclude(self, text: str) -> None:
        """Show how an answer ended, at its end; a replay repeats the text."""
        if not self.stopped:
            self.reasons.append(text)
        self.end_code()
        self.report(text)

    def end_code(self) -> None:
        """End the block of code that an answer left open, for a client that needs it."""
        if self._open_code is not None and (ending := self._open_code.ending) is not None:
            self.write("assistant", ending)

    def begin_hook(self, begun: m.ChatHookActionStartedContent, call_id: str | None) -> None:
        """Show that a hook's action has started; `call_id` names the call it is about, if any."""
        self._hooks[begun.id] = m.ChatHookActionFinishedContent(
            id=begun.id,
            name=begun.name,
            action_type=begun.action_type,
            status=_ENDED_BY_A_STOP,
            error="stopped while it ran",
            tool_call_id=call_id,
        )
        self.emit("system", begun)

    def finish_hook(self, ended: m.ChatHookActionFinishedContent) -> None:
        """Show that a hook's action has ended, once."""
        if self._hooks.pop(ended.id, None) is not None:
            self.emit("system", ended)

    def finish_open(self) -> None:
        """Show that open reasonings and hooks have ended."""
        self.reasonings.finish_all()
        for ended in tuple(self._hooks.values()):
            self.finish_hook(ended)

    async def drained(self) -> None:
        """Wait until the client has read enough; called between two pieces of bulk.

        A stop takes effect here, not only at the next checkpoint of whatever makes the pieces.
        """
        if self.stopped:
            await trio.lowlevel.checkpoint()
        if self._merger.is_holding:
            await self._merger.drained()
        await self.session.drained()

    def flush(self) -> None:
        """Write the text that waits to be merged."""
        self._merger.flush()

    def hold(self) -> None:
        """Keep the text that waits to be merged until `flush`."""
        self._merger.wait_for_flush()

    def silence(self) -> None:
        """Write nothing more."""
        self.is_mute = True
        self._merger.drop()

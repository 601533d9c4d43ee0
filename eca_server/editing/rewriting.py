"""A selection rewritten as the user says, told piece by piece (chapter "Rewrite").

The rules it keeps: the text told takes the selection's place and is never more than that; what was
begun ends with one `finished` or one `error`, and after that its id is silent; a stop takes at once
and closes the connection to the provider; a newer rewrite of the same id takes the older's place.
An `error` always follows a `started`, and a moment after it and the last text: VS Code restores the
selection only when it has applied both, and else deletes it.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Final

import attrs
import trio

from eca_protocol import messages as m
from eca_server.content_formatting import pieces
from eca_server.editing.replacement import Replacement
from eca_server.editing.surroundings import Surroundings
from eca_server.llm.backend import BackendError, Request
from eca_server.llm.events import (
    Finished,
    Note,
    Progress,
    ReasoningStarted,
    RefusalDelta,
    TextDelta,
)
from eca_server.llm.history import Message, TextPart
from eca_server.llm.models import Model
from eca_server.session import Session

__all__ = ["Rewrite", "Rewrites", "TooManyRewrites"]

_log = logging.getLogger("eca_server.editing")

MOST_AT_ONCE: Final = 16
"""Rewrites of one connection that run together."""

MOST_CHARACTERS: Final = 1_000_000
"""Of an answer."""

CLOSING_SECONDS: Final = 1.5

SETTLING_SECONDS: Final = 0.2
"""Between what a client applies to the document and the `error` that takes it back."""

_STOPPED: Final = "The rewrite was stopped."
_NOTHING: Final = "The model answered without any text."
_FAILED: Final = "The rewrite failed; the server's log says more."
_ENDINGS: Final = {
    "length": "The new text is cut: it reached the model's output limit.",
    "content_filter": "The provider's content filter ended the new text.",
    "context_window": "The new text is cut: it fills the model's context window.",
    "refusal": "The model refused.",
}
_INSTRUCTION: Final = (
    "You change a piece of a document inside the user's editor. What you answer takes the place of "
    "exactly the text between <selection> and </selection>: answer with its new text and nothing "
    "else. No explanation, no code fence around it, and no line of what stands before or behind "
    "the selection; that is shown only so that you know where the text stands. Change what the "
    "user asks for and keep the rest as it is, with its indentation and its style."
)


class TooManyRewrites(Exception):
    """As many run as may."""


@attrs.frozen(kw_only=True)
class Rewrite:
    """What is to become of a selection.

    Attributes:
        id: the client's name for it.
        selected: the text.
        wanted: the user's words.
        path: of the document, if it has one.
        model: who is asked.
        instruction: how it is asked, in the user's words; None: in ours.
        surroundings: reads what stands around the selection.
    """

    id: str
    selected: str
    wanted: str
    path: str | None
    model: Model
    instruction: str | None
    surroundings: Callable[[], Awaitable[Surroundings]]

    def request(self, around: Surroundings) -> Request:
        """What the model is asked; the user's words stand last."""
        shown = [f"The document: {self.path}"] if self.path else []
        if around.before:
            shown.append(f"<before>\n{around.before}</before>")
        shown.append(f"<selection>\n{self.selected}</selection>")
        if around.after:
            shown.append(f"<after>\n{around.after}</after>")
        parts = (TextPart("\n\n".join(shown)), TextPart(self.wanted))
        return Request(
            system=self.instruction or _INSTRUCTION,
            messages=[Message(role="user", parts=parts)],
            reasoning_effort=self.model.effort,
            initiator="user",
        )


@attrs.define(eq=False)
class _Running:
    """One rewrite on its way.

    Attributes:
        scope: cancelled by a stop.
        ended: set when nothing of it runs.
        is_started: whether `started` was written.
        is_mute: whether nothing more is written.
    """

    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ended: trio.Event = attrs.field(factory=trio.Event)
    is_started: bool = False
    is_mute: bool = False


class Rewrites:
    """The rewrites of one connection.

    Args:
        session: where they are told.
        nursery: where they run.
    """

    def __init__(self, session: Session, nursery: trio.Nursery) -> None:
        self._session = session
        self._nursery = nursery
        self._running: dict[str, _Running] = {}

    def start(self, rewrite: Rewrite) -> None:
        """Let a rewrite run.

        Raises:
            TooManyRewrites: it does not.
        """
        older = self._running.get(rewrite.id)
        if older is None and len(self._running) >= MOST_AT_ONCE:
            raise TooManyRewrites(f"{MOST_AT_ONCE} rewrites are running already")
        if older is not None:
            older.is_mute = True
            older.scope.cancel()
        running = self._running[rewrite.id] = _Running()
        self._nursery.start_soon(self._run, rewrite, running, older)

    def stop(self, rewrite_id: str) -> None:
        """End a rewrite at once; one that does not run is as good as stopped."""
        running = self._running.get(rewrite_id)
        if running is not None:
            self._tell(rewrite_id, running, m.RewriteErrorContent(message=_STOPPED))
            running.is_mute = True
            running.scope.cancel()

    async def close(self) -> None:
        """Stop all of them, and wait until nothing of them runs."""
        running = tuple(self._running.items())
        for rewrite_id, _ in running:
            self.stop(rewrite_id)
        with trio.move_on_after(CLOSING_SECONDS):
            for _, each in running:
                await each.ended.wait()

    async def _run(self, rewrite: Rewrite, running: _Running, older: _Running | None) -> None:
        began = trio.current_time()
        try:
            if older is not None:
                await older.ended.wait()
            with running.scope:
                try:
                    fault = await self._write(rewrite, running)
                except Exception:  # noqa: BLE001 - what begun has its end, whatever happens
                    _log.exception("the rewrite %s failed", rewrite.id[:100])
                    fault = _FAILED
                if fault is not None:
                    await self._fail(rewrite.id, running, fault)
                spent = round((trio.current_time() - began) * 1000)
                self._tell(rewrite.id, running, m.RewriteFinishedContent(total_time_ms=spent))
        finally:
            running.is_mute = True
            running.ended.set()
            if self._running.get(rewrite.id) is running:
                del self._running[rewrite.id]

    def _begin(self, rewrite_id: str, running: _Running) -> None:
        """Write `started`, once."""
        if not running.is_started:
            running.is_started = True
            self._tell(rewrite_id, running, m.RewriteStartedContent())

    async def _fail(self, rewrite_id: str, running: _Running, message: str) -> None:
        """End with an error when the client has applied what was written."""
        self._begin(rewrite_id, running)
        await trio.sleep(SETTLING_SECONDS)
        self._tell(rewrite_id, running, m.RewriteErrorContent(message=message))
        running.is_mute = True

    async def _write(self, rewrite: Rewrite, running: _Running) -> str | None:
        """Ask the model and tell the new text; what the user is told if there is none."""
        around = await rewrite.surroundings()
        replacement = Replacement(rewrite.selected)
        finished: Finished | None = None
        refused = ""
        try:
            async with rewrite.model.stream(rewrite.request(around)) as events:
                async for event in events:
                    if not isinstance(event, Note | Progress):
                        self._begin(rewrite.id, running)
                    match event:
                        case ReasoningStarted():
                            self._tell(rewrite.id, running, m.RewriteReasoningContent())
                        case TextDelta(text):
                            self._tell_text(rewrite.id, running, replacement.feed(text))
                        case RefusalDelta(text):
                            refused += text
                        case Finished():
                            finished = event
                    if replacement.size + len(refused) > MOST_CHARACTERS:
                        return f"The new text is longer than {MOST_CHARACTERS:,} characters."
                    await self._session.drained()
                    await trio.lowlevel.checkpoint()
        except BackendError as error:
            return rewrite.model.explain(error)
        if finished is None:
            words = "the stream ended without its last event"
            return rewrite.model.explain(BackendError("premature_stop", words))
        self._tell_text(rewrite.id, running, replacement.close())
        if refused or finished.reason in _ENDINGS:
            return refused or _ENDINGS[finished.reason]
        whole = replacement.amended(around.before, around.after)
        if not whole:
            return _NOTHING
        if whole != replacement.text:
            self._tell_text(rewrite.id, running, whole, replaces=True)
        return None

    def _tell_text(
        self, rewrite_id: str, running: _Running, text: str, *, replaces: bool = False
    ) -> None:
        for content in _contents(text, self._session.profile.text_limit, replaces=replaces):
            self._tell(rewrite_id, running, content)

    def _tell(self, rewrite_id: str, running: _Running, content: m.RewriteContent) -> None:
        if not running.is_mute:
            received = m.RewriteContentReceivedParams(rewrite_id=rewrite_id, content=content)
            self._session.notify("rewrite/contentReceived", received, newest=True)


def _contents(text: str, limit: int, *, replaces: bool) -> Iterator[m.RewriteContent]:
    """A text in pieces that the client joins; the first may take the place of all before it."""
    for number, piece in enumerate(pieces(text, limit)):
        if replaces and number == 0:
            yield m.RewriteReplaceContent(text=piece)
        else:
            yield m.RewriteTextContent(text=piece)

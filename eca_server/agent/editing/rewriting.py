"""Rewrites of a selection by the user's prompt, streamed piece by piece (chapter "Rewrite").

The rules of this module: the client gets only the text that replaces the selection. A started
rewrite ends with one `finished` or one `error`, and nothing is sent for its id after that. A stop
takes effect at once and closes the connection to the provider. A rewrite replaces an older one with
the same id. An `error` always follows a `started`, with a short delay after the last text: VS Code
restores the selection only if it has applied both, and else deletes it. It does not know `replace`
either, so it gets the text when it is complete.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final

import attrs
import trio

from eca_protocol import messages as m
from eca_protocol.server.texts import pieces
from eca_server.agent.editing.replacement import Replacement
from eca_server.client.session import Session
from eca_server.config.files import Unreadable, read_text
from eca_server.models.backend import BackendError, Request
from eca_server.models.events import (
    Finished,
    Note,
    Progress,
    ReasoningStarted,
    RefusalDelta,
    TextDelta,
)
from eca_server.models.history import Message, TextPart
from eca_server.models.models import Model

LARGEST_FILE: Final = 2 * 2**20
"""The maximum size of a file that is read, in bytes."""

MOST_AROUND: Final = 64 * 1024
"""The maximum of characters before a selection, and again after it."""

PATIENCE: Final = 2.0
"""Seconds after which the disk is not waited for."""

_log = logging.getLogger("eca_server.agent.editing")

MOST_AT_ONCE: Final = 16
"""Rewrites of one connection that may run at the same time."""

MOST_CHARACTERS: Final = 1_000_000
"""The maximum length of an answer."""

CLOSING_SECONDS: Final = 1.5

SETTLING_SECONDS: Final = 0.2
"""Seconds between the last text and the `error` that makes the client restore the selection."""

_STOPPED: Final = "The rewrite was stopped."
_NOTHING: Final = "The model answered without any text."
_FAILED: Final = "The rewrite failed; see the server's log."
_ENDINGS: Final = {
    "length": "The new text is cut: it reached the model's output limit.",
    "content_filter": "The provider's content filter ended the new text.",
    "context_window": "The new text is cut: it fills the model's context window.",
    "refusal": "The model refused.",
}
_INSTRUCTION: Final = (
    "Rewrite a part of a document in the user's editor. Your answer replaces exactly the text "
    "between <selection> and </selection>: answer only with the new text. Add no explanation, no "
    "code fence around it, and no line from before or after the selection; these are shown only "
    "as context. Change what the user asks for and preserve the rest, with its indentation and "
    "style."
)


@attrs.frozen
class Surroundings:
    """The text before and after a selection, in whole lines except next to the selection."""

    before: str = ""
    after: str = ""


async def read_surroundings(
    path: str | None, selected: str, *, line: int, most_lines: int
) -> Surroundings:
    """Read the text around a selection; return an empty result if it cannot be found.

    The context is optional: if the file cannot be read, or has unsaved changes in the editor, the
    rewrite runs without it.

    Args:
        path: the path of the file.
        selected: the selected text.
        line: the line, from 1, at which the search for the text starts.
        most_lines: the maximum number of lines of both parts together.
    """
    if not path or not selected.strip() or most_lines < 1:
        return Surroundings()
    with trio.move_on_after(PATIENCE):
        read = partial(read_text, Path(path), most=LARGEST_FILE)
        try:
            content = await trio.to_thread.run_sync(read, abandon_on_cancel=True)
        except Unreadable:
            return Surroundings()
        return around(content, selected, line=line, most_lines=most_lines)
    return Surroundings()


def around(content: str, selected: str, *, line: int, most_lines: int) -> Surroundings:
    """Return the parts of a file before and after a text in it, limited in size."""
    lines = content.splitlines(keepends=True)
    offset = sum(map(len, lines[: max(0, line - 1)]))
    start = content.find(selected, offset)
    if start < 0:
        start = content.find(selected)
    if start < 0:
        return Surroundings()
    before = content[max(0, start - MOST_AROUND) : start].splitlines(keepends=True)
    end = start + len(selected)
    after = content[end : end + MOST_AROUND].splitlines(keepends=True)
    half = most_lines // 2
    fewer = min(len(before), max(half, most_lines - len(after)))
    return Surroundings(
        "".join(before[len(before) - fewer :]), "".join(after[: most_lines - fewer])
    )


class TooManyRewrites(Exception):
    """The limit of concurrent rewrites is reached."""


@attrs.frozen(kw_only=True)
class Rewrite:
    """A request to rewrite a selection.

    Attributes:
        instruction: the configured system prompt; None: the built-in one.
        surroundings: reads the text around the selection.
    """

    id: str
    selected: str
    prompt: str
    path: str | None
    model: Model
    instruction: str | None
    surroundings: Callable[[], Awaitable[Surroundings]]

    def request(self, around: Surroundings) -> Request:
        """Return the request for the model; the user's prompt is its last part."""
        shown = [f"The document: {self.path}"] if self.path else []
        if around.before:
            shown.append(f"<before>\n{around.before}</before>")
        shown.append(f"<selection>\n{self.selected}</selection>")
        if around.after:
            shown.append(f"<after>\n{around.after}</after>")
        parts = (TextPart("\n\n".join(shown)), TextPart(self.prompt))
        return Request(
            system=self.instruction or _INSTRUCTION,
            messages=[Message(role="user", parts=parts)],
            reasoning_effort=self.model.effort,
            initiator="user",
        )


@attrs.define(eq=False)
class _Running:
    """A running rewrite, and its output to the client.

    Attributes:
        is_mute: whether nothing more is sent.
    """

    id: str
    session: Session
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    ended: trio.Event = attrs.field(factory=trio.Event)
    is_started: bool = False
    is_mute: bool = False

    @property
    def streams(self) -> bool:
        """True if the client gets the text piece by piece, and its correction."""
        return self.session.profile.display.replaces_rewrites

    def begin(self) -> None:
        """Send the one `started`."""
        if not self.is_started:
            self.is_started = True
            self.notify(m.RewriteStartedContent())

    def end(self) -> None:
        """Stop the model, and send nothing more."""
        self.is_mute = True
        self.scope.cancel()

    async def fail(self, message: str) -> None:
        """Send an error after the client has had time to apply the text."""
        self.begin()
        await trio.sleep(SETTLING_SECONDS)
        self.notify(m.RewriteErrorContent(message=message))
        self.is_mute = True

    def send_piece(self, text: str) -> None:
        """Send a piece of the text, if the client gets it piece by piece."""
        if self.streams:
            self._send_text(text)

    def complete(self, streamed: str, whole: str) -> None:
        """Send the whole text, if the client has not got it piece by piece."""
        if not self.streams:
            self.begin()
            self._send_text(whole)
        elif whole != streamed:
            self._send_text(whole, replaces=True)

    def _send_text(self, text: str, *, replaces: bool = False) -> None:
        for content in _contents(text, self.session.profile.writing.text_limit, replaces=replaces):
            self.notify(content)

    def notify(self, content: m.RewriteContent) -> None:
        """Send a content, unless the rewrite is mute."""
        if not self.is_mute:
            received = m.RewriteContentReceivedParams(rewrite_id=self.id, content=content)
            self.session.notify("rewrite/contentReceived", received, newest=True)


class Rewrites:
    """The rewrites of one connection."""

    def __init__(self, session: Session, nursery: trio.Nursery) -> None:
        self._session = session
        self._nursery = nursery
        self._running: dict[str, _Running] = {}

    def start(self, rewrite: Rewrite) -> None:
        """Start a rewrite.

        Raises:
            TooManyRewrites: the limit of concurrent rewrites is reached.
        """
        older = self._running.get(rewrite.id)
        if older is None and len(self._running) >= MOST_AT_ONCE:
            raise TooManyRewrites(f"{MOST_AT_ONCE} rewrites are running already")
        if older is not None:
            older.end()
        running = self._running[rewrite.id] = _Running(rewrite.id, self._session)
        self._nursery.start_soon(self._run, rewrite, running, older)

    def stop(self, rewrite_id: str) -> None:
        """Stop a rewrite at once; ignore one that does not run."""
        running = self._running.get(rewrite_id)
        if running is not None:
            running.begin()
            running.notify(m.RewriteErrorContent(message=_STOPPED))
            running.end()

    async def close(self) -> None:
        """Stop all rewrites and wait until they have ended."""
        running = tuple(self._running.items())
        for rewrite_id, _ in running:
            self.stop(rewrite_id)
        with trio.move_on_after(CLOSING_SECONDS):
            for _, each in running:
                await each.ended.wait()

    async def _run(self, rewrite: Rewrite, running: _Running, older: _Running | None) -> None:
        started = trio.current_time()
        try:
            if older is not None:
                await older.ended.wait()
            with running.scope:
                try:
                    failure = await self._write(rewrite, running)
                except Exception:  # noqa: BLE001 - every started rewrite has to end
                    _log.exception("the rewrite %s failed", rewrite.id[:100])
                    failure = _FAILED
                if failure is not None:
                    await running.fail(failure)
                spent = round((trio.current_time() - started) * 1000)
                running.notify(m.RewriteFinishedContent(total_time_ms=spent))
        finally:
            running.is_mute = True
            running.ended.set()
            if self._running.get(rewrite.id) is running:
                del self._running[rewrite.id]

    async def _write(self, rewrite: Rewrite, running: _Running) -> str | None:
        """Call the model and send the new text; return an error message if there is none."""
        around = await rewrite.surroundings()
        replacement = Replacement(rewrite.selected)
        finished: Finished | None = None
        refused = ""
        try:
            async with rewrite.model.stream(rewrite.request(around)) as events:
                async for event in events:
                    if running.streams and not isinstance(event, Note | Progress):
                        running.begin()
                    match event:
                        case ReasoningStarted():
                            running.notify(m.RewriteReasoningContent())
                        case TextDelta(text):
                            running.send_piece(replacement.feed(text))
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
            reason = "the stream ended without its last event"
            return rewrite.model.explain(BackendError("premature_stop", reason))
        running.send_piece(replacement.close())
        if refused or finished.reason in _ENDINGS:
            return refused.strip() or _ENDINGS[finished.reason]
        whole = replacement.corrected(around.before, around.after)
        if not whole:
            return _NOTHING
        running.complete(replacement.text, whole)
        return None


def _contents(text: str, limit: int, *, replaces: bool) -> Iterator[m.RewriteContent]:
    """Yield a text in pieces that the client joins; the first may replace all text before it."""
    for number, piece in enumerate(pieces(text, limit)):
        if replaces and number == 0:
            yield m.RewriteReplaceContent(text=piece)
        else:
            yield m.RewriteTextContent(text=piece)

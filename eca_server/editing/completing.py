"""What could stand at the cursor, asked for while the user types (chapter "Completion").

The rules it keeps: the newest request alone counts, the one before it ends when it comes and is
answered with nothing; one request at a time is with the provider; who types faster than a model is
asked is waited for; what was offered and is being typed is not asked for again; there is an answer
within the time, or nothing is offered. The user is told once of what only the user can set right,
and once of a model that fails again and again; a single failure is logged.
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

import attrs
import trio

from eca_server.editing.document import Document, completion_of, gap_filled
from eca_server.llm.backend import BackendError, Request
from eca_server.llm.events import RefusalDelta, TextDelta
from eca_server.llm.fill_in import fill_in_of, is_unsupported
from eca_server.llm.history import Message, TextPart
from eca_server.llm.models import Model

__all__ = ["Completions", "Wanted"]

_log = logging.getLogger("eca_server.editing")

TIMEOUT: Final = 8.0
"""Seconds after which nothing is offered."""

PAUSE: Final = 0.075
"""Seconds without a newer request before a model is asked, while the user types."""

MOST_FAILURES: Final = 3
"""Failures of a model, one after the other, of which the user is told whatever their kind."""

MOST_KEPT: Final = 32
"""Completions that are kept for what is typed next."""

MOST_TOKENS: Final = 512
MOST_CHARACTERS: Final = 4_000
"""Of a completion."""

_TO_BE_SET_RIGHT: Final = {"auth", "configuration", "model_not_found", "permission", "quota"}
_CURSOR: Final = "<cursor/>"
_INSTRUCTION: Final = (
    "You complete what a programmer types. A document is shown, with <cursor/> where the cursor "
    "stands; the cursor's line up to there is repeated behind it. Answer with the text that is to "
    "be inserted at the cursor and with nothing else: no explanation, no code fence, nothing that "
    "stands before the cursor or behind it already. Finish the line; go on over more lines only "
    "where the code clearly asks for it. Answer with nothing where nothing fits."
)


@attrs.define(eq=False, kw_only=True)
class Wanted:
    """One request; `is_over` once it has its answer, `hurried` where it ended another."""

    hurried: bool
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    is_over: bool = False


@attrs.frozen
class _Offer:
    """A completion that was found, and where."""

    model: str
    document: Document
    text: str

    def left_at(self, model: str, document: Document) -> str | None:
        """What of it is left to type at a place; None where it does not fit."""
        typed = document.length - self.document.length
        if model != self.model or typed not in range(max(1, len(self.text))):
            return None
        is_behind = document.rest == self.document.rest and document.after == self.document.after
        before = self.document.before + self.text[:typed]
        return self.text[typed:] if is_behind and before.endswith(document.before) else None


class Completions:
    """The completions of one connection: of the document its user types in.

    Args:
        complain: shows the user what has to be set right.
    """

    def __init__(self, complain: Callable[[str], None]) -> None:
        self._complain = complain
        self._newest: Wanted | None = None
        self._one_at_a_time = trio.Lock()
        self._offers: deque[_Offer]
        self._complained: set[tuple[str, str]]
        self._failures: Counter[str]
        self._unable: set[str]
        self.forget()

    def begin(self) -> Wanted:
        """A request has come: the one before it ends."""
        hurried = self._newest is not None and not self._newest.is_over
        if self._newest is not None:
            self._newest.scope.cancel()
        self._newest = Wanted(hurried=hurried)
        return self._newest

    def forget(self) -> None:
        """Settings or keys are others: what was found out with those before counts no more."""
        self._offers = deque(maxlen=MOST_KEPT)
        self._complained = set()
        self._failures = Counter()
        self._unable = set()

    async def complete(
        self, wanted: Wanted, document: Document, model: Model, instruction: str | None
    ) -> str:
        """The text for the cursor's place; empty if there is none, or none in time.

        Args:
            wanted: what `begin` gave.
            document: with the cursor in it.
            model: who is asked.
            instruction: how it is asked, in the user's words; None: in ours.
        """
        name = f"{model.origin.provider}/{model.origin.model}"
        try:
            for offer in reversed(self._offers):
                if (left := offer.left_at(name, document)) is not None:
                    return left
            return await self._asked(wanted, document, model, instruction, name)
        finally:
            wanted.is_over = True

    async def _asked(
        self, wanted: Wanted, document: Document, model: Model, instruction: str | None, name: str
    ) -> str:
        wanted.scope.deadline = trio.current_time() + TIMEOUT
        offers = self._offers
        with wanted.scope:
            if wanted.hurried:
                await trio.sleep(PAUSE)
            async with self._one_at_a_time:
                try:
                    text = await self._from_model(document, model, instruction, name)
                except BackendError as error:
                    self.say_once(name, error.kind, model.explain(error))
                    return ""
            self._failures.pop(name, None)
            offers.append(_Offer(name, document, text))
            return "" if wanted.scope.cancel_called else text
        if trio.current_time() >= wanted.scope.deadline:
            self.say_once(name, "timeout", f"{name} did not answer within {TIMEOUT:g} s.")
        return ""

    def say_once(self, name: str, kind: str, words: str) -> None:
        """Log a failure; show it once if the user has to set it right, or if failures repeat."""
        _log.info("no completion: %s", words)
        self._failures[name] += 1
        is_told = any(name == each for each, _ in self._complained)
        is_repeated = self._failures[name] >= MOST_FAILURES and not is_told
        if is_repeated or (kind in _TO_BE_SET_RIGHT and (name, kind) not in self._complained):
            self._complained.add((name, kind))
            self._complain(f"Completion: {words}")

    async def _from_model(
        self, document: Document, model: Model, instruction: str | None, name: str
    ) -> str:
        unable = self._unable
        fill_in = None if instruction or name in unable else fill_in_of(model.backend)
        if fill_in is not None:
            try:
                text = await fill_in.text(document.before, document.after, most_tokens=MOST_TOKENS)
                return gap_filled(text[:MOST_CHARACTERS], document)
            except BackendError as error:
                if not is_unsupported(error):
                    raise
                unable.add(name)
        return await _prompted(document, model, instruction)


async def _prompted(document: Document, model: Model, instruction: str | None) -> str:
    """The completion by a chat model; one that thinks is asked not to, where it can be."""
    parts = [TextPart(f"{document.before}{_CURSOR}{document.after}")]
    if document.line_before.strip():
        parts.append(TextPart(document.line_before))
    can = model.capabilities
    efforts = can.efforts or ()
    request = Request(
        system=instruction or _INSTRUCTION,
        messages=[Message(role="user", parts=tuple(parts))],
        max_output_tokens=MOST_TOKENS * (8 if can.reasoning else 1),
        reasoning_effort=next((each for each in ("none", "minimal") if each in efforts), None),
    )
    answer = ""
    async with model.backend.stream(request) as events:
        async for event in events:
            if isinstance(event, RefusalDelta):
                return ""
            if isinstance(event, TextDelta):
                answer += event.text
            if len(answer) > MOST_CHARACTERS:
                break
    return completion_of(answer[:MOST_CHARACTERS], document)

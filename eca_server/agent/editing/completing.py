"""Completions at the cursor, requested while the user types (chapter "Completion").

The rules of this module: only the newest request counts; it cancels the previous one, which gets an
empty answer. One request at a time is sent to the provider, after a pause in the typing. A
completion that the user is typing is not requested again. An answer after the deadline is empty.
The user is notified once of a failure that only the user can fix, and once of a model that fails
repeatedly; a single failure is logged. A completion contains no text that is already at the cursor.
"""

from __future__ import annotations

import logging
import re
from collections import Counter, deque
from collections.abc import Callable
from typing import Final

import attrs
import trio

from eca_server.models.backend import BackendError, Request
from eca_server.models.events import RefusalDelta, TextDelta
from eca_server.models.fill_in import fill_in, is_unsupported
from eca_server.models.history import Message, TextPart
from eca_server.models.models import Model

MOST_BEFORE: Final = 12_000
MOST_AFTER: Final = 4_000
"""The maximum of characters before and after the cursor that are sent to the model."""

MOST_LINES: Final = 40
"""The maximum of lines of a completion."""

_OPENING: Final = re.compile(r"\s*(```|~~~)[^\n]*\n")
_SIGNIFICANT: Final = 3
"""Characters from which on an equal text counts as a repetition."""

_log = logging.getLogger("eca_server.agent.editing")

TIMEOUT: Final = 8.0
"""Seconds after which a request is answered without a completion."""

PAUSE: Final = 0.075
"""Seconds without a newer request before the model is called, while the user types."""

MOST_FAILURES: Final = 3
"""Consecutive failures of a model after which the user is notified, whatever their kind."""

MOST_OFFERS: Final = 32
"""Completions that are stored for later requests."""

MOST_TOKENS: Final = 512
MOST_CHARACTERS: Final = 4_000
"""The maximum length of a completion."""

_FOR_THE_USER: Final = {"auth", "configuration", "model_not_found", "permission", "quota"}
_CURSOR: Final = "<cursor/>"
_INSTRUCTION: Final = (
    "Complete the user's code at the cursor. The document contains <cursor/> at the cursor; the "
    "cursor's line up to it is repeated below the document. Answer only with the text to insert at "
    "the cursor: no explanation, no code fence, no text that is already before or after the "
    "cursor. Finish the line; add more lines only if the code clearly requires them. Give an empty "
    "answer if no completion fits."
)


class InvalidPosition(ValueError):
    """A line or character that the document does not have."""


@attrs.frozen(kw_only=True)
class Document:
    """The text around the cursor, with each line end as one character.

    Attributes:
        before: the text before the cursor, limited.
        after: the text after the cursor, limited.
        length: the number of all characters before the cursor.
        rest: the number of all characters after the cursor.
    """

    before: str
    after: str
    length: int
    rest: int
    line_end: str = "\n"

    @property
    def line_before(self) -> str:
        """The text before the cursor in its line."""
        return self.before.rpartition("\n")[2]

    @property
    def line_after(self) -> str:
        """The text after the cursor in its line."""
        return self.after.partition("\n")[0]


def split_at(text: str, *, line: int, character: int) -> Document:
    """Return a document with the cursor at a position; line and character count from 1.

    Raises:
        InvalidPosition: the document has no such line, or a number is less than 1.
    """
    if min(line, character) < 1:
        raise InvalidPosition(f"expected numbers from 1 on, got {line} and {character}")
    line_end = "\r\n" if "\r\n" in text else "\n"
    text = text.replace("\r\n", "\n")
    start = 0
    for _ in range(line - 1):
        start = text.find("\n", start) + 1
        if not start:
            lines = text.count("\n") + 1
            raise InvalidPosition(f"line: expected a number from 1 to {lines}, got {line}")
    end = text.find("\n", start)
    cursor = min(start + character - 1, len(text) if end < 0 else end)
    return Document(
        before=text[max(0, cursor - MOST_BEFORE) : cursor],
        after=text[cursor : cursor + MOST_AFTER],
        length=cursor,
        rest=len(text) - cursor,
        line_end=line_end,
    )


def extract_completion(answer: str, document: Document) -> str:
    """Return the text for the cursor from a chat model's answer, possibly empty."""
    text = _unfenced(answer.replace("\r", ""))
    for repeated in (document.line_before, document.line_before.lstrip()):
        if len(repeated.strip()) >= _SIGNIFICANT and text.startswith(repeated):
            text = text[len(repeated) :]
            break
    return trim_completion(text, document)


def _unfenced(text: str) -> str:
    """Return the content of a text that is one fenced block, closed or not, else the text."""
    opening = _OPENING.match(text)
    if opening is None:
        return text
    content = text[opening.end() :]
    end = content.rstrip()
    before = end.rstrip(opening[1][0])
    return before.rstrip(" \t").removesuffix("\n") if end.endswith(opening[1]) else content


def trim_completion(text: str, document: Document) -> str:
    """Return a completion without the text that is already after the cursor."""
    text = "".join(text.replace("\r", "").splitlines(keepends=True)[:MOST_LINES]).rstrip()
    behind = document.line_after.strip()
    if behind and text.endswith(behind) and not _leaves_open(text[: -len(behind)]):
        text = text[: -len(behind)].rstrip()
    if text and document.after.strip().startswith(text.strip()):
        return ""
    return text


def _leaves_open(text: str) -> bool:
    return any(text.count(opening) > text.count(closing) for opening, closing in ("()", "[]", "{}"))


@attrs.define(eq=False, kw_only=True)
class CompletionRequest:
    """One request for a completion.

    Attributes:
        scope: cancelled by the next request.
    """

    has_superseded: bool
    scope: trio.CancelScope = attrs.field(factory=trio.CancelScope)
    is_over: bool = False


@attrs.frozen
class _Offer:
    """A completion from a model, with its document."""

    model: str
    document: Document
    text: str

    def remaining_at(self, model: str, document: Document) -> str | None:
        """Return the rest of the completion that is not typed yet; None if it does not fit."""
        typed = document.length - self.document.length
        if model != self.model or typed not in range(max(1, len(self.text))):
            return None
        is_behind = document.rest == self.document.rest and document.after == self.document.after
        before = self.document.before + self.text[:typed]
        return self.text[typed:] if is_behind and before.endswith(document.before) else None


class Completions:
    """The completions of one connection.

    Args:
        notify: shows the user a failure to fix.
    """

    def __init__(self, notify: Callable[[str], None]) -> None:
        self._notify = notify
        self._newest: CompletionRequest | None = None
        self._one_at_a_time = trio.Lock()
        self._offers: deque[_Offer]
        self._notified: set[tuple[str, str]]
        self._failures: Counter[str]
        self._unable: set[str]
        self.forget()

    def begin(self) -> CompletionRequest:
        """Register a request and cancel the previous one."""
        has_superseded = self._newest is not None and not self._newest.is_over
        if self._newest is not None:
            self._newest.scope.cancel()
        self._newest = CompletionRequest(has_superseded=has_superseded)
        return self._newest

    def forget(self) -> None:
        """Drop the stored completions and failures, after a change of settings or keys."""
        self._offers = deque(maxlen=MOST_OFFERS)
        self._notified = set()
        self._failures = Counter()
        self._unable = set()

    async def complete(
        self, request: CompletionRequest, document: Document, model: Model, instruction: str | None
    ) -> str:
        """Return the completion; empty if there is none in time."""
        name = f"{model.origin.provider}/{model.origin.model}"
        offers = self._offers
        try:
            for offer in reversed(offers):
                if (rest := offer.remaining_at(name, document)) is not None:
                    return rest
            request.scope.deadline = trio.current_time() + TIMEOUT
            with request.scope:
                if request.has_superseded:
                    await trio.sleep(PAUSE)
                async with self._one_at_a_time:
                    text = await self._from_model(document, model, instruction, name)
                self._failures.pop(name, None)
                offers.append(_Offer(name, document, text))
                return "" if request.scope.cancel_called else text
            if trio.current_time() >= request.scope.deadline:
                self.report_once(name, "timeout", f"{name} did not answer within {TIMEOUT:g} s.")
        except BackendError as error:
            self.report_once(name, error.kind, model.explain(error))
        finally:
            request.is_over = True
        return ""

    def report_once(self, name: str, kind: str, message: str) -> None:
        """Log a failure; notify the user once if only the user can fix it, or if it repeats."""
        _log.info("no completion: %s", message)
        self._failures[name] += 1
        is_notified = any(name == each for each, _ in self._notified)
        is_repeated = self._failures[name] >= MOST_FAILURES and not is_notified
        if is_repeated or (kind in _FOR_THE_USER and (name, kind) not in self._notified):
            self._notified.add((name, kind))
            self._notify(f"Completion: {message}")

    async def _from_model(
        self, document: Document, model: Model, instruction: str | None, name: str
    ) -> str:
        before, after = document.before, document.after
        if not instruction and name not in self._unable:
            try:
                text = await fill_in(model.backend, before, after, most_tokens=MOST_TOKENS)
                if text is not None:
                    return trim_completion(text[:MOST_CHARACTERS], document)
            except BackendError as error:
                if not is_unsupported(error):
                    raise
                self._unable.add(name)
        return await _prompted(document, model, instruction)


async def _prompted(document: Document, model: Model, instruction: str | None) -> str:
    """Return the completion of a chat model, with the least reasoning that it offers."""
    parts = [TextPart(f"{document.before}{_CURSOR}{document.after}")]
    if document.line_before.strip():
        parts.append(TextPart(document.line_before))
    capabilities = model.capabilities
    efforts = capabilities.efforts or ()
    request = Request(
        system=instruction or _INSTRUCTION,
        messages=[Message(role="user", parts=tuple(parts))],
        max_output_tokens=MOST_TOKENS * (8 if capabilities.reasoning else 1),
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
    return extract_completion(answer[:MOST_CHARACTERS], document)

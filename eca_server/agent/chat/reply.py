"""One request to a model inside a turn: its events shown as contents, its message recorded.

An error of a provider or a user becomes a readable text in the chat, never a protocol error (design
decision 14). Retries happen in a lower layer, before the first event the user sees.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable

import attrs
import trio

from eca_protocol.messages import UsageLimit
from eca_protocol.server.calls import Naming
from eca_server.agent.chat.pictures import MOST_PICTURES, FirstPictures, picture_content
from eca_server.agent.chat.title import MakeTitle
from eca_server.agent.chat.turn import Turn
from eca_server.models.answer import Answer
from eca_server.models.backend import BackendError, Request
from eca_server.models.estimate import utf8_size
from eca_server.models.events import (
    Event,
    Finished,
    Note,
    Progress,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    RefusalDelta,
    ServerTool,
    TextDelta,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
)
from eca_server.models.history import CitationPart, ImagePart, Origin, Part, ToolCallPart
from eca_server.models.models import Model
from eca_server.models.retry import Wait

PACE_SECONDS = 0.001
"""Seconds of showing events between two checkpoints, at which a stop takes effect.

Only the time of showing counts: if the time of other tasks counted, a chat among many would show
one event and wait again.
"""

_WITH_TEXT = (TextDelta, RefusalDelta, ReasoningDelta, ToolCallArguments)

MOST_CALLS = 100
"""Calls of one answer that are accepted; further ones are dropped, and the user is notified."""

_ENDINGS = {
    "length": "The answer was cut: it reached the model's output limit.",
    "content_filter": "The provider's content filter ended the answer.",
    "context_window": "The answer was cut: the chat fills the model's context window.",
}

_EMPTY = "The model returned an empty answer. Send the prompt again, or select a different model."


async def reply(
    turn: Turn,
    model: Model,
    request: Request,
    *,
    naming: Callable[[str, str], Naming],
    make_title: MakeTitle | None = None,
    max_kb: int = 32 * 1024,
) -> Answer | None:
    """Send a request, and show the answer; return None after reporting an incomplete answer.

    Args:
        turn: shows the answer; the model's message is added to its messages.
        model: the model.
        request: the request, with the whole history.
        naming: returns a call's names on the wire for its id and the tool's name.
        make_title: requests the chat's title, once the first event has arrived; None: no title.
        max_kb: KiB of text, reasoning and arguments, after which the answer is cut.

    Raises:
        BackendError: the request is too long (`context_overflow`); nothing was shown.
    """
    receiver = _Receiver(turn, CallsInOrder(turn, naming), _AnswerBudget(max_kb), make_title)
    answer = receiver.answer
    turn.reasons.clear()  # of an earlier answer that was cut
    turn.draft.begin_answer(model.origin)
    try:
        async with model.stream(request, on_wait=announce_retries(turn)) as events:
            await receiver.receive(events)
    except BackendError as error:
        if error.kind == "context_overflow" and not receiver.has_shown:
            raise
        _break_off(turn, model, error)
        return None
    finally:
        turn.limit = limit_of(model)  # some models report it only with an answer
        add_answer(turn, answer, model.origin, is_interrupted=answer.finished is None)
        if answer.usage is not None:
            turn.usages.append(model.facts.with_cost(answer.usage))
    if receiver.budget.is_exceeded or answer.finished is None:
        _report_cut(turn, model, receiver.budget)
        return None
    if answer.is_empty and answer.finished.reason not in _ENDINGS:
        turn.conclude(_EMPTY)
    _report_dropped(turn, "tool calls", MOST_CALLS + receiver.calls.dropped, MOST_CALLS)
    _report_dropped(turn, "pictures", receiver.pictures.count, MOST_PICTURES)
    return answer


@attrs.define
class _Receiver:
    """Shows the events of one answer, and collects them.

    Attributes:
        make_title: makes the chat's title once the first event has arrived; None: no title.
        has_shown: an event was shown.
    """

    turn: Turn
    calls: CallsInOrder
    budget: _AnswerBudget
    make_title: MakeTitle | None
    has_shown: bool = False
    answer: Answer = attrs.field(factory=Answer)
    pictures: FirstPictures = attrs.field(factory=FirstPictures)

    async def receive(self, events: AsyncIterator[Event]) -> None:
        """Take the events of a stream until its end or the limit of the answer."""
        turn, spent = self.turn, 0.0
        async for piece in events:
            started = time.perf_counter()
            event = self.budget.within(piece)
            if event is None:
                return
            if not self.has_shown and isinstance(event, _VISIBLE):
                self.has_shown = True
                turn.progress("Generating")
                if self.make_title is not None:
                    turn.outlet.request_title(self.make_title)
            if not (self.pictures.drops(event) or self.calls.drops(event)):
                self.answer.feed(event)
                turn.draft.record(event)
                if isinstance(event, ImagePart):
                    await turn.store_pictures([event.data])
                if isinstance(event, _AFTER_THOUGHTS):
                    turn.reasonings.finish_all()
                if isinstance(event, _OF_CALLS):
                    self.calls.feed(event)
                else:
                    _show(turn, self.answer, event)
            spent += time.perf_counter() - started
            await turn.drained()
            if spent > PACE_SECONDS:
                await trio.lowlevel.checkpoint()
                spent = 0.0


class _AnswerBudget:
    """The limit of one answer's text, and the bytes that remain.

    Attributes:
        max_kb: the limit in KiB.
    """

    def __init__(self, max_kb: int) -> None:
        self.max_kb = max_kb
        self._remaining = max_kb * 1024

    @property
    def is_exceeded(self) -> bool:
        """True if text was cut."""
        return self._remaining < 0

    def within(self, event: Event) -> Event | None:
        """Return as much of an event as the limit allows; None once text was cut."""
        available = self._remaining
        if available < 0:
            return None
        if not isinstance(event, _WITH_TEXT):
            return event
        self._remaining -= utf8_size(event.text)
        if self._remaining >= 0:
            return event
        data = event.text.encode("utf-8", "surrogatepass")
        truncated = data[:available].decode("utf-8", "ignore")
        return attrs.evolve(event, text=truncated) if truncated else None


def _report_cut(turn: Turn, model: Model, budget: _AnswerBudget) -> None:
    if not budget.is_exceeded:
        words = "the stream ended without its last event"
        _break_off(turn, model, BackendError("premature_stop", words))
        return
    turn.close_contents("interrupted")
    turn.fail(
        f"The answer was cut: it exceeds the limit of {budget.max_kb} KiB (`answerMaxKb`). "
        "Ask for a shorter answer, or raise the limit."
    )


def _report_dropped(turn: Turn, what: str, count: int, limit: int) -> None:
    if count > limit:
        dropped = f"the ones after the first {limit} were dropped"
        turn.report(f"The answer contained {count} {what}: {dropped}.")


def announce_retries(turn: Turn) -> Callable[[Wait], None]:
    """Return a function that shows the user the wait before a retry."""

    def show(wait: Wait) -> None:
        turn.progress(
            f"{wait.reason.replace('_', ' ')}: trying again in {wait.seconds:.0f} s "
            f"({wait.attempt} of {wait.max_attempts})"
        )

    return show


class CallsInOrder:
    """Shows the calls that a model writes; of two written at once, the later one waits (W-30).

    Attributes:
        dropped: the number of calls after the first `MOST_CALLS`.
    """

    def __init__(self, turn: Turn, naming: Callable[[str, str], Naming]) -> None:
        self._turn = turn
        self._naming = naming
        self._waiting: dict[str, list[str]] = {}
        self._written: set[str] = set()
        self._begun: set[str] = set()
        self.dropped = 0

    def drops(self, event: Event) -> bool:
        """Return whether an event belongs to a call after the first `MOST_CALLS`."""
        match event:
            case ToolCallStarted():
                is_beyond = len(self._begun) == MOST_CALLS
                self.dropped += is_beyond
                return is_beyond
            case ToolCallArguments(key=key) | ToolCallFinished(key=key):
                return key not in self._begun
            case _:
                return False

    def feed(self, event: ToolCallStarted | ToolCallArguments | ToolCallFinished) -> None:
        """Take an event that starts, extends or completes a call."""
        match event:
            case ToolCallStarted(key=key, name=name):
                self._begun.add(key)
                call = self._turn.calls.begin(self._naming(key, name))
                if self._waiting:
                    self._waiting[key] = [""]
                else:
                    self._waiting[key] = []
                    call.prepare("")
            case ToolCallArguments(key, text):
                if next(iter(self._waiting)) == key:
                    self._turn.calls[key].prepare(text)
                else:
                    self._waiting[key].append(text)
            case ToolCallFinished(key=key):
                self._written.add(key)
                self._advance()

    def _advance(self) -> None:
        while self._waiting and (first := next(iter(self._waiting))) in self._written:
            del self._waiting[first]
            following = next(iter(self._waiting), None)
            if following is not None:
                pieces, self._waiting[following] = self._waiting[following], []
                self._turn.calls[following].prepare("".join(pieces))


_AFTER_THOUGHTS = (ReasoningStarted, TextDelta, ToolCallStarted)
"""Events that end a block of reasoning; some servers end it only with the answer, or never."""

_OF_CALLS = (ToolCallStarted, ToolCallArguments, ToolCallFinished)
_VISIBLE = (TextDelta, ReasoningStarted, RefusalDelta, CitationPart, ImagePart, ToolCallStarted)


def _show(turn: Turn, answer: Answer, event: Event) -> None:
    match event:
        case TextDelta(text) | RefusalDelta(text):
            turn.say(text)
        case ReasoningDelta(key, text):
            turn.reasonings.write(key, text)
        case ReasoningStarted(key):
            turn.reasonings.start(key)
        case ReasoningFinished(key=key):
            turn.reasonings.finish(key)
        case CitationPart(url=url, title=title):
            for content in turn.sources.contents(url, title, is_linked=url in answer.text):
                turn.emit("assistant", content)
        case ImagePart(data=data):
            turn.emit("assistant", picture_content(data))
        case ServerTool(kind=kind, phase="started"):
            turn.progress(f"Using the provider's {kind.replace('_', ' ')}")
        case ServerTool():
            turn.progress("Generating")
        case Progress("loading"):
            turn.progress("Loading the model")
        case Note(text):
            turn.report(text)
        case Finished(reason=reason) if reason in _ENDINGS:
            turn.conclude(_ENDINGS[reason])


def _break_off(turn: Turn, model: Model, error: BackendError) -> None:
    turn.close_contents("interrupted")
    turn.fail(model.explain(error))


def add_answer(turn: Turn, answer: Answer, origin: Origin, *, is_interrupted: bool) -> None:
    """Add what there is of an answer to the messages of its turn."""
    message = answer.message(origin, interrupted=is_interrupted, thoughts=turn.reasonings.finished)
    if message.parts:
        parts = tuple(_named(part, turn) for part in message.parts)
        turn.messages.append(attrs.evolve(message, parts=parts))
    turn.draft.end_answer()


def _named(part: Part, turn: Turn) -> Part:
    """Return a part of an answer; add the server and the tool to a call."""
    if not isinstance(part, ToolCallPart) or part.id not in turn.calls:
        return part
    naming = turn.calls[part.id].naming
    return attrs.evolve(part, server=naming.server, tool=naming.name)


def limit_of(model: Model) -> UsageLimit | None:
    """Return the limits of a model; None if its context is unknown."""
    known = model.capabilities
    if known.context is None:
        return None
    return UsageLimit(context=known.context, output=known.output)

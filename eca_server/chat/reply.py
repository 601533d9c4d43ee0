"""One request to a model inside a turn: its events as contents, its message kept.

What a provider or a user did wrong ends as a readable text in the chat, never as a fault of the
protocol (design decision 14). Retries happen below, before the first event the user sees.
"""

from __future__ import annotations

from collections.abc import Callable

import attrs
import trio

from eca_protocol.messages import UsageLimit
from eca_server.chat.pictures import MOST_PICTURES, FirstPictures, picture_content
from eca_server.chat.title import make_title
from eca_server.chat.tool_call import Naming
from eca_server.chat.turn import Turn
from eca_server.llm.answer import Answer
from eca_server.llm.backend import BackendError, Request
from eca_server.llm.events import (
    Citation,
    Event,
    Finished,
    Image,
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
from eca_server.llm.history import Part, ToolCallPart
from eca_server.llm.models import Model
from eca_server.llm.retry import Wait

__all__ = ["CallsInOrder", "limit_of", "reply", "tell_of_waits"]

PACE_SECONDS = 0.001
"""How long events are shown without a look at what else there is to do, a stop for example.

Only the showing counts: with the time that others took in between, a chat among many would show one
event and wait again.
"""

_WITH_TEXT = (TextDelta, RefusalDelta, ReasoningDelta, ToolCallArguments)

MOST_CALLS = 100
"""Calls of one answer that are taken; more of them are dropped, and the user is told."""

_ENDINGS = {
    "length": "The answer was cut: it reached the model's output limit.",
    "content_filter": "The provider's content filter ended the answer.",
    "context_window": "The answer was cut: the chat fills the model's context window.",
}

_EMPTY = "The model ended its turn without an answer. Send the prompt again, or change the model."


async def reply(
    turn: Turn,
    model: Model,
    request: Request,
    *,
    naming: Callable[[str, str], Naming],
    wants_title: bool = False,
    title_prompt: str | None = None,
    max_kb: int = 32 * 1024,
) -> Answer | None:
    """Ask the model and show what comes; None if there is no whole answer, which was told.

    Args:
        turn: where it is shown; the model's message is added to its messages.
        model: who is asked.
        request: with the whole history.
        naming: how a call is named on the wire, from its id and the tool's name.
        wants_title: ask for the chat's title once the first piece is here.
        title_prompt: how it is asked for; None: in our words.
        max_kb: KiB of text, reasoning and arguments, after which the answer is cut.

    Raises:
        BackendError: the request is too long (`context_overflow`); nothing was shown.
    """
    answer = Answer()
    calls = CallsInOrder(turn, naming)

    shown = False
    room = _Room(max_kb)
    pictures = FirstPictures()
    turn.draft.begin_answer(model.origin)
    try:
        async with model.stream(request, on_wait=tell_of_waits(turn)) as events:
            spent = 0.0
            async for piece in events:
                came = trio.current_time()
                event = room.within(piece)
                if event is None:
                    break
                if not shown and isinstance(event, _VISIBLE):
                    shown = True
                    turn.progress("Generating")
                    if wants_title:
                        turn.chat.name_with(lambda: make_title(model, turn.about, title_prompt))
                if not (pictures.drops(event) or calls.drops(event)):
                    answer.feed(event)
                    turn.draft.hear(event)
                    await _take(turn, answer, calls, event)
                spent += trio.current_time() - came
                await turn.drained()
                if spent > PACE_SECONDS:
                    await trio.lowlevel.checkpoint()
                    spent = 0.0
    except BackendError as error:
        if error.kind == "context_overflow" and not shown:
            raise
        _break_off(turn, model, error)
        return None
    finally:
        turn.limit = limit_of(model)  # some tell it only when they are asked
        _remember(turn, answer, model)
    if room.is_exceeded or answer.finished is None:
        _tell_of_cut(turn, model, room)
        return None
    if answer.is_empty and answer.finished.reason not in _ENDINGS:
        turn.say(_EMPTY, role="system")
    _tell_of_dropped(turn, "tool calls", MOST_CALLS + calls.dropped, MOST_CALLS)
    _tell_of_dropped(turn, "pictures", pictures.came, MOST_PICTURES)
    return answer


class _Room:
    """The limit of one answer's text, and how much of it is left.

    Attributes:
        max_kb: the limit in KiB.
    """

    def __init__(self, max_kb: int) -> None:
        self.max_kb = max_kb
        self._left = max_kb * 1024

    @property
    def is_exceeded(self) -> bool:
        """Whether text was cut."""
        return self._left < 0

    def within(self, event: Event) -> Event | None:
        """Return as much of an event as there is room for; None once text was cut."""
        if self.is_exceeded:
            return None
        if not isinstance(event, _WITH_TEXT):
            return event
        data = event.text.encode("utf-8", "surrogatepass")
        room, self._left = self._left, self._left - len(data)
        if not self.is_exceeded:
            return event
        kept = data[:room].decode("utf-8", "ignore")
        return attrs.evolve(event, text=kept) if kept else None


async def _take(turn: Turn, answer: Answer, calls: CallsInOrder, event: Event) -> None:
    if isinstance(event, _OF_CALLS):
        calls.feed(event)
        return
    if isinstance(event, Image):
        await turn.chat.keep_pictures(turn, [event.data])
    _show(turn, answer, event)


def _tell_of_cut(turn: Turn, model: Model, room: _Room) -> None:
    if not room.is_exceeded:
        words = "the stream ended without its last event"
        _break_off(turn, model, BackendError("premature_stop", words))
        return
    turn.close_contents()
    turn.fail(
        f"The answer was cut: it exceeds the limit of {room.max_kb} KiB (`answerMaxKb`). "
        "Ask for a shorter answer, or raise the limit."
    )


def _tell_of_dropped(turn: Turn, what: str, came: int, most: int) -> None:
    if came > most:
        dropped = f"those behind the first {most} were dropped"
        turn.say(f"The answer held {came} {what}: {dropped}.", role="system")


def tell_of_waits(turn: Turn) -> Callable[[Wait], None]:
    """What shows the user that a request is tried again later."""

    def tell(wait: Wait) -> None:
        turn.progress(
            f"{wait.reason.replace('_', ' ')}: trying again in {wait.seconds:.0f} s "
            f"({wait.attempt} of {wait.max_attempts})"
        )

    return tell


class CallsInOrder:
    """Shows the calls a model writes; of two it writes at once the later waits (W-30).

    Attributes:
        dropped: how many there were behind the first `MOST_CALLS`.
    """

    def __init__(self, turn: Turn, naming: Callable[[str, str], Naming]) -> None:
        self._turn = turn
        self._naming = naming
        self._waiting: dict[str, list[str]] = {}
        self._written: set[str] = set()
        self._begun: set[str] = set()
        self.dropped = 0

    def drops(self, event: Event) -> bool:
        """Whether an event belongs to a call that is one too many."""
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
        """A call begins, grows or is whole."""
        match event:
            case ToolCallStarted(key=key, name=name):
                self._begun.add(key)
                call = self._turn.begin_call(key, self._naming(key, name))
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
                self._go_on()

    def _go_on(self) -> None:
        while self._waiting and (first := next(iter(self._waiting))) in self._written:
            del self._waiting[first]
            following = next(iter(self._waiting), None)
            if following is not None:
                pieces, self._waiting[following] = self._waiting[following], []
                self._turn.calls[following].prepare("".join(pieces))


_OF_CALLS = (ToolCallStarted, ToolCallArguments, ToolCallFinished)
_VISIBLE = (TextDelta, ReasoningStarted, RefusalDelta, Citation, Image, ToolCallStarted)


def _show(turn: Turn, answer: Answer, event: Event) -> None:
    match event:
        case TextDelta(text) | RefusalDelta(text):
            turn.say(text)
        case ReasoningDelta(key, text):
            turn.reason(key, text)
        case ReasoningStarted(key):
            turn.start_reason(key)
        case ReasoningFinished(key=key):
            turn.finish_reason(key)
        case Citation(url=url, title=title):
            turn.cite(url, title, linked=url in answer.text)
        case Image(data=data):
            turn.emit("assistant", picture_content(data))
        case ServerTool(kind=kind, phase="started"):
            turn.progress(f"Using the provider's {kind.replace('_', ' ')}")
        case ServerTool():
            turn.progress("Generating")
        case Progress("loading"):
            turn.progress("Loading the model")
        case Note(text):
            turn.say(text, role="system")
        case Finished(reason=reason) if reason in _ENDINGS:
            turn.say(_ENDINGS[reason], role="system")
        case _:
            pass


def _break_off(turn: Turn, model: Model, error: BackendError) -> None:
    turn.close_contents("interrupted")
    turn.fail(model.explain(error))


def _remember(turn: Turn, answer: Answer, model: Model) -> None:
    message = answer.message(
        model.origin, interrupted=answer.finished is None, thoughts=turn.thoughts
    )
    if message.parts:
        parts = tuple(_named(part, turn) for part in message.parts)
        turn.messages.append(attrs.evolve(message, parts=parts))
    turn.draft.end_answer()
    if answer.usage is not None:
        turn.usages.append(model.facts.with_cost(answer.usage))


def _named(part: Part, turn: Turn) -> Part:
    """A part of an answer; a call with the tool that it means."""
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

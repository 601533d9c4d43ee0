"""The body of a turn that asks a model: one request, its events as contents, its message kept.

What a provider or a user did wrong ends as a readable text in the chat, never as a fault of the
protocol (design decision 14). Retries happen below, before the first event the user sees.
"""

from __future__ import annotations

import trio

from eca_protocol.messages import ChatURLContent, UsageLimit
from eca_server.chat.title import make_title
from eca_server.chat.turn import Turn
from eca_server.llm.answer import Answer
from eca_server.llm.backend import BackendError, Request
from eca_server.llm.events import (
    Citation,
    Event,
    Finished,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    RefusalDelta,
    TextDelta,
)
from eca_server.llm.history import Message, TextPart, ToolCallPart
from eca_server.llm.models import Model
from eca_server.llm.retry import Wait

__all__ = ["reply"]

PACE_SECONDS = 0.001
"""How long events are shown without a look at what else there is to do, a stop for example."""

_ENDINGS = {
    "length": "The answer was cut: it reached the model's output limit.",
    "content_filter": "The provider's content filter ended the answer.",
    "context_window": "The answer was cut: the chat fills the model's context window.",
}


async def reply(turn: Turn, model: Model, *, system: str, wants_title: bool) -> None:
    """Ask the model with the chat's history and the user's new message; show what comes."""
    user = Message(role="user", parts=(TextPart(turn.prompt.text),))
    turn.messages.append(user)
    turn.limit = _limit(model)
    answer = Answer()
    request = Request(system=system, messages=[*turn.chat.history, user])

    def tell_wait(wait: Wait) -> None:
        turn.progress(
            f"{wait.reason.replace('_', ' ')}: trying again in {wait.seconds:.0f} s "
            f"({wait.attempt} of {wait.of})"
        )

    try:
        async with model.stream(request, on_wait=tell_wait) as events:
            looked = trio.current_time()
            shown = False
            async for event in events:
                answer.feed(event)
                if not shown and isinstance(event, _VISIBLE):
                    shown = True
                    turn.progress("Generating")
                    if wants_title:
                        turn.chat.name_with(lambda: make_title(model, turn.prompt.text))
                _show(turn, event)
                await turn.drained()
                if trio.current_time() - looked > PACE_SECONDS:
                    await trio.lowlevel.checkpoint()
                    looked = trio.current_time()
    except BackendError as error:
        _break_off(turn, model, error)
    else:
        if answer.finished is None:
            words = "the stream ended without its last event"
            _break_off(turn, model, BackendError("premature_stop", words))
    finally:
        message = _remember(turn, answer, model)
    for part in message.parts:
        if isinstance(part, ToolCallPart):
            turn.say(f"The model called the tool {part.name}: none is offered.", role="system")


_VISIBLE = (TextDelta, ReasoningStarted, RefusalDelta, Citation)


def _show(turn: Turn, event: Event) -> None:
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
            turn.emit("assistant", ChatURLContent(title=title or url, url=url))
            turn.say(f" [{title or url}]({url})")
        case Finished(reason=reason) if reason in _ENDINGS:
            turn.say(_ENDINGS[reason], role="system")
        case _:
            pass


def _break_off(turn: Turn, model: Model, error: BackendError) -> None:
    turn.close_contents()
    turn.fail(model.explain(error))


def _remember(turn: Turn, answer: Answer, model: Model) -> Message:
    message = answer.message(model.origin, interrupted=answer.finished is None)
    if message.parts:
        turn.messages.append(message)
    if answer.usage is not None:
        turn.usages.append(answer.usage)
    return message


def _limit(model: Model) -> UsageLimit | None:
    known = model.capabilities
    if known.context is None or known.output is None:
        return None
    return UsageLimit(context=known.context, output=known.output)

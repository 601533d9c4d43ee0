"""What the targets for the streams of models share; a model's answer ends as these lines say.

However the bytes are cut, the events are the same. `Started` comes first, each block that begins
ends, and there is one end: `Finished`, or a `BackendError`. Cut off before it, an answer is told
as far as it came. What is kept of it can be written, and its tokens have a price.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import attrs
from runner import bytewise, cut, instrumented

with instrumented():
    from eca_protocol import json
    from eca_server.llm.answer import Answer
    from eca_server.llm.answer_body import AnswerBody, Decoder, Framing
    from eca_server.llm.backend import BackendError
    from eca_server.llm.events import (
        Event,
        Finished,
        Note,
        Progress,
        ReasoningDelta,
        ReasoningFinished,
        ReasoningStarted,
        RefusalDelta,
        Started,
        TextDelta,
        ToolCallArguments,
        ToolCallFinished,
        ToolCallStarted,
        Usage,
    )
    from eca_server.llm.facts import Price
    from eca_server.llm.history import Origin

LARGEST = 2**63  # what a database takes, and JSON readers that count in 64 bits
PRICE = Price(input=1.5, output=10)

MakeDecoder = Callable[[Callable[[], str]], Decoder]
Told = tuple[list[Event], str | None]


def check_answer(data: bytes, decoder: MakeDecoder, framing: Framing = "sse") -> None:
    """Read `data` as an answer; behind a `?` as one whose kind the server does not name."""
    kind = "" if data.startswith(b"?") else "text/event-stream"
    data = data.removeprefix(b"?")

    def told(pieces: Iterable[bytes]) -> Told:
        numbers = itertools.count()
        made = decoder(lambda: f"call{next(numbers)}")
        return read(AnswerBody(content_type=kind, decoder=made, framing=framing), pieces)

    events, fault = whole = told([data])
    assert told(cut(data)) == whole
    if len(data) < 400:
        assert told(bytewise(data)) == whole
    check_order(events, fault)
    check_kept(events)
    came, broken = told([data[: len(data) * data[-1] // 256]] if data else [])
    check_order(came, broken)
    if broken is not None and fault is None:
        assert signs(came) == signs(events)[: len(signs(came))]


def read(body: AnswerBody, pieces: Iterable[bytes]) -> Told:
    """The events and the fault at their end, as the server itself reads a body."""
    events: list[Event] = []
    try:
        for piece in pieces:
            events.extend(body.feed(piece))  # a fault leaves what came before it
            if body.decoder.done:
                break
        events.extend(body.close())
    except BackendError as fault:
        return events, f"{fault.kind}: {fault.message}"
    return events, None


def signs(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, Usage | Progress)]


def check_order(events: Sequence[Event], fault: str | None) -> None:
    told = [event for event in events if not isinstance(event, Note | Progress)]
    assert [isinstance(event, Started) for event in told[:1]] in ([], [True])
    assert not any(isinstance(event, Started) for event in told[1:])
    assert not any(isinstance(event, Finished) for event in events[:-1])
    assert (fault is None) == (bool(events) and isinstance(events[-1], Finished))
    thoughts: set[str] = set()
    calls: dict[str, str] = {}
    keys: set[str] = set()
    for event in told:
        match event:
            case TextDelta(text) | RefusalDelta(text):
                assert text
            case ReasoningStarted(key):
                assert key not in keys
                keys.add(key)
                thoughts.add(key)
            case ReasoningDelta(key, text):
                assert text
                assert key in thoughts
            case ReasoningFinished():
                thoughts.remove(event.key)
            case ToolCallStarted(key=key):
                assert key not in keys
                keys.add(key)
                calls[key] = ""
            case ToolCallArguments(key, text):
                assert text
                calls[key] += text
            case ToolCallFinished():
                assert event.raw == calls.pop(event.key)
                assert (event.arguments is None) == (event.error is not None)
    assert fault or not (thoughts or calls)


def check_kept(events: Iterable[Event]) -> None:
    answer = Answer()
    for event in events:
        answer.feed(event)
        if isinstance(event, Usage):
            counts = attrs.astuple(event)[:5]
            assert all(count is None or 0 <= count < LARGEST for count in counts), event
    message = answer.message(Origin(api="a", provider="p", model="m"))
    json.dumps(attrs.asdict(message, value_serializer=lambda _, __, value: plain(value)))
    if answer.usage is not None:
        assert (PRICE.cost(answer.usage) or 0) >= 0


def plain(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else value

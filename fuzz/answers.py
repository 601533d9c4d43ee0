"""The check shared by the targets for the streams of models.

The events are the same for any size of chunks. `Started` comes first, each block has an end, and
the answer has one end: `Finished`, or a `BackendError`. An answer that is cut off has the events up
to that point. Its stored form can be written, and its tokens have a price.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Sequence

import attrs
from runner import bytewise, cut, instrumented

with instrumented():
    from eca_protocol import json
    from eca_server.models.answer import Answer
    from eca_server.models.answer_body import AnswerBody, Framing
    from eca_server.models.backend import BackendError
    from eca_server.models.events import (
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
    from eca_server.models.facts import Price
    from eca_server.models.history import Origin
    from eca_server.models.stream_decoder import StreamDecoder

LARGEST = 2**63  # the limit of databases, and of JSON readers with 64 bits
PRICE = Price(input=1.5, output=10)

MakeDecoder = Callable[[Callable[[], str]], StreamDecoder]
Outcome = tuple[list[Event], str | None]


def check_answer(data: bytes, decoder: MakeDecoder, framing: Framing = "sse") -> None:
    """Read `data` as an answer; with a `?` in front as one without a content type."""
    kind = "" if data.startswith(b"?") else "text/event-stream"
    data = data.removeprefix(b"?")

    def outcome(pieces: Iterable[bytes]) -> Outcome:
        numbers = itertools.count()
        made = decoder(lambda: f"call{next(numbers)}")
        return read(AnswerBody(content_type=kind, decoder=made, framing=framing), pieces)

    events, fault = whole = outcome([data])
    assert outcome(cut(data)) == whole
    if len(data) < 400:
        assert outcome(bytewise(data)) == whole
    check_order(events, fault)
    check_kept(events)
    came, broken = outcome([data[: len(data) * data[-1] // 256]] if data else [])
    check_order(came, broken)
    if broken is not None and fault is None:
        assert signs(came) == signs(events)[: len(signs(came))]


def read(body: AnswerBody, pieces: Iterable[bytes]) -> Outcome:
    """Return the events and the error at their end, as the server reads a body."""
    events: list[Event] = []
    try:
        for piece in pieces:
            events.extend(body.feed(piece))  # an error leaves the events before it
            if body.decoder.done:
                break
        events.extend(body.close())
    except BackendError as fault:
        return events, f"{fault.kind}: {fault.message}"
    return events, None


def signs(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, Usage | Progress)]


def check_order(events: Sequence[Event], fault: str | None) -> None:
    outcome = [event for event in events if not isinstance(event, Note | Progress)]
    assert [isinstance(event, Started) for event in outcome[:1]] in ([], [True])
    assert not any(isinstance(event, Started) for event in outcome[1:])
    assert not any(isinstance(event, Finished) for event in events[:-1])
    assert (fault is None) == (bool(events) and isinstance(events[-1], Finished))
    thoughts: set[str] = set()
    calls: dict[str, str] = {}
    keys: set[str] = set()
    for event in outcome:
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

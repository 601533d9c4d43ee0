"""The streams of every API as bytes: any chunks, any line ends, truncated."""

import itertools
from collections.abc import Callable, Iterable

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.events import Event, Progress, TextDelta, Usage
from tests.eca_server.models.anthropic import test_decoder as anthropic
from tests.eca_server.models.every_api import EVERY_API, ScriptedAPI
from tests.eca_server.models.google import test_stream as google
from tests.eca_server.models.ollama import test_decoder as ollama
from tests.eca_server.models.ollama.scripted import wire
from tests.eca_server.models.openai_chat import test_stream as openai_chat
from tests.eca_server.models.openai_responses import test_stream as openai_responses
from tests.eca_server.models.reading import decode as decode_bytes
from tests.eca_server.models.reading import new_keys


@attrs.frozen(kw_only=True)
class Stream:
    """A stream of an API with everything in it.

    Attributes:
        spelled: returns its bytes, with this line end.
        text: the visible text.
        end: its mark, of which an end without an error has come; the whole stream if empty.
        newlines: the line ends of its format.
    """

    api: ScriptedAPI
    spelled: Callable[[str], bytes]
    text: str
    end: bytes = b""
    newlines: tuple[str, ...] = ("\n", "\r\n", "\r")


ODD_TEXT = "a\u0085b\u2028c\u000b"
TABLE = {
    "openai-chat": {
        "spelled": openai_chat.wire,
        "text": "a\u0085b\u2028c",
        "end": b'"tool_calls"}]}',
    },
    "openai-responses": {"spelled": openai_responses.wire, "text": f"{ODD_TEXT}d"},
    "anthropic": {
        "spelled": anthropic.bytes_of,
        "text": f"{ODD_TEXT}cited",
        "end": b'"stop_reason": "tool_use"',
    },
    "google": {"spelled": google.wire, "text": f"{ODD_TEXT}d"},
    "ollama": {
        "spelled": lambda newline: wire(ollama.STREAM, newline),
        "text": ODD_TEXT,
        "newlines": ("\n", "\r\n", "\n\n"),
    },
}
STREAMS = [Stream(api=api, **TABLE[api.name]) for api in EVERY_API]

each_stream = pytest.mark.parametrize("stream", STREAMS, ids=lambda each: each.api.name)


def decode(stream: Stream, pieces: Iterable[bytes]) -> tuple[list[Event], str | None]:
    """Return the events of these bytes, and the kind of the error at their end."""
    return decode_bytes(stream.api.decoder(new_keys()), pieces, framing=stream.api.framing)


def whole(stream: Stream) -> list[Event]:
    events, error = decode(stream, [stream.spelled("\n")])
    assert error is None
    return events


def uncounted(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, Usage | Progress)]


@each_stream
def test_line_ends_of_every_kind_and_single_bytes_give_the_same_events(stream):
    expected = whole(stream)
    text = [event.text for event in expected if isinstance(event, TextDelta)]
    assert "".join(text) == stream.text
    for newline in stream.newlines:
        data = stream.spelled(newline)
        for bytes_ in (data, data.rstrip()):  # the last blank line may be missing
            assert decode(stream, [bytes_]) == (expected, None)
        assert decode(stream, [data[at : at + 1] for at in range(len(data))]) == (expected, None)


@each_stream
@given(st.lists(st.floats(0, 1), max_size=6))
def test_bytes_may_be_cut_anywhere(stream, cuts):
    data = stream.spelled(stream.newlines[1])
    marks = sorted({0, len(data), *(int(cut * len(data)) for cut in cuts)})
    pieces = [data[a:b] for a, b in itertools.pairwise(marks)]
    assert decode(stream, pieces) == (whole(stream), None)


@each_stream
def test_a_stream_that_is_cut_gives_a_prefix_of_its_events_and_a_premature_stop(stream):
    data, expected = stream.spelled("\n").rstrip(), whole(stream)
    end = data.index(stream.end) if stream.end else len(data)
    for length in range(len(data)):
        events, error = decode(stream, [data[:length]])
        if error is None:
            assert length > end, "only the API's own mark ends an answer"
            assert uncounted(events) == uncounted(expected)
        else:
            assert error == "premature_stop" or (error == "protocol" and not events)
            assert events == expected[: len(events)]

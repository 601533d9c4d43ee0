"""The streams of every API as bytes and as objects: cut anywhere, odd, not streamed at all."""

import copy
import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.sse import SSEvent
from eca_server.models.backend import BackendError
from eca_server.models.events import Event, Progress, ServerTool, Usage
from eca_server.models.google.decoder import MODEL_ERRORS
from eca_server.models.history import ToolCallPart
from tests.eca_server.models.anthropic import scripted as anthropic
from tests.eca_server.models.every_api import API, EVERY_API, ScriptedAPI, each_api
from tests.eca_server.models.google import scripted as google
from tests.eca_server.models.histories import OURS
from tests.eca_server.models.ollama import scripted as ollama
from tests.eca_server.models.openai_chat import scripted as chat
from tests.eca_server.models.openai_responses import scripted as responses
from tests.eca_server.models.reading import (
    check_grammar,
    odd_values,
    only,
    read,
    text_of,
    thoughts_of,
)

Answers = st.SearchStrategy[tuple[list[Any], str, str]]


@attrs.frozen(kw_only=True)
class Stream:
    """A stream of an API with everything in it, and strategies of others.

    Attributes:
        objects: its objects.
        text: the visible text.
        answers: whole answers, with their text and their thoughts.
        whole: answers that are not streamed, and the objects of the same answer.
        end: its mark, of which an end without an error has come; the whole stream if empty.
        last: the line behind its objects.
        newlines: the line ends of its format.
    """

    objects: Sequence[Any]
    text: str
    answers: Answers | None = None
    whole: Sequence[tuple[Any, Sequence[Any]]]
    end: bytes = b""
    last: str = ""
    newlines: tuple[str, ...] = ("\n", "\r\n", "\r")


def members(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the place of each member of a JSON value: its container, and its key there."""
    if isinstance(value, dict | list):
        for key in list(value) if isinstance(value, dict) else range(len(value)):
            yield value, key
            yield from members(value[key])


def with_texts(
    write: Callable[..., list[Any]], text: str, thoughts: str
) -> Callable[..., tuple[list[Any], str, str]]:
    """Return a writer of answers that also returns all that is in members of these names."""

    def made(content: Any, reason: Any) -> tuple[list[Any], str, str]:
        objects = write(content, reason)
        texts = [(key, box[key]) for box, key in members(objects) if isinstance(box[key], str)]
        answer, thought = (
            "".join(value for key, value in texts if key == name) for name in (text, thoughts)
        )
        return objects, answer, thought

    return made


short = st.text(max_size=5)
ODD_TEXT = "a\u0085b\u2028c\u000b"

chat_chunks = st.one_of(
    st.builds(lambda text: chat.delta(content=text), short),
    st.builds(lambda text: chat.delta(reasoning=text), short),
    st.builds(
        lambda at, text: chat.tool(chat.fragment(text, f"f{at}", index=at, id=f"i{at}")),
        st.integers(0, 2),
        st.sampled_from(["", "{", "}", '{"a":1}', "x"]),
    ),
)


CHAT_WHOLE = {
    "message": {
        "reasoning_content": "Hm\u2028m",
        "content": "a\u0085b\u2028c",
        "tool_calls": [chat.fragment('{"n":1}', "f", index=0, id="a")],
    },
    "finish_reason": "tool_calls",
}


pieces = st.lists(st.text("ab {}", min_size=1, max_size=4), max_size=3)
anthropic_blocks = st.lists(
    st.builds(lambda p: anthropic.text(*p), pieces)
    | st.builds(
        lambda p, s: anthropic.thinking(*p, signature=s), pieces, st.sampled_from(["", "s"])
    )
    | st.builds(lambda p: anthropic.tool_use("f", *p), pieces)
    | st.sampled_from(anthropic.ITEMS),
    max_size=6,
)
ANTHROPIC_WHOLE = {
    **anthropic.started()["message"],
    "content": [
        {"type": "thinking", "thinking": "Hm", "signature": "s"},
        {"type": "text", "text": "a", "citations": None},
        {"type": "tool_use", "id": "1", "name": "f", "input": {"n": 1}},
    ],
    "stop_reason": "tool_use",
}
ANTHROPIC_STREAMED = anthropic.answer(
    anthropic.thinking("Hm", signature="s"),
    anthropic.text("a"),
    anthropic.tool_use("f", '{"n":1}', call_id="1"),
    stop="tool_use",
)


signatures = st.sampled_from([{}, {}, google.SIGNED])
google_parts = st.one_of(
    st.builds(lambda text, signed: google.text_part(text, **signed), short, signatures),
    st.builds(lambda text, signed: google.thought(text, **signed), short, signatures),
    st.builds(lambda signed: google.picture(b"p", **signed), signatures),
    st.sampled_from(
        [
            google.call("f", {"n": 1}),
            google.call("g", signed=True),
            {"executableCode": {"code": "1"}},
            {"codeExecutionResult": {"output": "1"}},
            {"somethingNew": 1},
        ]
    ),
)
GOOGLE_ENDINGS = ("STOP", "MAX_TOKENS", "SAFETY", "OTHER", *sorted(MODEL_ERRORS))
candidates = [event["candidates"][0] for event in google.EVERYTHING]
whole_parts = {"parts": [part for each in candidates for part in each["content"]["parts"]]}
GOOGLE_WHOLE = {**google.EVERYTHING[-1], "candidates": [{**candidates[-1], "content": whole_parts}]}


def google_answer(parts, ending) -> tuple[list[Any], str, str]:
    text, thoughts = (
        "".join(part.get("text", "") for part in parts if ("thought" in part) == is_thought)
        for is_thought in (False, True)
    )
    return google.answer(*parts, finish=ending), text, thoughts


words = st.text("ab <>{}", max_size=4)
ollama_objects = st.lists(
    st.builds(ollama.text, words)
    | st.builds(ollama.thinking, words)
    | st.builds(
        lambda names: ollama.calls(*(ollama.call(name, {"n": 1}) for name in names)),
        st.lists(st.sampled_from(["f", "g"]), min_size=1, max_size=3),
    ),
    max_size=6,
)


def ollama_whole() -> dict:
    whole = ollama.done()
    call = ollama.call("f", {"n": 1})
    whole["message"] |= {"content": ODD_TEXT, "thinking": "Hm\u2028m", "tool_calls": [call, call]}
    return whole


STREAMS = {
    "openai-chat": Stream(
        objects=chat.EVERYTHING,
        text="a\u0085b\u2028c",
        answers=st.builds(
            with_texts(
                lambda chunks, reason: [*chunks, chat.delta(reason)], "content", "reasoning"
            ),
            st.lists(chat_chunks, min_size=1),
            st.sampled_from(["stop", "length", "tool_calls", "odd"]),
        ),
        whole=[({"id": "r1", "choices": [CHAT_WHOLE]}, chat.EVERYTHING)],
        end=b'"tool_calls"}]}',
        last="data: [DONE]",
    ),
    "openai-responses": Stream(
        objects=responses.EVERYTHING,
        text=f"{ODD_TEXT}d",
        whole=[(responses.EVERYTHING[-1]["response"], responses.EVERYTHING)],
    ),
    "anthropic": Stream(
        objects=anthropic.EVERYTHING,
        text=f"{ODD_TEXT}cited",
        answers=st.builds(
            with_texts(
                lambda blocks, stop: anthropic.answer(*blocks, stop=stop), "text", "thinking"
            ),
            anthropic_blocks,
            st.sampled_from(["end_turn", "tool_use", "max_tokens", "refusal", "new"]),
        ),
        whole=[(ANTHROPIC_WHOLE, ANTHROPIC_STREAMED)],
        end=b'"stop_reason": "tool_use"',
    ),
    "google": Stream(
        objects=google.EVERYTHING,
        text=f"{ODD_TEXT}d",
        answers=st.builds(
            google_answer, st.lists(google_parts, max_size=6), st.sampled_from(GOOGLE_ENDINGS)
        ),
        whole=[(google.EVERYTHING, google.EVERYTHING), (GOOGLE_WHOLE, google.EVERYTHING)],
    ),
    "ollama": Stream(
        objects=ollama.EVERYTHING,
        text=ODD_TEXT,
        answers=st.builds(
            with_texts(
                lambda made, reason: ollama.answer(*made, reason=reason), "content", "thinking"
            ),
            ollama_objects,
            st.sampled_from(["stop", "length", None]),
        ),
        whole=[(ollama_whole(), ollama.EVERYTHING)],
        newlines=("\n", "\r\n", "\n\n"),
    ),
}


def spelled(api: ScriptedAPI, newline: str) -> bytes:
    """Return the stream with everything in it as bytes, with this line end."""
    stream = STREAMS[api.name]
    data = [json.dumps(each, ensure_ascii=False) for each in stream.objects]
    if api.framing == "lines":
        return "".join(f"{each}{newline}" for each in data).encode()
    lines = ["\ufeff: comment", "retry: 5", ""]
    for number, each in enumerate(stream.objects):
        name = [f"event: {each['type']}"] if "type" in each and number % 3 else []
        lines += [f"id: {number}", *name, f"data:{' ' * (number % 2)}{data[number]}", "", ""]
    return newline.join([*lines, stream.last, "", ""]).encode()


def whole(api: ScriptedAPI) -> list[Event]:
    events, error = api.decode([spelled(api, "\n")])
    assert error is None
    return events


def uncounted(events: Iterable[Event]) -> list[Event]:
    return [event for event in events if not isinstance(event, Usage | Progress)]


@each_api
def test_line_ends_of_every_kind_and_single_bytes_give_the_same_events(api):
    expected = whole(api)
    assert text_of(expected) == STREAMS[api.name].text
    for newline in STREAMS[api.name].newlines:
        data = spelled(api, newline)
        for bytes_ in (data, data.rstrip()):  # the last blank line may be missing
            assert api.decode([bytes_]) == (expected, None)
        assert api.decode([data[at : at + 1] for at in range(len(data))]) == (expected, None)


@each_api
@given(st.lists(st.floats(0, 1), max_size=6))
def test_bytes_may_be_cut_anywhere(api, cuts):
    data = spelled(api, STREAMS[api.name].newlines[1])
    marks = sorted({0, len(data), *(int(cut * len(data)) for cut in cuts)})
    pieces = [data[a:b] for a, b in itertools.pairwise(marks)]
    assert api.decode(pieces) == (whole(api), None)


@each_api
@pytest.mark.parametrize("stride", [pytest.param(1, marks=pytest.mark.long), 29])
def test_a_stream_that_is_cut_gives_a_prefix_of_its_events_and_a_premature_stop(api, stride):
    data, expected = spelled(api, "\n").rstrip(), whole(api)
    mark = STREAMS[api.name].end
    end = data.index(mark) if mark else len(data)
    for length in range(len(data) % stride, len(data), stride):
        events, error = api.decode([data[:length]])
        if error is None:
            assert length > end, "only the API's own mark ends an answer"
            assert uncounted(events) == uncounted(expected)
        else:
            assert error == "premature_stop" or (error == "protocol" and not events)
            assert events == expected[: len(events)]


@each_api
def test_an_answer_that_was_not_streamed_is_the_same_one(api):
    for value, objects in STREAMS[api.name].whole:
        events, error = api.decode([b" \n", json.dumps(value).encode()])
        assert error is None
        answer, streamed = read(events), read(api.play(objects, may_be_empty=True))
        assert answer.message(OURS) == streamed.message(OURS)
        assert answer.finished == streamed.finished


FIELDS = ("error", "message", "code", "x_groq", "images", "annotations", "promptFeedback", "item")


@each_api
@given(st.data())
def test_no_json_whatever_makes_a_decoder_raise_anything_but_a_backend_error(api, data):
    stream = copy.deepcopy(list(STREAMS[api.name].objects))
    places = list(members(stream))
    keys = sorted({key for _, key in places if isinstance(key, str)} | {*FIELDS})
    texts = sorted({box[key] for box, key in places if isinstance(box[key], str)})
    odd = odd_values(keys, st.integers() | st.text(max_size=3) | st.sampled_from(texts), leaves=6)
    numbers = st.integers(0, len(places) - 1)
    for number in data.draw(st.lists(numbers, min_size=1, max_size=3)):
        box, key = places[number]
        box[key] = data.draw(odd)
    check_odd(api, [*stream, data.draw(odd)] if data.draw(st.booleans()) else stream)


def test_a_kind_that_is_no_text_is_a_backend_error_too():
    [api] = [each for each in EVERY_API if each.name == "openai-responses"]
    check_odd(api, [{"type": "message", "output": [{"type": [None]}]}])


def check_odd(api: ScriptedAPI, values: list[Any]) -> None:
    decoder = api.decoder(may_be_empty=True)
    events: list[Event] = []
    try:
        for value in values:
            events += decoder.feed_object(value)
        events += decoder.feed(SSEvent(event="message", data="[DONE]"))
        events += decoder.close()
    except BackendError:
        return
    if api.name != "anthropic":  # a message without its start is read, too
        check_grammar(events)


@pytest.mark.parametrize(
    "api",
    [API[name] for name, stream in STREAMS.items() if stream.answers is not None],
    ids=lambda api: api.name,
)
@given(st.data())
def test_every_answer_keeps_the_grammar_and_has_what_came(api, data):
    objects, text, thoughts = data.draw(STREAMS[api.name].answers)
    events, code = [], None
    try:
        events = api.play(objects, may_be_empty=True)
    except BackendError as error:
        code = error.code
    if not events:
        assert code in ("SAFETY", *MODEL_ERRORS)
        return
    check_grammar(events)
    assert (text_of(events), thoughts_of(events)) == (text, thoughts)
    check_answer(events)
    if api.name == "google":
        phases = [(event.kind, event.phase) for event in only(ServerTool, events)]
        begun = sorted(kind for kind, phase in phases if phase == "started")
        assert begun == sorted(kind for kind, phase in phases if phase == "finished")


def check_answer(events: Sequence[Event]) -> None:
    answer = read(events)
    assert answer.text == text_of(events)
    assert not answer.open_calls
    assert not answer.open_reasonings
    calls = [part for part in answer.message(OURS).parts if isinstance(part, ToolCallPart)]
    assert [call.id for call in calls] == [call.key for call in answer.calls]

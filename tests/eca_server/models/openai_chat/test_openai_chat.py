"""Peculiarities of Chat Completions: the options of servers, and dialects of their answers.

Known problems with tests here: reasoning in any field or in tags; nulls in any field; tool calls
with all labels that servers use. Tested elsewhere: proxies, compression, stale connections and
starved tasks with the SDK's HTTP client; waits with the retries; ids, pairs and foreign opaque
data with the history.
"""

import itertools
import json

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.http import HTTPClient
from eca_protocol.sse import SSEvent
from eca_protocol.testing.provider import Reply, reply
from eca_server.models import events as ev
from eca_server.models.access import join_url
from eca_server.models.backend import BackendError, Request
from eca_server.models.history import BlockPart, CitationPart, ImagePart, Message
from tests.eca_server.models.every_api import API
from tests.eca_server.models.histories import model, user
from tests.eca_server.models.openai_chat.scripted import STOP, decoder, delta, fragment, play, tool
from tests.eca_server.models.reading import (
    TOOL,
    ask,
    backend_of,
    calls_of,
    failure,
    only,
    scripted,
    talking,
    text_of,
    thoughts_of,
    write,
)


def test_a_turn_writes_what_is_new_and_not_the_whole_history(monkeypatch):
    looked_at: list[str] = []

    def note(parts):
        looked_at.extend(part.text for part in parts)
        return parts

    monkeypatch.setattr("eca_server.models.history._full", note)
    backend = backend_of("openai-chat")
    history: list[Message] = []
    for number in range(20):
        history.append(user(f"question {number}"))
        backend.payload(Request(messages=history))
        history.append(model(f"answer {number}", origin=None))
    assert max(map(looked_at.count, looked_at)) <= 4


@pytest.mark.parametrize(
    ("server", "fields"),
    [
        ("z-ai", {"max_tokens": 9, "tool_stream": True}),
        ("mistral", {"max_tokens": 9}),
        (
            "openai",
            {
                "max_completion_tokens": 9,
                "stream_options": {"include_usage": True, "include_obfuscation": False},
            },
        ),
    ],
)
def test_optional_fields_are_written_as_the_profile_says(server, fields):
    payload = write("openai-chat", user(), server=server, max_output_tokens=9, tools=[TOOL])
    always = ("model", "messages", "stream", "tools")
    assert {name: value for name, value in payload.items() if name not in always} == fields


def test_a_model_that_shall_not_stream_gets_no_options_of_a_stream():
    payload = write("openai-chat", user(), extra_payload={"stream": False})
    assert (payload["stream"], "stream_options" in payload) == (False, False)


def test_done_alone_or_a_finish_reason_alone_ends_an_answer_that_has_content():
    assert play(delta(content="x"))[-1] == ev.Finished(reason="other")
    assert play(delta(content="x"), delta(""))[-1] == ev.Finished(reason="other")
    assert play(delta(content="x"), STOP, done=False)[-1].reason == "stop"


def test_the_reason_that_gemini_adds_to_a_filters_is_passed_over():
    *_, end = play(delta(content="x"), delta("content_filter: RECITATION"))
    assert end == ev.Finished(reason="content_filter")


@pytest.mark.parametrize("reason", ["length", "content_filter", "model_context_window_exceeded"])
def test_a_call_that_is_cut_before_its_arguments_does_not_run(reason):
    [call] = only(ev.ToolCallFinished, played(labelled("", "f"), reason=reason))
    assert call.arguments is None


DETAILS = [{"type": "reasoning.text", "index": 0, "text": "Hm"}]
SUMMARY = [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}]
THINKING = [{"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}]


@pytest.mark.parametrize(
    ("fields", "opaque"),
    [
        ({"reasoning_content": "Hm"}, {"field": "reasoning_content"}),
        ({"reasoning": "Hm"}, {"field": "reasoning"}),
        ({"reasoning_text": "Hm"}, {"field": "reasoning_text"}),
        ({"reasoning_content": "Hm", "reasoning": "Hm"}, {"field": "reasoning_content"}),
        ({"content": THINKING}, {"field": "content"}),
        ({"content": SUMMARY}, {"field": "summary"}),
        (
            {"reasoning_content": "Hm", "content": "<think>\nHm</think>\n"},
            {"field": "reasoning_content"},
        ),
        (
            {"reasoning": "Hm", "reasoning_details": DETAILS},
            {"field": "reasoning", "details": DETAILS},
        ),
    ],
)
def test_reasoning_is_one_block_with_its_text_once_whatever_the_field(fields, opaque):
    assert play(delta(**fields), delta(content="Hi"), STOP)[1:-1] == [
        ev.ReasoningStarted("reasoning_1"),
        ev.ReasoningDelta("reasoning_1", "Hm"),
        ev.ReasoningFinished(key="reasoning_1", opaque=opaque),
        ev.TextDelta("Hi"),
    ]


def test_details_of_reasoning_grow_by_index_and_come_back_whole():
    def details(**fields):
        return delta(reasoning_details=[{"type": "reasoning.text", "index": 0, **fields}])

    encrypted = {"type": "reasoning.encrypted", "data": "x", "index": 1}
    events = play(
        details(text="H", format="f"),
        details(text="m"),
        details(signature="s"),
        delta(content="Hi"),
        delta(reasoning_details=[encrypted]),
        STOP,
    )
    whole = {**DETAILS[0], "format": "f", "signature": "s"}
    finished = [event.opaque["details"] for event in only(ev.ReasoningFinished, events)]
    assert finished == [[whole], [encrypted]]
    assert thoughts_of(events) == "Hm"


OWN_TAGS = ("[th]", "[/th]")


@pytest.mark.parametrize(
    ("texts", "options", "thoughts", "visible"),
    [
        (["<th", "ink>", "Hm", "</thi", "nk>", "\n\n", "Hi"], {}, "Hm", "Hi"),
        (["\n <think>Hm</think>Hi"], {}, "Hm", "Hi"),
        (["<think>Hm"], {}, "Hm", ""),
        (["<thin"], {}, "", "<thin"),
        (["Hm</think>Hi"], {"think_tags": "open"}, "Hm", "Hi"),
        (["Hm</think>Hi"], {}, "", "Hm</think>Hi"),
        (["see `<think>x</think>`"], {}, "", "see `<think>x</think>`"),
        (["<think>a</think>b<think>c</think>"], {}, "a", "b<think>c</think>"),
        (["<think>Hm</think>Hi"], {"think_tags": "off"}, "", "<think>Hm</think>Hi"),
        (["<think></think>Hi"], {}, "", "Hi"),
        (["[th", "]Hm[/th", "]Hi"], {"tags": OWN_TAGS, "think_tags": "off"}, "Hm", "Hi"),
        (["<think>Hm"], {"tags": OWN_TAGS}, "", "<think>Hm"),
    ],
)
def test_tags_are_reasoning_only_at_the_very_start(texts, options, thoughts, visible):
    events = play(*[delta(content=text) for text in texts], STOP, **options)
    assert (thoughts_of(events), text_of(events)) == (thoughts, visible)


@given(st.lists(st.integers(0, 40)))
def test_tags_may_be_cut_anywhere(cuts):
    text = "<think>a < b </th</think>\n\nif a < b: `</think>`"
    marks = sorted({0, len(text), *cuts})
    pieces = [text[start:end] for start, end in itertools.pairwise(marks)]
    events = play(*[delta(content=piece) for piece in pieces], STOP)
    assert thoughts_of(events) == "a < b </th"
    assert text_of(events) == "if a < b: `</think>`"


def test_an_event_named_error_is_one_whatever_is_in_it():
    with pytest.raises(BackendError, match="too long"):
        decoder().feed(SSEvent(event="error", data='{"message": "prompt is too long"}'))


def test_nulls_and_absences_are_nothing():
    nulls = delta(content=None, tool_calls=None, refusal=None, reasoning_details=None)
    odd = {"choices": [None, {"delta": None}, {}]}
    assert text_of(play({"choices": None}, odd, nulls, delta(content="x"), STOP)) == "x"


def test_choices_that_share_an_answer_are_merged():
    call = {"delta": {"tool_calls": [fragment("{}", "f", index=0, id="a")]}, "index": 1}
    events = play({"choices": [{"delta": {"content": "x"}, "index": 0}, call]}, STOP)
    assert (text_of(events), calls_of(events)) == ("x", [("f", {})])


def test_a_whole_message_is_an_answer_unless_it_repeats_one():
    whole = {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}
    assert text_of(play(whole)) == text_of(play(delta(content="Hi"), whole)) == "Hi"


def test_refusals_citations_and_images_are_events_of_their_own():
    source = {"url": "http://a", "title": "A", "start_index": 0, "end_index": 2}
    events = play(
        delta(content="x"),
        delta(annotations=[{"type": "url_citation", "url_citation": source}]),
        {"citations": ["http://a", "http://b"], "choices": []},
        delta(images=[{"image_url": {"url": "data:image/png;base64,aGk="}}]),
        delta(refusal="No."),
        STOP,
    )
    first, second = only(CitationPart, events)
    assert first == CitationPart(url="http://a", title="A")
    assert second.url == "http://b"
    assert ImagePart(media_type="image/png", data=b"hi") in events
    assert ev.RefusalDelta("No.") in events
    assert events[-1].reason == "refusal"


def test_bytes_that_are_not_unicode_are_replaced_and_end_nothing():
    body = json.dumps(delta(content="aXb")).encode().replace(b"X", b"\xff")
    events, error = API["openai-chat"].decode([b"data: " + body + b"\n\n", b"data: [DONE]\n\n"])
    assert (text_of(events), error) == ("a\ufffdb", None)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("<html><script src='/a.js?key=hidden'>\n</script></html>", "<script src='/a.js?key=***"),
        ("<html>" + "<br>" * 9000, "<html><br><br>"),
    ],
)
async def test_a_page_in_place_of_an_answer_is_reported_by_its_type_and_its_beginning(body, words):
    page = Reply(headers={"content-type": "text/html; charset=utf-8"}, body=body)
    async with talking("openai-chat", [page]) as (_, backend):
        result = (await failure(backend)).message
    assert result.startswith("expected an answer in JSON, got text/html; charset=utf-8 (is it ")
    assert words in result
    assert "hidden" not in result
    assert "login page of the network" in result
    assert len(result) < 320


ONE, TWO = '{"n":1}', '{"n":2}'

LABELS = {
    "as OpenAI": [("", "f", 0, "a"), ('{"n"',), (":1}",), ("", "f", 1, "b"), (TWO, None, 1)],
    "interleaved": [
        *(("", "f", 0, "a"), ("", "f", 1, "b"), ('{"n"', None, 0), ('{"n"', None, 1)),
        *((":1}", None, 0), (":2}", None, 1)),
    ],
    "no index": [(ONE, "f", None, "a"), (TWO, "f", None, "b")],
    "all index 0": [(ONE, "f", 0, "a"), (TWO, "f", 0, "b")],
    "neither index nor id": [(ONE, "f", None), (TWO, "f", None)],
    "index 0 and no id": [(ONE, "f"), (TWO, "f")],
    "equal ids": [(ONE, "f", 0, "same"), (TWO, "f", 1, "same")],
    "equal ids and index": [(ONE, "f", 0, "same"), (TWO, "f", 0, "same")],
    "empty ids later": [
        *(('{"n"', "f", 0, "a"), (":1}", "", 0, "")),
        *(('{"n"', "f", 1, "b"), (":2}", None, 1, "")),
    ],
    "id and name on every piece": [
        *(('{"n"', "f", 0, "a"), (":1}", "f", 0, "a")),
        *(('{"n"', "f", 1, "b"), (":2}", "f", 1, "b")),
    ],
    "repeated at its end": [
        *(('{"n"', "f", 0, "a"), (":1}", None, 0, "a"), ('{"n": 1}', "f", 0, "a")),
        *((TWO, "f", 1, "b"), (json.dumps(TWO), None, 1, "b")),
    ],
    "arguments as objects": [({"n": 1}, "f", None, "a"), ({"n": 2}, "f", None, "b")],
}


def labelled(arguments, name=None, index=0, call_id=None) -> dict:
    """Return a piece of a call; None is no label."""
    labels = {"index": index, "id": call_id}
    return fragment(arguments, name, **{k: v for k, v in labels.items() if v is not None})


def played(*fragments, reason="tool_calls") -> list:
    return play(*map(tool, fragments), delta(reason))


@pytest.mark.parametrize("pieces", LABELS.values(), ids=LABELS)
def test_two_calls_are_two_calls_however_they_are_labelled(pieces):
    events = played(*[labelled(*piece) for piece in pieces])
    assert calls_of(events) == [("f", {"n": 1}), ("f", {"n": 2})]
    assert len({event.key for event in only(ev.ToolCallStarted, events)}) == 2
    for done in only(ev.ToolCallFinished, events):
        grown = [
            event.text for event in only(ev.ToolCallArguments, events) if event.key == done.key
        ]
        assert "".join(grown) == done.raw


@pytest.mark.parametrize("labels", [{}, {"index": 0}, {"id": "same"}, {"index": 0, "id": "same"}])
@pytest.mark.parametrize("arguments", ["", None, "{}", " "])
def test_a_different_name_starts_a_new_call(labels, arguments):
    events = played(
        fragment(arguments, "git_status", **labels),
        fragment('{"path":', "delete_file", **labels),
        fragment('"a"}', "delete_file", **labels),
        fragment(arguments, "git_log", **labels),
    )
    calls = [("git_status", {}), ("delete_file", {"path": "a"}), ("git_log", {})]
    assert calls_of(events) == calls


def test_the_name_may_come_late():
    early = {"index": 0, "id": "a", "function": {"arguments": "{"}}
    events = played(early, labelled("}", "f"))
    assert [type(event) for event in events[1:3]] == [ev.ToolCallStarted, ev.ToolCallArguments]
    assert calls_of(events) == [("f", {})]


def test_the_old_single_call_is_read():
    pieces = [{"name": "f", "arguments": "{"}, {"arguments": "}"}]
    deltas = [delta(function_call=piece) for piece in pieces]
    assert calls_of(play(*deltas, delta("function_call"))) == [("f", {})]


@pytest.mark.parametrize(
    "sealed",
    [
        {"extra_content": {"google": {"thought_signature": "c2ln"}}},
        {"provider_specific_fields": {"thought_signature": "c2ln"}},
        {"thoughtSignature": "c2ln"},
    ],
)
def test_a_signature_comes_back_with_its_call(sealed):
    call = tool(labelled("{}", "f", 0, "a"))
    events = play(call, tool({"index": 0, **sealed}), STOP)
    [call] = only(ev.ToolCallFinished, events)
    assert call.opaque == sealed


def test_a_signature_of_its_own_comes_back():
    extra = {"google": {"thought_signature": "c2ln"}}
    events = play(delta(content="Hi"), delta(extra_content=extra), STOP)
    assert BlockPart(raw={"extra_content": extra}) in events


@pytest.mark.parametrize(
    ("base", "path", "url"),
    [
        ("http://h/v1", "/chat/completions", "http://h/v1/chat/completions"),
        ("http://h/v1/", "chat/completions", "http://h/v1/chat/completions"),
        ("http://h", "/x", "http://h/x"),
        (" http://h/v1?a=b\n", "/x", "http://h/v1/x?a=b"),
        ("http://h/v1?a=b", "/x?c=d", "http://h/v1/x?a=b&c=d"),
        ("http://h", "/v1/x", "http://h/v1/x"),
        ("http://h/api/v1/", "/v1/x", "http://h/api/v1/x"),
        ("http://h/v2", "/v1/x", "http://h/v2/v1/x"),
        ("http://h/v1/x/y/", "/x/y", "http://h/v1/x/y"),
        ("http://h/v1/x", "/v1/x", "http://h/v1/x"),
    ],
)
def test_the_path_is_added_to_the_base_and_queries_are_preserved(base, path, url):
    assert join_url(base, path) == url


async def test_ten_megabytes_in_one_event_are_one_delta_and_twenty_are_refused():
    replies = [reply("x" * megabytes * 2**20) for megabytes in (10, 20)]
    async with talking("openai-chat", replies) as (_, backend):
        assert len((await ask(backend))[0].text) == 10 * 2**20
        assert (await failure(backend)).kind == "protocol"


def piece(text: str, reason: str | None = "stop") -> bytes:
    written = "null" if reason is None else f'"{reason}"'
    choice = f'{{"delta":{{"content":"{text}"}},"finish_reason":{written}}}'
    return f'data: {{"choices":[{choice}]}}\n\n'.encode()


DONE = b"data: [DONE]\n\n"
PING = b": ping\n\n"
PINGS = [10, PING] * 100
ANSWER = piece("Hi") + DONE


@pytest.mark.parametrize(
    ("before", "steps", "words"),
    [
        (61, [ANSWER], "no answer began within 60 s"),
        (0, [121, ANSWER], "no byte of the answer came for 120 s"),
        (0, [PING, 100] * 8 + [ANSWER], "no progress for 600 s"),
        (59, [119, PING, 119, ANSWER], None),
    ],
)
async def test_each_timer_has_its_length_and_its_name(autojump_clock, before, steps, words):
    async with scripted(before, steps) as http:
        backend = backend_of("openai-chat", http=http)
        if words is None:
            assert (await ask(backend))[0].text == "Hi"
        else:
            error = await failure(backend)
            assert (error.kind, error.retryable) == ("timeout", True)
            assert words in error.message


async def test_silence_behind_a_part_of_an_answer_breaks_it_off(autojump_clock):
    async with scripted(0, [piece("Hel", None), 121]) as http:
        error = await failure(backend_of("openai-chat", http=http))
    assert (error.kind, error.message) == ("premature_stop", "no byte of the answer came for 120 s")


@pytest.mark.parametrize(
    ("steps", "seconds"),
    [
        ([piece("Hel"), 19, piece("lo"), DONE], 19),
        ([piece("Hel"), 1, piece(" "), 100, piece("lo"), DONE], 101),
        ([piece(""), 100, piece("Hello"), DONE], 100),
        ([piece("Hello"), 60], 20),
        ([piece("Hel", None), 60, piece("lo", None), 60, piece(""), 60], 140),
        ([piece("Hel"), 1, piece("lo"), 1, piece(""), 60], 22),
        ([piece("Hello"), *PINGS], 20.5),
        ([piece("Hel"), 10, PING, 9, piece("lo"), *PINGS], 139.5),
        ([piece("Hel"), 1, piece(" "), *PINGS[:12], piece("lo"), DONE], 61),
        ([piece("Hello", None), *PINGS[:12], piece(""), *PINGS], 80.5),
    ],
)
async def test_what_comes_behind_a_finish_reason_is_waited_for(autojump_clock, steps, seconds):
    async with scripted(0, steps) as http:
        began = trio.current_time()
        answer, _ = await ask(backend_of("openai-chat", http=http))
        assert answer.text.replace(" ", "") == "Hello"
        assert trio.current_time() - began == pytest.approx(seconds, abs=0.1)


async def test_calls_behind_the_finish_reason_of_text_are_waited_for(autojump_clock):
    call = '{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}'
    other = f'{{"index":1,"delta":{{"tool_calls":[{call}]}},"finish_reason":"tool_calls"}}'
    steps = [piece("I will look."), 15, f'data: {{"choices":[{other}]}}\n\n'.encode(), DONE]
    async with scripted(0, steps) as http:
        answer, _ = await ask(backend_of("openai-chat", http=http))
    assert answer.finished.reason == "tool_calls"


async def test_comments_are_progress_events_and_no_answer(autojump_clock):
    async with scripted(0, [PING, 1, ANSWER]) as http:
        _, events = await ask(backend_of("openai-chat", http=http))
    assert events[0] == ev.Progress("ping")
    assert isinstance(events[-1], ev.Finished)


async def test_what_cannot_be_sent_is_an_error_of_the_configuration():
    async with HTTPClient() as http:
        for url in ("not a url", "http://127.0.0.1:99999/v1"):
            error = await failure(backend_of("openai-chat", url=url, http=http))
            assert error.kind in ("configuration", "network")
        bad = backend_of("openai-chat", http=http, extra_headers={"x": "a\nb"})
        assert (await failure(bad)).kind == "configuration"

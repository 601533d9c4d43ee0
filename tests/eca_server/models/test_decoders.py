"""The decoders of all APIs, given the same things: reasons, arguments, counts, errors."""

from collections.abc import Iterable
from typing import Any

import pytest

from eca_server.models import events as ev
from eca_server.models.backend import BackendError
from eca_server.models.error_kinds import TRANSIENT
from eca_server.models.google.decoder import MODEL_ERRORS
from eca_server.models.history import BlockPart
from tests.eca_server.models.anthropic import scripted as anthropic
from tests.eca_server.models.every_api import API, ScriptedAnswer, ScriptedCall, each_api
from tests.eca_server.models.google import scripted as google
from tests.eca_server.models.ollama import scripted as ollama
from tests.eca_server.models.openai_chat import scripted as chat
from tests.eca_server.models.openai_responses import scripted as responses
from tests.eca_server.models.reading import new_keys, only, summary


def play(api: str, objects: Iterable[Any], **options: Any) -> list[ev.Event]:
    if api == "openai-chat":  # with its mark of the end
        return chat.play(*objects, **options)
    return API[api].play(objects, **options)


WHOLE = ScriptedAnswer(
    thoughts=["Thi", "nk"],
    text=["Hel", "lo"],
    calls=[ScriptedCall("f", {"n": 1}), ScriptedCall("g", {})],
)
PIECES, WHOLE_PIECES = [['{"n"', ": 1}"], ["{", "}"]], [['{"n":1}'], ["{}"]]
SUMMARY = [{"type": "summary_text", "text": "Think"}]
ITEM = {"type": "reasoning", "id": "rs_0", "summary": SUMMARY, "encrypted_content": "c2VjcmV0"}
COUNTS = {
    "openai-responses": ev.Usage(input=30, cache_read=60, cache_write=10, output=20, reasoning=5)
}
COUNTS |= {"anthropic": ev.Usage(input=60, cache_read=30, cache_write=10, output=20)}
COUNTS |= {"google": ev.Usage(input=100, output=20, reasoning=5)}
EXACT: dict[str, tuple[ev.Started, Any, tuple[Any, Any], list[list[str]]]] = {
    "openai-chat": (
        ev.Started(response_id="r1", model="m"),
        {"field": "reasoning_content"},
        ("c0", "c1"),
        PIECES,
    ),
    "openai-responses": (
        ev.Started(response_id="resp_1", model="gpt-test"),
        ITEM,
        ("call_0", "call_1"),
        PIECES,
    ),
    "anthropic": (
        ev.Started(response_id="msg_1", model="claude-test"),
        {"signature": "c2VjcmV0"},
        ("toolu_0", "toolu_1"),
        PIECES,
    ),
    "google": (
        ev.Started(response_id="resp_1", model="gemini-test"),
        None,
        (None, None),
        WHOLE_PIECES,
    ),
    "ollama": (ev.Started(model="qwen3:8b"), None, (None, None), WHOLE_PIECES),
}
"""By API: the start, the opaque data of the thoughts, ids and pieces of calls."""


@each_api
def test_a_whole_answer_event_by_event(api):
    started, opaque, ids, pieces = EXACT[api.name]
    decoder = api.decoder(new_key=new_keys())
    *pieces_before, last = api.say(WHOLE)
    after = b"{}\n" if api.framing == "lines" else b"data: {}\n\n"
    events, error = api.decode([*pieces_before, last + after], decoder=decoder)
    assert error is None
    [thought] = [event.key for event in only(ev.ReasoningStarted, events)]
    one, two = (event.key for event in only(ev.ToolCallStarted, events))
    halves = ("Th", "ink") if api.name == "openai-responses" else WHOLE.thoughts
    others = ev.Usage | ev.Progress | BlockPart | ev.ToolCallFinished
    assert [event for event in events if not isinstance(event, others)] == [
        started,
        ev.ReasoningStarted(thought),
        *(ev.ReasoningDelta(thought, half) for half in halves),
        ev.ReasoningFinished(key=thought, opaque=opaque),
        *map(ev.TextDelta, WHOLE.text),
        ev.ToolCallStarted(key=one, name="f", provider_id=ids[0]),
        *(ev.ToolCallArguments(one, piece) for piece in pieces[0]),
        ev.ToolCallStarted(key=two, name="g", provider_id=ids[1]),
        *(ev.ToolCallArguments(two, piece) for piece in pieces[1]),
        ev.Finished(reason="tool_calls"),
    ]
    assert one != two
    assert only(ev.ToolCallFinished, events) == [
        ev.ToolCallFinished(key=one, raw="".join(pieces[0]), arguments={"n": 1}),
        ev.ToolCallFinished(key=two, raw="{}", arguments={}),
    ]
    assert only(ev.Usage, events)[-1] == COUNTS.get(api.name, ev.Usage(input=100, output=20))
    assert decoder.done
    assert decoder.close() == list(decoder.feed_object({})) == []


ANSWERS = {
    "openai-chat": lambda raw: [chat.delta(content="x"), chat.delta(raw)],
    "openai-responses": lambda raw: responses.cut(responses.message("x"), reason=raw),
    "anthropic": lambda raw: anthropic.answer(anthropic.text("x"), stop=raw),
    "google": lambda raw: google.answer(google.text_part("x"), finish=raw),
    "ollama": lambda raw: ollama.answer(ollama.text("x"), reason=raw),
}
CALLED = {
    "openai-chat": lambda raw: [chat.tool(chat.fragment("{}", "f", index=0)), chat.delta(raw)],
    "anthropic": lambda raw: anthropic.answer(anthropic.tool_use("f"), stop=raw),
    "google": lambda raw: google.answer(google.call("f", {}), finish=raw),
}
REASONS = [
    ("openai-chat", "stop", "stop STOP eos end_turn"),
    ("openai-chat", "length", "length max_tokens model_length"),
    ("openai-chat", "content_filter", "content_filter sensitive RECITATION SPII"),
    ("openai-chat", "context_window", "model_context_window_exceeded"),
    ("openai-chat", "other", "tool_calls something_new"),
    ("openai-responses", "length", "max_output_tokens"),
    ("openai-responses", "content_filter", "content_filter"),
    ("openai-responses", "other", "steered"),
    ("anthropic", "stop", "end_turn stop_sequence stop"),
    ("anthropic", "length", "max_tokens"),
    ("anthropic", "pause", "pause_turn"),
    ("anthropic", "context_window", "model_context_window_exceeded"),
    ("anthropic", "other", "tool_use compaction"),
    ("google", "stop", "STOP"),
    ("google", "length", "MAX_TOKENS"),
    ("google", "content_filter", "SAFETY RECITATION BLOCKLIST PROHIBITED_CONTENT SPII"),
    ("google", "content_filter", "IMAGE_SAFETY MODEL_ARMOR"),
    ("google", "other", "LANGUAGE OTHER SOMETHING_NEW"),
    ("ollama", "stop", "stop"),
    ("ollama", "length", "length"),
    ("ollama", "other", "load"),
]


@pytest.mark.parametrize(("api", "ours", "reasons"), REASONS)
def test_a_reason_in_any_spelling_has_its_meaning(api, ours, reasons):
    for raw in reasons.split():
        assert play(api, ANSWERS[api](raw))[-1] == ev.Finished(reason=ours)


@pytest.mark.parametrize(
    ("api", "reasons"),
    [
        ("openai-chat", ["stop", "tool_calls", "end_turn", "", "odd"]),
        ("anthropic", ["end_turn", "stop", "pause_turn", "something_new"]),
        ("google", ["OTHER", "TOO_MANY_TOOL_CALLS", "UNEXPECTED_TOOL_CALL"]),
    ],
)
def test_complete_calls_decide_whatever_the_reason_says(api, reasons):
    for raw in reasons:
        assert play(api, CALLED[api](raw))[-1] == ev.Finished(reason="tool_calls")


def function(arguments: Any) -> dict[str, Any]:
    return {"function": {"name": "f", "arguments": arguments}}


ARGUMENTS = {
    "openai-chat": lambda raw: [
        chat.tool(chat.fragment(raw, "f", index=0)),
        chat.delta("tool_calls"),
    ],
    "openai-responses": lambda raw: responses.answer(responses.call("f", raw)),
    "anthropic": lambda raw: anthropic.answer(anthropic.tool_use("f", raw), stop="tool_use"),
    "ollama": lambda raw: ollama.answer(ollama.calls(function(raw))),
    "google": lambda raw: google.answer(google.call("f", raw)),
}
CUT = {
    "openai-chat": lambda raw: [chat.tool(chat.fragment(raw, "f", index=0)), chat.delta("length")],
    "openai-responses": lambda raw: responses.cut(responses.call("f", raw, cut=True)),
    "anthropic": lambda raw: anthropic.answer(anthropic.tool_use("f", raw), stop="max_tokens"),
}
INVALID = ("{bad", "[1]", '"text"', '{"n": NaN}', '{"a":1}{"a":1}', '{"n": ' + "[" * 100_000)
OBJECTS = [
    ("", {}),
    ('{"n": 1}', {"n": 1}),
    ('{"n": 1180591620717411303424}', {"n": 2**70}),
    ('{"n": "\\ud800"}', {"n": "\ufffd"}),
    *((raw, None) for raw in INVALID),
]


@pytest.mark.parametrize(
    ("api", "raw", "arguments"),
    [
        *((api, *row) for api in [*CUT, "ollama"] for row in OBJECTS),
        ("ollama", [1], None),
        ("ollama", None, {}),
        ("google", [1], None),
        ("google", "x", None),
    ],
)
def test_arguments_are_strict_json_or_an_error_for_the_model(api, raw, arguments):
    events = play(api, ARGUMENTS[api](raw))
    result = summary(events)
    assert result["calls"] == [("f", arguments)]
    assert (result["call_errors"] == [None]) == (arguments is not None)
    if isinstance(raw, str) and api != "google":
        assert "".join(event.text for event in only(ev.ToolCallArguments, events)) == raw


@pytest.mark.parametrize("api", CUT)
@pytest.mark.parametrize("raw", ['{"n":', '{"n": 1', ""])
def test_a_call_cut_by_the_limit_is_not_to_be_run(api, raw):
    result = summary(play(api, CUT[api](raw)))
    assert result["calls"] == [("f", None)]
    assert "cut off" in result["call_errors"][0]
    assert result["reason"] == "length"


def counts(prompt: Any, completion: Any, **more: Any) -> dict[str, Any]:
    return {"usage": {"prompt_tokens": prompt, "completion_tokens": completion, **more}}


def counted(*chunks: Any) -> list[Any]:
    return [chat.delta(content="x"), *chunks, chat.STOP]


X = anthropic.text("x")(0)
FIRST = {"input_tokens": 7, "cache_read_input_tokens": 5, "output_tokens": 1}
LAST = {
    "input_tokens": 8,
    "cache_read_input_tokens": None,
    "output_tokens": 9,
    "output_tokens_details": {"thinking_tokens": 4},
}


def of_anthropic(start: dict | None, *later: dict | None) -> list[Any]:
    """Return an answer of the Messages API with counts at its start and its end."""
    end = {"type": "message_delta", "delta": {"stop_reason": "end_turn"}}
    deltas = [{**end, "usage": each} for each in later]
    return [anthropic.started(start), *X, *deltas, {"type": "message_stop"}]


def of_gemini(**fields: Any) -> list[Any]:
    [event] = google.answer(google.text_part("x"))
    return [{**event, "usageMetadata": {"promptTokenCount": 5, **fields}}]


def of_responses(usage: dict[str, Any]) -> list[Any]:
    return responses.answer(responses.message("x"), usage=usage)


GEMINI = ev.Usage(input=40, cache_read=60, output=25, reasoning=5)
A = google.text_part("a")
[UNCOUNTED] = google.answer(A)
del UNCOUNTED["usageMetadata"]
USAGES = [
    ("openai-chat", counted(), None),
    ("openai-chat", counted(counts(1, 1), counts(2, 2), counts(3, 3)), ev.Usage(input=3, output=3)),
    ("openai-chat", counted({"choices": [counts(4, 5)]}), ev.Usage(input=4, output=5)),
    ("openai-chat", counted({"x_groq": counts(6, 7)}), ev.Usage(input=6, output=7)),
    ("openai-chat", counted({"choices": None, **counts(8, 9)}), ev.Usage(input=8, output=9)),
    ("openai-chat", counted(counts("many", None, completion_tokens_details=None)), ev.Usage()),
    (
        "openai-chat",
        counted(counts(10, 5, prompt_cache_hit_tokens=4)),
        ev.Usage(input=6, cache_read=4, output=5),
    ),
    (  # LiteLLM
        "openai-chat",
        counted(
            counts(
                10,
                5,
                total_tokens=15,
                cache_creation_input_tokens=3,
                prompt_tokens_details={"cached_tokens": 4},
            )
        ),
        ev.Usage(input=3, cache_read=4, cache_write=3, output=5),
    ),
    (  # Portkey
        "openai-chat",
        counted(
            counts(
                2,
                5,
                total_tokens=14,
                cache_creation_input_tokens=3,
                prompt_tokens_details={"cached_tokens": 4},
            )
        ),
        ev.Usage(input=2, cache_read=4, cache_write=3, output=5),
    ),
    (
        "openai-chat",
        counted(counts(10, 5, total_tokens=18, completion_tokens_details={"reasoning_tokens": 3})),
        ev.Usage(input=10, output=8, reasoning=3),
    ),
    (
        "openai-chat",
        counted(
            counts(
                10,
                5,
                prompt_tokens_details={"cached_tokens": 6, "cache_write_tokens": 1},
                completion_tokens_details={"reasoning_tokens": 2},
                cost=0.25,
            )
        ),
        ev.Usage(input=3, cache_read=6, cache_write=1, output=5, reasoning=2, cost=0.25),
    ),
    ("anthropic", of_anthropic(None, None), None),
    (
        "anthropic",
        of_anthropic(FIRST, {"output_tokens": 3}, LAST),
        ev.Usage(input=8, cache_read=5, output=9, reasoning=4),
    ),
    (
        "anthropic",
        of_anthropic(None, {"input_tokens": 2, "output_tokens": 3}),
        ev.Usage(input=2, output=3),
    ),
    ("google", of_gemini(candidatesTokenCount=2), ev.Usage(input=5, output=2)),
    ("google", of_gemini(thoughtsTokenCount=3), ev.Usage(input=5, output=3, reasoning=3)),
    ("google", of_gemini(toolUsePromptTokenCount=7), ev.Usage(input=12)),
    ("google", of_gemini(cachedContentTokenCount=9), ev.Usage(input=0, cache_read=9)),
    ("google", of_gemini(promptTokenCount=True), ev.Usage()),
    ("google", [google.response(A, counts=google.COUNTS), *google.answer(A)], GEMINI),
    ("google", [UNCOUNTED], None),
    ("google", [UNCOUNTED, {"usageMetadata": google.COUNTS}], GEMINI),
    ("google", [google.response(A), google.response(A, counts=google.COUNTS), UNCOUNTED], GEMINI),
    ("openai-responses", of_responses({}), ev.Usage()),
    (
        "openai-responses",
        of_responses({"input_tokens": 5, "input_tokens_details": None, "cost": 0.5}),
        ev.Usage(input=5, cost=0.5),
    ),
    (
        "openai-responses",
        of_responses({"input_tokens": 5, "input_tokens_details": {"cached_tokens": 9}}),
        ev.Usage(input=0, cache_read=9),
    ),
    ("ollama", ollama.answer(ollama.text("x"), counts=None), None),
    ("ollama", ollama.answer(ollama.text("x"), counts={"eval_count": 3}), ev.Usage(output=3)),
    ("ollama", ollama.answer(ollama.text("x"), counts={"prompt_eval_count": 3}), ev.Usage(input=3)),
    (
        "ollama",
        ollama.answer(ollama.text("x"), counts={"eval_count": True, "prompt_eval_count": "x"}),
        None,
    ),
]


@pytest.mark.parametrize(("api", "events", "usage"), USAGES)
def test_the_last_counts_win_wherever_they_stand_and_their_parts_do_not_overlap(api, events, usage):
    assert summary(play(api, events))["usage"] == usage


def sent_error(kind: str, message: str = "?") -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": "req_1"}


def failed(code: str | None) -> dict[str, Any]:
    fault = {"code": code, "message": "oops"} if code else None
    return {"type": "response.failed", "response": responses.response("failed", error=fault)}


OOPS = {"code": "server_error", "message": "oops"}
BAD_KEY = {"code": 400, "message": "API key not valid", "status": "X"}
BLOCKED = {"blockReason": "JAILBREAK", "blockReasonMessage": "no such thing"}
PICTURE = {
    "type": "image_generation_call",
    "id": "ig",
    "status": "completed",
    "output_format": "webp",
    "result": "a",
}
BEGUN = {
    "openai-chat": [chat.delta(content="x")],
    "openai-responses": responses.answer(responses.message("x"))[:4],
    "anthropic": [anthropic.started()],
    "google": [google.response(google.thought("hm"))],
    "ollama": [ollama.text("x")],
}
ERRORS = {
    "openai-chat": [
        ({"error": {"message": "slow down", "code": 429}}, "rate_limit"),
        ({"error": {"message": "no", "type": "overloaded_error"}}, "overloaded"),
        ({"error": "boom"}, "unknown"),
        ({**chat.delta(content="x"), "error": {"code": 503}}, "overloaded"),
        ({"object": "error", "message": "maximum context length is 5 tokens"}, "context_overflow"),
        ({"choices": [{"error": {"code": 502, "message": "bad"}, "delta": {}}]}, "overloaded"),
        ({"choices": [{"delta": {}, "finish_reason": "error"}]}, "overloaded"),
        ({"choices": [{"delta": {}, "finish_reason": "network_error"}]}, "overloaded"),
        ({"choices": [{"delta": {}, "finish_reason": "abort"}]}, "overloaded"),
        ({"x_groq": {"error": "over capacity"}}, "unknown"),
        ({"code": "1113", "msg": "no balance"}, "quota"),
        ({"detail": [{"loc": ["body", "model"], "msg": "Field required"}]}, "unknown"),
        ([{"error": BAD_KEY}], "auth"),
        (chat.tool({"index": 0, "function": {"arguments": "{}"}}), "protocol"),
        (chat.tool(chat.fragment("{}", index=0, id="a")), "protocol"),
        (7, "protocol"),
    ],
    "openai-responses": [
        (failed("rate_limit_exceeded"), "rate_limit", "oops"),
        (failed("server_error"), "overloaded", "oops"),
        (failed("invalid_prompt"), "content_filter", "oops"),
        (failed("bio_policy"), "content_filter", "oops"),
        (failed("invalid_base64_image"), "invalid_image", "oops"),
        (failed("image_too_large"), "invalid_image", "oops"),
        (failed("context_length_exceeded"), "context_overflow", "oops"),
        (failed(None), "unknown", "failed"),
        ({"type": "error", **OOPS, "param": None}, "overloaded", "oops"),
        ({"type": "error", "error": {**OOPS, "code": None, "type": OOPS["code"]}}, "overloaded"),
        ({"error": OOPS}, "overloaded", "oops"),
        ({"type": "error", **OOPS, "message": ""}, "overloaded", "server_error"),
        (responses.answer(responses.message(), responses.other(PICTURE))[-2], "protocol"),
        (responses.answer(responses.reasoning())[-1], "empty_response"),
    ],
    "anthropic": [
        (sent_error("overloaded_error"), "overloaded"),
        (sent_error("rate_limit_error"), "rate_limit"),
        (sent_error("api_error"), "overloaded"),
        (sent_error("timeout_error"), "timeout"),
        (sent_error("authentication_error"), "auth"),
        (sent_error("permission_error"), "permission"),
        (sent_error("billing_error"), "quota"),
        (sent_error("request_too_large"), "request_too_large"),
        (sent_error("invalid_request_error", "prompt is too long: 5 > 4"), "context_overflow"),
        ({"error": {"message": "input is too long"}}, "context_overflow"),
        ({"type": "error"}, "unknown"),
        ([1], "protocol"),
        ({"type": "content_block_start", "index": 0, "content_block": 5}, "protocol"),
        ({"type": "content_block_delta", "index": 9, "delta": {}}, "protocol"),
    ],
    "google": [
        (google.answer(finish="NO_IMAGE", finishMessage="No picture")[0], "empty_response"),
        (google.answer(finish="SAFETY", finishMessage="dangerous")[0], "content_filter", "danger"),
        ({"promptFeedback": BLOCKED}, "content_filter", "no such thing"),
        (google.response({"inlineData": {"mimeType": "image/png", "data": "é"}}), "protocol"),
        (google.response(A), "premature_stop", "broke off"),
        (google.response(A, finishReason="FINISH_REASON_UNSPECIFIED"), "premature_stop"),
        *((google.answer(part)[0], "empty_response") for part in (google.text_part(""), None)),
        *(
            (
                google.answer(finish=raw, finishMessage="a call: print(")[0],
                "protocol",
                f"{raw}.*print",
            )
            for raw in sorted(MODEL_ERRORS)
        ),
    ],
    "ollama": [
        *((value, "protocol") for value in (1, None, "x", [1])),
        (ollama.message(tool_calls=[1]), "protocol"),
        (ollama.message(tool_calls=[{"function": {}}]), "protocol"),
    ],
}


@pytest.mark.parametrize(
    ("api", "value", "kind", "words"),
    [(api, *row[:2], "".join(row[2:]) or ".") for api, rows in ERRORS.items() for row in rows],
)
def test_an_error_inside_a_stream_is_raised_as_what_it_is(api, value, kind, words):
    with pytest.raises(BackendError, match=words) as caught:
        play(api, [*BEGUN[api], value])
    assert (caught.value.kind, caught.value.retryable) == (kind, kind in TRANSIENT)

"""The parts of Gemini's answers, decoded."""

import itertools
import json

import pytest

from eca_protocol.sse import SSEvent
from eca_server.models.answer import Answer
from eca_server.models.backend import BackendError
from eca_server.models.events import (
    Block,
    Citation,
    Finished,
    Image,
    ReasoningDelta,
    ReasoningFinished,
    ReasoningStarted,
    ServerTool,
    Started,
    TextDelta,
    ToolCallArguments,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
)
from eca_server.models.google.decoder import MODEL_ERRORS, GeminiDecoder, read_usage
from tests.eca_server.models.google.scripted import (
    COUNTS,
    SIGNATURE,
    answer,
    call,
    grounding,
    picture,
    response,
    text_part,
    thought,
)
from tests.eca_server.models.reading import new_keys, only, text_of

SIGNED = {"thoughtSignature": SIGNATURE}


def play(events, **options) -> list:
    decoder = GeminiDecoder(new_key=new_keys(), **options)
    fed = [list(decoder.feed(SSEvent(event="message", data=json.dumps(event)))) for event in events]
    return [*itertools.chain(*fed), *decoder.close()]


def failure(events, **options) -> BackendError:
    with pytest.raises(BackendError) as caught:
        play(events, **options)
    return caught.value


def test_a_whole_answer_in_the_order_of_its_parts():
    events = play(
        answer(
            thought("Thi"),
            thought("nk"),
            text_part("Hel"),
            text_part("lo"),
            call("read", {"path": "a"}, signed=True, id="theirs"),
            call("list"),
        )
    )
    assert events == [
        Started(response_id="resp_1", model="gemini-test"),
        ReasoningStarted("reasoning_k1"),
        ReasoningDelta("reasoning_k1", "Thi"),
        ReasoningDelta("reasoning_k1", "nk"),
        ReasoningFinished(key="reasoning_k1"),
        TextDelta("Hel"),
        TextDelta("lo"),
        ToolCallStarted(key="k2", name="read", provider_id="theirs"),
        ToolCallArguments("k2", '{"path":"a"}'),
        ToolCallFinished(
            key="k2", raw='{"path":"a"}', arguments={"path": "a"}, opaque={"part": SIGNED}
        ),
        ToolCallStarted(key="k3", name="list"),
        ToolCallFinished(key="k3", raw="", arguments={}),
        Usage(input=40, cache_read=60, output=25, reasoning=5),
        Finished(reason="tool_calls", raw_reason="STOP"),
    ]


def test_parts_of_one_response_and_of_many_are_the_same_answer():
    parts = [thought("why"), text_part("a"), call("f", {}), text_part("b")]
    together = [response(*parts, finishReason="STOP", counts=COUNTS)]
    assert play(together) == play(answer(*parts))


def test_a_signed_text_ends_where_its_part_ends_and_goes_back_whole():
    events = play(
        answer(text_part("ab"), text_part("cd", **SIGNED), text_part("ef"), text_part("", **SIGNED))
    )
    assert only(Block, events) == [
        Block(raw={"part": {"text": "cd", **SIGNED}}, position=0),
        Block(raw={"part": {"text": "", **SIGNED}}, position=1),
    ]
    assert text_of(events) == "abcdef"


def test_a_signature_alone_becomes_a_part_that_can_go_back():
    [block] = only(Block, play(answer(text_part("a"), dict(SIGNED))))
    assert block.raw == {"part": {"text": "", **SIGNED}}


def test_a_signed_thought_is_a_block_of_its_own():
    events = play(answer(thought("a"), thought("b", **SIGNED), thought("c"), text_part("x")))
    assert [event.opaque for event in only(ReasoningFinished, events)] == [
        None,
        {"part": SIGNED},
        None,
    ]
    assert [event.text for event in only(ReasoningDelta, events)] == ["a", "b", "c"]


def test_a_thought_that_is_only_signed_is_begun_and_ended():
    events = play(answer(thought("", **SIGNED), text_part("x")))
    assert only(ReasoningDelta, events) == []
    assert len(only(ReasoningStarted, events)) == len(only(ReasoningFinished, events)) == 1


def test_empty_parts_are_nothing():
    events = play(
        answer(text_part(""), thought(""), {}, text_part("x"), {"content": None}, finish="STOP")
    )
    assert only(TextDelta, events) == [TextDelta("x")]
    assert only(ReasoningStarted, events) == []


@pytest.mark.parametrize(
    ("args", "words"), [([1], "expected a JSON object"), ("x", "expected a JSON object")]
)
def test_arguments_that_are_no_object_are_reported_to_the_model(args, words):
    [finished] = only(ToolCallFinished, play(answer(call("f", args))))
    assert finished.arguments is None
    assert words in finished.error


def test_a_tool_is_called_by_its_own_name_whatever_it_is_called_on_the_wire():
    [started] = only(ToolCallStarted, play(answer(call("_9f")), names={"_9f": "9f"}))
    assert started.name == "9f"


@pytest.mark.parametrize(
    ("raw", "ours"),
    [
        ("STOP", "stop"),
        ("MAX_TOKENS", "length"),
        ("SAFETY", "content_filter"),
        ("RECITATION", "content_filter"),
        ("BLOCKLIST", "content_filter"),
        ("PROHIBITED_CONTENT", "content_filter"),
        ("SPII", "content_filter"),
        ("IMAGE_SAFETY", "content_filter"),
        ("MODEL_ARMOR", "content_filter"),
        ("LANGUAGE", "other"),
        ("OTHER", "other"),
        ("SOMETHING_NEW", "other"),
    ],
)
def test_an_answer_ends_with_its_reason(raw, ours):
    assert play(answer(text_part("x"), finish=raw))[-1] == Finished(reason=ours, raw_reason=raw)


@pytest.mark.parametrize("raw", ["STOP", "OTHER", "TOO_MANY_TOOL_CALLS", "UNEXPECTED_TOOL_CALL"])
def test_complete_calls_run_whatever_the_reason_says(raw):
    events = play(answer(call("f", {}), finish=raw))
    assert events[-1] == Finished(reason="tool_calls", raw_reason=raw)


@pytest.mark.parametrize("raw", sorted(MODEL_ERRORS))
@pytest.mark.parametrize("leaked", [(), (text_part("_file(path='a')"),), (thought("I call it"),)])
def test_a_mistake_of_the_model_is_an_error_and_no_end(raw, leaked):
    ended = answer(*leaked, finish=raw, finishMessage="Malformed function call: print(")
    error = failure(ended)
    assert (error.kind, error.code, error.retryable) == ("protocol", raw, False)
    assert raw in error.message
    assert "print(" in error.message


def test_thoughts_before_a_mistake_are_closed():
    decoder = GeminiDecoder()
    [event] = answer(thought("hm"), finish="MALFORMED_FUNCTION_CALL")
    assert len(only(ReasoningFinished, decoder.feed_object(event))) == 1


@pytest.mark.parametrize(
    "parts", [(), (thought("hm"),), (text_part(""),), (text_part("", **SIGNED),)]
)
def test_an_answer_of_nothing_is_an_error_but_behind_results(parts):
    error = failure(answer(*parts))
    assert (error.kind, error.retryable) == ("empty_response", True)
    ended = play(answer(*parts), may_be_empty=True)[-1]
    assert ended == Finished(reason="stop", raw_reason="STOP")


def test_an_empty_answer_says_how_it_ended():
    error = failure(answer(finish="NO_IMAGE", finishMessage="No picture was made"))
    assert "NO_IMAGE: No picture was made" in error.message


def test_an_answer_held_back_whole_is_reported_with_its_reason():
    error = failure(answer(finish="SAFETY", finishMessage="dangerous"))
    assert (error.kind, error.code, error.retryable) == ("content_filter", "SAFETY", False)
    assert "dangerous" in error.message


@pytest.mark.parametrize("reason", ["SAFETY", "PROHIBITED_CONTENT", "BLOCKLIST", "JAILBREAK"])
def test_a_blocked_prompt_is_reported_with_its_reason(reason):
    feedback = {"blockReason": reason, "blockReasonMessage": "no such thing"}
    error = failure([{"promptFeedback": feedback, "usageMetadata": {"promptTokenCount": 4}}])
    assert (error.kind, error.code) == ("content_filter", reason)
    assert "no such thing" in error.message


def test_ratings_of_a_prompt_block_nothing():
    rated = {"promptFeedback": {"safetyRatings": [{"category": "X", "probability": "LOW"}]}}
    assert text_of(play([rated, *answer(text_part("x"))])) == "x"


def test_token_counts_are_disjoint_and_the_last_ones_count():
    assert only(
        Usage, play([response(text_part("a"), counts={**COUNTS}), *answer(text_part("b"))])
    ) == [Usage(input=40, cache_read=60, output=25, reasoning=5)]
    assert read_usage({}) == Usage()
    assert read_usage({"promptTokenCount": 5, "candidatesTokenCount": 2}) == Usage(
        input=5, output=2
    )
    assert read_usage({"promptTokenCount": 5, "thoughtsTokenCount": 3}).output == 3
    assert read_usage({"promptTokenCount": 5, "toolUsePromptTokenCount": 7}).input == 12
    assert read_usage({"promptTokenCount": 5, "cachedContentTokenCount": 9}).input == 0
    assert read_usage({"promptTokenCount": True}) == Usage()


def test_counts_may_come_behind_the_end_and_with_text_alone():
    [ended] = answer(text_part("a"))
    del ended["usageMetadata"]
    assert only(Usage, play([ended])) == []
    assert only(Usage, play([ended, {"usageMetadata": COUNTS}]))[0].output == 25
    assert only(
        Usage, play([response(text_part("x")), response(text_part("a"), counts=COUNTS), ended])
    )


def test_a_search_is_shown_and_its_pages_are_cited_once_where_they_belong():
    sources = grounding("http://a", "http://b", text="sunny")
    events = play([*answer(text_part("It is "), text_part("sunny."), groundingMetadata=sources)])
    started, finished = only(ServerTool, events)
    assert (started.phase, started.kind, started.query) == ("started", "web_search", "weather")
    assert (finished.phase, finished.urls) == ("finished", ("http://a", "http://b"))
    assert only(Citation, events) == [
        Citation(url="http://a", title="a", span=(6, 11)),
        Citation(url="http://b", title="b"),
    ]


def test_sources_that_come_again_are_not_cited_again():
    sources = grounding("http://a")
    events = play(
        [
            response(text_part("x"), groundingMetadata=sources),
            *answer(text_part("y"), groundingMetadata={**sources, "webSearchQueries": []}),
        ]
    )
    assert len(only(Citation, events)) == 1
    assert len(only(ServerTool, events)) == 2


def test_recited_sources_are_cited():
    cited = {"citations": [{"startIndex": 0, "uri": "http://c", "license": "mit"}, {"uri": ""}]}
    assert only(Citation, play(answer(text_part("x"), citationMetadata=cited))) == [
        Citation(url="http://c")
    ]


def test_the_providers_own_tools_are_shown_and_stored_as_they_came():
    parts = [
        {"toolCall": {"toolType": "GOOGLE_SEARCH_WEB", "id": "1", "args": {"q": "x"}}, **SIGNED},
        {"toolResponse": {"toolType": "GOOGLE_SEARCH_WEB", "id": "1", "response": {}}},
        {"executableCode": {"language": "PYTHON", "code": "1"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
        text_part("x"),
    ]
    events = play(answer(*parts, groundingMetadata=grounding("http://a")))
    result = [(each.key, each.kind, each.phase) for each in only(ServerTool, events)]
    assert result == [
        ("tool_1", "google_search_web", "started"),
        ("tool_1", "google_search_web", "finished"),
        ("tool_2", "code_execution", "started"),
        ("tool_2", "code_execution", "finished"),
    ]
    assert [block.raw["part"] for block in only(Block, events)] == parts[:-1]


def test_a_tool_of_the_provider_that_never_answered_is_ended():
    events = play(answer({"executableCode": {"code": "1"}}, text_part("x")))
    assert [each.phase for each in only(ServerTool, events)] == ["started", "finished"]


def test_a_picture_of_the_model_is_shown_and_its_signature_stored():
    events = play(answer(text_part("Here:"), picture(b"png", **SIGNED)))
    assert only(Image, events) == [Image(media_type="image/png", data=b"png")]
    assert only(Block, events) == [Block(raw={"picture": SIGNED}, position=0)]


def test_a_picture_that_is_no_base64_is_an_error():
    broken = {"inlineData": {"mimeType": "image/png", "data": "é"}}
    assert failure(answer(broken)).kind == "protocol"


@pytest.mark.parametrize(
    "part",
    [
        {"fileData": {"fileUri": "gs://x"}},
        {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}},
        picture(b"a draft", thought=True),
        {"somethingNew": {"a": 1}, **SIGNED},
    ],
)
def test_parts_that_are_not_shown_are_stored_as_they_came(part):
    events = play(answer(part, text_part("x")))
    assert [block.raw for block in only(Block, events)] == [{"part": part}]
    assert only(Image, events) == []


def test_of_several_candidates_the_first_is_taken():
    event = answer(text_part("first"))[0]
    event["candidates"].append({"index": 1, "content": {"parts": [text_part("second")]}})
    assert text_of(play([event])) == "first"
    alone = {"candidates": [{"index": 1, "content": {"parts": [text_part("second")]}}]}
    assert text_of(play([response(text_part("a")), alone, *answer(text_part("b"))])) == "ab"


@pytest.mark.parametrize(
    ("event", "kind"),
    [
        ({"error": {"code": 503, "status": "UNAVAILABLE", "message": "busy"}}, "overloaded"),
        ({"error": {"code": 500, "status": "INTERNAL", "message": "oops"}}, "overloaded"),
        ({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "m"}}, "rate_limit"),
        (
            [{"error": {"code": 400, "status": "INVALID_ARGUMENT", "message": "m"}}],
            "invalid_request",
        ),
    ],
)
def test_an_error_may_be_anywhere_in_the_stream(event, kind):
    assert failure([response(text_part("a")), event]).kind == kind
    assert failure([event]).kind == kind


def test_a_stream_without_a_finish_reason_was_cut():
    for last in ({}, {"finishReason": None}, {"finishReason": "FINISH_REASON_UNSPECIFIED"}):
        error = failure([response(text_part("a")), response(text_part("b"), **last)])
        assert (error.kind, error.retryable) == ("premature_stop", True)


@pytest.mark.parametrize("data", ["{", "5", '{"choices": []}', '"x"'])
def test_what_is_no_response_is_a_protocol_error(data):
    with pytest.raises(BackendError) as caught:
        list(GeminiDecoder().feed(SSEvent(event="message", data=data)))
    assert caught.value.kind == "protocol"


def test_a_done_mark_of_a_proxy_in_between_is_no_end():
    decoder = GeminiDecoder()
    assert list(decoder.feed(SSEvent(event="message", data="[DONE]"))) == []
    with pytest.raises(BackendError, match="broke off"):
        decoder.close()


def test_all_responses_as_one_array_are_the_same_answer():
    events = answer(thought("hm"), text_part("a"), call("f", {}))
    decoder = GeminiDecoder(new_key=new_keys())
    assert [*decoder.feed_object(events), *decoder.close()] == play(events)


def test_text_is_read_alike_the_short_way_and_the_long():
    parts = [text_part(piece) for piece in "abc"]
    long = answer(*parts)
    for event in long:
        event["candidates"][0]["tokenCount"] = 1
    short, result = Answer(), Answer()
    for event in play(answer(*parts)):
        short.feed(event)
    for event in play(long):
        result.feed(event)
    assert short.text == result.text == "abc"
    assert short.usage == result.usage

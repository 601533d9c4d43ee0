"""The parts of Gemini's answers, decoded."""

import pytest

from eca_protocol.sse import SSEvent
from eca_server.models.answer import Answer
from eca_server.models.backend import BackendError
from eca_server.models.events import (
    Citation,
    Image,
    ReasoningFinished,
    ServerTool,
)
from eca_server.models.google.decoder import GeminiDecoder
from tests.eca_server.models.google.scripted import (
    COUNTS,
    SIGNED,
    answer,
    call,
    grounding,
    picture,
    response,
    text_part,
    thought,
)
from tests.eca_server.models.reading import holds, new_keys, only, play_objects, read


def play(*parts, **fields) -> list:
    return play_events(answer(*parts, **fields))


def play_events(events, **options) -> list:
    return play_objects(GeminiDecoder(new_key=new_keys(), **options), events)


def test_thoughts_before_a_mistake_are_closed():
    [event] = answer(thought("hm"), finish="MALFORMED_FUNCTION_CALL")
    assert len(only(ReasoningFinished, GeminiDecoder().feed_object(event))) == 1


def test_a_search_is_shown_and_its_pages_are_cited_once_where_they_belong():
    sources = grounding("http://a", "http://b", text="sunny")
    events = play(text_part("It is "), text_part("sunny."), groundingMetadata=sources)
    started, finished = only(ServerTool, events)
    assert (started.phase, started.kind, started.query) == ("started", "web_search", "weather")
    assert (finished.phase, finished.urls) == ("finished", ("http://a", "http://b"))
    cited = [
        Citation(url="http://a", title="a", span=(6, 11)),
        Citation(url="http://b", title="b"),
    ]
    assert only(Citation, events) == cited
    again = answer(text_part("y"), groundingMetadata={**sources, "webSearchQueries": []})
    events = play_events([response(text_part("x"), groundingMetadata=sources), *again])
    assert [event.url for event in only(Citation, events)] == ["http://a", "http://b"]
    assert len(only(ServerTool, events)) == 2


X, A, B = (text_part(piece) for piece in "xab")
SIGNED_TEXT, SIGNED_END = text_part("cd", **SIGNED), text_part("", **SIGNED)
SIGNED_THOUGHT = {"opaques": [None, {"part": SIGNED}, None], "thoughts": ["a", "b", "c"]}
RATED = {"promptFeedback": {"safetyRatings": [{"category": "X", "probability": "LOW"}]}}
RECITED = {"citations": [{"startIndex": 0, "uri": "http://c", "license": "mit"}, {"uri": ""}]}
SEARCHES = {"toolType": "GOOGLE_SEARCH_WEB", "id": "1"}
OWN_TOOLS = [
    {"toolCall": {**SEARCHES, "args": {"q": "x"}}, **SIGNED},
    {"toolResponse": {**SEARCHES, "response": {}}},
    {"executableCode": {"language": "PYTHON", "code": "1"}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}},
]
NOT_SHOWN = [
    {"fileData": {"fileUri": "gs://x"}},
    {"inlineData": {"mimeType": "audio/wav", "data": "AAAA"}},
    picture(b"a draft", thought=True),
    {"somethingNew": {"a": 1}, **SIGNED},
]
OTHER = {"index": 1, "content": {"parts": [text_part("second")]}}
PHASES = ("started", "finished")

ANSWERS = {
    "parts of one response": (
        [response(thought("why"), A, call("f", {}), B, finishReason="STOP", counts=COUNTS)],
        {"thoughts": ["why"], "text": "ab", "calls": [("f", {})]},
    ),
    "a signed text ends where its part ends": (
        answer(A, SIGNED_TEXT, B, SIGNED_END),
        {"text": "acdb", "blocks": [{"part": SIGNED_TEXT}, {"part": SIGNED_END}]},
    ),
    "a signature alone": (answer(A, dict(SIGNED)), {"blocks": [{"part": SIGNED_END}]}),
    "a signed call with an id": (
        answer(call("f", {}, signed=True, id="theirs"), call("g")),
        {"calls": [("f", {}), ("g", {})], "call_opaques": [{"part": SIGNED}, None]},
    ),
    "a signed thought": (
        answer(thought("a"), thought("b", **SIGNED), thought("c"), X),
        SIGNED_THOUGHT,
    ),
    "a thought that is only signed": (
        answer(thought("", **SIGNED), X),
        {"opaques": [{"part": SIGNED}], "thoughts": []},
    ),
    "empty parts": (
        answer(text_part(""), thought(""), {}, X, {"content": None}),
        {"text": "x", "opaques": []},
    ),
    "ratings of the prompt": ([RATED, *answer(X)], {"text": "x"}),
    "recited sources": (
        answer(X, citationMetadata=RECITED),
        {"citations": [Citation(url="http://c")]},
    ),
    "the provider's own tools": (
        answer(*OWN_TOOLS, X, groundingMetadata=grounding("http://a")),
        {
            "blocks": [{"part": part} for part in OWN_TOOLS],
            "tools": [
                (kind, phase)
                for kind in ("google_search_web", "code_execution")
                for phase in PHASES
            ],
        },
    ),
    "a tool without an answer": (
        answer({"executableCode": {"code": "1"}}, X),
        {"tools": [("code_execution", phase) for phase in PHASES]},
    ),
    "a picture": (
        answer(A, picture(b"png", **SIGNED)),
        {
            "images": [Image(media_type="image/png", data=b"png")],
            "blocks": [{"picture": SIGNED}],
        },
    ),
    "what is not shown": (
        answer(*NOT_SHOWN, X),
        {"blocks": [{"part": part} for part in NOT_SHOWN], "images": []},
    ),
    "the first of several candidates": (
        [{**answer(A)[0], "candidates": [*answer(A)[0]["candidates"], OTHER]}],
        {"text": "a"},
    ),
    "another candidate alone": (
        [response(A), {"candidates": [OTHER]}, *answer(B)],
        {"text": "ab"},
    ),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_holds_what_came(name):
    events, expected = ANSWERS[name]
    holds(play_events(events), **expected)


def test_a_done_mark_of_a_proxy_in_between_is_no_end():
    decoder = GeminiDecoder()
    assert list(decoder.feed(SSEvent(event="message", data="[DONE]"))) == []
    with pytest.raises(BackendError, match="broke off"):
        decoder.close()


def test_text_is_read_alike_the_short_way_and_the_long():
    long = answer(*map(text_part, "abc"))
    for event in long:
        event["candidates"][0]["tokenCount"] = 1
    short: Answer = read(play(*map(text_part, "abc")))
    result = read(play_events(long))
    assert short.text == result.text == "abc"
    assert short.usage == result.usage

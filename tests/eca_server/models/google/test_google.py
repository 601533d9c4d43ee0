"""Peculiarities of Gemini: signed parts, the parts of its answers, and its backend over HTTP."""

import json
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.sse import SSEvent
from eca_server.models.answer import Answer
from eca_server.models.backend import BackendError, Request, Tool
from eca_server.models.events import ReasoningFinished, ServerTool
from eca_server.models.google.backend import refused_option
from eca_server.models.google.decoder import GeminiDecoder
from eca_server.models.google.messages import UNSIGNED
from eca_server.models.history import CitationPart, ImagePart, Message, Origin, ReasoningPart
from tests.eca_server.models.every_api import API
from tests.eca_server.models.google.scripted import (
    COUNTS,
    SIGNATURE,
    SIGNED,
    answer,
    call,
    grounding,
    picture,
    reply,
    response,
    text_part,
    thought,
)
from tests.eca_server.models.histories import (
    OURS,
    PICTURE,
    THEIRS,
    model,
    tool,
    tool_call,
    tool_result,
    user,
)
from tests.eca_server.models.reading import (
    TOOL,
    ask,
    holds,
    only,
    read,
    talking,
    write,
    write_history,
)

OLD = {"model": "gemini-2.5-pro"}


def written(*history: Message, **options) -> list[dict]:
    return write_history("google", *history, **options)


PARTS = [
    thought("why"),
    thought("so", **SIGNED),
    text_part("Hel", **SIGNED),
    text_part("lo"),
    {"executableCode": {"language": "PYTHON", "code": "1"}, **SIGNED},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
    picture(b"png", **SIGNED),
    {"fileData": {"fileUri": "gs://x", "mimeType": "video/mp4"}},
    call("f", {"n": 1, "m": {"k": [1.5, None, 2**70]}}, signed=True, id="theirs"),
    call("g", {}),
    text_part(" "),
    text_part("", **SIGNED),
]


play_events = API["google"].play


def play(*parts, **fields) -> list:
    return play_events(answer(*parts, **fields))


def answered(parts, origin=OURS) -> Message:
    return read(play(*parts)).message(origin)


def test_what_the_model_made_goes_back_exactly_as_it_came():
    results = tool(tool_result("k3", "one", "two"), tool_result("k4", "bad", is_error=True))
    _, made, behind = written(user(), answered(PARTS), results, user())
    assert made == {"role": "model", "parts": [part for part in PARTS if part != text_part(" ")]}
    output = {"name": "f", "response": {"output": "one\ntwo"}, "id": "theirs"}
    assert behind["parts"] == [
        {"functionResponse": output},
        {"functionResponse": {"name": "g", "response": {"error": "bad"}}},
        {"text": "Hello"},
    ]


signed_or_not = st.sampled_from([{}, SIGNED])
texts = st.sampled_from(["a", "b", "ab", "", " "])


@given(
    st.lists(
        st.builds(lambda text, signed: text_part(text, **signed), texts, signed_or_not)
        | st.builds(lambda text, signed: thought(text, **signed), texts, signed_or_not)
        | st.builds(lambda signed: picture(b"p", **signed), signed_or_not),
        max_size=6,
    )
)
def test_signed_parts_keep_their_bounds_and_their_order(parts):
    begin = text_part("begin", **SIGNED)
    made = answered([begin, *parts, call("end", {})])
    back = written(user(), made, user(), **OLD)[1]["parts"]
    signed = [part for part in parts if "thoughtSignature" in part]
    assert [part for part in back if "thoughtSignature" in part] == [begin, *signed]
    assert words_of(back) == words_of([begin, *parts])
    assert [part for part in back if not part.keys() - {"text"} and not part["text"]] == []


def words_of(parts) -> str:
    """Return all text without blanks, which an unsigned part may lose."""
    return "".join("".join(part.get("text", "") for part in parts).split())


def test_an_id_that_two_calls_have_is_given_back_once():
    made = answered([call("f", {}, id="same"), call("g", {}, id="same")])
    _, back, results = written(user(), made, user())
    assert [part["functionCall"].get("id") for part in back["parts"]] == ["same", None]
    result = [part["functionResponse"].get("id") for part in results["parts"][:2]]
    assert result == ["same", None]


def test_reasoning_of_nothing_is_no_part():
    assert written(user(), model(ReasoningPart(), "x"), user())[1]["parts"] == [{"text": "x"}]


def test_a_call_of_another_model_says_so_and_only_the_first_of_a_step():
    calls = [tool_call(name, name, provider_id=f"id_{name}") for name in "ab"]
    history = [user(), model(*calls, origin=THEIRS)]
    _, made, results = written(*history)
    assert made["parts"] == [
        {"functionCall": {"name": "a", "args": {}}, "thoughtSignature": UNSIGNED},
        {"functionCall": {"name": "b", "args": {}}},
    ]
    assert all("id" not in part["functionResponse"] for part in results["parts"])
    assert "thoughtSignature" not in json.dumps(written(*history, **OLD))


def test_an_empty_signature_is_none():
    _, made, _ = written(user(), answered([{**call("f", {}), "thoughtSignature": ""}]))
    assert made["parts"][0]["thoughtSignature"] == UNSIGNED


@pytest.mark.parametrize(
    ("options", "behind", "word"),
    [(OLD, [picture(b"i")], "shown after"), ({"images": False}, [], "omitted")],
)
def test_a_picture_from_a_tool_is_where_the_model_takes_it(options, behind, word):
    history = [user(), model(tool_call()), tool(tool_result("c", PICTURE))]
    [results, *others] = written(*history, **options)[-1]["parts"]
    assert "parts" not in results["functionResponse"]
    assert word in results["functionResponse"]["response"]["output"]
    assert others == behind


def test_its_own_search_is_offered_where_it_goes_together_with_the_tools():
    def offered(**options) -> tuple[list[dict], dict | None]:
        payload = write("google", user(), web_search=True, **options)
        return payload["tools"], payload.get("toolConfig")

    search = {"googleSearch": {}}
    assert offered() == offered(**OLD) == ([search], None)
    tools, config = offered(tools=[TOOL])
    assert (tools[1:], config) == ([search], {"includeServerSideToolInvocations": True})
    assert len(offered(tools=[TOOL], **OLD)[0]) == 1


def test_a_refusal_of_what_is_not_there_names_nothing():
    payload = write("google", user(), model="gemini-2.0-flash")
    assert refused_option("Thinking is not enabled; google_search", payload) is None
    assert refused_option("contents is required", write("google", user(), system="x")) is None


def test_what_belongs_to_another_model_of_the_provider_stays_out():
    other = Origin(api=OURS.api, provider=OURS.provider, model="another")
    assert SIGNATURE not in json.dumps(written(user(), answered(PARTS, other), user()))


def test_thoughts_before_a_mistake_are_closed():
    [event] = answer(thought("hm"), finish="MALFORMED_FUNCTION_CALL")
    assert len(only(ReasoningFinished, GeminiDecoder().feed_object(event))) == 1


def test_a_search_is_shown_and_its_pages_are_cited_once():
    sources = grounding("http://a", "http://b", text="sunny")
    events = play(text_part("It is "), text_part("sunny."), groundingMetadata=sources)
    started, finished = only(ServerTool, events)
    assert (started.phase, started.kind) == ("started", "web_search")
    assert finished.phase == "finished"
    cited = [CitationPart(url="http://a", title="a"), CitationPart(url="http://b", title="b")]
    assert only(CitationPart, events) == cited
    again = answer(text_part("y"), groundingMetadata={**sources, "webSearchQueries": []})
    events = play_events([response(text_part("x"), groundingMetadata=sources), *again])
    assert [event.url for event in only(CitationPart, events)] == ["http://a", "http://b"]
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
    "absent fields as nulls": (
        answer({**A, "functionCall": None}, {**call("f"), "text": None, "thoughtSignature": None}),
        {"text": "a", "calls": [("f", {})], "blocks": [], "call_opaques": [None]},
    ),
    "a text in the part of a call": (
        answer({**call("f", {}, signed=True), "text": "a"}),
        {"text": "a", "calls": [("f", {})], "blocks": [], "call_opaques": [{"part": SIGNED}]},
    ),
    "ratings of the prompt": ([RATED, *answer(X)], {"text": "x"}),
    "recited sources": (
        answer(X, citationMetadata=RECITED),
        {"citations": [CitationPart(url="http://c")]},
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
            "images": [ImagePart(media_type="image/png", data=b"png")],
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
    "another candidate alone": ([response(A), {"candidates": [OTHER]}, *answer(B)], {"text": "ab"}),
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


talking = partial(talking, "google")


async def test_a_configured_path_and_payload_are_used():
    extra = {
        "generationConfig": {"temperature": 0.5, "thinkingConfig": None},
        "tools": [{"urlContext": {}}],
    }
    path = "/x/{model}:streamGenerateContent?a=b"
    options = {"path": path, "extra_payload": extra, "model": "models/wire"}
    async with talking([reply(text_part("x"))], **options) as (provider, backend):
        await ask(backend, Request(messages=[user()], tools=[TOOL], max_output_tokens=5))
        [request] = provider.requests
    assert request.target == "/v1/x/wire:streamGenerateContent?a=b"
    assert request.body["generationConfig"] == {"maxOutputTokens": 5, "temperature": 0.5}
    assert [*map(list, request.body["tools"])] == [["functionDeclarations"], ["urlContext"]]


async def test_a_tool_whose_name_is_not_legal_is_called_by_its_own():
    request = Request(messages=[user()], tools=[Tool(name="9f", description="d", parameters={})])
    async with talking([reply(call("_9f", {}))]) as (_, backend):
        read, _ = await ask(backend, request)
    [part] = read.message(OURS).parts
    assert part.name == "9f"


async def test_tools_are_declared_in_openapi_where_json_schema_is_not_known():
    words = 'Invalid JSON payload received. Unknown name "parametersJsonSchema"'
    unknown = API["google"].refusing(400, "INVALID_ARGUMENT", words)
    number = {"properties": {"n": {"type": "integer"}}}
    counting = Tool(name="f", description="d", parameters=number)
    async with talking([unknown, reply(text_part("a"))]) as (provider, backend):
        await ask(backend, Request(messages=[user()], tools=[counting]))
        _, second = provider.requests
    [declared] = second.body["tools"][0]["functionDeclarations"]
    assert declared["parameters"] == {"type": "OBJECT", "properties": {"n": {"type": "INTEGER"}}}

"""Requests to Gemini: accepted by a strict server, encoded once, signed parts unchanged."""

import base64
import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.answer import Answer
from eca_server.models.backend import Request, Tool
from eca_server.models.encoding import HistoryEncoder, encoded
from eca_server.models.facts import Capabilities
from eca_server.models.google.decoder import GeminiDecoder
from eca_server.models.google.generations import generation_of, thinking_config
from eca_server.models.google.messages import UNSIGNED, ContentWriter
from eca_server.models.google.request import refused_option, write_request
from eca_server.models.history import (
    BlockPart,
    FilePart,
    ImagePart,
    Message,
    Origin,
    ReasoningPart,
    ServerToolPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from tests.eca_server.models.google.scripted import (
    SIGNATURE,
    answer,
    call,
    picture,
    text_part,
    thought,
)
from tests.eca_server.models.histories import OURS, THEIRS, histories_with
from tests.eca_server.models.reading import growth_test

SIGNED = {"thoughtSignature": SIGNATURE}
NEW, OLD = (generation_of(name, Capabilities()) for name in ("gemini-3.1-pro", "gemini-2.5-pro"))
USER = Message(role="user", parts=(TextPart("Hello"),))
PICTURE = ImagePart(media_type="image/png", data=b"i")

own = st.sampled_from(
    [
        ReasoningPart(text="hm"),
        ReasoningPart(opaque={"part": {"thoughtSignature": "c2VjcmV0"}}),
        BlockPart(raw={"part": {"text": "b", **SIGNED}}),
        BlockPart(raw={"part": {"text": "", **SIGNED}}),
        BlockPart(raw={"picture": SIGNED}),
        BlockPart(raw={"secret": 1}),
        ServerToolPart(kind="web_search", raw={"secret": 1}),
        PICTURE,
        FilePart(name="f", media_type="text/plain", data=b"f"),
        ToolCallPart(
            id="d", name="9f", raw="{}", arguments={}, provider_id="p", opaque={"part": SIGNED}
        ),
    ]
)
histories = histories_with(own)


def written(history, known=NEW, **options) -> list[dict]:
    pieces = HistoryEncoder(ContentWriter(OURS, known, **options)).written(history).pieces
    return json.loads(b"".join(pieces))


@given(histories, st.sampled_from([NEW, OLD]), st.booleans())
def test_every_history_is_written_as_a_strict_server_wants_it(history, known, images):
    contents = written(history, known, images=images)
    check_contents(contents, signs=known.signs)
    if not any(message.origin == OURS for message in history):
        assert "secret" not in json.dumps(contents)
        assert SIGNATURE not in json.dumps(contents)
        if not images:
            assert '"mimeType": "image/' not in json.dumps(contents)  # a PDF is no picture


def check_contents(contents: list[dict], *, signs: bool) -> None:
    """Check contents by the API's rules, independently of the writer."""
    assert contents[0]["role"] == contents[-1]["role"] == "user"
    due: list[dict] = []
    for number, content in enumerate(contents):
        assert content["role"] == ("model" if number % 2 else "user")
        assert content["parts"]
        kinds = []
        for part in content["parts"]:
            [kind] = part.keys() - {"thought", "thoughtSignature"}
            kinds.append(kind)
            assert part["text"] or "thoughtSignature" in part if kind == "text" else part[kind]
        made = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        if content["role"] == "model":
            assert "functionResponse" not in kinds
            assert set(kinds) != {"thought"}
            due = made
            assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", each["name"]) for each in due)
            assert all(isinstance(each["args"], dict) for each in due)
            if signs and due:
                first = next(part for part in content["parts"] if "functionCall" in part)
                assert first["thoughtSignature"]
        else:
            assert not made
            given = [part["functionResponse"] for part in content["parts"][: len(due)] if due]
            assert "functionResponse" not in kinds[len(due) :]
            assert [(each["name"], each.get("id")) for each in given] == [
                (each["name"], each.get("id")) for each in due
            ]
            ids = [each["id"] for each in given if "id" in each]
            assert len(set(ids)) == len(ids)
            assert all(len(each["response"]) == 1 for each in given)
            due = []


test_a_longer_history_is_written_as_if_new = growth_test(
    histories, lambda: HistoryEncoder(ContentWriter(OURS, NEW))
)


PARTS = [
    thought("why"),
    thought("so", **SIGNED),
    text_part("Hel", **SIGNED),
    text_part("lo"),
    {"executableCode": {"language": "PYTHON", "code": "1"}, **SIGNED},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK"}},
    picture(b"png", **SIGNED),
    {"fileData": {"fileUri": "gs://x", "mimeType": "video/mp4"}},
    call("f", {"n": 1, "m": {"k": [1.5, None]}}, signed=True, id="theirs"),
    call("g", {}),
    text_part(" "),
    text_part("", **SIGNED),
]


def answered(parts, **options) -> Message:
    keys = iter(f"k{number}" for number in range(99))
    decoder, read = GeminiDecoder(new_key=lambda: next(keys), **options), Answer()
    for event in answer(*parts):
        for each in decoder.feed_object(event):
            read.feed(each)
    for each in decoder.close():
        read.feed(each)
    return read.message(OURS)


def test_what_the_model_made_goes_back_exactly_as_it_came():
    _, model, results = written([USER, answered(PARTS), USER])
    assert model == {"role": "model", "parts": [part for part in PARTS if part != text_part(" ")]}
    first, second, _ = results["parts"]
    assert (first["functionResponse"]["id"], first["functionResponse"]["name"]) == ("theirs", "f")
    assert "id" not in second["functionResponse"]


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
    message = answered([text_part("begin", **SIGNED), *parts, call("end", {})])
    back = written([USER, message, USER], OLD)[1]["parts"]
    signed = [part for part in parts if "thoughtSignature" in part]
    assert [part for part in back if "thoughtSignature" in part] == [
        text_part("begin", **SIGNED),
        *signed,
    ]
    assert words_of(back) == words_of([text_part("begin"), *parts])
    assert [part for part in back if not part.keys() - {"text"} and not part["text"]] == []


def words_of(parts) -> str:
    """Return all text without blanks, which an unsigned part may lose."""
    return "".join("".join(part.get("text", "") for part in parts).split())


def test_an_id_that_two_calls_have_is_given_back_once():
    message = answered([call("f", {}, id="same"), call("g", {}, id="same")])
    _, model, results = written([USER, message, USER])
    assert [part["functionCall"].get("id") for part in model["parts"]] == ["same", None]
    result = [part["functionResponse"].get("id") for part in results["parts"][:2]]
    assert result == ["same", None]


def test_reasoning_of_nothing_is_no_part():
    parts = (ReasoningPart(), TextPart("x"))
    message = Message(role="assistant", parts=parts, origin=OURS)
    assert written([USER, message, USER])[1]["parts"] == [{"text": "x"}]


def test_a_call_of_another_model_says_so_and_only_the_first_of_a_step():
    calls = tuple(
        ToolCallPart(id=name, name=name, raw="{}", arguments={}, provider_id=f"id_{name}")
        for name in "ab"
    )
    history = [USER, Message(role="assistant", parts=calls, origin=THEIRS)]
    _, model, results = written(history)
    assert model["parts"] == [
        {"functionCall": {"name": "a", "args": {}}, "thoughtSignature": UNSIGNED},
        {"functionCall": {"name": "b", "args": {}}},
    ]
    assert all("id" not in part["functionResponse"] for part in results["parts"])
    assert "thoughtSignature" not in json.dumps(written(history, OLD))


def test_results_are_objects_that_distinguish_errors():
    calls = tuple(ToolCallPart(id=name, name="f", raw="{}", arguments={}) for name in "ab")
    results = (
        ToolResultPart(call_id="a", parts=(TextPart("one"), TextPart("two"))),
        ToolResultPart(call_id="b", parts=(TextPart("bad"),), is_error=True),
    )
    history = [
        USER,
        Message(role="assistant", parts=calls, origin=OURS),
        Message(role="tool", parts=results),
        USER,
    ]
    given_back = written(history)[-1]["parts"]
    assert [part["functionResponse"]["response"] for part in given_back[:2]] == [
        {"output": "one\ntwo"},
        {"error": "bad"},
    ]
    assert given_back[2] == {"text": "Hello"}


@pytest.mark.parametrize(
    ("known", "images", "inside", "behind", "word"),
    [(NEW, True, 1, 0, None), (OLD, True, 0, 1, "shown after"), (NEW, False, 0, 0, "omitted")],
)
def test_a_picture_from_a_tool_is_where_the_model_takes_it(known, images, inside, behind, word):
    history = [
        USER,
        Message(
            role="assistant",
            parts=(ToolCallPart(id="a", name="f", raw="{}", arguments={}),),
            origin=OURS,
        ),
        Message(role="tool", parts=(ToolResultPart(call_id="a", parts=(PICTURE,)),)),
    ]
    [results, *others] = written(history, known, images=images)[-1]["parts"]
    result = results["functionResponse"]
    encoded_picture = {
        "inlineData": {"mimeType": "image/png", "data": base64.b64encode(b"i").decode()}
    }
    assert result.get("parts", []) == [encoded_picture] * inside
    assert others == [encoded_picture] * behind
    assert (word or "") in result["response"]["output"]


def test_files_are_given_as_the_api_takes_them():
    files = [
        FilePart(name="a.txt", media_type="text/plain", data=b"text"),
        FilePart(name="b.pdf", media_type="application/pdf", data=b"%PDF"),
        FilePart(name="c.bin", media_type="application/octet-stream", data=b"\0"),
    ]
    result = written([Message(role="user", parts=tuple(files))])[0]["parts"]
    assert result[0] == {"text": "The file a.txt:\n\ntext"}
    assert result[2]["inlineData"]["mimeType"] == "application/pdf"
    assert "omitted" in result[3]["text"]


def request_fields(model="gemini-3.1-pro", *, search=False, without=(), **fields) -> dict:
    known = generation_of(model, Capabilities())
    payload = write_request(
        Request(messages=[USER], **fields),
        generation=known,
        capabilities=Capabilities(web_search=search),
        histories=HistoryEncoder(ContentWriter(OURS, known)),
        without=without,
    )
    return json.loads(encoded(payload))


SCHEMA = {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}}
TOOL = Tool(name="f", description="d", parameters=SCHEMA)


def test_a_request_has_what_was_asked_for_and_nothing_else():
    assert request_fields(
        "gemini-2.0-flash", system="Be.", tools=[TOOL], tool_choice="required", max_output_tokens=9
    ) == {
        "systemInstruction": {"parts": [{"text": "Be."}]},
        "tools": [
            {
                "functionDeclarations": [
                    {"name": "f", "description": "d", "parametersJsonSchema": SCHEMA}
                ]
            }
        ],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {"maxOutputTokens": 9},
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
    }
    assert list(request_fields("gemini-2.0-flash", system=" ")) == ["contents"]
    chosen = request_fields(tools=[TOOL], tool_choice="none")["toolConfig"]
    assert chosen == {"functionCallingConfig": {"mode": "NONE"}}


def test_a_tool_without_parameters_and_one_with_an_odd_name():
    tools = [Tool(name="9x", description="", parameters={"type": "object", "properties": {}})]
    [declared] = request_fields(tools=tools)["tools"][0]["functionDeclarations"]
    assert declared == {"name": "_9x", "description": "9x"}


@pytest.mark.parametrize(
    ("model", "effort", "config"),
    [
        ("gemini-3.1-pro-preview", None, {}),
        ("gemini-3.1-pro-preview", "medium", {"thinkingLevel": "MEDIUM"}),
        ("gemini-3.1-pro-preview", "none", {"thinkingLevel": "LOW"}),
        ("gemini-3-pro-preview", "max", {"thinkingLevel": "HIGH"}),
        ("gemini-3.8-flash", "none", {"thinkingLevel": "MINIMAL"}),
        ("gemini-flash-latest", "low", {"thinkingLevel": "LOW"}),
        ("gemini-3-flash-preview", "warp", {}),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-flash-lite", "max", {"thinkingBudget": 24_576}),
        ("gemini-2.5-pro", "none", {"thinkingBudget": 128}),
        ("gemini-2.5-pro", "max", {"thinkingBudget": 32_768}),
        ("gemini-2.0-flash", "high", None),
        ("gemma-3-27b-it", "high", None),
    ],
)
def test_thinking_is_requested_in_the_form_of_the_model(model, effort, config):
    request = request_fields(model, reasoning_effort=effort).get("generationConfig", {})
    expected = None if config is None else {"includeThoughts": True, **config}
    assert request.get("thinkingConfig") == expected


def test_what_the_endpoint_says_of_a_model_counts_more_than_its_name():
    capabilities = Capabilities(efforts=("low", "HIGH", "ultra"))
    assert (
        thinking_config("max", generation_of("gemini-4-pro", capabilities))["thinkingLevel"]
        == "HIGH"
    )
    assert generation_of("custom", Capabilities(reasoning=True)).thinks


def test_its_own_search_is_offered_where_it_goes_together_with_the_tools():
    assert request_fields(search=True)["tools"] == [{"googleSearch": {}}]
    beside = request_fields(search=True, tools=[TOOL])
    assert {"googleSearch": {}} in beside["tools"]
    assert beside["toolConfig"] == {"includeServerSideToolInvocations": True}
    assert len(request_fields("gemini-2.5-pro", search=True, tools=[TOOL])["tools"]) == 1
    assert request_fields("gemini-2.5-pro", search=True)["tools"] == [{"googleSearch": {}}]


@pytest.mark.parametrize(
    ("words", "thing", "gone"),
    [
        (
            'Invalid JSON payload received. Unknown name "parametersJsonSchema": Cannot find it.',
            "JSON Schema",
            "parametersJsonSchema",
        ),
        ("Built-in tools ({google_search}) and Function Calling", "search", "googleSearch"),
        ("Developer instruction is not enabled for models/g", "instructions", "systemInstruction"),
        ("Thinking level MINIMAL is not supported", "amount of thinking", "thinkingLevel"),
        ("Thinking is not enabled for this model", "thoughts", "thinkingConfig"),
    ],
)
def test_a_refusal_names_what_to_leave_out(words, thing, gone):
    fields = {"system": "Be.", "tools": [TOOL], "search": True, "reasoning_effort": "low"}
    payload = request_fields(**fields)
    assert gone in json.dumps(payload)
    assert refused_option(words, payload) == thing
    remaining = request_fields(**fields, without={thing})
    assert gone not in json.dumps(remaining)
    assert refused_option(words, remaining) != thing
    assert "Be." in json.dumps(remaining)


def test_a_refusal_of_what_is_not_there_names_nothing():
    payload = request_fields("gemini-2.0-flash")
    assert refused_option("Thinking is not enabled; google_search", payload) is None
    assert refused_option("contents is required", request_fields(system="x")) is None


def test_what_belongs_to_another_model_of_the_provider_stays_out():
    other = Origin(api=OURS.api, provider=OURS.provider, model="another")
    message = Message(role="assistant", parts=answered(PARTS).parts, origin=other)
    assert SIGNATURE not in json.dumps(written([USER, message, USER]))

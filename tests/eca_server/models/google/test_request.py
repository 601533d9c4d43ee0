"""Requests to Gemini: accepted by a strict server, encoded once, signed parts unchanged."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.backend import Request, Tool
from eca_server.models.encoding import HistoryEncoder, encoded
from eca_server.models.facts import Capabilities
from eca_server.models.google.decoder import GeminiDecoder
from eca_server.models.google.generations import generation_of, thinking_config
from eca_server.models.google.messages import UNSIGNED, ContentWriter
from eca_server.models.google.request import refused_option, write_request
from eca_server.models.history import BlockPart, Message, Origin, ReasoningPart, ServerToolPart
from tests.eca_server.models.google.scripted import (
    SIGNATURE,
    SIGNED,
    answer,
    call,
    picture,
    text_part,
    thought,
)
from tests.eca_server.models.histories import (
    OURS,
    PICTURE,
    THEIRS,
    file,
    histories_with,
    model,
    tool,
    tool_call,
    tool_result,
    user,
)
from tests.eca_server.models.reading import growth_test, new_keys, play_objects, read

NEW, OLD = (generation_of(name, Capabilities()) for name in ("gemini-3.1-pro", "gemini-2.5-pro"))

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
        file("f", "text/plain", b"f"),
        tool_call("d", "9f", provider_id="p", opaque={"part": SIGNED}),
    ]
)
histories = histories_with(own)


def new_encoder(known=NEW, **options) -> HistoryEncoder:
    return HistoryEncoder(ContentWriter(OURS, known, **options))


def written(history, known=NEW, **options) -> list[dict]:
    return json.loads(b"".join(new_encoder(known, **options).written(history).pieces))


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


test_a_longer_history_is_written_as_if_new = growth_test(histories, new_encoder)


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


def answered(parts, origin=OURS) -> Message:
    return read(play_objects(GeminiDecoder(new_key=new_keys()), answer(*parts))).message(origin)


def test_what_the_model_made_goes_back_exactly_as_it_came():
    results = tool(tool_result("k3", "one", "two"), tool_result("k4", "bad", is_error=True))
    _, made, behind = written([user(), answered(PARTS), results, user()])
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
    back = written([user(), answered([begin, *parts, call("end", {})]), user()], OLD)[1]["parts"]
    signed = [part for part in parts if "thoughtSignature" in part]
    assert [part for part in back if "thoughtSignature" in part] == [begin, *signed]
    assert words_of(back) == words_of([begin, *parts])
    assert [part for part in back if not part.keys() - {"text"} and not part["text"]] == []


def words_of(parts) -> str:
    """Return all text without blanks, which an unsigned part may lose."""
    return "".join("".join(part.get("text", "") for part in parts).split())


def test_an_id_that_two_calls_have_is_given_back_once():
    made = answered([call("f", {}, id="same"), call("g", {}, id="same")])
    _, back, results = written([user(), made, user()])
    assert [part["functionCall"].get("id") for part in back["parts"]] == ["same", None]
    result = [part["functionResponse"].get("id") for part in results["parts"][:2]]
    assert result == ["same", None]


def test_reasoning_of_nothing_is_no_part():
    history = [user(), model(ReasoningPart(), "x"), user()]
    assert written(history)[1]["parts"] == [{"text": "x"}]


def test_a_call_of_another_model_says_so_and_only_the_first_of_a_step():
    calls = [tool_call(name, name, provider_id=f"id_{name}") for name in "ab"]
    history = [user(), model(*calls, origin=THEIRS)]
    _, made, results = written(history)
    assert made["parts"] == [
        {"functionCall": {"name": "a", "args": {}}, "thoughtSignature": UNSIGNED},
        {"functionCall": {"name": "b", "args": {}}},
    ]
    assert all("id" not in part["functionResponse"] for part in results["parts"])
    assert "thoughtSignature" not in json.dumps(written(history, OLD))


@pytest.mark.parametrize(
    ("known", "images", "inside", "behind", "word"),
    [(NEW, True, 1, 0, ""), (OLD, True, 0, 1, "shown after"), (NEW, False, 0, 0, "omitted")],
)
def test_a_picture_from_a_tool_is_where_the_model_takes_it(known, images, inside, behind, word):
    history = [user(), model(tool_call()), tool(tool_result("c", PICTURE))]
    [results, *others] = written(history, known, images=images)[-1]["parts"]
    result = results["functionResponse"]
    assert result.get("parts", []) == [picture(b"i")] * inside
    assert others == [picture(b"i")] * behind
    assert word in result["response"]["output"]


def test_files_are_given_as_the_api_takes_them():
    files = [
        file("a.txt", "text/plain", b"text"),
        file("b.pdf", "application/pdf", b"%PDF"),
        file("c.bin", "application/octet-stream", b"\0"),
    ]
    result = written([user(*files)])[0]["parts"]
    assert result[0] == {"text": "The file a.txt:\n\ntext"}
    assert result[2]["inlineData"]["mimeType"] == "application/pdf"
    assert "omitted" in result[3]["text"]


def request_fields(name="gemini-3.1-pro", *, search=False, without=(), **fields) -> dict:
    known = generation_of(name, Capabilities())
    payload = write_request(
        Request(messages=[user()], **fields),
        generation=known,
        capabilities=Capabilities(web_search=search),
        histories=new_encoder(known),
        without=without,
    )
    return json.loads(encoded(payload))


SCHEMA = {"type": "object", "properties": {"n": {"type": ["integer", "null"]}}}
TOOL = Tool(name="f", description="d", parameters=SCHEMA)


def test_a_request_has_what_was_asked_for_and_nothing_else():
    odd = Tool(name="9x", description="", parameters={"type": "object", "properties": {}})
    fields = {"system": "Be.", "tools": [TOOL, odd], "tool_choice": "required"}
    declared = [
        {"name": "f", "description": "d", "parametersJsonSchema": SCHEMA},
        {"name": "_9x", "description": "9x"},
    ]
    assert request_fields("gemini-2.0-flash", **fields, max_output_tokens=9) == {
        "systemInstruction": {"parts": [{"text": "Be."}]},
        "tools": [{"functionDeclarations": declared}],
        "toolConfig": {"functionCallingConfig": {"mode": "ANY"}},
        "generationConfig": {"maxOutputTokens": 9},
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
    }
    assert list(request_fields("gemini-2.0-flash", system=" ")) == ["contents"]
    chosen = request_fields(tools=[TOOL], tool_choice="none")["toolConfig"]
    assert chosen == {"functionCallingConfig": {"mode": "NONE"}}


@pytest.mark.parametrize(
    ("name", "effort", "config"),
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
def test_thinking_is_requested_in_the_form_of_the_model(name, effort, config):
    request = request_fields(name, reasoning_effort=effort).get("generationConfig", {})
    expected = None if config is None else {"includeThoughts": True, **config}
    assert request.get("thinkingConfig") == expected


def test_what_the_endpoint_says_of_a_model_counts_more_than_its_name():
    levels = generation_of("gemini-4-pro", Capabilities(efforts=("low", "HIGH", "ultra")))
    assert thinking_config("max", levels)["thinkingLevel"] == "HIGH"
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
        ('Unknown name "parametersJsonSchema": Cannot find', "JSON Schema", "parametersJsonSchema"),
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
    assert SIGNATURE not in json.dumps(written([user(), answered(PARTS, other), user()]))

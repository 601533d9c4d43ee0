"""Requests to Gemini: signed parts unchanged, options by generation and by refusals."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.google.decoder import GeminiDecoder
from eca_server.models.google.messages import UNSIGNED
from eca_server.models.google.request import refused_option
from eca_server.models.history import Message, Origin, ReasoningPart
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
    model,
    tool,
    tool_call,
    tool_result,
    user,
)
from tests.eca_server.models.reading import TOOL, new_keys, play_objects, read
from tests.eca_server.models.written import write, write_history

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


def answered(parts, origin=OURS) -> Message:
    return read(play_objects(GeminiDecoder(new_key=new_keys()), answer(*parts))).message(origin)


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

"""Requests of the Messages API, checked by an independent copy of its rules."""

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eca_server.models.anthropic.messages import MessagesWriter
from eca_server.models.anthropic.request import mark_messages, write_request
from eca_server.models.anthropic.thinking import ThinkingSupport, thinking_support
from eca_server.models.backend import Request, Tool
from eca_server.models.encoding import HistoryEncoder, encoded
from eca_server.models.facts import Capabilities
from eca_server.models.history import BlockPart, Message, ReasoningPart, RefusalPart, ServerToolPart
from tests.eca_server.models.anthropic.scripted import citation, search_result
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
from tests.eca_server.models.reading import growth_test

SEARCHED = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
SEARCH_RESULT = search_result("https://a.example", call_id="srv_1")(0)[0]["content_block"]
CITED = {"type": "text", "text": "a", "citations": [citation("https://a.example", "A")]}
RESULT_PART = ServerToolPart(kind="web_search", raw=SEARCH_RESULT)
THOUGHT = ReasoningPart(text="hm", opaque={"signature": "secret"})

own = st.sampled_from(
    [
        THOUGHT,
        ReasoningPart(opaque={"signature": "secret"}),
        ReasoningPart(opaque={"data": "secret"}, redacted=True),
        ReasoningPart(text="hm"),
        BlockPart(raw=SEARCHED),
        RESULT_PART,
        BlockPart(raw=CITED),
        RefusalPart("no"),
        file("f", "text/plain", b"f"),
        file("f", "application/pdf", b"f"),
        file("f", "application/zip", b"f"),
        PICTURE,
    ]
)
histories = histories_with(own)
TOOL = Tool(name="f", description="d", parameters={"type": "object", "properties": {}})


def histories_of(*, images: bool = True, cached: bool = True) -> HistoryEncoder:
    mark = mark_messages if cached else None
    return HistoryEncoder(MessagesWriter(OURS, images=images), mark=mark)


def write(request: Request, *, known: ThinkingSupport | None = None, **options) -> dict:
    images, cached = options.pop("images", True), options.pop("cached", True)
    payload = write_request(
        request,
        messages=histories_of(images=images, cached=cached).written(request.messages),
        origin=OURS,
        wire_model="m",
        support=known or ThinkingSupport(),
        capabilities=Capabilities(images=images, **options),
        cached=cached,
    )
    return json.loads(encoded(payload))


def written(*history: Message) -> list[dict]:
    """Return the messages of a request without marks for the cache."""
    return write(Request(messages=history), cached=False)["messages"]


def call(call_id="c1", provider_id="toolu_1", **fields):
    given_ = {"raw": '{"n":1}', "arguments": {"n": 1}, **fields}
    return tool_call(call_id, provider_id=provider_id, **given_)


def result(*parts, call_id="c1", **fields):
    return tool_result(call_id, *parts, **fields)


ENDS_WITH_THOUGHTS = model(THOUGHT, "a", THOUGHT, THOUGHT)
HALF_A_SEARCH = model("a", BlockPart(raw=SEARCHED))
OTHER_HALF = model("a", RESULT_PART, interrupted=True)


@given(histories, st.booleans(), st.sampled_from([(), (TOOL,)]), st.booleans())
@example([user(), ENDS_WITH_THOUGHTS, user(), HALF_A_SEARCH, user(), OTHER_HALF], True, (), False)
def test_every_history_is_written_as_the_api_wants_it(history, images, tools, search):
    request = Request(system="s", messages=history, tools=tools)
    payload = write(request, images=images, web_search=search)
    check(payload)
    text = json.dumps(payload)
    if not any(message.origin == OURS for message in history):
        assert "secret" not in text
        assert "srv_1" not in text
    if not images:
        assert '"image"' not in text


test_a_longer_history_is_written_as_if_new = growth_test(histories, histories_of)


def check(payload: dict) -> None:
    """Check a request by the API's rules, independently of the writer."""
    assert payload["max_tokens"] > 0
    messages = payload["messages"]
    assert messages[0]["role"] == messages[-1]["role"] == "user"
    due: list[str] = []
    ids: set[str] = set()
    for before, message in zip((None, *messages), messages, strict=False):
        role, blocks = message["role"], message["content"]
        assert before is None or before["role"] != role
        assert blocks
        if role == "user":
            answered = [block for block in blocks if block["type"] == "tool_result"]
            assert blocks[: len(answered)] == answered, "results stand first"
            assert [block["tool_use_id"] for block in answered] == due
            due = []
        else:
            due = [block["id"] for block in blocks if block["type"] == "tool_use"]
            assert len(set(due)) == len(due)
            assert not ids & set(due)
            ids |= set(due)
            assert blocks[-1]["type"] not in ("thinking", "redacted_thinking")
        for block in blocks:
            check_block(block, role)
        searched = {block["id"] for block in blocks if block["type"] == "server_tool_use"}
        found_ = {block["tool_use_id"] for block in blocks if "_result" in block["type"]}
        assert role == "user" or searched == found_
    assert due == []
    marked = [block for block in all_blocks(payload) if "cache_control" in block]
    assert len(marked) <= 4
    assert all("thinking" not in block.get("type", "") for block in marked)
    if any(block.get("type") in ("tool_use", "tool_result") for block in all_blocks(payload)):
        assert payload["tools"]


def all_blocks(payload: dict) -> list[dict]:
    content = [block for message in payload["messages"] for block in message["content"]]
    return [*payload.get("tools", ()), *payload.get("system", ()), *content]


def check_block(block: dict, role: str) -> None:
    match block["type"]:
        case "text":
            assert block["text"].strip()
        case "tool_use":
            assert role == "assistant"
            assert re.fullmatch("[A-Za-z0-9_-]{1,64}", block["id"])
            assert re.fullmatch("[A-Za-z0-9_-]{1,64}", block["name"])
            assert isinstance(block["input"], dict)
        case "tool_result":
            assert role == "user"
            assert block["content"]
            for part in block["content"]:
                assert part["type"] in ("text", "image", "document")
                assert part["type"] == "text" or not block.get("is_error")
                check_block(part, role)
        case "thinking" | "redacted_thinking" | "server_tool_use" | "web_search_tool_result":
            assert role == "assistant"
        case "image" | "document":
            assert role == "user"
        case other:
            raise AssertionError(other)


def test_of_a_foreign_answer_only_what_everybody_knows_goes_back():
    parts = (THOUGHT, "Said \n", RESULT_PART, call(opaque={"caller": {}}))
    _, answer, results = written(user(), model(*parts, origin=THEIRS), tool(result()))
    assert answer["content"] == [
        {"type": "text", "text": "Said"},
        {"type": "text", "text": "[used web_search]"},
        {"type": "tool_use", "id": "c1", "name": "f", "input": {"n": 1}},
    ]
    assert results["content"][0]["tool_use_id"] == "c1"


def test_a_search_goes_back_as_it_came_with_its_quotations():
    parts = ("I look. ", BlockPart(raw=SEARCHED), RESULT_PART, "As a", BlockPart(raw=CITED), " is.")
    assert written(user(), model(*parts), user())[1]["content"] == [
        {"type": "text", "text": "I look. "},
        SEARCHED,
        SEARCH_RESULT,
        {"type": "text", "text": "As "},
        CITED,
        {"type": "text", "text": " is."},
    ]


def test_of_a_call_what_this_api_knows_goes_back():
    mine = call(opaque={"caller": {"type": "direct"}, "extra_content": 1})
    [block] = written(user(), model(mine), tool(result()))[1]["content"]
    assert block.keys() == {"type", "id", "name", "input", "caller"}


def test_results_are_in_one_message_before_what_the_user_says():
    calls = model(call("c1", "t1"), call("c2", "t2"))
    results = tool(result(PICTURE), result(call_id="c2", is_error=True))
    [_, _, content] = written(user(), calls, results, user("and?"))
    source = {"type": "base64", "media_type": "image/png", "data": "aQ=="}
    shown, failed = {"type": "image", "source": source}, {"type": "text", "text": "r"}
    head = {"type": "tool_result"}
    assert content["content"] == [
        {**head, "tool_use_id": "t1", "content": [shown]},
        {**head, "tool_use_id": "t2", "content": [failed], "is_error": True},
        {"type": "text", "text": "and?"},
    ]


def test_what_an_error_shows_is_behind_all_results():
    calls = model(call("c1", "t1"), call("c2", "t2"))
    results = tool(result("boom", PICTURE, is_error=True), result(PICTURE, call_id="c2"))
    failed, shown, behind, request = written(user(), calls, results, user("and?"))[2]["content"]
    texts = [block["text"] for block in failed["content"]]
    assert texts == ["boom", "[shown after the results]"]
    assert shown["content"] == [behind]
    assert (behind["type"], request["text"]) == ("image", "and?")


def test_ids_that_a_server_gives_twice_are_distinguished():
    history = [user()]
    for key in ("c1", "c2"):
        history += [model(call(key, "call_0")), tool(result(call_id=key))]
    [_, first, one, second, two] = written(*history)
    ids = [message["content"][0]["id"] for message in (first, second)]
    assert ids[0] == "call_0" != ids[1]
    assert [message["content"][0]["tool_use_id"] for message in (one, two)] == ids


def test_files_are_documents_if_they_can_be_read():
    files = [
        file("a", "application/pdf", b"p"),
        file("b", "text/markdown", b"t"),
        file("c", "text/plain", b" "),
        file("d", "application/zip", b"z"),
    ]
    pdf, text, blank, other = written(user(*files))[0]["content"]
    assert (pdf["source"]["type"], pdf["title"]) == ("base64", "a")
    assert text["source"] == {"type": "text", "media_type": "text/plain", "data": "t"}
    assert text["title"] == "b"
    assert {blank["type"], other["type"]} == {"text"}
    assert "application/zip" in other["text"]


def marks(payload: dict) -> list[str]:
    places = {name: payload.get(name, []) for name in ("tools", "system")}
    places |= {str(n): message["content"] for n, message in enumerate(payload["messages"])}
    return [where for where, blocks in places.items() for b in blocks if "cache_control" in b]


def test_tools_instructions_and_the_last_two_of_the_user_are_marked():
    history = [user("a"), model("b"), user("c"), model(call()), tool(result())]
    request = Request(system="s", messages=history, tools=[TOOL, TOOL])
    payload = write(request)
    assert marks(payload) == ["tools", "system", "2", "4"]
    assert "cache_control" not in payload["tools"][0]
    assert marks(write(request, cached=False)) == []


def test_the_last_mark_of_a_request_is_in_the_next_one_too():
    history: list[Message] = [user("a")]
    encoder = histories_of()
    last = None
    for number in range(6):
        messages = json.loads(b"".join(encoder.written(history).pieces))
        marked = [
            [{k: v for k, v in block.items() if k != "cache_control"} for block in m["content"]]
            for m in messages
            if "cache_control" in m["content"][-1]
        ]
        assert last is None or last in marked
        last = marked[-1]
        calls = [call(f"c{number}_{n}", f"t{number}_{n}") for n in range(30)]
        history += [model(*calls), tool(*[result(call_id=each.id) for each in calls])]


def test_an_answer_has_a_limit_even_if_none_is_known():
    request = Request(messages=[user("x")])
    assert write(request)["max_tokens"] == 32_000
    assert write(request, output=8_192)["max_tokens"] == 8_192
    assert write(request, output=128_000)["max_tokens"] == 64_000
    assert write(Request(messages=[], max_output_tokens=9))["max_tokens"] == 9


def test_a_schema_is_that_of_an_object_and_else_untouched():
    properties = {"z": {"anyOf": [{"type": "string"}]}, "a": {}}
    schema = {"anyOf": [{}], "properties": properties, "$defs": {"x": 1}}
    odd = Tool(name="f", description="d", parameters=schema)
    [tool] = write(Request(messages=[], tools=[odd]), cached=False)["tools"]
    del schema["anyOf"]
    assert tool["input_schema"] == {**schema, "type": "object"}
    assert list(tool["input_schema"]["properties"]) == ["z", "a"]


def test_tools_and_the_providers_search_are_offered_where_they_are_wanted():
    request = Request(messages=[user("x")], tools=[TOOL])
    names = [tool["name"] for tool in write(request, web_search=True)["tools"]]
    assert names == ["f", "web_search"]
    assert len(write(request)["tools"]) == 1
    plain = Request(messages=[user("x")])
    assert write(plain).keys() == {"model", "max_tokens", "stream", "messages"}
    assert "tools" not in write(plain, web_search=True)
    called = write(Request(messages=[user("x"), model(call()), tool(result())]))
    assert called["tools"], "a history with calls needs some"
    assert called["tool_choice"] == {"type": "none"}


@pytest.mark.parametrize(
    ("choice", "effort", "expected"),
    [
        ("auto", None, None),
        ("none", None, {"type": "none"}),
        ("required", None, {"type": "any"}),
        ("required", "none", {"type": "any"}),
        ("required", "high", None),
    ],
)
def test_a_call_is_not_forced_beside_thinking(choice, effort, expected):
    request = Request(messages=[user()], tools=[TOOL], tool_choice=choice, reasoning_effort=effort)
    known = thinking_support("claude-opus-4-7", Capabilities())
    assert write(request, known=known).get("tool_choice") == expected


ADAPTIVE = {"type": "adaptive", "display": "summarized"}


def budget(tokens: int) -> dict:
    return {"type": "enabled", "budget_tokens": tokens}


def fields(name: str, effort: str | None, *history: Message, **options) -> dict:
    request = Request(
        messages=history or [user()],
        reasoning_effort=effort,
        max_output_tokens=options.pop("max_tokens", None),
    )
    payload = write(request, known=thinking_support(name, Capabilities(**options)))
    return {k: payload[k] for k in ("thinking", "output_config") if k in payload}


@pytest.mark.parametrize(
    ("name", "effort", "thinking", "output"),
    [
        ("claude-opus-4-7", None, None, None),
        ("claude-opus-4-7", "none", {"type": "disabled"}, None),
        ("claude-opus-4-7", "xhigh", ADAPTIVE, "xhigh"),
        ("claude-opus-4-7-20260401", "minimal", ADAPTIVE, "low"),
        ("claude-sonnet-4-6", "xhigh", ADAPTIVE, "high"),
        ("claude-sonnet-4-6", "default", ADAPTIVE, None),
        ("claude-opus-5-5", None, ADAPTIVE, None),
        ("claude-opus-5-5", "none", ADAPTIVE, None),
        ("claude-fable-5-1", "low", ADAPTIVE, "low"),
        ("claude-fable-5", None, None, None),
        ("claude-new", "high", ADAPTIVE, "high"),
        ("us.anthropic.claude-haiku-4-5-20251001-v1:0", "low", budget(4_096), None),
        ("claude-sonnet-4@20250514", "medium", budget(10_000), None),
        ("anthropic/claude-3.7-sonnet", "high", budget(20_000), None),
        ("claude-3-7-sonnet-latest", "max", budget(27_904), None),
        ("claude-3-5-sonnet-20241022", "high", None, None),
        ("claude-3-opus-20240229", "high", None, None),
        ("glm-5", "high", budget(20_000), None),
        ("kimi-k3", None, None, None),
    ],
)
def test_a_model_is_asked_for_thinking_as_its_name_says(name, effort, thinking, output):
    written_fields = fields(name, effort)
    assert written_fields.get("thinking") == thinking
    assert written_fields.get("output_config") == (output and {"effort": output})


def test_what_the_endpoint_says_counts_more_than_the_name():
    kinds = {"thinking": frozenset({"adaptive"}), "efforts": ("low", "max")}
    expected = {"thinking": ADAPTIVE, "output_config": {"effort": "max"}}
    assert fields("claude-3-opus", "xhigh", **kinds) == expected
    assert fields("claude-opus-4-7", "high", thinking=frozenset()) == {}


def test_a_budget_leaves_tokens_for_the_answer():
    assert fields("claude-haiku-4-5", "max", max_tokens=6_000) == {"thinking": budget(3_000)}
    assert fields("claude-haiku-4-5", "max", max_tokens=2_000) == {}


def test_a_loop_that_began_without_thinking_continues_without():
    with_it = [user("x"), model(THOUGHT, call()), tool(result())]
    without = [user("x"), model("a", call()), tool(result())]
    foreign = [user("x"), model(THOUGHT, call(), origin=THEIRS), tool(result())]
    name = "claude-haiku-4-5"
    assert "thinking" in fields(name, "low", *with_it)
    assert fields(name, "low", *without) == fields(name, "low", *foreign) == {}
    assert "thinking" in fields(name, "low", *without, model("b"), user("y"))
    assert "thinking" in fields("claude-opus-4-7", "low", *without)

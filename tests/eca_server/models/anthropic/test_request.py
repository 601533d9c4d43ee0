"""Requests of the Messages API, checked by an independent copy of its rules."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.anthropic.messages import MessagesWriter
from eca_server.models.anthropic.request import mark_messages, write_request
from eca_server.models.anthropic.thinking import ThinkingSupport, thinking_support
from eca_server.models.backend import Request, Tool
from eca_server.models.encoding import HistoryEncoder, encoded
from eca_server.models.facts import Capabilities
from eca_server.models.history import (
    BlockPart,
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    RefusalPart,
    ServerToolPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from tests.eca_server.models.anthropic.scripted import citation, search_result
from tests.eca_server.models.histories import OURS, THEIRS, histories_with
from tests.eca_server.models.reading import growth_test

SEARCHED = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
SEARCH_RESULT = search_result("https://a.example", call_id="srv_1")(0)[0]["content_block"]
CITED = {"type": "text", "text": "a", "citations": [citation("https://a.example", "A")]}

own = st.sampled_from(
    [
        ReasoningPart(text="hm", opaque={"signature": "secret"}),
        ReasoningPart(opaque={"signature": "secret"}),
        ReasoningPart(opaque={"data": "secret"}, redacted=True),
        ReasoningPart(text="hm"),
        BlockPart(raw=SEARCHED),
        ServerToolPart(kind="web_search", raw=SEARCH_RESULT),
        BlockPart(raw=CITED),
        RefusalPart("no"),
        FilePart(name="f", media_type="text/plain", data=b"f"),
        FilePart(name="f", media_type="application/pdf", data=b"f"),
        FilePart(name="f", media_type="application/zip", data=b"f"),
        ImagePart(media_type="image/png", data=b"i"),
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


def user(*parts) -> Message:
    content = [TextPart(part) if isinstance(part, str) else part for part in parts]
    return Message(role="user", parts=tuple(content))


def answer(*parts, origin=OURS, **fields) -> Message:
    content = [TextPart(part) if isinstance(part, str) else part for part in parts]
    return Message(role="assistant", parts=tuple(content), origin=origin, **fields)


def call(call_id="c1", provider_id="toolu_1", **fields) -> ToolCallPart:
    given_ = {"name": "f", "raw": '{"n":1}', "arguments": {"n": 1}, **fields}
    return ToolCallPart(id=call_id, provider_id=provider_id, **given_)


def result(call_id="c1", *parts, **fields) -> ToolResultPart:
    return ToolResultPart(call_id=call_id, parts=parts or (TextPart("r"),), **fields)


def tool(*results: ToolResultPart) -> Message:
    return Message(role="tool", parts=results)


@given(histories, st.booleans(), st.sampled_from([(), (TOOL,)]), st.booleans())
def test_every_history_is_written_as_the_api_wants_it(history, images, tools, search):
    request = Request(system="s", messages=history, tools=tools)
    payload = write(request, images=images, web_search=search)
    check(payload)
    written = json.dumps(payload)
    if not any(message.origin == OURS for message in history):
        assert "secret" not in written
        assert "srv_1" not in written
    if not images:
        assert '"image"' not in written


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


class TestWhatGoesBack:
    def test_an_own_answer_is_what_came(self):
        first = ReasoningPart(text="hm", opaque={"signature": "s1"})
        hidden = ReasoningPart(opaque={"data": "d"}, redacted=True)
        empty = ReasoningPart(opaque={"signature": "s2"})
        parts = (first, hidden, "Let me see. ", empty, call())
        [_, written, _] = write(
            Request(messages=[user("x"), answer(*parts), tool(result())], tools=[TOOL])
        )["messages"]
        assert written["content"] == [
            {"type": "thinking", "thinking": "hm", "signature": "s1"},
            {"type": "redacted_thinking", "data": "d"},
            {"type": "text", "text": "Let me see. "},
            {"type": "thinking", "thinking": "", "signature": "s2"},
            {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {"n": 1}},
        ]

    def test_of_a_foreign_one_only_what_everybody_knows(self):
        thought = ReasoningPart(text="hm", opaque={"signature": "s"})
        searched = ServerToolPart(kind="web_search", raw=SEARCH_RESULT)
        parts = (thought, "Said \n", searched, call(opaque={"caller": {}}))
        [_, written, given_] = write(
            Request(messages=[user("x"), answer(*parts, origin=THEIRS), tool(result())])
        )["messages"]
        assert written["content"] == [
            {"type": "text", "text": "Said"},
            {"type": "text", "text": "[used web_search]"},
            {"type": "tool_use", "id": "c1", "name": "f", "input": {"n": 1}},
        ]
        assert given_["content"][0]["tool_use_id"] == "c1"

    def test_a_search_is_what_came_with_its_quotations(self):
        parts = (
            TextPart("I look. "),
            BlockPart(raw=SEARCHED),
            ServerToolPart(kind="web_search", raw=SEARCH_RESULT),
            TextPart("As a"),
            BlockPart(raw=CITED),
            TextPart(" says."),
        )
        written = write(Request(messages=[user("x"), answer(*parts), user("y")]))["messages"][1]
        assert written["content"] == [
            {"type": "text", "text": "I look. "},
            SEARCHED,
            SEARCH_RESULT,
            {"type": "text", "text": "As "},
            CITED,
            {"type": "text", "text": " says."},
        ]

    def test_of_a_call_what_this_api_knows_goes_back(self):
        mine = call(opaque={"caller": {"type": "direct"}, "extra_content": 1})
        written = write(Request(messages=[user("x"), answer(mine), tool(result())]))["messages"][1]
        assert written["content"][0].keys() == {"type", "id", "name", "input", "caller"}

    def test_an_answer_does_not_end_with_a_thought(self):
        thought = ReasoningPart(text="hm", opaque={"signature": "s"})
        history = [user("x"), answer(thought, "a", thought, thought), user("y")]
        written = write(Request(messages=history))["messages"][1]
        assert [block["type"] for block in written["content"]] == ["thinking", "text"]

    def test_half_a_search_does_not_go_back(self):
        halves = [
            answer("a", BlockPart(raw=SEARCHED)),
            answer("a", ServerToolPart(kind="web_search", raw=SEARCH_RESULT), interrupted=True),
        ]
        for half in halves:
            written = write(Request(messages=[user("x"), half, user("y")]))["messages"][1]
            assert {block["type"] for block in written["content"]} == {"text"}

    def test_results_are_in_one_message_before_what_the_user_says(self):
        calls = [call("c1", "t1"), call("c2", "t2")]
        picture = ImagePart(media_type="image/png", data=b"i")
        results = tool(result("c1", picture), result("c2", is_error=True))
        [_, _, content] = write(
            Request(messages=[user("x"), answer(*calls), results, user("and?")]), cached=False
        )["messages"]
        source = {"type": "base64", "media_type": "image/png", "data": "aQ=="}
        assert content["content"] == [
            {
                "type": "tool_result",
                "tool_use_id": "t1",
                "content": [{"type": "image", "source": source}],
            },
            {
                "type": "tool_result",
                "tool_use_id": "t2",
                "content": [{"type": "text", "text": "r"}],
                "is_error": True,
            },
            {"type": "text", "text": "and?"},
        ]

    def test_what_an_error_shows_is_behind_all_results(self):
        calls = [call("c1", "t1"), call("c2", "t2")]
        picture = ImagePart(media_type="image/png", data=b"i")
        results = tool(
            result("c1", TextPart("boom"), picture, is_error=True), result("c2", picture)
        )
        [_, _, content] = write(
            Request(messages=[user("x"), answer(*calls), results, user("and?")]), cached=False
        )["messages"]
        failed, shown, behind, request = content["content"]
        assert failed["content"] == [
            {"type": "text", "text": "boom"},
            {"type": "text", "text": "[shown after the results]"},
        ]
        assert shown["content"] == [behind]
        assert (behind["type"], request["text"]) == ("image", "and?")

    def test_ids_that_a_server_gives_twice_are_distinguished(self):
        history = [user("x")]
        for key in ("c1", "c2"):
            history += [answer(call(key, "call_0")), tool(result(key))]
        [_, first, one, second, two] = write(Request(messages=history))["messages"]
        ids = [message["content"][0]["id"] for message in (first, second)]
        assert ids[0] == "call_0" != ids[1]
        assert [message["content"][0]["tool_use_id"] for message in (one, two)] == ids

    def test_files_are_documents_if_they_can_be_read(self):
        files = [
            FilePart(name="a", media_type="application/pdf", data=b"p"),
            FilePart(name="b", media_type="text/markdown", data=b"t"),
            FilePart(name="c", media_type="text/plain", data=b" "),
            FilePart(name="d", media_type="application/zip", data=b"z"),
        ]
        [message] = write(Request(messages=[user(*files)]), cached=False)["messages"]
        pdf, text, blank, other = message["content"]
        assert (pdf["source"]["type"], pdf["title"]) == ("base64", "a")
        assert text["source"] == {"type": "text", "media_type": "text/plain", "data": "t"}
        assert text["title"] == "b"
        assert {blank["type"], other["type"]} == {"text"}
        assert "application/zip" in other["text"]


class TestCache:
    def marks(self, payload: dict) -> list[str]:
        return [
            where
            for where, blocks in (
                ("tools", payload.get("tools", [])),
                ("system", payload.get("system", [])),
                *((str(n), m["content"]) for n, m in enumerate(payload["messages"])),
            )
            for block in blocks
            if "cache_control" in block
        ]

    def test_tools_instructions_and_the_last_two_of_the_user_are_marked(self):
        history = [user("a"), answer("b"), user("c"), answer(call()), tool(result())]
        payload = write(Request(system="s", messages=history, tools=[TOOL, TOOL]))
        assert self.marks(payload) == ["tools", "system", "2", "4"]
        assert "cache_control" not in payload["tools"][0]

    def test_the_last_mark_of_a_request_is_in_the_next_one_too(self):
        history: list[Message] = [user("a")]
        encoder = histories_of()
        last = None
        for number in range(6):
            written = json.loads(b"".join(encoder.written(history).pieces))
            marked = [
                [{k: v for k, v in block.items() if k != "cache_control"} for block in m["content"]]
                for m in written
                if "cache_control" in m["content"][-1]
            ]
            assert last is None or last in marked
            last = marked[-1]
            calls = [call(f"c{number}_{n}", f"t{number}_{n}") for n in range(30)]
            history += [answer(*calls), tool(*[result(each.id) for each in calls])]

    def test_none_is_marked_for_who_refuses_marks(self):
        history = [user("a"), answer("b"), user("c")]
        request = Request(system="s", messages=history, tools=[TOOL])
        assert self.marks(write(request, cached=False)) == []


class TestFields:
    def test_an_answer_has_a_limit_even_if_none_is_known(self):
        request = Request(messages=[user("x")])
        assert write(request)["max_tokens"] == 32_000
        assert write(request, output=8_192)["max_tokens"] == 8_192
        assert write(request, output=128_000)["max_tokens"] == 64_000
        assert write(Request(messages=[], max_output_tokens=9))["max_tokens"] == 9

    def test_without_tools_or_instructions_there_are_no_such_fields(self):
        assert write(Request(messages=[user("x")])).keys() == {
            "model",
            "max_tokens",
            "stream",
            "messages",
        }

    def test_a_history_with_calls_has_tools_that_may_not_be_used(self):
        payload = write(Request(messages=[user("x"), answer(call()), tool(result())]))
        assert payload["tools"]
        assert payload["tool_choice"] == {"type": "none"}

    def test_a_schema_is_that_of_an_object_and_else_untouched(self):
        properties = {"z": {"anyOf": [{"type": "string"}]}, "a": {}}
        schema = {"anyOf": [{}], "properties": properties, "$defs": {"x": 1}}
        odd = Tool(name="f", description="d", parameters=schema)
        [written] = write(Request(messages=[], tools=[odd]), cached=False)["tools"]
        assert written["input_schema"] == {
            "properties": properties,
            "$defs": {"x": 1},
            "type": "object",
        }
        assert list(written["input_schema"]["properties"]) == ["z", "a"]

    def test_the_providers_search_is_offered_beside_tools_where_it_is_wanted(self):
        request = Request(messages=[user("x")], tools=[TOOL])
        names = [tool["name"] for tool in write(request, web_search=True)["tools"]]
        assert names == ["f", "web_search"]
        assert len(write(request)["tools"]) == 1
        assert "tools" not in write(Request(messages=[user("x")]), web_search=True)

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
    def test_a_call_is_not_forced_beside_thinking(self, choice, effort, expected):
        request = Request(
            messages=[user("x")], tools=[TOOL], tool_choice=choice, reasoning_effort=effort
        )
        known = thinking_support("claude-opus-4-7", Capabilities())
        assert write(request, known=known).get("tool_choice") == expected


ADAPTIVE = {"type": "adaptive", "display": "summarized"}


def budget(tokens: int) -> dict:
    return {"type": "enabled", "budget_tokens": tokens}


class TestThinking:
    def fields(self, model: str, effort: str | None, *history: Message, **options) -> dict:
        request = Request(
            messages=list(history) or [user("x")],
            reasoning_effort=effort,
            max_output_tokens=options.pop("max_tokens", None),
        )
        payload = write(request, known=thinking_support(model, Capabilities(**options)))
        return {k: payload[k] for k in ("thinking", "output_config") if k in payload}

    @pytest.mark.parametrize(
        ("model", "effort", "thinking", "output"),
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
    def test_a_model_is_asked_as_its_name_says(self, model, effort, thinking, output):
        fields = self.fields(model, effort)
        assert fields.get("thinking") == thinking
        assert fields.get("output_config") == (output and {"effort": output})

    def test_what_the_endpoint_says_counts_more_than_the_name(self):
        kinds = {"thinking": frozenset({"adaptive"}), "efforts": ("low", "max")}
        fields = self.fields("claude-3-opus", "xhigh", **kinds)
        assert fields == {"thinking": ADAPTIVE, "output_config": {"effort": "max"}}
        assert self.fields("claude-opus-4-7", "high", thinking=frozenset()) == {}

    def test_a_budget_leaves_tokens_for_the_answer(self):
        assert self.fields("claude-haiku-4-5", "max", max_tokens=6_000) == {
            "thinking": budget(3_000)
        }
        assert self.fields("claude-haiku-4-5", "max", max_tokens=2_000) == {}

    def test_a_loop_that_began_without_thinking_continues_without(self):
        thought = ReasoningPart(text="hm", opaque={"signature": "s"})
        with_it = [user("x"), answer(thought, call()), tool(result())]
        without = [user("x"), answer("a", call()), tool(result())]
        foreign = [user("x"), answer(thought, call(), origin=THEIRS), tool(result())]
        model = "claude-haiku-4-5"
        assert "thinking" in self.fields(model, "low", *with_it)
        assert self.fields(model, "low", *without) == {}
        assert self.fields(model, "low", *foreign) == {}
        assert "thinking" in self.fields(model, "low", *without, answer("b"), user("y"))
        assert "thinking" in self.fields("claude-opus-4-7", "low", *without)

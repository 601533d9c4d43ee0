"""Requests of the Messages API: what no other API has."""

import pytest

from eca_server.models.backend import Request, Tool
from eca_server.models.history import BlockPart, Message, ReasoningPart, ServerToolPart
from tests.eca_server.models.anthropic.scripted import citation, search_result
from tests.eca_server.models.histories import THEIRS, model, tool, tool_call, tool_result, user
from tests.eca_server.models.reading import TOOL
from tests.eca_server.models.written import backend_of, payload_of, write_history
from tests.eca_server.models.written import write as write_any

SEARCHED = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
SEARCH_RESULT = search_result("https://a.example", call_id="srv_1")(0)[0]["content_block"]
CITED = {"type": "text", "text": "a", "citations": [citation("https://a.example", "A")]}
THOUGHT = ReasoningPart(text="hm", opaque={"signature": "secret"})


def write(*history: Message, **options) -> dict:
    return write_any("anthropic", *(history or [user()]), **options)


def call(call_id="c1", provider_id="toolu_1", **fields):
    return tool_call(call_id, provider_id=provider_id, raw='{"n":1}', arguments={"n": 1}, **fields)


def result(call_id="c1"):
    return tool(tool_result(call_id))


def test_a_search_goes_back_as_it_came_with_its_quotations():
    found = ServerToolPart(kind="web_search", raw=SEARCH_RESULT)
    parts = ("I look. ", BlockPart(raw=SEARCHED), found, "As a", BlockPart(raw=CITED), " is.")
    assert write_history("anthropic", user(), model(*parts), user())[1]["content"] == [
        {"type": "text", "text": "I look. "},
        SEARCHED,
        SEARCH_RESULT,
        {"type": "text", "text": "As "},
        CITED,
        {"type": "text", "text": " is."},
    ]


def test_of_a_call_what_this_api_knows_goes_back():
    mine = call(opaque={"caller": {"type": "direct"}, "extra_content": 1})
    [block] = write_history("anthropic", user(), model(mine), result())[1]["content"]
    assert block.keys() == {"type", "id", "name", "input", "caller"}


def test_ids_that_a_server_gives_twice_are_distinguished():
    history = [user()]
    for key in ("c1", "c2"):
        history += [model(call(key, "call_0")), result(key)]
    [_, first, one, second, two] = write_history("anthropic", *history)
    ids = [message["content"][0]["id"] for message in (first, second)]
    assert ids[0] == "call_0" != ids[1]
    assert [message["content"][0]["tool_use_id"] for message in (one, two)] == ids


def marks(payload: dict) -> list[str]:
    places = {name: payload.get(name, []) for name in ("tools", "system")}
    places |= {str(n): message["content"] for n, message in enumerate(payload["messages"])}
    return [where for where, blocks in places.items() for b in blocks if "cache_control" in b]


def test_tools_instructions_and_the_last_two_of_the_user_are_marked():
    history = [user("a"), model("b"), user("c"), model(call()), result()]
    payload = write(*history, system="s", tools=[TOOL, TOOL])
    assert marks(payload) == ["tools", "system", "2", "4"]
    assert "cache_control" not in payload["tools"][0]


def test_the_last_mark_of_a_request_is_in_the_next_one_too():
    history: list[Message] = [user("a")]
    backend = backend_of("anthropic")
    last = None
    for number in range(6):
        marked = [
            [{k: v for k, v in block.items() if k != "cache_control"} for block in m["content"]]
            for m in payload_of(backend, Request(messages=history))["messages"]
            if "cache_control" in m["content"][-1]
        ]
        assert last is None or last in marked
        last = marked[-1]
        calls = [call(f"c{number}_{n}", f"t{number}_{n}") for n in range(30)]
        history += [model(*calls), tool(*[tool_result(each.id) for each in calls])]


def test_an_answer_has_a_limit_even_if_none_is_known():
    limits = [write(output=output)["max_tokens"] for output in (None, 8_192, 128_000)]
    assert limits == [32_000, 8_192, 64_000]


def test_a_schema_is_that_of_an_object_and_else_untouched():
    properties = {"z": {"anyOf": [{"type": "string"}]}, "a": {}}
    schema = {"anyOf": [{}], "properties": properties, "$defs": {"x": 1}}
    [tool] = write(tools=[Tool(name="f", description="d", parameters=schema)])["tools"]
    del schema["anyOf"]
    assert tool["input_schema"] == {**schema, "type": "object"}
    assert list(tool["input_schema"]["properties"]) == ["z", "a"]


def test_tools_and_the_providers_search_are_offered_where_they_are_wanted():
    offered = write(tools=[TOOL], web_search=True)["tools"]
    assert [tool["name"] for tool in offered] == ["f", "web_search"]
    assert len(write(tools=[TOOL])["tools"]) == 1
    assert "tools" not in write(web_search=True)
    called = write(user("x"), model(call()), result())
    assert called["tools"], "a history with calls needs some"
    assert called["tool_choice"] == {"type": "none"}


@pytest.mark.parametrize(("effort", "expected"), [("none", {"type": "any"}), ("high", None)])
def test_a_call_is_not_forced_beside_thinking(effort, expected):
    fields = {"tools": [TOOL], "tool_choice": "required", "reasoning_effort": effort}
    assert write(model="claude-opus-4-7", **fields).get("tool_choice") == expected


def test_a_loop_that_began_without_thinking_continues_without():
    def thinks(*history: Message, name="claude-haiku-4-5") -> bool:
        return "thinking" in write(*history, model=name, reasoning_effort="low")

    without = [user("x"), model("a", call()), result()]
    foreign = [user("x"), model(THOUGHT, call(), origin=THEIRS), result()]
    assert thinks(user("x"), model(THOUGHT, call()), result())
    assert not thinks(*without)
    assert not thinks(*foreign)
    assert thinks(*without, model("b"), user("y"))
    assert thinks(*without, name="claude-opus-4-7")

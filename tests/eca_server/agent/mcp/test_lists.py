"""Lists of servers: in pages, without end, damaged, or not there at all."""

from __future__ import annotations

from typing import Any

import pytest

from eca_server.agent.mcp import conversation
from eca_server.agent.mcp import session as session_module
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.session import MAX_ITEMS, MAX_PAGES
from tests.eca_server.agent.mcp.scripted import session_with
from tests.eca_server.agent.mcp.scripted_server import INFO


def page(*names: Any, **more: Any) -> dict[str, Any]:
    return {"tools": [{"name": name} for name in names], **more}


def pages(*results: Any) -> dict[str, Any]:
    """A script that answers the first `tools/list` with the first page, and so on."""
    steps = [["result", results[0]]]
    for result in results[1:]:
        steps += [["read_until", "tools/list"], ["echo_answer"], ["answer_that", result]]
    return {"on": {"tools/list": steps}}


async def names_of(script: dict[str, Any], log: ServerLog | None = None) -> list[str]:
    async with session_with(script, log) as session:
        return [tool.name for tool in await session.list_tools()]


@pytest.mark.parametrize("end", [{}, {"nextCursor": None}, {"nextCursor": ""}])
async def test_all_pages_are_read_up_to_the_last(end):
    script = pages(page("a", nextCursor="2"), page("b", nextCursor="3"), page("c", **end))
    assert await names_of(script) == ["a", "b", "c"]


async def test_a_cursor_that_is_no_text_is_given_back_as_it_came():
    log = ServerLog("bad")
    assert await names_of(pages(page("a", nextCursor=7), page("b")), log) == ["a", "b"]
    assert '"cursor": 7' in log.last_lines() or '"cursor":7' in log.last_lines()


async def test_the_same_cursor_again_ends_the_walk():
    script = {"on": {"tools/list": [["result", page("a", "b", nextCursor="same")]]}}
    assert await names_of(script) == ["a", "b"]


async def test_new_cursors_for_ever_end_after_a_number_of_pages():
    names = [f"t{number}" for number in range(MAX_PAGES + 2)]
    script = pages(*(page(name, nextCursor=name) for name in names))
    assert await names_of(script) == names[:MAX_PAGES]


async def test_tools_without_end_are_cut():
    names = [f"t{number}" for number in range(MAX_ITEMS)]
    script = pages(page(*names[1:], nextCursor="2"), page("c", "d", nextCursor="3"), page("e"))
    assert await names_of(script) == [*names[1:], "c"]


async def test_an_empty_cursor_continues_in_stateless_eras():
    discovered = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    script = pages(page("a", nextCursor=""), page("b"))
    script["on"]["server/discover"] = [["result", discovered]]
    async with session_with(script, revision="2026-07-28") as session:
        assert [tool.name for tool in await session.list_tools()] == ["a", "b"]


async def test_a_damaged_tool_costs_itself_alone(caplog):
    tools = [
        {"description": "no name"},
        {"name": 7},
        "text",
        None,
        {"name": ""},
        {"name": "bad", "inputSchema": "string"},
        {"name": "task", "execution": {"taskSupport": "required"}},
        {"name": "good", "inputSchema": None, "outputSchema": 3, "annotations": []},
    ]
    script = {"on": {"tools/list": [["result", {"tools": tools}]]}}
    assert await names_of(script) == ["good"]
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 7
    assert any("tools[5]: bad: inputSchema" in warning for warning in warnings)


async def test_of_tools_with_one_name_the_first_counts(caplog):
    tools = [{"name": "a", "description": "first"}, {"name": "a", "description": "second"}]
    script = {"on": {"tools/list": [["result", {"tools": tools}]]}}
    async with session_with(script) as session:
        [tool] = await session.list_tools()
    assert tool.description == "first"
    assert "'a' more than once" in caplog.text


@pytest.mark.parametrize("result", [{}, None, [], {"tools": None}, {"tools": "none"}])
async def test_an_invalid_list_is_empty(result):
    assert await names_of({"on": {"tools/list": [["result", result]]}}) == []


async def test_a_method_that_is_not_there_is_an_empty_list():
    missing = [["error", -32601, "Method not found"]]
    script = {"on": {"prompts/list": missing, "resources/list": missing, "tools/list": missing}}
    async with session_with(script) as session:
        assert await session.list_tools() == ()
        assert await session.list_prompts() == ()
        assert await session.list_resources() == ()


async def test_a_different_error_is_raised_with_the_servers_message():
    script = {"on": {"tools/list": [["error", -32603, "the database is down"]]}}
    async with session_with(script) as session:
        with pytest.raises(MCPError, match="the database is down") as raised:
            await session.list_tools()
    assert raised.value.kind == "refused"


async def test_an_unanswered_list_times_out(monkeypatch):
    for conversation_module in (conversation, session_module):
        monkeypatch.setattr(conversation_module, "ANSWER_SECONDS", 0.2)
    script = {"on": {"prompts/list": []}}
    async with session_with(script) as session:
        with pytest.raises(MCPError) as raised:
            await session.list_prompts()
        assert raised.value.kind == "timeout"
        assert [tool.name for tool in await session.list_tools()] == ["echo"]


async def test_undeclared_lists_are_not_requested():
    only_tools = {**INFO, "capabilities": {"tools": {}}}
    script = {"on": {"initialize": [["result", only_tools]], "prompts/list": [["exit", 1]]}}
    async with session_with(script) as session:
        assert await session.list_prompts() == ()
        assert await session.list_resources() == ()
        assert await session.list_resource_templates() == ()
        assert len(await session.list_tools()) == 1


async def test_a_server_that_declares_nothing_is_asked_for_tools():
    nothing = {**INFO, "capabilities": {}}
    async with session_with({"on": {"initialize": [["result", nothing]]}}) as session:
        assert [tool.name for tool in await session.list_tools()] == ["echo"]


async def test_prompts_and_resources_are_listed_and_given():
    prompt = {
        "name": "review",
        "arguments": [{"name": "file", "required": True}, {"description": "nameless"}, 3],
    }
    message = {"role": "user", "content": {"type": "text", "text": "Review it."}}
    resource = {"uri": "file:///a", "mimeType": "text/plain", "size": 3}
    template = {"uriTemplate": "file:///{path}", "name": "files"}
    contents = [{"uri": "file:///a", "text": "abc"}, {"uri": "file:///b", "blob": "AAE="}]
    script = {
        "on": {
            "prompts/list": [["result", {"prompts": [prompt]}]],
            "prompts/get": [["result", {"messages": [message]}]],
            "resources/list": [["result", {"resources": [resource]}]],
            "resources/templates/list": [["result", {"resourceTemplates": [template]}]],
            "resources/read": [["result", {"contents": contents}]],
        }
    }
    async with session_with(script) as session:
        [found] = await session.list_prompts()
        assert [(argument.name, argument.required) for argument in found.arguments] == [
            ("file", True)
        ]
        given = await session.get_prompt("review", {"file": "a.py"})
        assert given.messages[0].role == "user"
        [listed] = await session.list_resources()
        assert (listed.uri, listed.name, listed.size) == ("file:///a", "file:///a", 3)
        [family] = await session.list_resource_templates()
        assert family.uri_template == "file:///{path}"
        text, blob = await session.read_resource("file:///a")
        assert text.text == "abc"
        assert (blob.text, blob.blob) == (None, b"\x00\x01")


async def test_a_resource_that_is_not_there_is_an_error():
    script = {"on": {"resources/read": [["error", -32002, "Resource not found"]]}}
    async with session_with(script) as session:
        with pytest.raises(MCPError, match="Resource not found") as raised:
            await session.read_resource("file:///gone")
    assert raised.value.kind == "refused"

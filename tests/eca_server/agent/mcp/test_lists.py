"""Lists of servers: in pages, without end, damaged, or not there at all."""

from typing import Any

import pytest

from eca_server.agent.mcp import conversation
from eca_server.agent.mcp import session as session_module
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.session import MAX_ITEMS, MAX_PAGES
from tests.eca_server.agent.mcp.scripted import error_of, session_with, stateless_session
from tests.eca_server.agent.mcp.scripted_server import INFO


def page(*names: Any, **more: Any) -> dict[str, Any]:
    return {"tools": [{"name": name} for name in names], **more}


def pages(*results: Any) -> dict[str, Any]:
    """Return steps that answer the first `tools/list` with the first page, and so on."""
    steps = [["result", results[0]]]
    for result in results[1:]:
        steps += [["read_until", "tools/list"], ["echo_answer"], ["answer_that", result]]
    return {"tools/list": steps}


async def names_of(on: dict[str, Any], log: ServerLog | None = None) -> list[str]:
    async with session_with({"on": on}, log) as session:
        return [tool.name for tool in await session.list_tools()]


PAGES = [f"t{number}" for number in range(MAX_PAGES + 2)]
ITEMS = [f"t{number}" for number in range(MAX_ITEMS)]
WITHOUT_END = [page(name, nextCursor=name) for name in PAGES]
MANY = [page(*ITEMS[1:], nextCursor="2"), page("c", "d", nextCursor="3"), page("e")]


@pytest.mark.parametrize(
    ("results", "names"),
    [
        ([page("a", nextCursor="2"), page("b", nextCursor="3"), page("c")], ["a", "b", "c"]),
        ([page("a", nextCursor="2"), page("b", nextCursor=None), page("c")], ["a", "b"]),
        ([page("a", nextCursor="2"), page("b", nextCursor=""), page("c")], ["a", "b"]),
        ([page("a", "b", nextCursor="same"), page("c", nextCursor="same")], ["a", "b", "c"]),
        (WITHOUT_END, PAGES[:MAX_PAGES]),
        (MANY, [*ITEMS[1:], "c"]),
        ([{}], []),
        ([None], []),
        ([[]], []),
        ([{"tools": "none"}], []),
    ],
    ids=["end", "null", "empty", "same", "pages", "items", "nothing", "none", "array", "text"],
)
async def test_all_pages_are_read_up_to_the_last_or_a_limit(results, names):
    assert await names_of(pages(*results)) == names


async def test_a_cursor_that_is_no_text_is_given_back_and_an_empty_one_in_stateless_eras():
    log = ServerLog("bad")
    assert await names_of(pages(page("a", nextCursor=7), page("b")), log) == ["a", "b"]
    assert '"cursor": 7' in log.last_lines() or '"cursor":7' in log.last_lines()
    async with stateless_session(pages(page("a", nextCursor=""), page("b"))) as session:
        assert [tool.name for tool in await session.list_tools()] == ["a", "b"]


async def test_a_damaged_tool_costs_itself_alone_and_of_one_name_the_first_counts(caplog):
    tools = [
        {"description": "no name"},
        {"name": 7},
        "text",
        None,
        {"name": ""},
        {"name": "bad", "inputSchema": "string"},
        {"name": "task", "execution": {"taskSupport": "required"}},
        {"name": "good", "inputSchema": None, "outputSchema": 3, "annotations": []},
        {"name": "a", "description": "first"},
        {"name": "a", "description": "second"},
    ]
    async with session_with({"on": {"tools/list": [["result", {"tools": tools}]]}}) as session:
        good, first = await session.list_tools()
    assert (good.name, first.name, first.description) == ("good", "a", "first")
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == 8
    assert any("tools[5]: bad: inputSchema" in warning for warning in warnings)
    assert "'a' more than once" in warnings[-1]


async def test_a_method_that_is_not_there_is_an_empty_list():
    missing = [["error", -32601, "Method not found"]]
    on = {"prompts/list": missing, "resources/list": missing, "tools/list": missing}
    async with session_with({"on": on}) as session:
        assert await session.list_tools() == ()
        assert await session.list_prompts() == ()
        assert await session.list_resources() == ()


async def test_a_different_error_is_raised_with_the_servers_message():
    gone = [["error", -32002, "Resource not found"]]
    on = {"tools/list": [["error", -32603, "the database is down"]], "resources/read": gone}
    async with session_with({"on": on}) as session:
        for call, words in (
            (session.list_tools(), "the database is down"),
            (session.read_resource("file:///gone"), "Resource not found"),
        ):
            error = await error_of(call)
            assert (error.kind, words in error.message) == ("refused", True)


async def test_an_unanswered_list_times_out(monkeypatch):
    async with session_with({"on": {"prompts/list": []}}) as session:
        with monkeypatch.context() as patched:
            for conversation_module in (conversation, session_module):
                patched.setattr(conversation_module, "ANSWER_SECONDS", 0.2)
            assert (await error_of(session.list_prompts())).kind == "timeout"
        assert [tool.name for tool in await session.list_tools()] == ["echo"]


@pytest.mark.parametrize("capabilities", [{"tools": {}}, {}])
async def test_undeclared_lists_are_not_requested_except_that_of_the_tools(capabilities):
    answer = {**INFO, "capabilities": capabilities}
    on = {"initialize": [["result", answer]], "prompts/list": [["exit", 1]]}
    async with session_with({"on": on}) as session:
        assert await session.list_prompts() == ()
        assert await session.list_resources() == ()
        assert await session.list_resource_templates() == ()
        assert [tool.name for tool in await session.list_tools()] == ["echo"]

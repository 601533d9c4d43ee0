"""`mcpToolSearch`: the model looks for MCP tools, and calls them without a change of its tools."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eca_server.agent.mcp.messages import MCPTool
from tests.eca_server.agent.chat.agent_session import ALLOW, calls, of_calls, results
from tests.eca_server.agent.chat.editor import Editor
from tests.eca_server.agent.chat.mcp_session import Places, session, updates
from tests.eca_server.agent.chat.test_mcp import offered

SCHEMA = {
    "type": "object",
    "properties": {"branch": {"type": "string"}},
    "required": ["branch"],
    "additionalProperties": False,
}
CHECKOUT = MCPTool(name="checkout", description="Switch to a branch.", input_schema=SCHEMA)
LOG = MCPTool(name="log", description="Show commits.", input_schema={"type": "object"})
SEARCH = ("eca_search_tools", {"query": "branch"})


def call(name: str = "git__checkout", **arguments: Any) -> tuple[str, Any]:
    return "eca_call_tool", {"name": name, "arguments": arguments}


@pytest.fixture(autouse=True)
def tools(places: Places) -> None:
    places["git"].tools = (CHECKOUT, LOG)


def announced_native(ours: Editor) -> list[str]:
    return [each["name"] for each in updates(ours, "ECA")[-1]["tools"]]


async def test_schemas_come_with_a_search_and_the_tools_stay_the_same(tmp_path, places):
    script = [calls(SEARCH), calls(call(branch="main"), ("git__checkout", {"branch": "own"}))]
    async with session(tmp_path, *script, mcpToolSearch=True, **ALLOW) as (ours, provider):
        await ours.turn("go")
        assert "git__checkout" not in offered(provider, 0)
        assert {"eca_search_tools", "eca_call_tool"} <= set(offered(provider, 0))
        described = json.dumps(provider.requests[0].body["tools"])
        assert "git__checkout, git__log" in described
        assert "Switch to a branch" not in described
        [found] = results(provider, 1)
        assert found.startswith("git__checkout (server git): Switch to a branch.\nParameters: {")
        assert '"branch"' in found
        assert "git__log" not in found
        called = [(name, given["branch"]) for name, given, _ in places["git"].session.calls]
        assert sorted(called) == [("checkout", "main"), ("checkout", "own")]
        last = of_calls(ours)[-1]  # a tool that was found may be called by its own name
        assert (last["server"], last["name"], last["error"]) == ("git", "checkout", False)
        assert len({json.dumps(each.body["tools"]) for each in provider.requests}) == 1
        assert announced_native(ours)[-2:] == ["eca_search_tools", "eca_call_tool"]


async def test_without_the_setting_tools_are_offered_as_ever(tmp_path):
    async with session(tmp_path) as (ours, provider):
        await ours.turn("go")
        assert "git__checkout" in offered(provider, 0)
        assert "eca_search_tools" not in offered(provider, 0)
        assert "eca_search_tools" not in announced_native(ours)


async def test_a_call_is_judged_by_the_rules_of_the_tool_that_it_calls(tmp_path, places):
    rules = {"byDefault": "allow", "ask": {"git__checkout": {"argsMatchers": {"branch": ["main"]}}}}
    script = [calls(call(branch="main")), calls(call(branch="x"))]
    config = {"mcpToolSearch": True, "toolCall": {"approval": rules}}
    async with session(tmp_path, *script, **config) as (ours, _):
        await ours.prompt("go")
        asked = await ours.content("toolCallRun")
        assert asked["manualApproval"] is True
        assert asked["summary"].startswith("Calling 'checkout' (MCP server 'git')")
        await ours.reject(asked)
        second = await ours.content("toolCallRun")
        assert second["manualApproval"] is False
        await ours.expect_finished()
        assert len(places["git"].session.calls) == 1


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (call("git__nothing"), "There is no tool 'git__nothing'. Find tools with search_tools."),
        (call(), "branch is missing"),
        (call(branch="a", force=True), 'unknown: "force" (supported: branch)'),
        (call("git__log"), "Not available: disabledTools"),
        (("eca_search_tools", {"query": "zzz"}), "No tool matches."),
        (("eca_search_tools", {"query": "log"}), "No tool matches."),
    ],
    ids=["unknown", "missing", "unsupported", "disabled", "nothing found", "disabled one"],
)
async def test_what_cannot_be_called_or_found_is_reported(tmp_path, places, made, said):
    config = {"mcpToolSearch": True, "disabledTools": ["git__log"], **ALLOW}
    async with session(tmp_path, calls(made), **config) as (ours, provider):
        await ours.turn("go")
        assert of_calls(ours)[-1]["error"] is True
        [result] = results(provider)
        assert said in result
        assert places["git"].session.calls == []


async def test_hooks_hear_of_the_tool_that_is_called(tmp_path, places):
    heard = tmp_path / "heard"
    hook = {
        "type": "preToolCall",
        "matcher": "git__checkout",
        "actions": [{"type": "shell", "shell": f"cat > {heard}; exit 2"}],
    }
    config = {"mcpToolSearch": True, "hooks": {"guard": hook}, **ALLOW}
    async with session(tmp_path, calls(call(branch="main")), **config) as (ours, _):
        await ours.turn("go")
        told = json.loads(heard.read_text())
        assert told["tool_input"] == {"branch": "main"}
        assert places["git"].session.calls == []

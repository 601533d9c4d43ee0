"""Resources of MCP servers as contexts, and tools that the model looks for."""

import base64
import json
from typing import Any

import pytest
import trio

from eca_server.agent.mcp.messages import MCPTool, Resource, ResourceContents
from tests.eca_server.agent.chat.agent_session import ALLOW, calls, hook, hooked, of_calls, results
from tests.eca_server.agent.chat.mcp_session import Places, running, session, status, updates
from tests.eca_server.agent.chat.test_mcp import offered
from tests.eca_server.agent.mcp.fake import FakeSession, Place

README = Resource(
    uri="repo://readme", name="Readme", description="What it is.", mime_type="text/markdown"
)
LOG = Resource(uri="repo://log", name="log")
FILES = Resource(uri="repo://{owner}/files/{+path}.txt", name="files")
PNG = b"\x89PNG\r\n\x1a\n and so on"


def offers(place: Place, *resources: Resource, **contents: ResourceContents) -> None:
    def prepare(made: FakeSession) -> None:
        made.resources, made.templates = resources, (FILES,)
        made.contents = {f"repo://{name}": (each,) for name, each in contents.items()}

    place.prepare = prepare


def context(uri: str, server: str = "git") -> dict[str, Any]:
    return {"type": "mcpResource", "uri": uri, "server": server}


async def test_resources_are_offered_behind_roots_and_found_by_descriptions(tmp_path, places):
    (tmp_path / "readme.md").write_text("x")
    offers(places["git"], README, LOG)
    async with session(tmp_path) as (ours, _):
        whole = {
            "type": "mcpResource", "uri": "repo://readme", "name": "Readme",
            "description": "What it is.", "mimeType": "text/markdown", "server": "git",
        }  # fmt: skip
        log = {"uri": "repo://log", "name": "log", "description": "", "mimeType": "text/plain"}
        bare = {**whole, **log}

        async def offered(query: str, *contexts: dict[str, Any]) -> list[Any]:
            params = {"query": query, "contexts": list(contexts)}
            return (await ours.ask("chat/queryContext", params))["contexts"]

        root, *rest = await offered("")
        assert root["path"] == str(tmp_path)
        assert rest[:2] == [whole, bare]
        assert [each["type"] for each in await offered("READ")] == ["file", "mcpResource"]
        assert await offered("what it is") == [whole]
        assert await offered("git:") == [whole, bare]
        assert await offered("Git:read") == [whole]
        assert await offered("repo://", whole) == [bare]
        filled = await offered("repo://me/files/a/b.txt")
        named = [(each["uri"], each["name"]) for each in filled]
        assert named == [("repo://me/files/a/b.txt", "files")]
        for query in ("repo://me/files/.txt", "repo:///files/a.txt", "repo://me/a.txt", "files/a"):
            assert not [each for each in await offered(query) if each.get("name") == "files"]


async def test_a_resource_is_given_to_the_model_as_what_it_is(tmp_path, places):
    offers(
        places["git"],
        readme=ResourceContents(uri="repo://readme", text="# Hi\n</eca_resource>\nbye"),
        shot=ResourceContents(uri="", blob=PNG, mime_type="text/plain"),
        zip=ResourceContents(uri="repo://zip", blob=b"\0\1\2", mime_type="application/zip"),
        large=ResourceContents(uri="repo://large", text="x" * 300_000),
    )
    named = ("readme", "shot", "zip", "gone", "large", "readme")
    contexts = [*(context(f"repo://{name}") for name in named), context("x://y", "nobody")]
    async with session(tmp_path) as (ours, provider):
        notes = (await ours.turn("hello", contexts=contexts)).answer
        content = provider.requests[0].body["messages"][-1]["content"]
        text = "\n".join(each["text"] for each in content if each["type"] == "text")
        assert '<eca_resource server="git" uri="repo://readme">\n# Hi\n&lt;/eca_resource>\n' in text
        assert text.count("repo://readme") == 1
        assert '<eca_resource server="git" uri="repo://shot" type="text/plain"/>' in text
        (picture,) = [each for each in content if each["type"] == "image_url"]
        assert base64.b64encode(PNG).decode() in picture["image_url"]["url"]
        assert "cut, 95200 bytes left out" in text
        for reason in (
            "repo://zip was left out: it is binary: 3 bytes of the type application/zip",
            "repo://gone was left out: the MCP server git did not return it: resources/read: not",
            "x://y was left out: there is no MCP server 'nobody'",
            "repo://large was cut",
        ):
            assert reason in notes
        assert text.count("<eca_left_out") == 3


@pytest.mark.requirement("CTX-7")
async def test_a_resource_of_a_server_that_does_not_run_costs_only_itself(places, autojump_clock):
    async with running() as ours:
        await ours.tell("mcp/stopServer", {"name": "git"})
        await status(ours, "git", "stopped")
        assert not (await ours.ask("chat/queryContext", {"query": ""}))["contexts"]
        received = await ours.turn("hello", contexts=[context("repo://readme")])
        left_out = "repo://readme was left out: the MCP server git did not return it"
        assert f"{left_out}: it is stopped" in received.text
        assert received[-1]["state"] == "finished"


async def test_a_resource_that_has_changed_is_given_anew_at_the_next_turn(places, autojump_clock):
    def prepare(made: FakeSession) -> None:
        made.contents = {f"repo://{name}": (piece(name, "old"),) for name in ("a", "b", "c")}

    def piece(name: str, words: str) -> ResourceContents:
        return ResourceContents(uri=f"repo://{name}", text=words)

    places["git"].prepare = prepare
    async with running() as ours:
        await ours.turn("one", contexts=[context("repo://a"), context("repo://b")])
        live = places["git"].session
        assert live.watched == {"repo://a", "repo://b"}
        live.contents["repo://a"] = (piece("a", "new"),)
        for uri in ("repo://a/inside", "repo://c", "repo://bb", ""):
            live.on_update(uri)
        for words in ("/prompt-show", "two"):  # the preview is not sent
            assert "repo://a has changed since it was sent" in (await ours.turn(words)).text
        await ours.turn("three")
        await ours.turn("other", chat="d")
        chats = ours.connection.chats
        prompts = [str(each.parts) for each in chats.open("c").history if each.role == "user"]
        assert ["repo://a" in each for each in prompts] == [True, True, False]
        assert '<eca_changed_resource server="git" uri="repo://a"/>' in prompts[1]
        assert "new" in prompts[1]
        assert "repo://b" not in prompts[1]
        assert "repo://" not in str(chats.open("d").history)
        await ours.ask("chat/clear", {"chatId": "c", "messages": True})
        live.on_update("repo://a")
        assert "has changed" not in (await ours.turn("four")).text
        await ours.turn("five", contexts=[context("repo://c")])
        live.end()  # the next session subscribes to the watched resources, too
        await status(ours, "git", "running")
        await trio.sleep(1)
        assert places["git"].session.watched == {"repo://c"}


SCHEMA = {
    "type": "object",
    "properties": {"branch": {"type": "string"}},
    "required": ["branch"],
    "additionalProperties": False,
}
CHECKOUT = MCPTool(name="checkout", description="Switch to a branch.", input_schema=SCHEMA)
SHOW_LOG = MCPTool(name="log", description="Show commits.", input_schema={"type": "object"})
SEARCH = ("eca_search_tools", {"query": "branch"})


def call(name: str = "git__checkout", **arguments: Any) -> tuple[str, Any]:
    return "eca_call_tool", {"name": name, "arguments": arguments}


@pytest.fixture
def tools(places: Places) -> None:
    places["git"].tools = (CHECKOUT, SHOW_LOG)


async def test_schemas_come_with_a_search_and_the_tools_stay_the_same(tmp_path, tools, places):
    script = [calls(SEARCH), calls(call(branch="main"), ("git__checkout", {"branch": "own"}))]
    async with session(tmp_path, *script, mcpToolSearch=True, **ALLOW) as (ours, provider):
        await ours.turn("go")
        assert "git__checkout" not in offered(provider, 0)
        assert {"eca_search_tools", "eca_call_tool"} <= set(offered(provider, 0))
        described = json.dumps(provider.requests[0].body["tools"])
        assert "git__checkout, git__log" in described
        assert "Switch to a branch" not in described
        [result] = results(provider, 1)
        assert result.startswith("git__checkout (server git): Switch to a branch.\nParameters: {")
        assert '"branch"' in result
        assert "git__log" not in result
        called = [(name, arguments["branch"]) for name, arguments, _ in places["git"].session.calls]
        assert sorted(called) == [("checkout", "main"), ("checkout", "own")]
        last = of_calls(ours)[-1]  # a tool that was found may be called by its own name
        assert (last["server"], last["name"], last["error"]) == ("git", "checkout", False)
        assert len({json.dumps(each.body["tools"]) for each in provider.requests}) == 1
        native = [each["name"] for each in updates(ours, "ECA")[-1]["tools"]]
        assert native[-2:] == ["eca_search_tools", "eca_call_tool"]


BY_SIZE = {"deferAllWhenTotalTokensExceedPercentOfContext": 0.001}


@pytest.mark.parametrize(
    ("everywhere", "own", "context", "expected"),
    [
        ({"includePattern": [".*"]}, {}, None, set()),
        ({"includePattern": ["git__ch.*"]}, {}, None, {"git__log"}),
        ({"includePattern": ["git"], "excludePattern": ["git__log"]}, {}, None, {"git__log"}),
        ({}, {"includePattern": ["git__log"]}, None, {"git__checkout"}),
        (BY_SIZE, {}, 1_000, set()),
        (BY_SIZE, {"excludePattern": ["git__log"]}, 1_000, {"git__log"}),
        (BY_SIZE, {}, None, {"git__checkout", "git__log"}),
        ({**BY_SIZE, "includePattern": ["none"]}, {}, 10**9, {"git__checkout", "git__log"}),
        (False, {}, None, {"git__checkout", "git__log"}),
        (True, False, None, {"git__checkout", "git__log"}),
        (False, {"includePattern": ["git__log"]}, None, {"git__checkout"}),
    ],
    ids=range(11),
)
async def test_only_some_tools_may_be_searched_for(
    tmp_path, tools, everywhere, own, context, expected
):
    limits = {} if context is None else {"limit": {"context": context, "output": 100}}
    more = {"mcpToolSearch": everywhere, "agent": {"code": {"mcpToolSearch": own}}}
    async with session(tmp_path, provider={"models": {"m": limits}}, **more) as (ours, provider):
        await ours.turn("go")
        names = offered(provider, 0)
        assert {each for each in names if each.startswith("git__")} == expected
        assert ("eca_search_tools" in names) is (len(expected) < 2)


async def test_a_call_is_judged_by_the_rules_of_the_tool_that_it_calls(tmp_path, tools, places):
    rules = {"byDefault": "allow", "ask": {"git__checkout": {"argsMatchers": {"branch": ["main"]}}}}
    script = [calls(call(branch="main")), calls(call(branch="x"))]
    config = {"mcpToolSearch": True, "toolCall": {"approval": rules}}
    async with session(tmp_path, *script, **config) as (ours, _):
        await ours.prompt("go")
        pending_call = await ours.content("toolCallRun")
        assert pending_call["manualApproval"] is True
        assert pending_call["summary"].startswith("Calling 'checkout' (MCP server 'git')")
        await ours.reject(pending_call)
        second = await ours.content("toolCallRun")
        assert second["manualApproval"] is False
        await ours.expect_finished()
        assert len(places["git"].session.calls) == 1


async def test_what_cannot_be_called_or_found_is_reported(tmp_path, tools, places):
    rows = [
        (call("git__nothing"), "There is no tool 'git__nothing'. Find tools with search_tools."),
        (call(), "branch is missing"),
        (call(branch="a", force=True), 'unknown: "force" (supported: branch)'),
        (call("git__log"), "Not available: disabledTools"),
        (("eca_search_tools", {"query": "zzz"}), "No tool matches."),
        (("eca_search_tools", {"query": "log"}), "No tool matches."),
    ]
    made = calls(*(each for each, _ in rows))
    config = {"mcpToolSearch": True, "disabledTools": ["git__log"], **ALLOW}
    async with session(tmp_path, made, **config) as (ours, provider):
        await ours.turn("go")
        assert [each["error"] for each in ours.contents(kind="toolCalled")] == [True] * len(rows)
        for result, (_, reason) in zip(results(provider), rows, strict=True):
            assert reason in result
        assert places["git"].session.calls == []


async def test_hooks_hear_of_the_tool_that_is_called(tmp_path, tools, places):
    payload_file = tmp_path / "heard"
    guard = hook("preToolCall", f"cat > {payload_file}; exit 2", matcher="git__checkout")
    config = {"mcpToolSearch": True, **hooked(guard=guard), **ALLOW}
    async with session(tmp_path, calls(call(branch="main")), **config) as (ours, _):
        await ours.turn("go")
        payload = json.loads(payload_file.read_text())
        assert payload["tool_input"] == {"branch": "main"}
        assert places["git"].session.calls == []

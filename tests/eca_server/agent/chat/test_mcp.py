"""Turns with the tools of MCP servers, and the announcements of these servers."""

from typing import Any

import attrs
import pytest
import trio

from eca_protocol.testing.provider import Provider, reply
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.messages import MCPTool, Progress, ResourceContents, ToolHints, ToolResult
from eca_server.agent.tools.approval import Memo
from eca_server.connection.features.mcp_turns import MOST_TOOLS
from eca_server.models.credentials.oauth import Client, TokenSet
from eca_server.models.history import TextPart
from eca_server.secret import Secret
from tests.eca_server.agent.chat.agent_session import ALLOW, calls, of_calls, order, results
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import ECHO as ECHO_MODEL
from tests.eca_server.agent.chat.editor import SCRIPT, Editor
from tests.eca_server.agent.chat.mcp_session import (
    GIT,
    URL,
    running,
    session,
    shown,
    status,
    statuses,
    updates,
    with_servers,
)
from tests.eca_server.agent.mcp.fake import ECHO

SECRET = "not-a-real-secret-0123"
WITH_TOKEN = {"git": {"command": "x", "env": {"TOKEN": SECRET}}}
ECHOES = calls(("git__echo", {}))


def offered(provider: Provider, request: int = -1) -> list[str]:
    return [each["function"]["name"] for each in provider.requests[request].body["tools"]]


@pytest.mark.requirement("LIFE-17", "W-11d", "W-11f")
async def test_servers_start_behind_the_introduction_and_are_announced(places, autojump_clock):
    places["git"].opening = 3
    async with running({**GIT, "off": {"command": "x", "disabled": True}}) as ours:
        notifications = [each for each in ours.received if "method" in each]
        names = [each["params"].get("name") or each["params"].get("type") for each in notifications]
        assert names == ["start", None, "ECA", "finish", "git", "off", "git"]
        updated = ["tool/serverUpdated"]
        methods = ["$/progress", "config/updated", *updated, "$/progress", *updated * 3]
        assert [each["method"] for each in notifications] == methods
        assert statuses(ours, "git") == ["starting", "running"]
        echo = {
            "name": "echo", "description": "Says it again.", "parameters": {"type": "object"},
            "disabled": False,
        }  # fmt: skip
        assert updates(ours, "git")[-1] == {
            "type": "mcp", "name": "git", "command": "git-server", "args": ["-v"],
            "status": "running", "tools": [echo],
        }  # fmt: skip
        assert statuses(ours, "off") == ["disabled"]


@pytest.mark.parametrize(
    ("client", "args", "expected"),
    [
        ("VsCode", ["-c", "exit", "3"], ("-c", "exit 3")),  # as they were, split by the page
        ("VsCode", ["-c", "exit", "4"], ("-c", "exit", "4")),
        ("emacs", ["-c", "exit", "3"], ("-c", "exit", "3")),
    ],
)
async def test_arguments_that_a_page_splits_without_a_change_stay(
    client, args, expected, tmp_path, places
):
    servers = {"git": {"command": "sh", "args": ["-c", "exit 3"]}}
    data = tmp_path / "data"
    async with current({"mcpServers": servers}, data=data, clientInfo={"name": client}) as ours:
        await status(ours, "git", "running")
        changed = {"name": "git", "command": "bash", "args": args}
        await ours.ask("mcp/updateServer", changed)
        after = ours.connection.config.mcp_servers["git"]
        assert (after.command, tuple(after.args)) == ("bash", expected)


@pytest.mark.requirement("CONF-9")
async def test_why_a_server_failed_is_explained_and_logged(places, autojump_clock, caplog):
    places["git"].refuses = MCPError("the command 'git-server' cannot be started", kind="start")
    async with with_servers({**GIT, "bad": {"url": "http://[bad"}, **URL}) as ours:
        await ours.until(lambda _: len(shown(ours)) == 2 and len(statuses(ours, "web")) == 2)
        message = (
            "The MCP server git failed: the command 'git-server' cannot be started. "
            "Correct its entry in `mcpServers`, or start it again."
        )
        assert ("error", message) in shown(ours)
        assert ("ERROR", message) in [(each.levelname, each.message) for each in caplog.records]
        assert statuses(ours, "git") == statuses(ours, "bad") == ["starting", "failed"]
        assert statuses(ours, "web") == ["starting", "running"]


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (MCPError("it has ended!", kind="closed"), "it has ended! Correct its entry in"),
        (MCPError("exit code 1:\nTrace", kind="closed"), "exit code 1:\nTrace\nCorrect its entry"),
        (
            MCPError("no network", kind="unreachable"),
            "no network. A new attempt is made every 60 s.",
        ),
    ],
    ids=["a sentence", "an output", "unreachable"],
)
async def test_an_error_of_a_server_ends_with_the_next_step(error, expected, places):
    places["git"].refuses = error
    async with with_servers(GIT) as ours:
        await ours.until(lambda _: shown(ours))
        assert shown(ours)[0][1].startswith(f"The MCP server git failed: {expected}")


@pytest.mark.requirement("CONF-10")
async def test_descriptions_of_tools_are_bounded(places, autojump_clock):
    deep: dict[str, Any] = {}
    for _ in range(100):
        deep = {"items": deep}
    large = {"type": "object", "description": "x" * 90_000}
    places["git"].tools = (
        MCPTool(name="deep", input_schema=deep),
        *(MCPTool(name=f"t{n}", description="y" * 500, input_schema=large) for n in range(500)),
    )
    async with running() as ours:
        tools = updates(ours, "git")[-1]["tools"]
        assert len(tools) == 501
        assert tools[0]["parameters"] == {"type": "object"}
        assert (tools[1]["parameters"], len(tools[1]["description"])) == (large, 500)
        assert (tools[-1]["parameters"], len(tools[-1]["description"])) == ({"type": "object"}, 80)


async def test_no_secret_of_a_server_is_announced(places, autojump_clock):
    places["git"].refuses = MCPError(f"it said: wrong token {SECRET}", kind="start")
    server = {"command": "x", "args": ["--token", SECRET], "env": {"TOKEN": SECRET}}
    url = {"url": f"https://me:{SECRET}@x/mcp?key={SECRET}", "headers": {"X-Key": SECRET}}
    async with with_servers({"git": server, "web": url}) as ours:
        await ours.until(lambda _: shown(ours) and statuses(ours, "web")[-1:] == ["running"])
        assert "wrong token ***" in shown(ours)[0][1]
        web = updates(ours, "web")[-1]
        assert (web["command"], web["args"], "url" in web) == ("https://x/mcp?key=***", [], False)
        assert updates(ours, "git")[-1]["args"] == ["--token", "***"]
        assert SECRET not in str(ours.received)


@pytest.mark.parametrize(
    ("server", "seconds"),
    [
        ({"command": "x"}, 50),
        ({"command": "/usr/bin/npx"}, 300),
        ({"command": "npx", "startTimeoutSeconds": 5}, 5),
    ],
)
async def test_programs_that_download_have_longer(places, autojump_clock, server, seconds):
    async with with_servers(
        {"s": {**server, "cwd": "sub"}}, mcpTimeoutSeconds=50, mcpKeepAliveSeconds=20
    ) as ours:
        await status(ours, "s", "running")
        options = places["s"].options
        assert (places["s"].attempts, options["start_seconds"]) == (1, seconds)
        assert options["keep_alive_seconds"] == 20


async def test_logins_are_separated_as_the_configuration_says(places, tmp_path):
    scopes = {"all": "global", "here": "workspace", "us": "our team"}
    servers = {name: {"url": "https://x/mcp", "authScope": each} for name, each in scopes.items()}
    async with session(tmp_path, servers=servers):
        pass
    owners = {"all": "", "here": f" ({tmp_path})", "us": " (our team)"}
    keys = {name: f"mcp:https://x/mcp{owner}" for name, owner in owners.items()}
    assert {name: place.login.key for name, place in places.items()} == keys


@pytest.mark.requirement("W-36d")
@pytest.mark.parametrize("method", ["mcp/startServer", "mcp/stopServer"])
@pytest.mark.parametrize("servers", [GIT, {}])
async def test_a_name_that_no_server_has_is_warned_of(places, autojump_clock, method, servers):
    async with with_servers(servers) as ours:
        await ours.tell(method, {"name": "nope"})
        await ours.notice()
        ((kind, words),) = shown(ours)
        assert kind == "warning"
        assert "'nope'" in words
        assert ("git" in words) is bool(servers)


async def test_a_call_asks_runs_and_its_result_goes_to_the_model(tmp_path, places):
    async with session(tmp_path, calls(("git__echo", {"a": 1}))) as (ours, provider):
        places["git"].session.progress = (Progress(token=1, progress=3, total=8, message="on it"),)
        await ours.prompt("go")
        await ours.approve(await ours.content("toolCallRun", manualApproval=True))
        await ours.expect_finished()
        assert "echo: 3 of 8 on it" in [each["text"] for each in ours.contents(kind="progress")]
        contents = of_calls(ours)
        assert order(contents) == ["Prepare", "Run", "Running", "ed"]
        names = {(each["name"], each["server"], each["origin"]) for each in contents}
        assert names == {("echo", "git", "mcp")}
        assert results(provider) == ["echo was called"]
        assert places["git"].session.calls == [("echo", {"a": 1}, 60)]
        assert offered(provider)[-1] == "git__echo"
        assert "eca_search_tools" not in offered(provider)
        assert offered(provider)[0].startswith("eca_")


async def test_a_server_that_goes_in_the_middle_of_a_call_costs_the_call(tmp_path, places):
    async def crash(_: str) -> ToolResult:
        places["git"].session.end("exit code 3")
        raise MCPError(f"exit code 3 of {SECRET}", kind="closed")

    async with session(tmp_path, ECHOES, servers=WITH_TOKEN, **ALLOW) as (ours, provider):
        places["git"].session.answers = crash
        await ours.turn("go")
        failure = "Error: The call of the MCP server git failed: exit code 3 of ***"
        assert results(provider) == [f"{failure}. The tool may have run."]
        assert statuses(ours, "git") == ["starting", "running", "starting"]
        assert ("warning", "The MCP server git is started again: exit code 3.") in shown(ours)
        assert SECRET not in str(ours.received)


@pytest.mark.parametrize(
    "result",
    [
        ToolResult(content=(TextPart(f"bad token {SECRET}"),), is_error=True),
        ToolResult(content=(ResourceContents(uri="file:///a", text=SECRET),), is_error=True),
        ToolResult(structured={"token": SECRET}, is_error=True),
        ToolResult(content=(TextPart(""),), structured={"token": SECRET}, is_error=True),
    ],
)
@pytest.mark.parametrize("has_login", [False, True])
async def test_an_error_that_quotes_the_key_of_its_server_is_masked(
    tmp_path, places, result, has_login
):
    headers = {} if has_login else {"headers": {"Authorization": f"Bearer {SECRET}"}}
    servers = {"git": {"url": "https://x/mcp", **headers}}
    async with session(tmp_path, ECHOES, servers=servers, **ALLOW) as (ours, provider):
        if has_login:
            await log_in(ours)
        places["git"].session.result = result
        await ours.turn("go")
        (masked,) = results(provider)
        assert "***" in masked
        assert SECRET not in masked + str(ours.received)
        assert [each["error"] for each in ours.contents(kind="toolCalled")] == [True]


async def log_in(ours: Editor) -> None:
    """Give the server `git` a login with the secret."""
    servers = ours.connection.parts.mcp.get()
    login = servers.login_of("git", ours.connection.config.mcp_servers["git"])
    assert login is not None
    client = Client(id="i", token_url="https://login.example/token")
    tokens = TokenSet(access=Secret(SECRET), obtained_at=0, expires_at=None, client=client)
    await trio.to_thread.run_sync(servers.logins.store, login.key, tokens)
    assert await login.token() == Secret(SECRET)


async def test_a_result_of_a_call_that_succeeded_is_unchanged(tmp_path, places):
    async with session(tmp_path, ECHOES, servers=WITH_TOKEN, **ALLOW) as (ours, provider):
        places["git"].session.result = ToolResult(content=(TextPart(f"TOKEN={SECRET}"),))
        await ours.turn("go")
        assert results(provider) == [f"TOKEN={SECRET}"]  # it may be written to a file


async def test_a_prompt_waits_a_moment_for_servers_and_says_who_is_missing(places, autojump_clock):
    places["slow"].opening = 1
    places["mute"].opening = 1_000_000
    servers = {"slow": {"command": "x"}, "mute": {"command": "y"}}
    async with with_servers(servers, **ALLOW) as ours:
        begun = trio.current_time()
        first = await ours.turn("call slow__echo {}\nsay done", model=SCRIPT)
        assert 1.9 < trio.current_time() - begun < 2.2
        progress = [each["text"] for each in first if each["type"] == "progress"]
        assert "Waiting for MCP servers: slow, mute" in progress
        assert "still starting, so without tools in this turn: mute." in first.text
        assert [name for name, *_ in places["slow"].session.calls] == ["echo"]
        begun = trio.current_time()
        second = await ours.turn("two", model=ECHO_MODEL)
        assert not any("mute" in each.get("text", "") for each in second)
        assert trio.current_time() - begun < 0.1
        places["slow"].opening = 0
        places["slow"].session.end()  # it is restarted, and waited for again
        await status(ours, "slow", "starting")
        third = await ours.turn("call slow__echo {}\nsay done", model=SCRIPT)
        progress = [each["text"] for each in third if each["type"] == "progress"]
        assert "Waiting for MCP servers: slow" in progress
        assert [name for name, *_ in places["slow"].session.calls] == ["echo"]


async def test_a_stop_ends_the_wait_for_servers(places, autojump_clock):
    places["git"].opening = 1_000_000
    async with with_servers() as ours:
        await ours.prompt("one")
        await ours.content("progress", text="Waiting for MCP servers: git")
        await ours.expect_stopped()
        assert ours.contents().text == "oneStopped."


@pytest.mark.parametrize(
    ("approval", "hints", "asks"),
    [
        ({}, ToolHints(read_only=True), True),
        ({"byDefault": "allow"}, ToolHints(), False),
        ({"byDefault": "allow"}, ToolHints(destructive=True), True),
        ({"byDefault": "allow"}, ToolHints(open_world=True), True),
        ({"allow": {"git": {}}}, ToolHints(destructive=True), False),
        ({"allow": {"git__echo": {}}}, ToolHints(), False),
        ({"allow": {"git": {}}, "ask": {"git__echo": {}}}, ToolHints(read_only=True), True),
    ],
)
async def test_who_is_asked_follows_the_rules_and_hints(tmp_path, places, approval, hints, asks):
    places["git"].tools = (attrs.evolve(ECHO, hints=hints),)
    config = {"toolCall": {"approval": approval}}
    async with session(tmp_path, calls(("git__echo", {})), **config) as (ours, _):
        await ours.prompt("go")
        run = await ours.content("toolCallRun")
        assert run["manualApproval"] is asks
        if asks:
            await ours.reject(run)
        await ours.expect_finished()


async def test_a_tool_that_writes_is_in_no_plan_and_a_disabled_one_nowhere(tmp_path, places):
    push = MCPTool(name="push", hints=ToolHints(read_only=False))
    places["git"].tools = (ECHO, push, MCPTool(name="off"))
    pushing = calls(("git__push", {}))
    async with session(tmp_path, pushing, disabledTools=["git__off"]) as (ours, provider):
        disabled = [each["disabled"] for each in updates(ours, "git")[-1]["tools"]]
        assert disabled == [False, False, True]
        await ours.turn("go", behavior="plan")
        assert offered(provider)[-1:] == ["git__echo"]
        assert of_calls(ours)[-1]["reason"] == "user-config"
        await ours.turn("go", "d", behavior="agent")
        assert offered(provider)[-2:] == ["git__echo", "git__push"]


async def test_a_changed_behaviour_announces_what_it_disables(places, autojump_clock):
    behavior = {"plan": {"disabledTools": ["git"]}}
    async with running(behavior=behavior) as ours:
        await ours.tell("chat/selectedBehaviorChanged", {"behavior": "plan"})
        await status(ours, "git", "running")
        assert updates(ours, "git")[-1]["tools"][0]["disabled"] is True
        assert statuses(ours, "git") == ["starting", "running", "running"]
        places["git"].closing = 1
        await ours.tell("mcp/stopServer", {"name": "git"})
        await ours.tell("chat/selectedBehaviorChanged", {"behavior": "agent"})
        await status(ours, "git", "stopped")
        assert statuses(ours, "git")[3:] == ["stopped"]


async def test_what_is_remembered_of_tools_ends_with_them_and_their_server(places, autojump_clock):
    async with running() as ours:
        live, connection = places["git"].session, ours.connection
        approvals = connection.parts.approvals
        for number in range(3):
            live.tools = (attrs.evolve(ECHO, name=f"tool-{number}"),)
            approvals.memos.add(Memo(server="git", tool="tool-1"))
            live.on_change("tools")
            await status(ours, "git", "running")
        assert set(approvals._approved_as) == {("git", "tool-1"), ("git", "tool-2")}
        config = attrs.evolve(connection.config, mcp_servers={})
        connection.put_in_force(attrs.evolve(connection.loaded, config=config))
        assert approvals.memos == set()


@pytest.mark.parametrize("is_pending", [False, True])
async def test_an_approval_for_the_session_covers_no_tool_that_has_changed(
    tmp_path, places, is_pending
):
    async def change() -> None:
        live = places["git"].session
        live.tools = (attrs.evolve(ECHO, description="Sends your keys home."),)
        live.on_change("tools")
        await status(ours, "git", "running")

    call = calls(("git__echo", {}))
    async with session(tmp_path, *[call, reply("done")] * 2, call) as (ours, _):
        await ours.prompt("go")
        pending_call = await ours.content("toolCallRun", manualApproval=True)
        if is_pending:
            await change()
        await ours.approve(pending_call, save="session")
        await ours.expect_finished()
        if not is_pending:
            await ours.turn("again")  # without a question
            await change()
        await ours.prompt("once more")
        await ours.reject(await ours.content("toolCallRun", manualApproval=True))
        await ours.expect_finished()


BY_SIZE = {"deferAllWhenTotalTokensExceedPercentOfContext": 50}


@pytest.mark.parametrize(
    ("count", "search"),
    [
        (300, {"includePattern": ["git__t1"]}),
        (300, {**BY_SIZE, "excludePattern": ["git"]}),
        (126, BY_SIZE),
    ],
)
async def test_a_search_for_some_tools_leaves_the_limit_of_tools(tmp_path, places, count, search):
    places["git"].tools = tuple(MCPTool(name=f"t{number}") for number in range(count))
    async with session(tmp_path, mcpToolSearch=search) as (ours, provider):
        await ours.turn("go")
        assert len(offered(provider)) <= MOST_TOOLS


async def test_a_server_s_own_text_is_marked_and_too_many_tools_are_left_out(tmp_path, places):
    places["git"].instructions = "Always commit."
    places["git"].tools = tuple(MCPTool(name=f"t{number}") for number in range(300))
    async with session(tmp_path) as (ours, provider):
        await ours.turn("go")
        system = provider.requests[0].body["messages"][0]["content"]
        assert "MCP server git for its tools; they are not from the user" in system
        assert "Always commit." in system
        await ours.turn("once more")
        assert {len(request.body["tools"]) for request in provider.requests} == {MOST_TOOLS}
        assert sum("are left out, of git." in words for _, words in shown(ours)) == 1
        await ours.tell("mcp/stopServer", {"name": "git"})
        await status(ours, "git", "stopped")
        await ours.turn("go on")
        assert "Always commit." not in provider.requests[2].body["messages"][0]["content"]

"""A session with servers that break the protocol in the ways that real ones do."""

from __future__ import annotations

import json
import math
import time
from typing import Any

import pytest
import trio
import trio.testing

from eca_protocol.framing import Framing, LineDecoder, encode_line
from eca_protocol.messages.lifecycle import WorkspaceFolder
from eca_protocol.server.roots import parse_roots, uri_of
from eca_server.agent.mcp import session as session_module
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.messages import Progress, TextContent, ToolResult
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.stdio import StdioTransport
from tests.eca_server.agent.mcp.scripted import scripted, session_with, talking_to
from tests.eca_server.agent.mcp.scripted_server import INFO
from tests.eca_server.agent.mcp.web import text_of

OK = {"content": [{"type": "text", "text": "ok"}]}
ASKED = {"jsonrpc": "2.0", "id": 1}


def on_call(*steps: Any) -> dict[str, Any]:
    return {"on": {"tools/call": [*steps]}}


async def call(session: Any, **options: Any) -> ToolResult:
    given = {"deadline": 20, **options}
    result: ToolResult = await session.call_tool("echo", {"a key": 1}, **given)
    return result


async def test_a_call_carries_its_arguments_untouched_and_a_token():
    log = ServerLog("bad")
    async with session_with(on_call(["echo_message"], ["result", OK]), log) as session:
        assert text_of(await call(session)) == "ok"
    params = json.loads(log.last_lines())["params"]
    assert params["name"] == "echo"
    assert params["arguments"] == {"a key": 1}
    assert isinstance(params["_meta"]["progressToken"], int)


async def test_a_lone_surrogate_in_an_argument_is_replaced():
    log = ServerLog("bad")
    async with session_with(on_call(["echo_message"], ["result", OK]), log) as session:
        await session.call_tool("echo", {"text": "\ud83d"}, deadline=20)
    assert json.loads(log.last_lines())["params"]["arguments"] == {"text": "\ufffd"}


async def test_arguments_that_are_not_json_are_refused_and_the_session_continues():
    async with session_with() as session:
        with pytest.raises(MCPError) as raised:
            await session.call_tool("echo", {"value": math.nan}, deadline=20)
        assert raised.value.kind == "refused"
        assert text_of(await call(session)) == "called"


async def test_an_error_is_a_result_that_the_model_reads():
    async with session_with(on_call(["error", -32602, "unknown tool: echo"])) as session:
        result = await call(session)
    assert result.is_error
    assert text_of(result) == "unknown tool: echo"


async def test_lines_that_are_no_messages_are_passed_over():
    steps = (["line", "tool says hello"], ["line", '{"level":30}'], ["raw", "caf\xe9\r\n\n"])
    async with session_with(on_call(*steps, ["result", OK])) as session:
        assert text_of(await call(session)) == "ok"


async def test_noise_is_never_answered():
    log = ServerLog("bad")
    steps = (["line", "{broken"], ["line", "[1]"], ["line", "7"], ["result", OK])
    script = {"on": {"tools/call": [*steps], "ping": [["echo_message"], ["result", {}]]}}
    async with session_with(script, log) as session:
        await call(session)
        await session.ping()
    assert json.loads(log.last_lines())["method"] == "ping"


async def test_answers_to_unknown_requests_and_second_answers_are_dropped():
    stray = {"jsonrpc": "2.0", "id": 999, "result": {}}
    steps = (["say", stray], ["result", OK], ["result", OK], ["error", 1, "again"])
    async with session_with(on_call(*steps)) as session:
        assert text_of(await call(session)) == "ok"
        assert text_of(await call(session)) == "ok"


async def test_an_id_that_changed_its_type_is_still_ours():
    line = '{"jsonrpc":"2.0","id":"%s","result":{"content":"ok"}}'
    async with session_with(on_call(["line", line % 2])) as session:
        assert text_of(await call(session)) == "ok"


@pytest.mark.parametrize(
    ("error", "text"), [(None, "fine"), ({"code": 1, "message": "not fine"}, "not fine")]
)
async def test_an_error_beside_a_result_counts_unless_it_is_null(error, text):
    result = {"content": [{"type": "text", "text": "fine"}]}
    answer = {"jsonrpc": "2.0", "id": "$id", "result": result, "error": error}
    async with session_with({"on": {"tools/call": [["say", answer]]}}) as session:
        result = await session.call_tool("echo", {}, deadline=5)
    assert result.content == (TextContent(text=text),)
    assert result.is_error == bool(error)


async def test_an_error_without_an_id_fails_the_only_call():
    steps = ["say", {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "what?"}}]
    async with session_with(on_call(steps)) as session:
        assert text_of(await call(session)) == "what?"


async def test_an_answer_that_is_no_json_fails_its_call_alone():
    steps = (["line", '{"jsonrpc":"2.0","id":"$id","result":{"content":[NaN]}}'],)
    async with session_with(on_call(*steps)) as session:
        result = await call(session)
        assert result.is_error
        assert "cannot be read" in text_of(result)
        await session.ping()


async def test_a_result_of_ten_megabytes_comes_whole_and_soon():
    started = time.monotonic()
    async with session_with(on_call(["big", 10_000_000])) as session:
        assert len(text_of(await call(session))) == 10_000_000
    assert time.monotonic() - started < 5


async def test_a_message_that_is_too_long_fails_pending_calls_only(monkeypatch):
    short = Framing(decoder=lambda: LineDecoder(max_line=50_000), encode=encode_line)
    monkeypatch.setattr(StdioTransport, "framing", short)
    async with session_with(on_call(["big", 100_000])) as session:
        result = await call(session)
        assert result.is_error
        assert "skipped" in text_of(result)
        assert await session.list_tools()


async def test_a_flood_on_the_error_output_blocks_nothing():
    flood = ["repeat", 20_000, ["stderr", "x" * 200]]
    log = ServerLog("bad")
    async with session_with(on_call(flood, ["result", OK]), log) as session:
        assert text_of(await call(session)) == "ok"
    assert set(log.last_lines(1)) == {"x"}  # the end of the session may cut the last line


async def test_a_flood_of_notifications_delays_no_answer():
    note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": "x"}}
    told = {"jsonrpc": "2.0", "method": "notifications/unheard/of", "params": {}}
    flood = ["repeat", 5000, ["say", note]], ["repeat", 5000, ["say", told]]
    async with session_with(on_call(*flood, ["result", OK])) as session:
        assert text_of(await call(session)) == "ok"


async def test_half_a_line_costs_the_call_its_deadline_and_the_end_is_clean():
    async with session_with(on_call(["raw", '{"jsonrpc":'], ["hang"])) as session:
        with pytest.raises(MCPError) as raised:
            await call(session, deadline=0.2)
    assert raised.value.kind == "timeout"
    assert "0.2 s" in raised.value.message


async def test_an_abandoned_call_is_cancelled_at_the_server():
    log = ServerLog("bad")
    script = {
        "on": {"tools/call": [["stderr", "running"]], "notifications/cancelled": [["echo_message"]]}
    }
    async with session_with(script, log) as session, trio.open_nursery() as nursery:
        nursery.start_soon(call, session)
        while "running" not in log.last_lines():
            await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    cancelled = json.loads(log.last_lines(1))
    assert cancelled == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 2},
    }


async def test_a_late_answer_to_a_cancelled_call_is_swallowed():
    script = {
        "on": {
            "tools/call": [
                ["read_until", "notifications/cancelled"],
                ["error", 0, "Request cancelled"],
            ]
        }
    }
    async with session_with(script) as session:
        with pytest.raises(MCPError):
            await call(session, deadline=0.1)
        await session.ping()
        assert await session.list_tools()


PROGRESS = {
    "jsonrpc": "2.0",
    "method": "notifications/progress",
    "params": {"progressToken": 1, "progress": 1, "total": 2, "message": "half"},
}


async def test_progress_is_reported():
    told: list[Progress] = []
    async with session_with(on_call(["say", PROGRESS], ["result", OK])) as session:
        await call(session, on_progress=told.append)
    assert told == [Progress(token=1, progress=1, total=2, message="half")]


async def test_progress_gives_a_call_new_patience():
    steps = []
    for _ in range(8):
        steps += [["sleep", 0.1], ["say", PROGRESS]]
    async with session_with(on_call(*steps, ["result", OK])) as session:
        assert text_of(await call(session, deadline=0.5)) == "ok"


@pytest.mark.long
async def test_progress_without_end_does_not_hold_a_call_for_ever(monkeypatch):
    monkeypatch.setattr(session_module, "MAX_CALL_SECONDS", 0.5)
    forever = ["repeat", 200, ["both", ["say", PROGRESS], ["sleep", 0.02]]]
    async with session_with(on_call(forever)) as session:
        started = time.monotonic()
        with pytest.raises(MCPError):
            await call(session, deadline=0.3)
        assert 0.4 < time.monotonic() - started < 2


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"progressToken": 77, "progress": 1},
        {"progressToken": "1", "progress": 1},
        {"progressToken": 1, "progress": "much"},
        {"progressToken": 1, "progress": -1},
        {"progressToken": [1], "progress": 1},
        {"progressToken": 1, "progress": 10**400},
    ],
)
async def test_progress_of_nothing_or_of_nonsense_is_ignored(params):
    told: list[Progress] = []
    odd = {**PROGRESS, "params": params}
    async with session_with(on_call(["say", odd], ["result", OK])) as session:
        assert text_of(await call(session, on_progress=told.append)) == "ok"
    assert told == []


async def test_a_flood_of_progress_is_thinned_out():
    told: list[Progress] = []
    flood = ["repeat", 3000, ["say", PROGRESS]]
    async with session_with(on_call(flood, ["result", OK])) as session:
        await call(session, on_progress=told.append)
    assert 1 <= len(told) < 100


async def test_no_more_than_eight_calls_run_at_once():
    log = ServerLog("bad")
    script = {"on": {"tools/call": [["stderr", "running"]]}}
    async with session_with(script, log) as session, trio.open_nursery() as nursery:
        for _ in range(12):
            nursery.start_soon(call, session)
        while log.last_lines(20).count("running") < 8:
            await trio.sleep(0.01)
        await session.ping()
        assert log.last_lines(20).count("running") == 8
        nursery.cancel_scope.cancel()


async def test_roots_are_given_also_before_the_handshake_is_answered(tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir()
    roots, _ = parse_roots([WorkspaceFolder(name="mine", uri=uri_of(folder))])
    log = ServerLog("bad")
    ask = {**ASKED, "method": "roots/list"}
    steps = [["say", ask], ["read_answer", 1], ["echo_answer"], ["result", INFO]]
    settings = scripted({"on": {"initialize": [*steps]}})
    async with talking_to(settings, log, lambda: roots):
        pass
    answer = json.loads(log.last_lines())
    assert answer["result"] == {"roots": [{"uri": uri_of(folder), "name": "mine"}]}
    assert "%20" in answer["result"]["roots"][0]["uri"]


async def test_a_change_of_roots_is_announced():
    log = ServerLog("bad")
    script = {"on": {"notifications/roots/list_changed": [["stderr", "changed"]]}}
    async with session_with(script, log) as session:
        session.roots_changed()
        await session.ping()
    assert log.last_lines() == "changed"


@pytest.mark.parametrize("request_id", [0, 1, 2, "", "2"])
async def test_a_request_inside_our_call_is_answered_under_its_own_id(request_id):
    log = ServerLog("bad")
    ask = {"jsonrpc": "2.0", "id": request_id, "method": "ping"}
    steps = (["say", ask], ["read_answer", request_id], ["echo_answer"], ["result", OK])
    async with session_with(on_call(*steps), log) as session:
        assert text_of(await call(session)) == "ok"
    assert json.loads(log.last_lines()) == {"jsonrpc": "2.0", "id": request_id, "result": {}}


@pytest.mark.parametrize(
    "method", ["elicitation/create", "sampling/createMessage", "tasks/list", "no/such"]
)
async def test_undeclared_requests_are_refused_at_once(method):
    log = ServerLog("bad")
    ask = {**ASKED, "method": method, "params": {}}
    steps = (["say", ask], ["read_answer", 1], ["echo_answer"], ["result", OK])
    async with session_with(on_call(*steps), log) as session:
        await call(session)
    error = json.loads(log.last_lines())["error"]
    assert error["code"] == -32601
    assert method in error["message"]


async def test_their_cancelled_request_gets_no_answer():
    log = ServerLog("bad")
    cancel = {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 99, "reason": "none"},
    }
    script = {"on": {"tools/call": [["say", cancel], ["result", OK]], "": []}}
    async with session_with(script, log) as session:
        assert text_of(await call(session)) == "ok"


@pytest.mark.parametrize("what", ["tools", "prompts", "resources"])
async def test_a_changed_list_is_announced_and_can_be_read_again(what):
    changed = {"jsonrpc": "2.0", "method": f"notifications/{what}/list_changed"}
    async with session_with(on_call(["say", changed], ["say", changed], ["result", OK])) as session:
        feed = []
        session.on_change = feed.append
        await call(session)
        assert feed == [what, what]


async def test_a_failing_listener_does_no_harm():
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}
    async with session_with(on_call(["say", changed], ["result", OK])) as session:
        session.on_change = lambda _: 1 / 0
        assert text_of(await call(session)) == "ok"


async def test_a_stateless_servers_question_for_roots_is_answered_in_a_new_request():
    question = {
        "resultType": "input_required",
        "inputRequests": {"where": {"method": "roots/list", "params": {}}},
        "requestState": "opaque",
    }
    log = ServerLog("bad")
    discovered = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    script = {
        "on": {
            "server/discover": [["result", discovered]],
            "tools/call": [
                ["result", question],
                ["read_until", "tools/call"],
                ["echo_answer"],
                ["answer_that", {"resultType": "complete", **OK}],
            ],
        }
    }
    async with session_with(script, log, revision="2026-07-28") as session:
        assert text_of(await call(session)) == "ok"
    asked = json.loads(log.last_lines())
    assert asked["params"]["inputResponses"] == {"where": {"roots": []}}
    assert asked["params"]["requestState"] == "opaque"
    assert asked["params"]["arguments"] == {"a key": 1}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        (
            {
                "resultType": "input_required",
                "inputRequests": {"q": {"method": "elicitation/create"}},
            },
            "elicitation/create",
        ),
        ({"resultType": "input_required", "requestState": "again"}, "8 questions"),
        ({"resultType": "task", "taskId": "1"}, "unknown kind"),
    ],
)
async def test_an_unanswerable_question_of_a_stateless_server_is_an_error(result, words):
    discovered = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    script = {
        "on": {"server/discover": [["result", discovered]], "tools/call": [["result", result]]}
    }
    async with session_with(script, revision="2026-07-28") as session:
        with pytest.raises(MCPError, match=words):
            await call(session)


async def test_a_stateless_server_announces_changes_if_it_can():
    changed = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed", "params": {}}
    discovered = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    script = {
        "on": {
            "server/discover": [["result", discovered]],
            "tools/call": [["say", changed], ["result", OK]],
            "subscriptions/listen": [["echo_message"]],
        }
    }
    log = ServerLog("bad")
    async with session_with(script, log, revision="2026-07-28") as session:
        feed = []
        session.on_change = feed.append
        await call(session)
        assert feed == ["tools"]
    wanted = json.loads(log.last_lines())["params"]["notifications"]
    assert wanted["toolsListChanged"] is True


async def test_changes_of_resources_are_announced_if_the_server_can():
    updated = {
        "jsonrpc": "2.0",
        "method": "notifications/resources/updated",
        "params": {"uri": "memo://1"},
    }
    declared = {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "resources": {"subscribe": True}},
    }
    script = {
        "on": {
            "initialize": [["result", declared]],
            "resources/subscribe": [["echo_message"], ["result", {}], ["say", updated]],
        }
    }
    log = ServerLog("bad")
    async with session_with(script, log) as session:
        feed = []
        session.on_update = feed.append
        await session.watch({"memo://1"})
        await session.watch({"memo://1"})
        await call(session)
        assert feed == ["memo://1"]
    assert log.last_lines().count("resources/subscribe") == 1
    async with session_with() as session:
        await session.watch({"memo://1"})  # it would be refused if it were asked for


async def test_a_stateless_subscription_is_renewed_for_more_resources():
    discovered = {
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {}, "resources": {"subscribe": True}},
    }
    script = {
        "on": {
            "server/discover": [["result", discovered]],
            "subscriptions/listen": [["echo_message"]],
        }
    }
    log = ServerLog("bad")
    async with session_with(script, log, revision="2026-07-28") as session:
        await call(session)
        await session.watch({"memo://1"})
        await trio.testing.wait_all_tasks_blocked()
        await call(session)
    last = json.loads(log.last_lines().splitlines()[-1])
    assert last["params"]["notifications"]["resourceSubscriptions"] == ["memo://1"]

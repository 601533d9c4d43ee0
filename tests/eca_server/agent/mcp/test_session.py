"""A session with servers that break the protocol in the ways that real ones do."""

import json
import math
import os
from typing import Any

import pytest
import trio
import trio.testing

from eca_protocol.framing import Framing, LineDecoder, encode_line
from eca_protocol.messages.lifecycle import WorkspaceFolder
from eca_protocol.server.roots import parse_roots, uri_of
from eca_server.agent.mcp import session as session_module
from eca_server.agent.mcp.connection import PING_SECONDS, RETRY_SECONDS, keep_alive
from eca_server.agent.mcp.errors import MCPError
from eca_server.agent.mcp.messages import Progress
from eca_server.agent.mcp.server_log import ServerLog
from eca_server.agent.mcp.stdio import StdioTransport, start_stdio
from tests.eca_server.agent.mcp.scripted import (
    error_of,
    failure,
    scripted,
    session_with,
    stateless_session,
    talking_to,
)
from tests.eca_server.agent.mcp.scripted_server import INFO
from tests.eca_server.agent.mcp.web import call, serving, text_of
from tests.promises import within

MOST_BYTES = 8192
"""Bytes of a server that may be dealt with in one step of the loop."""
OK = {"content": [{"type": "text", "text": "ok"}]}
DONE = ["result", OK]


def on_call(*steps: Any, **others: Any) -> dict[str, Any]:
    return {"on": {"tools/call": [*steps], **others}}


def notification(name: str, **params: Any) -> list[Any]:
    """Return the step that writes a notification."""
    return ["say", {"jsonrpc": "2.0", "method": f"notifications/{name}", "params": params}]


def request(request_id: Any, method: str) -> list[Any]:
    """Return the steps of a request to us whose answer is logged."""
    message = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": {}}
    return [["say", message], ["read_answer", request_id], ["echo_answer"]]


def logged(log: ServerLog) -> list[Any]:
    """Return the messages that a server has logged."""
    return [json.loads(line) for line in log.last_lines(20, 20_000).splitlines()]


async def test_a_call_carries_its_arguments_untouched_and_a_token():
    log = ServerLog("bad")
    async with session_with(on_call(["echo_message"], DONE), log) as session:
        assert text_of(await call(session)) == "ok"
        await session.call_tool("echo", {"text": "\ud83d"}, deadline=20)
        invalid = session.call_tool("echo", {"value": math.nan}, deadline=20)
        assert (await error_of(invalid)).kind == "refused"
        assert text_of(await call(session)) == "ok"
    first, second, _ = (message["params"] for message in logged(log))
    assert (first["name"], first["arguments"]) == ("echo", {"a key": 1})
    assert isinstance(first["_meta"]["progressToken"], int)
    assert second["arguments"] == {"text": "\ufffd"}


def answer(**members: Any) -> list[Any]:
    return ["say", {"jsonrpc": "2.0", "id": "$id", **members}]


FAILURE = {"code": 1, "message": "not fine"}
NOISE = [["line", "hello"], ["line", '{"level":30}'], ["raw", "caf\xe9\r\n\n"]]
NOISE += [["line", "{broken"], ["line", "[1]"], ["line", "7"]]
STRAY = answer(result={}, id=999)
FLOOD = ["repeat", 5000, notification("message", data="x")]
UNKNOWN_FLOOD = ["repeat", 5000, notification("unheard/of")]
NAN = ["line", '{"jsonrpc":"2.0","id":"$id","result":{"content":[NaN]}}']


@pytest.mark.long(but=6)
@pytest.mark.parametrize(
    ("steps", "text", "is_error"),
    [
        ([["error", -32602, "unknown tool: echo"]], "unknown tool: echo", True),
        ([["error", -32042, "log in", {"url": "https://a"}]], 'log in\n{"url":"https://a"}', True),
        ([*NOISE, DONE], "ok", False),
        ([STRAY, DONE, DONE, ["error", 1, "again"]], "ok", False),
        ([["line", '{"jsonrpc":"2.0","id":"2","result":{"content":"ok"}}']], "ok", False),
        ([answer(result=OK, error=None)], "ok", False),
        ([answer(result=OK, error=FAILURE)], "not fine", True),
        ([answer(id=None, error=FAILURE)], "not fine", True),
        ([NAN], "cannot be read", True),
        ([notification("cancelled", requestId=99, reason="none"), DONE], "ok", False),
        ([FLOOD, UNKNOWN_FLOOD, DONE], "ok", False),
        ([["repeat", 20_000, ["stderr", "x" * 200]], DONE], "ok", False),
    ],
)
async def test_odd_answers_of_a_call_and_what_is_around_them(steps, text, is_error):
    log = ServerLog("bad")
    script = on_call(*steps, ping=[["echo_message"], ["result", {}]])
    async with session_with(script, log) as session:
        result = await call(session, deadline=20)
        assert text in text_of(result)
        assert result.is_error is is_error
        await session.ping()
        assert await session.list_tools()
    if ["line", "{broken"] in steps:  # noise is never answered
        received = [line for line in log.last_lines().splitlines() if '"method"' in line]
        assert [json.loads(line)["method"] for line in received] == ["ping"]


async def test_a_long_message_comes_whole_and_soon_and_fails_its_call_beyond_the_limit(monkeypatch):
    with within(5):
        async with session_with(on_call(["big", 10_000_000])) as session:
            assert len(text_of(await call(session, deadline=20))) == 10_000_000
    short = Framing(decoder=lambda: LineDecoder(max_line=50_000), encode=encode_line)
    monkeypatch.setattr(StdioTransport, "framing", short)
    async with session_with(on_call(["big", 100_000])) as session:
        result = await call(session)
        assert result.is_error
        assert "skipped" in text_of(result)
        assert await session.list_tools()
    error = await failure(session_with({"on": {"initialize": [["big", 100_000]]}}))
    assert error.message.startswith("a message was skipped: expected a line")


async def test_a_flood_comes_in_slices_with_a_checkpoint_before_each_and_nothing_is_lost(
    monkeypatch, tmp_path, nursery
):
    lines = '{"jsonrpc":"2.0","method":"notifications/message"}\n' * 200
    flood = [["repeat", 9, ["stderr", lines]], ["repeat", 9, ["raw", lines]], ["idle"]]
    log, errors, slices = ServerLog("bad"), [], []
    monkeypatch.setattr(log, "feed", errors.append)
    settings = scripted({"at_start": flood})
    transport = start_stdio(settings, environment=dict(os.environ), directory=tmp_path, log=log)
    nursery.start_soon(transport.watch)
    with trio.fail_after(30):
        while len(b"".join(slices)) < len(lines) * 9:
            with trio.testing.assert_checkpoints():
                slices.append(await transport.receive())
    await transport.aclose()
    assert b"".join(slices).decode() == lines * 9
    assert b"".join(errors).decode() == f"{lines}\n" * 9
    assert max(map(len, slices + errors)) <= MOST_BYTES


async def test_half_a_line_costs_the_call_its_deadline_and_the_end_is_clean():
    async with session_with(on_call(["raw", '{"jsonrpc":'], ["idle"])) as session:
        error = await error_of(call(session, deadline=0.2))
    assert error.kind == "timeout"
    assert "0.2 s" in error.message


async def test_abandoned_calls_are_cancelled_at_the_server():
    log = ServerLog("bad")
    cancelled = [["echo_message"]]
    script = on_call(["stderr", "running"], **{"notifications/cancelled": cancelled})
    async with session_with(script, log) as session, trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(call, session)
        while log.last_lines(20).count("running") < 8:
            await trio.sleep(0.01)
        await session.ping()
        assert log.last_lines(20).count("running") == 8
        nursery.cancel_scope.cancel()
    messages = map(json.loads, log.last_lines(8, 2_000).splitlines())
    ids = {each["params"]["requestId"] for each in messages if each["method"].endswith("cancelled")}
    assert ids == {*range(2, 10)}


async def test_a_late_answer_to_a_cancelled_call_is_swallowed():
    late = [["read_until", "notifications/cancelled"], ["error", 0, "Request cancelled"]]
    async with session_with(on_call(*late)) as session:
        await error_of(call(session, deadline=0.1))
        await session.ping()
        assert await session.list_tools()


PROGRESS = notification("progress", progressToken=1, progress=1, total=2, message="half")
NO_PROGRESS: list[dict[str, Any]] = [
    {},
    {"progressToken": 77, "progress": 1},
    {"progressToken": "1", "progress": 1},
    {"progressToken": 1, "progress": "much"},
    {"progressToken": 1, "progress": -1},
    {"progressToken": [1], "progress": 1},
    {"progressToken": 1, "progress": 10**400},
]


async def test_progress_is_reported_and_gives_a_call_new_patience(mock_clock):
    reports: list[Progress] = []

    def note(progress: Progress) -> None:
        reports.append(progress)
        mock_clock.jump(0.4)

    async with session_with(on_call(*[PROGRESS] * 8, ["sleep", 0.1], DONE)) as session:
        assert text_of(await call(session, deadline=0.5, on_progress=note)) == "ok"
    assert reports == [Progress(token=1, progress=1, total=2, message="half")] * 8


@pytest.mark.long
async def test_progress_without_end_does_not_hold_a_call_for_ever(monkeypatch, mock_clock):
    monkeypatch.setattr(session_module, "MAX_CALL_SECONDS", 0.5)
    async with session_with(on_call(*[PROGRESS] * 3, ["sleep", 20], DONE)) as session:
        await error_of(call(session, deadline=0.3, on_progress=lambda _: mock_clock.jump(0.2)))
        mock_clock.rate = 1


async def test_invalid_progress_is_ignored():
    reports: list[Progress] = []
    odd = [notification("progress", **params) for params in NO_PROGRESS]
    async with session_with(on_call(*odd, DONE)) as session:
        assert text_of(await call(session, on_progress=reports.append)) == "ok"
    assert reports == []


async def test_roots_are_given_also_before_the_handshake_is_answered(tmp_path):
    folder = tmp_path / "a folder"
    folder.mkdir()
    roots, _ = parse_roots([WorkspaceFolder(name="mine", uri=uri_of(folder))])
    log = ServerLog("bad")
    changed = "notifications/roots/list_changed"
    steps = [*request(1, "roots/list"), ["result", INFO]]
    settings = scripted({"on": {"initialize": steps, changed: [["echo_message"]]}})
    async with talking_to(settings, log, lambda: roots) as session:
        session.roots_changed()
        await session.ping()
    answer, announced = logged(log)
    assert answer["result"] == {"roots": [{"uri": uri_of(folder), "name": "mine"}]}
    assert "%20" in answer["result"]["roots"][0]["uri"]
    assert announced["method"] == changed


IDS = [0, 1, 2, "", "2"]
UNDECLARED = ["elicitation/create", "sampling/createMessage", "tasks/list", "no/such"]


async def test_a_request_inside_our_call_is_answered_at_once_under_its_own_id():
    log = ServerLog("bad")
    pings = [step for each in IDS for step in request(each, "ping")]
    refused = [step for method in UNDECLARED for step in request(1, method)]
    async with session_with(on_call(*pings, *refused, DONE), log) as session:
        assert text_of(await call(session)) == "ok"
    answers = logged(log)
    assert answers[:5] == [{"jsonrpc": "2.0", "id": each, "result": {}} for each in IDS]
    errors = [each["error"] for each in answers[5:]]
    for error, method in zip(errors, UNDECLARED, strict=True):
        assert error["code"] == -32601
        assert method in error["message"]


async def test_a_changed_list_is_announced_even_to_a_failing_listener():
    kinds = ["tools", "tools", "prompts", "resources"]
    steps = [notification(f"{kind}/list_changed") for kind in kinds]
    changes: list[str] = []

    def listen(kind: str) -> None:
        changes.append(kind)
        raise ZeroDivisionError

    async with session_with(on_call(*steps, DONE)) as session:
        session.on_change = listen
        assert text_of(await call(session)) == "ok"
    assert changes == kinds


async def test_a_stateless_servers_question_for_roots_is_answered_in_a_new_request():
    question = {
        "resultType": "input_required",
        "inputRequests": {"where": {"method": "roots/list", "params": {}}},
        "requestState": "opaque",
    }
    complete = ["answer_that", {"resultType": "complete", **OK}]
    steps = [["result", question], ["read_until", "tools/call"], ["echo_answer"], complete]
    log = ServerLog("bad")
    async with stateless_session({"tools/call": steps}, log) as session:
        assert text_of(await call(session)) == "ok"
    (new_request,) = logged(log)
    assert new_request["params"]["inputResponses"] == {"where": {"roots": []}}
    assert new_request["params"]["requestState"] == "opaque"
    assert new_request["params"]["arguments"] == {"a key": 1}


ELICITS = {"inputRequests": {"q": {"method": "elicitation/create"}}}


@pytest.mark.parametrize(
    ("result", "words"),
    [
        ({"resultType": "input_required", **ELICITS}, "elicitation/create"),
        ({"resultType": "input_required", "requestState": "again"}, "8 questions"),
        ({"resultType": "task", "taskId": "1"}, "unknown kind"),
    ],
)
async def test_an_unanswerable_question_of_a_stateless_server_is_an_error(result, words):
    async with stateless_session({"tools/call": [["result", result]]}) as session:
        assert words in (await error_of(call(session))).message


async def test_a_stateless_server_announces_changes_of_lists_and_of_watched_resources():
    changed = notification("tools/list_changed")
    on = {"tools/call": [changed, DONE], "subscriptions/listen": [["echo_message"]]}
    log = ServerLog("bad")
    async with stateless_session(on, log, resources={"subscribe": True}) as session:
        changes: list[str] = []
        session.on_change = changes.append
        await call(session)
        assert changes == ["tools"]
        await session.watch({"memo://1"})
        await trio.testing.wait_all_tasks_blocked()
        await call(session)
    first, *_, last = (message["params"]["notifications"] for message in logged(log))
    assert first["toolsListChanged"] is True
    assert last["resourceSubscriptions"] == ["memo://1"]


async def test_changes_of_resources_are_announced_if_the_server_can():
    updated = notification("resources/updated", uri="memo://1")
    can = {"tools": {}, "resources": {"subscribe": True}}
    on = {
        "initialize": [["result", {**INFO, "capabilities": can}]],
        "resources/subscribe": [["echo_message"], ["result", {}], updated],
    }
    log = ServerLog("bad")
    async with session_with({"on": on}, log) as session:
        updates: list[str] = []
        session.on_update = updates.append
        await session.watch({"memo://1"})
        await session.watch({"memo://1"})
        await call(session)
        assert updates == ["memo://1"]
    assert len(logged(log)) == 1
    async with session_with() as session:
        await session.watch({"memo://1"})  # it would be refused if it were asked for


class Watched:
    """A server that answers pings as a test says: `ok`, or the kind of a fault."""

    def __init__(self, *answers: str) -> None:
        self.suspect = trio.Event()
        self.is_busy = False
        self.answers = list(answers)
        self.pinged: list[float] = []
        self.given_up: tuple[float, MCPError] | None = None

    async def ping(self, seconds: float) -> None:
        self.pinged.append(trio.current_time())
        answer: Any = self.answers.pop(0) if self.answers else "ok"
        if answer == "timeout":
            await trio.sleep(seconds)
        if answer != "ok":
            raise MCPError("no", kind=answer)

    def give_up(self, error: MCPError) -> None:
        self.given_up = trio.current_time(), error


@pytest.mark.parametrize(
    ("answers", "pings", "ends"),
    [
        (["ok"], [30, 60, 90], None),
        (["refused"], [30, 60, 90], None),
        (["timeout", "ok"], [30, 30 + PING_SECONDS + RETRY_SECONDS], None),
        (["timeout", "timeout"], [30, 90], 90 + PING_SECONDS),
    ],
)
async def test_a_session_ends_only_after_two_unanswered_pings(autojump_clock, answers, pings, ends):
    watched = Watched(*answers)
    begun = trio.current_time()
    with trio.move_on_after(105):
        await keep_alive(watched, 30)
    assert [round(at - begun) for at in watched.pinged] == pings
    if ends is None:
        assert watched.given_up is None
    else:
        assert watched.given_up is not None
        at, error = watched.given_up
        assert (round(at - begun), error.kind) == (ends, "closed")


async def test_a_busy_server_is_not_pinged_and_a_call_that_begins_while_a_ping_waits_is_no_death(
    autojump_clock,
):
    class Calling(Watched):
        async def ping(self, seconds: float) -> None:
            try:
                await super().ping(seconds)
            finally:
                self.is_busy = len(self.pinged) == 2

    watched = Calling("timeout", "timeout")
    for is_busy, pings in ((True, 0), (False, 2)):
        watched.is_busy = is_busy
        with trio.move_on_after(1000):
            await keep_alive(watched, 30)
        assert len(watched.pinged) == pings
        assert watched.given_up is None


async def test_a_program_is_asked_only_when_a_call_was_not_answered(autojump_clock, nursery):
    watched = Watched()
    nursery.start_soon(keep_alive, watched, math.inf)
    await trio.sleep(10_000)
    assert watched.pinged == []
    watched.suspect.set()
    await trio.sleep(1)
    assert len(watched.pinged) == 1
    nursery.cancel_scope.cancel()


async def test_a_remote_server_is_pinged():
    async with serving(keep_alive_seconds=0.02) as (server, _):
        await server.has_seen("ping", 2)


async def test_a_call_without_an_answer_makes_a_server_suspect():
    pinged = trio.Event()
    changed = ["say", {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]
    script = {"on": {"tools/call": [], "ping": [changed, ["result", {}]]}}
    async with session_with(script) as session:
        session.on_change = lambda _: pinged.set()
        assert "no answer" in (await error_of(call(session, deadline=0.02))).message
        with trio.fail_after(5):
            await pinged.wait()
        session.give_up(MCPError("enough", kind="closed"))
        with trio.fail_after(5):
            await session.ended.wait()
    assert str(session.error) == "enough"

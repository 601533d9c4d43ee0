"""JSON-RPC as the real process speaks it: what is answered how, and every request once.

Most of it is asked of one process, which serves on whatever came before. The suite's cases judge
the same server message by message; here are the rows that they leave out.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.eca_server.conftest import SERVE
from tests.eca_server.stranger import UNSET, Stranger, environment, is_finished, message, text_of


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    """An initialized server that the tests of this module share."""
    home = tmp_path_factory.mktemp("home")
    stranger = Stranger(SERVE, cwd=home, env=environment(home), errors=home / "stderr.txt")
    try:
        stranger.introduced()
        yield stranger
        assert stranger.process.poll() is None
    finally:
        stranger.close()


ROUND = iter(range(10**6))


def answers_to(peer: Stranger, *messages: Any) -> list[Any]:
    """Return all answers up to the one of a last request of ours, which is left out."""
    last = f"last {next(ROUND)}"
    peer.send(*messages, message("chat/queryContext", request_id=last))
    came = peer.until(lambda m: m.get("id") == last)
    return [value for value in came[:-1] if "method" not in value]


def prompt_with(**params: Any) -> Any:
    return message("chat/prompt", {"message": "hi", **params}, request_id=1)


SHUTDOWN = {"jsonrpc": "2.0", "id": "s", "method": "shutdown"}
START = {"start": "7", "end": 8}
REFUSED: list[tuple[Any, Any, int, str]] = [
    (b"{", None, -32700, ""),
    *((value, None, -32600, "") for value in ([message("exit")], [], "text", 7, None, {})),
    *(({**SHUTDOWN, "id": odd}, None, -32600, "") for odd in (True, 1.5, None, [1])),
    *(({**SHUTDOWN, "jsonrpc": odd}, "s", -32600, "") for odd in ("1.0", 2.0, None)),
    *(({**SHUTDOWN, "method": odd}, "s", -32600, "") for odd in (7, None)),
    *(({**SHUTDOWN, "params": odd}, "s", -32600, "") for odd in ("text", 0)),
    *(
        (message(method, {}, request_id=1), 1, -32601, method)
        for method in ("chat/unknown", "$/unknown", "", "Initialize", "config/updated")
    ),
    (message("initialize", {}, request_id=1), 1, -32600, ""),
    (message("chat/prompt", {}, request_id=1), 1, -32602, "params.message"),
    (message("chat/prompt", ["hi"], request_id=1), 1, -32602, "params"),
    (prompt_with(message=None), 1, -32602, "params.message"),
    (prompt_with(message={"a": [1]}), 1, -32602, "params.message"),
    (prompt_with(chatId=7), 1, -32602, "params.chatId"),
    (prompt_with(model=["a"]), 1, -32602, "params.model"),
    (prompt_with(contexts={}), 1, -32602, "params.contexts"),
    (prompt_with(contexts=[{"type": 7}]), 1, -32602, "contexts[0].type"),
    (
        prompt_with(contexts=[{"type": "repoMap"}, {"type": "file", "path": 7}]),
        *(1, -32602, "contexts[1].path"),
    ),
    (
        prompt_with(contexts=[{"type": "file", "path": "/a", "linesRange": START}]),
        *(1, -32602, "contexts[0].linesRange.start"),
    ),
    (message("chat/queryContext", {"query": 7}, request_id=1), 1, -32602, "params.query"),
    (message("chat/queryCommands", {"chatId": {}}, request_id=1), 1, -32602, "params.chatId"),
    (message("chat/delete", {"chatId": 7}, request_id=1), 1, -32602, "params.chatId"),
]
INTERNAL = ("Traceback", "eca_server", "eca_protocol", "attrs", "cattrs", "site-packages", ".py")


@pytest.mark.requirement(
    *("BASE-19", "BASE-20", "BASE-21", "BASE-22", "BASE-24", "BASE-25", "BASE-26", "BASE-28"),
    *("BASE-32", "W-3d", "W-4d"),
)
@pytest.mark.parametrize(("value", "id_", "code", "place"), REFUSED)
def test_what_cannot_be_answered_is_refused_without_anything_internal(
    peer, value, id_, code, place
):
    (answer,) = answers_to(peer, value)
    error = answer["error"]
    assert (answer["id"], error["code"]) == (id_, code)
    assert place in error["message"]
    assert code != -32602 or "expected" in error["message"]
    assert set(error) <= {"code", "message", "data"}
    assert not [word for word in INTERNAL if word in str(error)]


@pytest.mark.requirement("BASE-17")
def test_ids_come_back_as_they_came_and_may_be_used_again(peer):
    ids = [0, -1, "", "0", "-1", 2**53 + 1, 10**300, -(2**63), "ü\U0001f600", "null", "1" * 5000]
    ids += [7, 7, 7]
    answers = answers_to(peer, *(message("chat/queryContext", request_id=id_) for id_ in ids))
    assert [(type(each["id"]), each["id"]) for each in answers] == [(type(id_), id_) for id_ in ids]
    assert all(set(answer) == {"jsonrpc", "id", "result"} for answer in answers)


@pytest.mark.requirement("W-2c", "BASE-31")
def test_an_id_that_is_pending_is_refused_and_the_first_keeps_its_answer(server):
    server.initialize()
    server.send(
        message("shutdown", request_id=5),
        message("chat/queryContext", request_id=5),
        message("chat/queryContext", request_id="5"),
        message("$/cancelRequest", {"id": "5"}),
    )
    server.answer(5)
    server.answer(5)
    first, second, last = [seen for seen in server.seen if seen.get("id") in {5, "5"}]
    assert [(each["id"], each["error"]["code"]) for each in (first, second)] == [
        (5, -32600),
        ("5", -32600),
    ]
    assert "pending" in first["error"]["message"]
    assert last == {"jsonrpc": "2.0", "id": 5, "result": None}


@pytest.mark.requirement("BASE-18")
def test_a_request_method_without_id_is_run_and_not_answered(peer):
    params = {"chatId": "silent", "message": "say done", "model": "simulator/script"}
    peer.tell("chat/prompt", params)
    came = peer.expect_finished()
    assert text_of(came) == "done"
    assert not [value for value in came if "method" not in value]
    assert not answers_to(peer, message("chat/delete", {"chatId": "silent"}))


@pytest.mark.requirement("W-4b")
def test_a_notification_method_with_an_id_is_run_and_answered_null(peer):
    chat = peer.start_endless_turn()
    (answer,) = answers_to(peer, message("chat/promptStop", {"chatId": chat}, request_id="stop"))
    assert answer == {"jsonrpc": "2.0", "id": "stop", "result": None}
    if not any(is_finished(seen) and seen["params"]["chatId"] == chat for seen in peer.seen):
        peer.expect_finished()
    (answer,) = answers_to(peer, message("chat/promptStop", {"chatId": 7}, request_id=1))
    assert answer["result"] is None


@pytest.mark.requirement("BASE-30")
def test_what_has_no_waiting_call_is_ignored(peer):
    assert not answers_to(
        peer,
        message("$/unknown", {"a": 1}),
        message("no/such", [1, 2]),
        message("chat/promptStop", {"chatId": 7}),
        message("workspace/didChangeWorkspaceFolders", {"event": {}}),
        *(message("$/cancelRequest", params) for params in ({"id": "unknown"}, {"id": [1]}, UNSET)),
        message("initialized", {}),
        {"jsonrpc": "2.0", "id": 12345, "result": {}},
        {"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "no"}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}},
    )


@pytest.mark.requirement("CHAT-1", "CHAT-24", "CHAT-29", "W-24e", "W-40e")
def test_what_is_null_or_missing_and_may_be_is_no_error(peer):
    results = [peer.result("chat/queryCommands", params) for params in (UNSET, None, {}, [])]
    assert all(result == results[0] for result in results)
    assert results[0]["commands"]
    for method, params in [
        ("chat/queryContext", {"query": None, "contexts": None, "chatId": None}),
        ("chat/queryContext", {"request-id": 7, "contexts": []}),
        ("chat/queryCommands", {"query": None, "contexts": []}),
        *(("chat/delete", params) for params in ({"chatId": None}, {"chatId": "never opened"}, [])),
    ]:
        assert "chatId" not in peer.result(method, params)
    nulls = dict.fromkeys(("chatId", "model", "behavior", "agent", "contexts", "variant"))
    answer = peer.result("chat/prompt", {**nulls, "message": "hi"})
    assert answer["status"] == "prompting"
    if not any(
        is_finished(seen) and seen["params"]["chatId"] == answer["chatId"] for seen in peer.seen
    ):
        peer.expect_finished(answer["chatId"])


BROKEN = """
import sys
from eca_server.agent.chat.chats import Chats
from eca_server.cli.main import run
def delete(self, chat_id):
    raise KeyError('the secret of the house')
Chats.delete = delete
sys.exit(run(['server']))
"""


@pytest.mark.requirement("BASE-27")
def test_a_bug_of_our_own_is_32603_and_reported_to_the_log_only(start_server, tmp_path):
    (tmp_path / "broken.py").write_text(BROKEN)
    command = (sys.executable, "-P", str(tmp_path / "broken.py"))
    server = start_server(command=command, may_log_tracebacks=True)
    server.initialize()
    answer = server.answer(server.ask("chat/delete", {"chatId": "1"}))
    assert answer["error"]["code"] == -32603
    assert not [word for word in ("secret", "KeyError") if word in str(answer)]
    assert server.result("chat/queryContext") == {"contexts": []}
    assert "the secret of the house" in server.errors


@pytest.mark.long
@pytest.mark.requirement("BASE-29")
def test_ten_thousand_requests_at_once_are_answered_once_each(peer):
    chooser = random.Random(3)
    methods = ("chat/queryContext", "chat/queryCommands", "chat/delete", "no/such")
    begun = len(peer.seen)
    requests = [
        message(chooser.choice(methods), {"chatId": str(number)}, request_id=f"many {number}")
        for number in range(10_000)
    ]
    peer.send(*requests)
    due = {request["id"] for request in requests}
    peer.until(lambda m: due.discard(m.get("id")) or not due, seconds=30)
    answers_to(peer)
    answered = [seen["id"] for seen in peer.seen[begun:] if str(seen.get("id")).startswith("many")]
    assert sorted(answered) == sorted(request["id"] for request in requests)

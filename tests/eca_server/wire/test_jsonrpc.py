"""JSON-RPC as the real process speaks it: what is answered how, and every request once.

Most of it is asked of one process, which serves on whatever came before.
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
    """All answers up to the one of a last request of ours, which is left out."""
    last = f"last {next(ROUND)}"
    peer.send(*messages, message("chat/queryContext", request_id=last))
    came = peer.until(lambda m: m.get("id") == last)
    return [value for value in came[:-1] if "method" not in value]


def codes(answers: list[Any]) -> list[tuple[Any, int]]:
    return [(answer["id"], answer["error"]["code"]) for answer in answers]


@pytest.mark.requirement("BASE-20", "BASE-28")
@pytest.mark.parametrize(
    ("value", "code"),
    [
        ([message("exit")], -32600),
        ([message("chat/queryContext", request_id=1), message("shutdown", request_id=2)], -32600),
        ([], -32600),
        ("text", -32600),
        (None, -32600),
        ({}, -32600),
        ({"jsonrpc": "2.0", "id": True, "method": "shutdown"}, -32600),
        ({"jsonrpc": "2.0", "id": 1.5, "method": "shutdown"}, -32600),
        ({"jsonrpc": "2.0", "id": None, "method": "shutdown"}, -32600),
        ({"jsonrpc": "2.0", "id": [1], "method": "shutdown"}, -32600),
    ],
)
def test_what_is_no_message_is_answered_with_id_null(peer, value, code):
    assert codes(answers_to(peer, value)) == [(None, code)]


@pytest.mark.requirement("BASE-21", "BASE-22", "BASE-24")
@pytest.mark.parametrize(
    "wrong",
    [
        {"jsonrpc": "1.0", "method": "shutdown"},
        {"jsonrpc": 2.0, "method": "shutdown"},
        {"method": "shutdown"},
        {"jsonrpc": "2.0", "method": 7},
        {"jsonrpc": "2.0", "method": None},
        {"jsonrpc": "2.0", "method": "shutdown", "params": "text"},
        {"jsonrpc": "2.0", "method": "shutdown", "params": 0},
    ],
)
def test_a_request_that_is_none_is_answered_with_its_id(peer, wrong):
    assert codes(answers_to(peer, {**wrong, "id": "mine"})) == [("mine", -32600)]


@pytest.mark.requirement("BASE-17")
def test_ids_come_back_as_they_came(peer):
    ids = [0, -1, "", "0", "-1", 2**53 + 1, 10**300, -(2**63), "ü\U0001f600", "null", "1" * 5000]
    answers = answers_to(peer, *(message("chat/queryContext", request_id=id_) for id_ in ids))
    assert [(type(answer["id"]), answer["id"]) for answer in answers] == [
        (type(id_), id_) for id_ in ids
    ]
    assert all(set(answer) == {"jsonrpc", "id", "result"} for answer in answers)


def test_an_answered_id_may_be_used_again(peer):
    answers = answers_to(peer, *[message("chat/queryContext", request_id=7)] * 3)
    assert [answer["id"] for answer in answers] == [7, 7, 7]
    assert all("result" in answer for answer in answers)


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
    fives = [seen for seen in server.seen if seen.get("id") in {5, "5"}]
    assert codes(fives[:-1]) == [(5, -32600), ("5", -32600)]
    assert "pending" in fives[0]["error"]["message"]
    assert fives[-1] == {"jsonrpc": "2.0", "id": 5, "result": None}


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


@pytest.mark.requirement("BASE-30")
def test_what_has_no_waiting_call_is_ignored(peer):
    assert not answers_to(
        peer,
        message("$/unknown", {"a": 1}),
        message("$/setTrace"),
        message("no/such", [1, 2]),
        message("workspace/didChangeWorkspaceFolders", {"event": {}}),
        message("$/cancelRequest", {"id": "unknown"}),
        message("$/cancelRequest", {"id": [1]}),
        message("$/cancelRequest"),
        message("initialized", {}),
        {"jsonrpc": "2.0", "id": 12345, "result": {}},
        {"jsonrpc": "2.0", "id": "x", "error": {"code": 1, "message": "no"}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no"}},
    )


@pytest.mark.requirement("W-4d", "BASE-25")
@pytest.mark.parametrize("method", ["chat/unknown", "jobs/start", "$/unknown", "", "Initialize"])
def test_an_unknown_request_is_32601(peer, method):
    (answer,) = answers_to(peer, message(method, {}, request_id=1))
    assert codes([answer]) == [(1, -32601)]
    assert method in answer["error"]["message"]


def test_what_only_we_send_is_no_request_of_the_client_s(peer):
    for method in ("chat/contentReceived", "config/updated", "editor/getDiagnostics"):
        assert codes(answers_to(peer, message(method, {}, request_id=1))) == [(1, -32601)]


def test_a_notification_that_does_not_fit_is_dropped(peer):
    wrong = {"chatId": 7}
    assert not answers_to(peer, message("chat/promptStop", wrong))
    (answer,) = answers_to(peer, message("chat/promptStop", wrong, request_id=1))
    assert answer["result"] is None


def test_no_params_null_and_empty_ones_mean_the_same(peer):
    results = [peer.result("chat/queryCommands", params) for params in (UNSET, None, {}, [])]
    assert all(result == results[0] for result in results)
    assert results[0]["commands"]


@pytest.mark.requirement("W-24e", "W-40e", "CHAT-24", "CHAT-29")
@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("chat/queryContext", {"query": None, "contexts": None, "chatId": None}),
        ("chat/queryContext", {"request-id": 7, "contexts": []}),
        ("chat/queryCommands", {"query": None, "contexts": []}),
        ("chat/delete", {"chatId": None}),
        ("chat/delete", {"chatId": "never opened"}),
        ("chat/delete", []),
    ],
)
def test_what_is_null_or_missing_and_may_be_is_no_error(peer, method, params):
    assert "chatId" not in peer.result(method, params)


@pytest.mark.requirement("CHAT-1")
def test_a_prompt_may_be_full_of_nulls(peer):
    params = dict.fromkeys(("chatId", "model", "behavior", "agent", "contexts", "variant"))
    (answer,) = answers_to(peer, message("chat/prompt", {**params, "message": "hi"}, request_id=1))
    assert answer["result"]["status"] == "prompting"
    assert answer["result"]["chatId"]
    ends = [seen["params"]["chatId"] for seen in peer.seen if is_finished(seen)]
    if answer["result"]["chatId"] not in ends:
        peer.expect_finished()


@pytest.mark.requirement("BASE-26", "BASE-32", "W-3d")
@pytest.mark.parametrize(
    ("method", "params", "place"),
    [
        ("chat/prompt", {}, "params.message"),
        ("chat/prompt", {"message": None}, "params.message"),
        ("chat/prompt", {"message": 7}, "params.message"),
        ("chat/prompt", ["hi"], "params"),
        ("chat/prompt", {"message": "hi", "chatId": 7}, "params.chatId"),
        ("chat/prompt", {"message": "hi", "model": ["a"]}, "params.model"),
        ("chat/prompt", {"message": "hi", "contexts": {}}, "params.contexts"),
        (
            "chat/prompt",
            {"message": "hi", "contexts": [{"type": "file", "path": 7}]},
            "contexts[0].path",
        ),
        ("chat/prompt", {"message": "hi", "contexts": [{"type": 7}]}, "contexts[0].type"),
        (
            "chat/prompt",
            {
                "message": "hi",
                "contexts": [
                    {"type": "repoMap"},
                    {"type": "file", "path": "/a", "linesRange": {"start": "7", "end": 8}},
                ],
            },
            "contexts[1].linesRange.start",
        ),
        ("chat/queryContext", {"query": 7}, "params.query"),
        ("chat/queryCommands", {"chatId": {}}, "params.chatId"),
        ("chat/delete", {"chatId": 7}, "params.chatId"),
    ],
)
def test_params_that_do_not_fit_name_the_place(peer, method, params, place):
    (answer,) = answers_to(peer, message(method, params, request_id=1))
    assert answer["error"]["code"] == -32602
    assert place in answer["error"]["message"]
    assert "expected" in answer["error"]["message"]


INTERNAL = ("Traceback", "eca_server", "eca_protocol", "attrs", "cattrs", "site-packages", ".py")


@pytest.mark.requirement("BASE-19")
def test_errors_show_nothing_internal(peer):
    answers = answers_to(
        peer,
        b"{",
        7,
        [],
        {"jsonrpc": "1.0", "id": 1, "method": "shutdown"},
        message("no/such", request_id=1),
        message("initialize", {}, request_id=1),
        message("chat/prompt", {"message": {"a": [1]}}, request_id=1),
        message("chat/prompt", {"message": "hi", "contexts": [{"type": 7}]}, request_id=1),
        message("chat/delete", "text", request_id=1),
    )
    errors = [answer["error"] for answer in answers]
    assert len(errors) == 9
    for error in errors:
        assert type(error["code"]) is int
        assert isinstance(error["message"], str)
        assert set(error) <= {"code", "message", "data"}
        assert not [word for word in INTERNAL if word in str(error)], error


@pytest.mark.requirement("BASE-27")
def test_a_bug_of_our_own_is_32603_and_reported_to_the_log_only(start_server, tmp_path):
    broken = tmp_path / "broken.py"
    broken.write_text(
        "import sys\n"
        "from eca_server.agent.chat.chats import Chats\n"
        "from eca_server.cli.main import run\n"
        "def delete(self, chat_id):\n"
        "    raise KeyError('the secret of the house')\n"
        "Chats.delete = delete\n"
        "sys.exit(run(['server']))\n"
    )
    server = start_server(command=(sys.executable, "-P", str(broken)), may_log_tracebacks=True)
    server.initialize()
    answer = server.answer(server.ask("chat/delete", {"chatId": "1"}))
    assert answer["error"]["code"] == -32603
    assert "secret" not in str(answer)
    assert "KeyError" not in str(answer)
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

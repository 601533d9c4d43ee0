"""Messages that some client breaks on, a test each: looked up in the days, else tried.

Their numbers are those of the rows `CLIENT-1` to `CLIENT-34`.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.testing.requirements import REQUIREMENTS
from tests.clients.bridge import NodeBridge
from tests.clients.chats import Card, EmacsChat
from tests.clients.conftest import Day
from tests.clients.personality import PERSONALITIES
from tests.eca_server.conftest import SERVE
from tests.eca_server.stranger import (
    UNSET,
    Stranger,
    content_of,
    environment,
    frame,
    frames_in,
    is_finished,
    message,
    text_of,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stranger]:
    """A server for a client of no particular kind, which all tests here share."""
    home = tmp_path_factory.mktemp("home")
    stranger = Stranger(
        SERVE,
        cwd=home,
        env=environment(home, ECA_CONFIG='{"chat": {"title": false}}'),
        errors=home / "stderr.txt",
    )
    stranger.introduced(capabilities={"codeAssistant": {"editor": {"diagnostics": True}}})
    yield stranger
    stranger.close()


def chapters(day: Day) -> Mapping[str, list[Mapping[str, Any]]]:
    """The contents of each chat of a day."""
    by_chat: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for params in day.contents:
        by_chat[params["chatId"]].append(params)
    return by_chat


def written(days: list[Day]) -> Iterator[tuple[Day, Stranger]]:
    """The days of which every byte was seen: vscode-jsonrpc shows none."""
    for day in days:
        if isinstance(day.seat.line, Stranger):
            yield day, day.seat.line


def cards(days: list[Day]) -> Iterator[Card]:
    for day in days:
        for chat in day.seat.screen.chats.values():
            yield from chat.cards.values()


def test_each_hard_requirement_has_a_test_of_its_number():
    functions = [name for name in globals() if re.match(r"test_\d+_", name)]
    rows = [id_ for id_ in REQUIREMENTS if id_.startswith("CLIENT-")]
    assert [f"CLIENT-{name.split('_')[1]}" for name in functions] == rows
    for name in functions:
        (mark,) = (mark for mark in globals()[name].pytestmark if mark.name == "requirement")
        assert f"CLIENT-{name.split('_')[1]}" in mark.args


@pytest.mark.requirement("CLIENT-1")
def test_1_the_welcome_is_a_text(days):
    assert all(isinstance(day.seat.screen.welcome, str) for day in days)


@pytest.mark.requirement("CLIENT-2")
def test_2_the_first_update_unlocks_every_prompt(days):
    for day in days:
        chat = day.of("config/updated")[0]["params"]["chat"]
        assert isinstance(chat["welcomeMessage"], str)
        for one, many in (("Model", "models"), ("Behavior", "behaviors"), ("Agent", "agents")):
            assert chat[f"select{one}"] in chat[many]


@pytest.mark.requirement("CLIENT-3", "W-28a", "W-28c")
@pytest.mark.parametrize(
    ("named", "plans"),
    [
        ({"behavior": "plan"}, True),
        ({"agent": "plan"}, True),
        ({"behavior": "plan", "agent": "agent"}, False),
        ({"behavior": "agent", "agent": "plan"}, True),
    ],
)
def test_3_behavior_and_agent_are_read_and_agent_wins(server, named, plans):
    text = 'call eca_write_file {"path": "/none/a", "content": "x"}'
    params = {"chatId": "plans", "message": text, "model": "simulator/script", **named}
    server.result("chat/prompt", params)
    came = server.until(lambda m: content_of(m).get("type") == "toolCallRun")
    assert content_of(came[-1])["manualApproval"] is not plans
    server.stop("plans")
    server.expect_finished()


@pytest.mark.requirement("CLIENT-4")
def test_4_the_header_is_one_and_spelt_so(days):
    for _, line in written(days):
        output, bodies = b"".join(line.reads), 0
        for header in re.finditer(rb"(?:^|(?<=}))[^{}]*?\r\n\r\n(?={\"jsonrpc)", output):
            assert re.fullmatch(rb"Content-Length: [0-9]+\r\n\r\n", header[0])
            bodies += 1
        assert bodies == len(line.received)


@pytest.mark.requirement("CLIENT-5")
def test_5_who_keeps_nothing_between_reads_understands_all(spend_day):
    for name, most in (("Emacs then", 4096), ("Neovim", 32_768)):
        seat = spend_day(name).seat
        assert isinstance(seat.line, Stranger)
        assert max(map(len, seat.line.reads)) <= most
        assert all(frames_in(read) for read in seat.line.reads)
        assert as_it_came(seat.received) == seat.line.received[: len(seat.received)]
    assert len(spend_day("Emacs then").seat.screen.config["models"]) < 300, "they fit no read"
    assert len(spend_day("Neovim").seat.screen.config["models"]) > 300


def as_it_came(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{key: value[key] for key in value if key != "answers"} for value in messages]


@pytest.mark.requirement("CLIENT-6")
def test_6_an_answer_has_a_result_or_an_error(days):
    for _, line in written(days):
        answers = [value for value in line.received if "method" not in value]
        assert len(answers) > 10
        assert all(("result" in answer) is not ("error" in answer) for answer in answers)
        assert None not in (answer.get("error", 1) for answer in answers)


@pytest.mark.requirement("CLIENT-7", "W-2d")
def test_7_a_notification_has_no_id(days):
    for day, line in written(days):
        ids = {value["method"] for value in line.received if "method" in value and "id" in value}
        assert ids == set(day.seat.request_methods)


@pytest.mark.requirement("CLIENT-8")
def test_8_the_id_0_is_one_and_types_come_back(server, days):
    traces = [day.seat.line.trace for day in days if isinstance(day.seat.line, NodeBridge)]
    assert traces
    assert all(any("'initialize - (0)'" in line for line in trace) for trace in traces)
    for id_ in (0, "0", -1, "", 2**53):
        server.send(message("chat/queryCommands", {}, request_id=id_))
        assert "result" in server.answer(id_)


@pytest.mark.requirement("CLIENT-9")
def test_9_there_are_four_ways_to_say_nothing(server):
    ways = (UNSET, None, {}, [])
    assert all(way in [who.nothing for who in PERSONALITIES.values()] for way in ways)
    for params in ways:
        for method in ("chat/queryContext", "chat/queryCommands", "chat/delete"):
            server.result(method, params)
    nulls = dict.fromkeys(("chatId", "model", "behavior", "agent", "contexts", "request-id"))
    assert server.result("chat/prompt", {"message": "hi", **nulls})["chatId"]
    server.expect_finished()


@pytest.mark.requirement("CLIENT-10")
def test_10_odd_keys_do_no_harm(server):
    odd = {"request-id": 7, "requestId": "7", "doc-text": None, "includes": [], "": {}, "a.b": 1}
    assert server.result("chat/queryCommands", {"query": "doctor", **odd})["commands"]
    server.result("chat/prompt", {"message": "hi", **odd})
    server.expect_finished()


@pytest.mark.requirement("CLIENT-11", "W-21c")
def test_11_any_chat_may_be_named(server):
    server.prompt("say x", chat="gone")
    server.expect_finished()
    server.result("chat/delete", {"chatId": "gone"})
    for name in ("EMPTY", "gone", "6f1c4c1e-0000-4000-8000-000000000000", "ünï / %20", "0"):
        assert server.prompt("say x", chat=name) == name
        came = server.expect_finished()
        assert {value["params"]["chatId"] for value in came} == {name}
    assert server.prompt("say x")
    server.expect_finished()


@pytest.mark.requirement("CLIENT-12", "W-21a", "W-21d", "W-21e")
@pytest.mark.parametrize("model", ["no/such", "openai/gpt-5", "simulator/script"])
def test_12_a_prompt_is_answered_whatever_is_wrong(server, model):
    params = {"message": "fail auth", "model": model}
    begun = len(server.received)
    answer = server.result("chat/prompt", params)
    assert answer == {"chatId": answer["chatId"], "model": model, "status": answer["status"]}
    assert answer["status"] in ("prompting", "error")
    if not any(map(is_finished, server.received[begun:])):
        server.expect_finished()
    assert text_of(server.received[begun:], "user") == "fail auth"
    assert text_of(server.received[begun:], "system")


@pytest.mark.requirement("CLIENT-13", "BASE-16")
def test_13_every_request_is_answered(days):
    for day in days:
        assert not day.seat.unanswered
        assert len([value for value in day.seat.received if "answers" in value]) > 20


@pytest.mark.requirement("CLIENT-14", "W-22e")
def test_14_every_turn_ends_once(server, days):
    for day in days:
        for chat_id, contents in chapters(day).items():
            begun = {each["content"].get("contentId") for each in contents} - {None}
            ended = sum(is_finished({"params": each}) for each in contents)
            was_deleted = chat_id in dict(day.seat.deleted)
            assert ended == len(begun) or (was_deleted and ended == len(begun) - 1)
    for script in ("fail auth", "cut", "empty", "finish length", "call no_tool", "/none"):
        begun_at = len(server.received)
        server.prompt(script)
        if not any(map(is_finished, server.received[begun_at:])):
            server.expect_finished()
        server.settle()
        assert sum(map(is_finished, server.received[begun_at:])) == 1, script


@pytest.mark.requirement("CLIENT-15")
def test_15_a_running_progress_says_something(days):
    texts = [
        each["content"]["text"]
        for day in days
        for each in day.contents
        if each["content"].get("state") == "running"
    ]
    assert len(texts) > 100
    assert all(texts)


@pytest.mark.requirement("CLIENT-16", "W-26b")
def test_16_nothing_of_a_call_or_a_thought_comes_before_its_start(days):
    for day in days:
        begun: set[str] = set()
        for each in (each["content"] for each in day.contents if "id" in each["content"]):
            if each["type"] in ("toolCallPrepare", "reasonStarted"):
                begun.add(each["id"])
                assert each["type"] == "reasonStarted" or (each["name"] and each["server"])
            assert each["id"] in begun
        assert len(begun) > 5


@pytest.mark.requirement("CLIENT-17", "W-30b")
def test_17_the_pieces_of_arguments_join_to_the_whole(days):
    for card in cards(days):
        joined = json.loads(card.arguments_text)
        assert joined == card.arguments or "bytes left out" in json.dumps(card.arguments)


@pytest.mark.requirement("CLIENT-18", "W-32a")
def test_18_the_arguments_of_a_call_are_an_object(server, days):
    assert all(isinstance(card.arguments, dict) for card in cards(days))
    for arguments in ("[1]", "7", '"x"', "null", "{", ""):
        server.prompt(f"call eca_read_file {arguments}\nsay x")
        came = [content_of(value) for value in server.expect_finished()]
        calls = [each for each in came if "arguments" in each]
        assert calls
        assert all(each["arguments"] == {} for each in calls)


@pytest.mark.requirement("CLIENT-19", "W-27b")
def test_19_prices_are_texts_counts_are_integers(server, days):
    usages = [each["content"] for day in days for each in day.contents if is_usage(each)]
    assert len(usages) > 50
    for usage in usages:
        assert type(usage["sessionTokens"]) is int
        assert all(type(value) is int for value in usage.get("limit", {}).values())
        assert all(isinstance(usage.get(key, ""), str) for key in ("sessionCost", "messageCost"))
    titles = [each["content"].get("title", "") for day in days for each in day.contents]
    assert any(titles)
    assert all("\n" not in title for title in titles)


def is_usage(params: Mapping[str, Any]) -> bool:
    return bool(params["content"]["type"] == "usage")


@pytest.mark.requirement("CLIENT-20")
def test_20_no_content_of_any_client_would_make_emacs_raise(days):
    for day in days:
        for contents in chapters(day).values():
            chat = EmacsChat()
            for params in contents:
                chat.draw(params["content"], params["role"])


@pytest.mark.requirement("CLIENT-21", "W-35a")
def test_21_a_file_change_has_what_its_card_shows(days):
    for day in days:
        details = [
            each["content"]["details"]
            for each in day.contents
            if (each["content"].get("details") or {}).get("type") == "fileChange"
        ]
        assert len(details) == 3, "on run, running and called"
        for change in details:
            assert Path(change["path"]).is_absolute()
            assert (change["linesAdded"], change["linesRemoved"]) == (600, 0)
            assert "@@" in change["diff"]


@pytest.mark.requirement("CLIENT-22", "W-35b")
def test_22_no_tool_but_the_list_of_tasks_is_called_task(days):
    for day in days:
        for each in day.of("tool/serverUpdated"):
            tools = {tool["name"]: tool for tool in each["params"].get("tools", ())}
            assert not tools.keys() & {"eca_task", "eca__task"}
            if "task" in tools:
                assert "op" in tools["task"]["parameters"]["properties"]


@pytest.mark.requirement("CLIENT-23")
def test_23_nothing_is_null_but_a_variant_that_is_not_selected(days):
    for day in days:
        for value in day.received:
            nulls = {key for key, inner in members(value) if inner is None}
            assert nulls <= {"selectVariant"}, value


def members(value: Any) -> Iterator[tuple[str, Any]]:
    """Each key and value of a message, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from members(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from members(inner)


@pytest.mark.requirement("CLIENT-24")
def test_24_shutdown_is_null_and_leaves_no_process_behind(days):
    for day in days:
        (answer,) = (each for each in day.seat.received if each.get("answers") == "shutdown")
        assert answer["result"] is None
        assert not day.evening.children


@pytest.mark.requirement("CLIENT-25")
def test_25_exit_ends_us_whatever_its_params_and_signals(days):
    codes = {day.who.leaves_by: day.evening.code for day in days}
    assert len(codes) == 3
    assert codes[None] == 0
    for left_by, code in codes.items():
        assert code == 0 or (left_by is not None and code in {left_by.name, -left_by})


@pytest.mark.requirement("CLIENT-26", "W-42d")
def test_26_an_editor_is_asked_only_what_it_can_and_junk_is_a_no(server, days):
    for day in days:
        assistant = day.who.assistant
        can = {f"editor/get{each.title()}" for each in assistant.get("editor", {})}
        can |= {"chat/askQuestion"} if "chatCapabilities" in assistant else set()
        assert set(day.seat.request_methods) <= can
        assert day.seat.request_methods or not can or day.who.on_vscode_jsonrpc
    for junk in ("Unknown server request", None, [], {"diagnostics": 7}):
        params = {"message": "call eca_editor_diagnostics\nsay x", "model": "simulator/script"}
        server.ask("chat/prompt", params)
        request = server.until(lambda m: m.get("method") == "editor/getDiagnostics")[-1]
        server.send({"jsonrpc": "2.0", "id": request["id"], "result": junk})
        came = [content_of(value) for value in server.expect_finished()]
        (called,) = (each for each in came if each.get("type") == "toolCalled")
        assert called["error"]


@pytest.mark.requirement("CLIENT-27")
def test_27_a_decision_on_a_call_that_does_not_wait_counts_for_none(server):
    script = 'call eca_shell_command {"command": "true"}\nsay x'
    for method in ("chat/toolCallApprove", "chat/toolCallReject"):
        server.tell(method, {"chatId": "strays", "toolCallId": "call_1"})
        server.tell(method, {"chatId": None, "toolCallId": "call_1"})
    server.prompt(script, chat="strays")
    came = server.until(lambda m: content_of(m).get("type") == "toolCallRun")
    call = content_of(came[-1])
    assert call["manualApproval"]
    decision = {"chatId": "strays", "toolCallId": call["id"]}
    server.tell("chat/toolCallReject", decision)
    server.tell("chat/toolCallApprove", decision)
    came = server.expect_finished()
    assert "toolCallRejected" in {content_of(value).get("type") for value in came}
    server.tell("chat/toolCallApprove", decision)
    server.prompt(script, chat="strays")
    server.until(lambda m: content_of(m).get("manualApproval") is True)
    server.stop("strays")
    server.expect_finished()


@pytest.mark.requirement("CLIENT-28")
def test_28_one_file_starts_us_from_any_folder(days):
    assert {day.who.cwd for day in days} == {"project", "binary"}
    assert any(day.who.asks_version for day in days)
    for day in days:
        read = [card for card in cards([day]) if card.name.endswith("read_file")]
        assert read
        assert not any(card.error for card in read)


@pytest.mark.requirement("CLIENT-29", "W-11e")
def test_29_a_task_is_started_and_finished(days):
    for day in days:
        assert day.seat.screen.tasks
        assert all(day.seat.screen.tasks.values())


@pytest.mark.requirement("CLIENT-30")
def test_30_nothing_but_frames_is_written(days):
    for _, line in written(days):
        assert frames_in(b"".join(line.reads)) == line.received


@pytest.mark.requirement("CLIENT-31")
def test_31_the_users_text_comes_back_first_and_once(days):
    for day in days:
        came_back = []
        for contents in chapters(day).values():
            ids = [each["content"].get("contentId") for each in contents]
            for id_ in dict.fromkeys(filter(None, ids)):
                first, pieces = ids.index(id_), ids.count(id_)
                echo = contents[first : first + pieces]
                assert contents[first - 1]["content"]["state"] == "running"
                assert {(each["role"], each["content"]["contentId"]) for each in echo} == {
                    ("user", id_)
                }
                came_back.append("".join(each["content"]["text"] for each in echo))
        has_line_end = [PERSONALITIES[name] for name in ("Emacs then", "Neovim")]
        line_end = "\n" * (day.who in has_line_end)
        assert sorted(came_back) == sorted(text + line_end for text in day.prompted)


@pytest.mark.requirement("CLIENT-32", "W-24a", "W-24c")
def test_32_after_a_delete_nothing_comes_for_the_chat(days):
    for day in days:
        for chat_id, answered_at in day.seat.deleted:
            before, after = (
                [
                    each
                    for each in messages
                    if each.get("method") == "chat/contentReceived"
                    and each["params"]["chatId"] == chat_id
                ]
                for messages in (day.seat.received[:answered_at], day.seat.received[answered_at:])
            )
            assert not after or content_of(after[0]).get("state") == "running", "a turn of its own"
            began = sum(content_of(each).get("contentId") is not None for each in before)
            ended = sum(map(is_finished, before))
            assert began == 1
            assert ended == 1 or day.who.client["name"] != "emacs"


@pytest.mark.requirement("CLIENT-33")
def test_33_contents_are_of_chats_that_the_user_has_opened(days):
    for day in days:
        assert {each["chatId"] for each in day.contents} == day.opened


@pytest.mark.requirement("CLIENT-34", "W-5a")
def test_34_bodies_are_plain_utf_8_and_odd_ones_are_read(server, days):
    for _, line in written(days):
        assert "ünïcode".encode() in b"".join(line.reads)
    params = {"query": "ü\ud83d", "chatId": "a/b"}
    odd = json.dumps(message("chat/queryCommands", params, request_id="odd")).replace("/", "\\/")
    server.write(frame(odd.encode() + b"\n"))
    assert server.answer("odd")["result"]["chatId"] == "a/b"

"""Messages that some client breaks on, looked up in the days.

The numbers are those of the rows `CLIENT-1` to `CLIENT-34`. What is missing here is judged by the
suite's cases, and seen by the watcher and by the screens of the days.
"""

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from tests.clients.bridge import NodeBridge
from tests.clients.chats import Card, EmacsChat
from tests.clients.conftest import Day
from tests.clients.personality import PERSONALITIES
from tests.eca_server.stranger import Stranger, frames_in, is_finished


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


@pytest.mark.requirement("CLIENT-2")
def test_2_the_first_update_unlocks_every_prompt(days):
    for day in days:
        chat = day.of("config/updated")[0]["params"]["chat"]
        assert isinstance(chat["welcomeMessage"], str)
        for one, many in (("Model", "models"), ("Behavior", "behaviors"), ("Agent", "agents")):
            assert chat[f"select{one}"] in chat[many]


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


@pytest.mark.requirement("CLIENT-8")
def test_8_the_id_0_is_one(days):
    traces = [day.seat.line.trace for day in days if isinstance(day.seat.line, NodeBridge)]
    assert traces
    assert all(any("'initialize - (0)'" in line for line in trace) for trace in traces)


@pytest.mark.requirement("CLIENT-13", "BASE-16")
def test_13_every_request_is_answered(days):
    for day in days:
        assert not day.seat.unanswered
        assert len([value for value in day.seat.received if "answers" in value]) > 20


@pytest.mark.requirement("CLIENT-14", "W-22e")
def test_14_every_turn_ends_once(days):
    for day in days:
        for chat_id, contents in chapters(day).items():
            begun = {each["content"].get("contentId") for each in contents} - {None}
            ended = sum(is_finished({"params": each}) for each in contents)
            was_deleted = chat_id in dict(day.seat.deleted)
            assert ended == len(begun) or (was_deleted and ended == len(begun) - 1)


@pytest.mark.requirement("CLIENT-17", "W-30b")
def test_17_the_pieces_of_arguments_join_to_the_whole(days):
    for card in cards(days):
        joined = json.loads(card.arguments_text)
        assert joined == card.arguments or "bytes left out" in json.dumps(card.arguments)


@pytest.mark.requirement("CLIENT-20")
def test_20_no_content_of_any_client_would_make_emacs_raise(days):
    for day in days:
        for contents in chapters(day).values():
            chat = EmacsChat()
            for params in contents:
                chat.draw(params["content"], params["role"])


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
def test_26_an_editor_is_asked_only_what_it_can(days):
    for day in days:
        assistant = day.who.assistant
        can = {f"editor/get{each.title()}" for each in assistant.get("editor", {})}
        can |= {"chat/askQuestion"} if "chatCapabilities" in assistant else set()
        assert set(day.seat.request_methods) <= can
        assert day.seat.request_methods or not can or day.who.on_vscode_jsonrpc


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


@pytest.mark.requirement("CLIENT-4", "CLIENT-30", "CLIENT-34")
def test_30_nothing_but_frames_is_written(days):
    for _, line in written(days):
        output = b"".join(line.reads)
        assert frames_in(output) == line.received
        assert "ünïcode".encode() in output


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

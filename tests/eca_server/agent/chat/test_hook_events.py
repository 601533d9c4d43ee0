"""Hooks at what happens beside turns: sessions, ends, states, subagents, compactions."""

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any, get_args

import pytest
import trio.testing

from eca_protocol.server.roots import uri_of
from eca_protocol.testing.provider import reply
from eca_server.agent.chat import turn
from eca_server.agent.hooks import background
from eca_server.agent.jobs import shell as jobs_shell
from eca_server.config.hook_settings import HookEvent
from tests.eca_server.agent.chat.agent_session import calls, hook, hooked, today
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import SCRIPT, Editor, call, editor
from tests.eca_server.agent.chat.test_compaction import TOO_LONG
from tests.eca_server.agent.chat.test_hooks import ended, model_context, says
from tests.eca_server.agent.chat.test_stored_chats import shut_down
from tests.eca_server.agent.chat.test_subagents import SCOUT, spawn, spawned
from tests.eca_server.processes import assert_gone
from tests.promises import TooSlow, within

KEEPS = "x=$(cat); printf '%s\\n' \"$x\" >> told"
ALL = hooked(**{event: hook(event, KEEPS, visible=False) for event in get_args(HookEvent)})


def payloads(folder: Path) -> list[dict[str, Any]]:
    """Return the payloads of hooks, in order."""
    return [json.loads(line) for line in (folder / "told").read_text().splitlines()]


async def settled(ours: Editor) -> None:
    """Wait until the hooks beside the session are over."""
    for lane in tuple(ours.connection.parts.hooks.background.get()._lanes.values()):
        await lane.finished.wait()


async def test_each_event_is_announced_once_and_states_as_they_change(tmp_path, folder):
    data = tmp_path / "data"
    async with current({**ALL, "agent": SCOUT}, folder=folder, data=data) as ours:
        await ours.turn(spawn("say a"), model=SCRIPT)
        await settled(ours)
        await ours.prompt(call("shell_command", command="true"), model=SCRIPT)
        call_id = (await ours.content("toolCallRun", name="shell_command"))["id"]
        await settled(ours)
        await ours.approve({"id": call_id})
        await ours.expect_finished()
        await ours.turn("/compact briefly", chat="c", model=SCRIPT)
        await ours.turn("say b", chat="d", model=SCRIPT)
        await settled(ours)
        assert await ours.ask("chat/delete", {"chatId": "c"}) == {}
        await settled(ours)
        assert (await shut_down(ours))["result"] is None
    events = payloads(folder)
    states = [each for each in events if each["hook_type"] == "chatStatusChanged"]
    happened = [each for each in events if each not in states]
    assert " ".join(each["hook_type"] for each in happened) == (
        "sessionStart chatStart preRequest preToolCall subagentStart preRequest "
        "subagentPostRequest postToolCall postRequest preRequest preToolCall postToolCall "
        "postRequest preCompact postCompact chatStart preRequest postRequest chatEnd sessionEnd"
    )
    children = [each for each in events if each.get("agent") == "scout"]
    assert {each["parent_chat_id"] for each in children} == {"c"}
    assert (happened[-7]["triggered"], happened[-7]["custom_instructions"]) == ("manual", "briefly")
    assert happened[-6]["compact_summary"].startswith("<conversation> user: call")
    assert (happened[-2]["chat_id"], happened[-2]["full_model"]) == ("c", SCRIPT)

    of_chat = [each for each in states if each["chat_id"] == "c"]
    assert all(one != other for one, other in pairwise(of_chat))
    assert [each["status"] for each in of_chat[:: len(of_chat) - 1]] == ["running", "idle"]
    (waits,) = (each for each in of_chat if each["awaiting_user_input"])
    assert waits["waiting_reason"] == "toolApproval"
    assert waits["pending_approval_tool_call_ids"] == [call_id]

    async with current(ALL, folder=folder, data=data) as ours:
        for name in ("d", "nobody"):
            assert await ours.ask("chat/delete", {"chatId": name}) == {}
        await ours.connection.chats.open("d").mailbox.finish()
        await settled(ours)
    later = {(each["hook_type"], each.get("chat_id")) for each in payloads(folder)[len(events) :]}
    assert later == {("sessionStart", None), ("chatEnd", "d"), ("sessionEnd", None)}


@pytest.mark.requirement("W-24")
async def test_a_delete_lets_the_hook_at_the_start_end_before_the_one_at_the_end(tmp_path):
    os.mkfifo(tmp_path / "begun")
    os.mkfifo(tmp_path / "goes_on")
    config = hooked(
        start=hook("chatStart", f"echo > begun; cat goes_on > /dev/null; {KEEPS}"),
        end=hook("chatEnd", KEEPS),
    )
    async with current(config, folder=tmp_path) as ours:
        await ours.prompt("say a", model=SCRIPT)
        await trio.to_thread.run_sync((tmp_path / "begun").read_text)
        assert await ours.ask("chat/delete", {"chatId": "c"}) == {}
        await trio.testing.wait_all_tasks_blocked(0.05)
        await trio.to_thread.run_sync((tmp_path / "goes_on").write_text, "x")
        await settled(ours)
        assert [each["hook_type"] for each in payloads(tmp_path)] == ["chatStart", "chatEnd"]


async def test_a_stop_ends_the_hook_at_the_start(tmp_path):
    os.mkfifo(tmp_path / "begun")
    lasts = "echo $$ > begun; exec sleep 100"
    async with current(hooked(h=hook("chatStart", lasts)), folder=tmp_path) as ours:
        await ours.prompt("say a", model=SCRIPT)
        pid = await trio.to_thread.run_sync((tmp_path / "begun").read_text)
        await ours.expect_stopped()
        await trio.to_thread.run_sync(assert_gone, {int(pid)})


async def test_a_chat_that_asks_its_user_something_is_reported_as_waiting(tmp_path):
    config = hooked(h=hook("chatStatusChanged", KEEPS))
    async with current(config, folder=tmp_path) as ours:
        await ours.prompt(call("ask_user", question="which?"), model=SCRIPT)
        question = await ours.question()
        await settled(ours)
        await ours.answer_question(question, "this")
        await ours.expect_finished()
    (waits,) = (each for each in payloads(tmp_path) if each["awaiting_user_input"])
    assert waits["waiting_reason"] == "userQuestion"
    made = [each["id"] for each in ours.contents() if each["type"] == "toolCallRunning"]
    assert waits["pending_question_tool_call_ids"] == made
    assert waits["running_tool_call_ids"] == []


@pytest.mark.parametrize("event", ["sessionEnd", "preRequest"])
@pytest.mark.parametrize("hurries", [True, pytest.param(False, marks=pytest.mark.long)])
async def test_a_hook_deaf_to_its_end_holds_no_shutdown(hurries, event, tmp_path, monkeypatch):
    if hurries:
        monkeypatch.setattr(background, "CLOSE_SECONDS", 0.5)
        monkeypatch.setattr(jobs_shell, "_TERM_SECONDS", 0.4)
        monkeypatch.setattr(turn, "STOP_SECONDS", 0.02)
    deaf = "trap '' TERM; sleep 100 & echo $$ $! > pids; [ -p begun ] && echo > begun; wait"
    async with current(hooked(h=hook(event, deaf)), folder=tmp_path) as ours:
        if event == "preRequest":
            os.mkfifo(tmp_path / "begun")
            await ours.prompt("say a", model=SCRIPT)
            await trio.to_thread.run_sync((tmp_path / "begun").read_text)
        with within(2):
            assert (await shut_down(ours))["result"] is None
        if not (tmp_path / "pids").exists():
            raise TooSlow("the hook had no time to start")
        assert_gone({int(each) for each in (tmp_path / "pids").read_text().split()}, within=0.2)


async def test_nothing_is_sent_before_the_client_is_initialized(tmp_path):
    async with editor(ALL, started=False) as ours:
        folders = [{"name": "w", "uri": uri_of(tmp_path)}]
        await ours.ask("initialize", {"capabilities": {}, "workspaceFolders": folders})
        await shut_down(ours)
    assert not (tmp_path / "told").exists()


@pytest.mark.parametrize(
    ("event", "shell", "words", "is_compacted"),
    [
        ("preCompact", "echo why >&2; exit 2", "Compaction blocked by hook 'h'.", False),
        ("preCompact", says(**{"continue": False}), "Turn stopped by hook 'h'.", False),
        ("postCompact", says(additionalContext="the date"), "was compacted", True),
        ("postCompact", "exit 2", "was compacted", True),
    ],
)
async def test_a_hook_may_block_a_compaction_or_add(event, shell, words, is_compacted, tmp_path):
    config = hooked(
        h=hook(event, shell, matcher="manual"), never=hook(event, "exit 2", matcher="a")
    )
    async with current(config, folder=tmp_path) as ours:
        await ours.turn("say a", model=SCRIPT)
        received = await ours.turn("/compact", model=SCRIPT)
        assert words in received.text
        assert received.finishes == 1
        assert ("was compacted" in received.text) is is_compacted
        assert ("the date" in model_context(ours)) is ("the date" in shell)
        assert (await ours.turn("say b", model=SCRIPT)).text.endswith("b")


@pytest.mark.parametrize(
    ("event", "shell", "words", "requests"),
    [
        ("preCompact", "exit 2", "maximum context length", 2),
        ("preCompact", says(**{"continue": False}), "Turn stopped by hook 'h'.", 2),
        ("postCompact", says(**{"continue": False}), "Turn stopped by hook 'h'.", 3),
    ],
)
async def test_a_turn_ends_by_a_hook_or_without_space(event, shell, words, requests, tmp_path):
    replies = [reply("one"), TOO_LONG, reply("a summary")]
    config = hooked(h=hook(event, shell, matcher="auto"))
    async with today(*replies, folder=tmp_path, **config) as (ours, provider):
        await ours.turn("first")
        received = await ours.turn("second")
    assert words in received.text
    assert received.finishes == 1
    assert len(provider.requests) == requests


async def test_hooks_of_a_subagent_add_and_continue_as_those_of_a_turn(tmp_path):
    first = """grep -q '"follow_up_active":false' && echo 'go on' >&2 && exit 2; exit 0"""
    config = hooked(
        start=hook("subagentStart", says(additionalContext="the date")),
        post=hook("subagentPostRequest", first),
        other=hook("postRequest", "grep -q parent_chat_id && exit 1; exit 0"),
    )
    spawning = calls(("eca_spawn_agent", {"agent": "scout", "task": "look"}))
    script = [spawning, reply("a"), reply("b"), reply("done")]
    async with today(*script, folder=tmp_path, agent=SCOUT, **config) as (ours, provider):
        received = await ours.turn("first")
    called = spawned(received)
    assert called["outputs"][0]["text"] == "b"
    conversations = [each.body["messages"] for each in provider.requests]
    assert ["the date" in str(each) for each in conversations] == [False, True, True, False]
    assert conversations[2][-1]["content"] == "go on"
    assert ended(received) == [("other", 0)]


async def test_a_hook_that_ends_a_subagent_ends_its_call_alone(tmp_path):
    config = hooked(h=hook("subagentStart", says(**{"continue": False, "stopReason": "no"})))
    async with current({**config, "agent": SCOUT}, folder=tmp_path) as ours:
        received = await ours.turn(f"{spawn('say a')}\nsay done", model=SCRIPT)
    called = spawned(received)
    assert called["outputs"][0]["text"] == "This agent failed: Turn stopped by hook 'h': no"
    assert received.text.endswith("done")

"""`chat/promptStop` and `chat/delete` in every state of a chat, and its queue (W-22 to W-24)."""

from collections.abc import Sequence
from typing import Any

import pytest
import trio
import trio.testing

from eca_server.agent.chat import Turn
from eca_server.agent.chat.call_runner import CallRunner
from eca_server.agent.context import web
from eca_server.connection.features.prompts import Prompts
from eca_server.models.events import ToolCallFinished
from eca_server.models.history import Part
from tests.eca_protocol.wire import notification
from tests.eca_server.agent.chat.agent_session import calls, of_calls, older, order, results
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import SCRIPT, contents, decision, editor
from tests.promises import within

GUARD = {"guard": {"type": "preRequest"}}
SETTINGS, PAGES = (Prompts, "_settle_settings"), (web, "fetch_page")


@pytest.mark.parametrize(
    ("held", "hooks"),
    [(None, {}), (None, GUARD), (SETTINGS, {}), (SETTINGS, GUARD), (PAGES, {})],
    ids=["at once", "at once, a hook", "its settings", "its settings, a hook", "its contexts"],
)
async def test_a_prompt_that_is_stopped_while_it_is_read_is_sent_with_the_next_unless_hooks_wait(
    held, hooks, monkeypatch
):
    is_held = trio.Event()

    async def never(*_: object, **_options: object) -> None:
        is_held.set()
        await trio.sleep_forever()

    async with older(hooks=hooks) as (ours, provider):
        first = ours.prompt_request("first", contexts=[{"type": "web", "url": "https://a.test"}])
        stop = notification("chat/promptStop", {"chatId": "c"})
        with monkeypatch.context() as patch:
            if held:
                patch.setattr(*held, never)
                await ours.send(first)
                await is_held.wait()
            await ours.send(*([stop] if held else [first, stop]))
            await ours.expect_finished()
        await ours.turn("second")
        conversation = str(provider.requests[-1].body["messages"])
        assert "second" in conversation
        assert ("first" in conversation) == (not hooks)
        assert "Stopped." not in conversation  # it is stored, for the user alone


@pytest.mark.requirement("W-23d", "W-34b", "ARROW:chat-tool-call-1", "ARROW:chat-tool-call-8")
async def test_an_approval_and_a_stop_in_one_write_leave_nothing_open(folder):
    script = calls(("eca_shell_command", {"command": "touch made; sleep 60"}))
    async with older(script, folder=folder) as (ours, provider):
        await ours.prompt("go")
        pending = await ours.content("toolCallRun", manualApproval=True)
        begun = len(of_calls(ours))
        with within(2):
            stop = notification("chat/promptStop", {"chatId": "c"})
            await ours.send(decision("Approve", pending), stop)
            await ours.expect_finished()
        assert order(of_calls(ours)[begun:]) in (["Rejected"], ["Running", "ed"])
        await ours.turn("next")
        assert len(results(provider)) == 1


@pytest.mark.parametrize("script", ["call nothing {}", "call nothing {"])
async def test_a_stop_before_an_unusable_call_is_looked_at_is_no_error(script, caplog, monkeypatch):
    run_calls = CallRunner.run_all

    async def stopped_first(
        self: CallRunner, turn: Turn, finished: Sequence[ToolCallFinished]
    ) -> tuple[Part, ...]:
        turn.stop()
        return await run_calls(self, turn, finished)

    monkeypatch.setattr(CallRunner, "run_all", stopped_first)
    async with editor() as ours:
        await ours.prompt(script, model=SCRIPT)
        await ours.expect_finished()
        await ours.ask("chat/queryContext", {"query": ""})
        assert ours.contents().finishes == 1
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []


@pytest.mark.requirement("W-43d")
@pytest.mark.parametrize(
    ("script", "before", "shown"),
    [
        ("speed 9\nthink a b c d e f", "reasonText", {"user", "reasonText", "system"}),
        ("say some\nwait forever", "text", {"user", "text", "system"}),
        ("say nothing", None, {"user", "system"}),  # the stop is read with the prompt
    ],
)
async def test_a_stopped_turn_is_shown_again_as_it_was(tmp_path, script, before, shown):
    async with current(data=tmp_path) as ours:
        await ours.send(
            ours.prompt_request(script, model=SCRIPT),
            *(() if before else (notification("chat/promptStop", {"chatId": "c"}),)),
        )
        if before:
            await ours.content(before, **({"text": "some"} if before == "text" else {}))
            await ours.stop()
        await ours.expect_finished()
        live = _shown(contents(ours.received))
        assert live.keys() == shown
        assert _shown(await ours.reopen()) == live
    async with current(data=tmp_path) as ours:
        assert _shown(await ours.reopen()) == live


@pytest.mark.requirement("W-43d")
async def test_a_stop_and_the_prompts_it_dropped_are_shown_again(tmp_path):
    async with current(data=tmp_path) as ours:
        await ours.hang()
        await ours.prompt("say later", model=SCRIPT)
        stop = notification("chat/promptStop", {"chatId": "c"})
        await ours.send(stop, ours.prompt_request("say more", model=SCRIPT), stop)
        await ours.expect_finished()
        live = _shown(contents(ours.received))["system"]
        assert live == ("", "\n\nStopped. Prompts that were dropped:\n\nsay later\n\nsay more")
        assert _shown(await ours.reopen())["system"] == live
    async with current(data=tmp_path) as ours:
        assert _shown(await ours.reopen())["system"] == live


@pytest.mark.requirement("W-43d")
@pytest.mark.parametrize(
    ("script", "text"),
    [
        ("say half\nfail auth", "the key was refused"),
        ("say half\nfinish length", "it reached the model's output limit"),
        ("finish content_filter", "content filter ended the answer"),
        ("progress", "an empty answer"),
    ],
)
async def test_the_reason_of_an_incomplete_answer_is_shown_again(tmp_path, script, text):
    async with current(data=tmp_path) as ours:
        await ours.turn(script, model=SCRIPT)
        live = _shown(contents(ours.received))
        assert text in live["system"][1]
        assert _shown(await ours.reopen()) == live
    async with current(data=tmp_path) as ours:
        assert _shown(await ours.reopen()) == live


@pytest.mark.requirement("W-43d")
async def test_an_error_after_a_stop_is_not_shown_again(monkeypatch):
    is_held = trio.Event()

    async def fails_at_its_end(*_: object, **_options: object) -> None:
        is_held.set()
        try:
            await trio.sleep_forever()
        finally:
            raise OSError  # in place of the cancellation

    async with current() as ours:
        monkeypatch.setattr(*SETTINGS, fails_at_its_end)
        await ours.prompt("say nothing", model=SCRIPT)
        await is_held.wait()
        await ours.expect_stopped()
        live = _shown(contents(ours.received))
        assert live["system"] == ("", "Stopped.")
        assert _shown(await ours.reopen()) == live


def _shown(received: Sequence[tuple[str, Any]]) -> dict[str, tuple[str, str]]:
    """Return ids and whole texts, by their author or kind."""
    shown: dict[str, tuple[str, str]] = {}
    for role, each in received:
        if each["type"] != "progress" and each.get("text"):
            kind = each["type"] if role == "assistant" else role
            name = each.get("id", each.get("contentId", ""))
            shown[kind] = name, shown.get(kind, (name, ""))[1] + each["text"]
    return shown

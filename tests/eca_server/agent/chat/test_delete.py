"""`chat/delete` in every state of a chat (W-24)."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from eca_protocol.testing.provider import Provider, hang, reply, usage
from tests.eca_protocol.wire import notification
from tests.eca_server.agent.chat.editor import (
    ECHO,
    SCRIPT,
    contents,
    editor,
    finishes,
    provider_config,
    text,
    types,
)

STATES = [
    ("wait forever", None),
    ("say a\nwait forever", "text"),
    ("speed 1\nthink a b c", "reasonStarted"),
    ("repeat 99999999 x", "text"),
    ("fail overloaded", "progress"),
]
"""A script, and the content that shows it has come where the delete is to meet it."""


@pytest.mark.parametrize(("script", "before"), STATES)
async def test_nothing_is_written_for_a_deleted_chat_but_the_answer(script, before, autojump_clock):
    async with editor() as ours:
        await ours.prompt(script, model=SCRIPT)
        if before:
            await ours.content(before)
        await ours.send(ours.prompt_request("queued", model=ECHO))
        deleted = ours.request("chat/delete", {"chatId": "c"})
        await ours.send(deleted)
        assert await ours.answer(deleted) == {}
        assert await ours.later() == []
        assert finishes(ours.contents()) == 0
        assert text((await ours.turn("anew", model=ECHO))[2:]) == "anew"


@pytest.mark.long(but=2)
@pytest.mark.parametrize(("script", "before"), STATES)
async def test_emacs_gets_finished_before_the_answer_and_nothing_after_it(
    script, before, autojump_clock
):
    async with editor(started=False) as ours:
        await ours.start(clientInfo={"name": "emacs"})
        await ours.prompt(script, model=SCRIPT)
        if before:
            await ours.content(before)
        assert await ours.ask("chat/delete", {"chatId": "c"}) == {}
        assert ours.seen[-2]["params"]["content"].get("state") == "finished"
        assert finishes(ours.contents()) == 1
        assert await ours.later() == []


async def test_a_delete_right_after_a_stop_is_silent_too(autojump_clock):
    async with editor() as ours:
        await ours.prompt("say a\nwait forever", model=SCRIPT)
        await ours.content("text", text="a")
        deleted = ours.request("chat/delete", {"chatId": "c"})
        queued = ours.prompt_request("queued", model=ECHO)
        await ours.send(queued, notification("chat/promptStop", {"chatId": "c"}), deleted)
        await ours.answer(deleted)
        assert await ours.later() == []
        assert finishes(ours.contents()) == 0


@pytest.mark.requirement("W-24e", "CHAT-36")
@pytest.mark.parametrize("params", [{}, {"chatId": None}, {"chatId": "unknown"}, None, []])
async def test_a_delete_of_nothing_is_answered_alike(params):
    async with editor() as ours:
        assert await ours.ask("chat/delete", params) == {}


async def test_an_idle_chat_is_deleted_silently_even_for_emacs():
    async with editor(started=False) as ours:
        await ours.start(clientInfo={"name": "emacs"})
        await ours.turn("hi", model=ECHO)
        begun = len(ours.seen)
        assert await ours.ask("chat/delete", {"chatId": "c"}) == {}
        assert contents(ours.seen[begun:]) == []


@pytest.mark.requirement("CHAT-35")
async def test_a_reused_id_starts_with_an_empty_history_and_zero_usage():
    script = [reply("one", usage(100, 10)), reply(hang()), reply("three")]
    async with Provider(script) as provider, editor(provider_config(provider.url)) as ours:
        await ours.turn("first")
        await ours.prompt("second")
        await provider.until(lambda: len(provider.requests) == 2)
        assert await ours.ask("chat/delete", {"chatId": "c"}) == {}
        await provider.until(lambda: provider.requests[1].closed_by_client)
        received = await ours.turn("third")
        sent = [each for each in provider.requests[2].body["messages"] if each["role"] != "system"]
        assert [each["content"] for each in sent] == ["third"]
        [used] = [each for each in received if each["type"] == "usage"]
        assert used["sessionTokens"] == 11


async def test_a_deleted_chat_leaves_its_neighbours_alone():
    async with editor() as ours:
        await ours.prompt("say a\nwait forever", "one", model=SCRIPT)
        await ours.content("text", "one", text="a")
        await ours.prompt("wait 0.01\nsay b", "two", model=SCRIPT)
        await ours.ask("chat/delete", {"chatId": "one"})
        await ours.expect_finished("two")
        assert types(ours.contents("one"))[-1] == "text"
        assert text(ours.contents("two")[2:]) == "b"


async def test_many_deletes_and_prompts_of_one_id_in_one_read():
    async with editor() as ours:
        lines = []
        for number in range(20):
            lines.append(ours.prompt_request(f"say {number}", model=SCRIPT))
            lines.append(ours.request("chat/delete", {"chatId": "c"}))
        await ours.send(*lines, ours.prompt_request("say last", model=SCRIPT))
        await ours.expect_finished()
        await trio.testing.wait_all_tasks_blocked()
        received = ours.contents()
        assert finishes(received) == 1
        assert text(received[-4:]) == "last"

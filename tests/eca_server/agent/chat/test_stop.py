"""`chat/promptStop` and `chat/delete` in every state of a chat, and its queue (W-22 to W-24)."""

from collections.abc import Sequence

import pytest
import trio
import trio.testing

from eca_protocol.testing.provider import hang, reply, usage
from eca_server.agent.chat import Body, Prompt, Turn
from eca_server.agent.chat.call_runner import CallRunner
from eca_server.agent.chat.turn import STOP_SECONDS
from eca_server.models.events import ToolCallFinished
from eca_server.models.history import Part
from tests.eca_protocol.wire import notification
from tests.eca_server.agent.chat.agent_session import conversation, older
from tests.eca_server.agent.chat.current import CURRENT, current
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Editor, contents, editor, text, types


async def stopped(ours: Editor, chat: str = "c") -> list[str]:
    """Stop the chat; the types of what came from the stop to `finished`."""
    begun = len(ours.seen)
    await ours.expect_stopped(chat)
    return types([content for _, content in contents(ours.seen[begun:], chat)])


@pytest.mark.requirement("W-23a", "W-23d", "W-23e", "W-23g", "W-26b", "CHAT-32", "CHAT-34", "W-22e")
@pytest.mark.parametrize(
    ("script", "before", "told"),
    [
        ("wait forever", None, ["text", "finished"]),
        ("progress\nwait forever", None, ["text", "finished"]),
        ("say some\nwait forever", "text", ["text", "finished"]),
        ("think some\nwait forever", "reasonFinished", ["text", "finished"]),
        ("speed 2\nthink a b c d e f", "reasonText", ["reasonFinished", "text", "finished"]),
        ("cite https://e.test\nwait forever", "url", ["text", "finished"]),
        ("usage 5 5\nsay x\nwait forever", "text", ["text", "finished"]),
        ("fail overloaded", "progress", ["text", "finished"]),
    ],
)
async def test_stops_at_once_end_a_turn_once_and_silently(
    ours, script, before, told, autojump_clock
):
    stop = notification("chat/promptStop", {"chatId": "c"})
    await ours.prompt(script, model=SCRIPT)
    if before:
        await ours.content(before)
    begun, moment = len(ours.seen), trio.current_time()
    await ours.send(stop, stop, stop)
    await ours.expect_finished()
    received = types([content for _, content in contents(ours.seen[begun:])])
    assert [each for each in received if each != "progress"][-len(told) :] == told
    assert trio.current_time() - moment < 0.5
    assert "usage" not in ours.contents().types
    assert len({each["id"] for each in ours.contents() if "reason" in each["type"]}) <= 1
    assert await ours.later() == []
    assert ours.contents().finishes == 1
    assert (await ours.turn("say next", model=SCRIPT)).answer == "next"


@pytest.mark.requirement("W-23a", "W-23g")
async def test_a_stop_in_the_same_read_as_its_prompt_ends_that_prompt(ours):
    asked = ours.prompt_request("say never", model=SCRIPT)
    await ours.send(asked, notification("chat/promptStop", {"chatId": "c"}))
    await ours.expect_finished()
    assert ours.contents().types == ["progress", "text", "finished"]
    assert (await ours.answer(asked))["status"] == "prompting"
    assert await ours.later(0) == []


@pytest.mark.requirement("W-22f", "W-22g")
@pytest.mark.parametrize("capabilities", [CURRENT, {}])
async def test_of_an_idle_or_unknown_chat_a_stop_ends_no_turn(capabilities: object) -> None:
    async with current(capabilities=capabilities) as ours:
        await ours.turn("hi", model=ECHO)
        for chat in ("never seen", "c"):
            begun = len(ours.seen)
            await ours.stop(chat)
            await ours.ask("chat/queryCommands", {"query": ""})
            told = [(each["method"], each["params"]) for each in ours.seen[begun:-1]]
            status = ("chat/statusChanged", {"chatId": chat, "status": "idle"})
            assert told == ([status] if capabilities else [])
        assert (await ours.turn("say on", model=SCRIPT)).types[-2:] == ["usage", "finished"]


@pytest.mark.requirement("W-22a", "W-22b", "W-22e")
async def test_prompts_to_a_busy_chat_are_answered_at_once_and_run_in_order(ours, autojump_clock):
    await ours.prompt("wait 5\nsay 0", model=SCRIPT)
    begun = trio.current_time()
    for prompt, model in (("say 1", SCRIPT), ("hi", "nobody/nothing"), ("/costs", SCRIPT)):
        answer = await ours.prompt(prompt, model=model)
        assert answer == {"chatId": "c", "model": model, "status": "prompting"}
    assert trio.current_time() == begun
    assert ours.contents().types == ["progress", "text"]
    await ours.expect_finished(times=4)
    received = [each for each in ours.contents() if each.get("text") != "Generating"]
    turn = ["progress", "text", "usage", "finished"]
    assert types(received) == [*turn, *turn, *(turn[:2] + turn[3:]) * 2]
    shown = text(received)
    prompts = ["wait 5\nsay 0", "0say 1", "1hi", "/costs"]
    assert [shown.index(each) for each in prompts] == sorted(shown.index(each) for each in prompts)


@pytest.mark.requirement("W-22c", "W-22d", "W-23d", "W-23g")
async def test_a_stop_empties_the_queue_and_repeats_what_was_dropped(ours, autojump_clock):
    await ours.prompt("think a\nwait forever", model=SCRIPT)
    await ours.content("reasonFinished")
    await ours.prompt("second\nprompt", model=ECHO)
    await ours.prompt("/doctor")
    begun = len(ours.seen)
    await ours.expect_stopped()
    received = contents(ours.seen[begun:])
    kinds = [(role, content["type"]) for role, content in received]
    assert kinds == [("system", "text"), ("system", "progress")]
    assert received[0][1]["text"].endswith("second\nprompt\n\n/doctor")
    assert await ours.later() == []
    assert ours.contents().finishes == 1
    assert (await ours.turn("say on", model=SCRIPT)).types[-2:] == ["usage", "finished"]


@pytest.mark.requirement("W-22c", "W-22e", "W-23a")
async def test_a_prompt_after_the_stop_is_not_dropped_with_those_before_it(ours):
    await ours.prompt("wait forever", model=SCRIPT)
    stop = notification("chat/promptStop", {"chatId": "c"})
    await ours.send(
        ours.prompt_request("dropped", model=ECHO), stop, ours.prompt_request("kept", model=ECHO)
    )
    await ours.expect_finished(times=2)
    received = ours.contents()
    assert received.finishes == 2
    texts = [each.get("text", "") for each in received]
    [dropped] = [each for each in texts if "Prompts that were dropped" in each]
    assert dropped.endswith("dropped")
    assert received.text.endswith("keptkept")


def deaf(ended: trio.Event) -> Body:
    """Continue long after the cancellation, and write all the time."""

    async def body(turn: Turn) -> None:
        turn.reasonings.start("r")
        turn.say("begun")
        with trio.CancelScope(shield=True):
            for _ in range(10):
                await trio.sleep(STOP_SECONDS / 2)
                turn.reasonings.write("r", "still")
                turn.say("still there")
            turn.reasonings.start("late")
            turn.reasonings.finish("r")
            turn.fail("and failed")
        ended.set()

    return body


@pytest.mark.requirement("W-23e", "W-23g", "W-26b", "CHAT-33")
async def test_a_body_that_does_not_end_is_left_behind_and_stays_mute(ours, autojump_clock):
    ended = trio.Event()
    chat = ours.connection.chats.open("c")
    chat.prompt(Prompt(text="hi", body=deaf(ended)))
    await ours.content("text", text="begun")
    begun = trio.current_time()
    assert await stopped(ours) == ["reasonFinished", "text", "finished"]
    assert trio.current_time() - begun <= 0.5
    assert not ended.is_set()
    turn = await ours.turn("meanwhile", model=ECHO)
    assert turn.types == ["progress", "text", "progress", "text", "usage", "finished"]
    assert not ended.is_set()
    assert await ours.later() == []
    assert ended.is_set()


@pytest.mark.requirement("W-13a", "W-22e", "LIFE-19")
async def test_shutdown_closes_every_turn_before_its_answer(ours, autojump_clock: object):
    chats = [f"c{number}" for number in range(10)]
    for name in chats:
        body = deaf(trio.Event())
        ours.connection.chats.open(name).prompt(Prompt(text="hi", body=body))
        await ours.prompt("queued", name, model=ECHO)
    begun = trio.current_time()
    await ours.ask("shutdown")
    assert trio.current_time() - begun < 1
    assert [ours.contents(name).finishes for name in chats] == [1] * 10
    assert ours.contents("c0").types[-2:] == ["text", "finished"]


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


STATES = [
    ("wait forever", None),
    ("say a\nwait forever", "text"),
    ("speed 1\nthink a b c", "reasonStarted"),
    ("repeat 99999999 x", "text"),
    ("fail overloaded", "progress"),
]
"""A script, and the content that shows it has come where the delete is to meet it."""


@pytest.mark.parametrize("client", ["emacs", "other"])
@pytest.mark.parametrize(("script", "before"), STATES)
async def test_a_deleted_chat_is_finished_for_emacs_alone(script, before, client, autojump_clock):
    async with editor(started=False) as ours:
        await ours.start(clientInfo={"name": client})
        await ours.prompt(script, model=SCRIPT)
        if before:
            await ours.content(before)
        await ours.send(ours.prompt_request("queued", model=ECHO))
        assert await ours.ask("chat/delete", {"chatId": "c"}) == {}
        assert ours.contents().finishes == (client == "emacs")
        last = ours.seen[-2].get("params", {}).get("content", {})
        assert (last.get("state") == "finished") == (client == "emacs")
        assert await ours.later() == []
        assert (await ours.turn("anew", model=ECHO)).answer == "anew"
        begun = len(ours.seen)
        assert await ours.ask("chat/delete", {"chatId": "c"}) == {}
        assert contents(ours.seen[begun:]) == []  # it was idle


async def test_a_delete_right_after_a_stop_is_silent_too(ours, autojump_clock: object):
    await ours.hang()
    deleted = ours.request("chat/delete", {"chatId": "c"})
    queued = ours.prompt_request("queued", model=ECHO)
    await ours.send(queued, notification("chat/promptStop", {"chatId": "c"}), deleted)
    await ours.answer(deleted)
    assert await ours.later() == []
    assert ours.contents().finishes == 0


@pytest.mark.requirement("W-24e", "CHAT-36")
async def test_a_delete_of_nothing_is_answered_alike(ours):
    for params in ({}, {"chatId": None}, {"chatId": "unknown"}, None, []):
        assert await ours.ask("chat/delete", params) == {}


@pytest.mark.requirement("CHAT-35")
async def test_a_reused_id_starts_with_an_empty_history_and_zero_usage() -> None:
    script = [reply("one", usage(100, 10)), reply(hang()), reply("three")]
    async with older(*script) as (ours, provider):
        await ours.turn("first")
        await ours.prompt("second")
        await provider.until(lambda: len(provider.requests) == 2)
        assert await ours.ask("chat/delete", {"chatId": "c"}) == {}
        await provider.until(lambda: provider.requests[1].closed_by_client)
        received = await ours.turn("third")
        assert conversation(provider) == [("user", "third")]
        [used] = [each for each in received if each["type"] == "usage"]
        assert used["sessionTokens"] == 11


@pytest.mark.requirement("W-23g", "W-22f")
@pytest.mark.parametrize("ends", ["stop", "delete"])
async def test_the_end_of_a_chat_leaves_its_neighbours_alone(ours, ends: str):
    await ours.hang("a", "one")
    await ours.prompt("say b\nwait 0.01\nsay c", "two", model=SCRIPT)
    if ends == "stop":
        await ours.stop("one")
    else:
        await ours.ask("chat/delete", {"chatId": "one"})
    await ours.expect_finished("two")
    assert ours.contents("one").types[-1] == ("finished" if ends == "stop" else "text")
    assert ours.contents("two").answer == "bc"


async def test_many_deletes_and_prompts_of_one_id_in_one_read(ours):
    lines = []
    for number in range(20):
        lines.append(ours.prompt_request(f"say {number}", model=SCRIPT))
        lines.append(ours.request("chat/delete", {"chatId": "c"}))
    await ours.send(*lines, ours.prompt_request("say last", model=SCRIPT))
    await ours.expect_finished()
    await trio.testing.wait_all_tasks_blocked()
    received = ours.contents()
    assert received.finishes == 1
    assert received[-4:].text == "last"

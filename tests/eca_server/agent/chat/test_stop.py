"""`chat/promptStop` in every state of a turn, and the queue behind it (W-22, W-23)."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio

from eca_server.agent.chat import Body, Prompt, Turn
from eca_server.agent.chat.call_runner import CallRunner
from eca_server.agent.chat.turn import STOP_SECONDS
from eca_server.models.events import ToolCallFinished
from eca_server.models.history import Part
from tests.eca_protocol.wire import notification
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import (
    ECHO,
    SCRIPT,
    Editor,
    contents,
    editor,
    finishes,
    text,
    types,
)


async def stopped(ours: Editor, chat: str = "c") -> list[str]:
    """Stop the chat; the types of what came from the stop to `finished`."""
    begun = len(ours.seen)
    await ours.expect_stopped(chat)
    return types([content for _, content in contents(ours.seen[begun:], chat)])


@pytest.mark.requirement("W-23a", "W-23d", "W-23g", "CHAT-32", "CHAT-34", "W-22e")
@pytest.mark.parametrize(
    ("script", "before"),
    [
        ("wait forever", None),
        ("progress\nwait forever", None),
        ("say some\nwait forever", "text"),
        ("think some\nwait forever", "reasonFinished"),
        ("cite https://e.test\nwait forever", "url"),
        ("usage 5 5\nsay x\nwait forever", "text"),
        ("fail rate_limit", "progress"),
    ],
)
async def test_a_stopped_turn_ends_with_one_finished_and_silence(
    script: str, before: str | None, autojump_clock: object
) -> None:
    async with editor() as ours:
        await ours.prompt(script, model=SCRIPT)
        if before:
            await ours.content(before)
        received = await stopped(ours)
        assert received[-1] == "finished"
        assert "usage" not in received
        assert await ours.later() == []
        assert finishes(ours.contents()) == 1
        assert text((await ours.turn("say next", model=SCRIPT))[2:]) == "next"


@pytest.mark.requirement("W-23d", "W-26b", "W-23a")
async def test_an_open_reasoning_is_finished_by_the_stop(autojump_clock: object) -> None:
    async with editor() as ours:
        await ours.prompt("speed 2\nthink a b c d e f", model=SCRIPT)
        await ours.content("reasonText")
        assert await stopped(ours) == ["reasonFinished", "text", "finished"]
        reasons = [each for each in ours.contents() if each["type"].startswith("reason")]
        assert len({each["id"] for each in reasons}) == 1
        assert await ours.later() == []


@pytest.mark.requirement("W-23a", "W-23d", "W-23g", "CHAT-33")
async def test_what_the_model_says_after_the_stop_is_dropped() -> None:
    async with editor() as ours:
        await ours.prompt("repeat 99999999 x", model=SCRIPT)
        await ours.content("text", text="x")
        marker = ours.request("chat/queryContext", {"query": ""})
        await ours.send(notification("chat/promptStop", {"chatId": "c"}), marker)
        await ours.answer(marker)
        begun = len(ours.seen)
        await ours.expect_finished()
        last = [each for _, each in contents(ours.seen[begun:])]
        assert [each.get("text") for each in last] == ["\n\nStopped.", ""]
        assert text((await ours.turn("next", model=ECHO))[2:]) == "next"


@pytest.mark.requirement("W-23a", "W-23g")
async def test_a_stop_in_the_same_read_as_its_prompt_ends_that_prompt() -> None:
    async with editor() as ours:
        asked = ours.prompt_request("say never", model=SCRIPT)
        await ours.send(asked, notification("chat/promptStop", {"chatId": "c"}))
        await ours.expect_finished()
        assert types(ours.contents()) == ["progress", "text", "finished"]
        assert (await ours.answer(asked))["status"] == "prompting"
        assert await ours.later(0) == []


@pytest.mark.requirement("W-23d", "W-23g", "W-22e")
async def test_two_stops_at_once_end_one_turn_once(autojump_clock: object) -> None:
    stop = notification("chat/promptStop", {"chatId": "c"})
    async with editor() as ours:
        await ours.prompt("say a\nwait forever", model=SCRIPT)
        await ours.content("text", text="a")
        await ours.send(stop, stop, stop)
        await ours.expect_finished()
        assert await ours.later() == []
        assert types(await ours.turn("say on", model=SCRIPT))[-2:] == ["usage", "finished"]


@pytest.mark.requirement("W-22f")
async def test_a_stop_of_an_idle_or_unknown_chat_ends_no_turn(
    autojump_clock: object,
) -> None:
    async with editor() as ours:
        await ours.stop("never seen")
        await ours.turn("hi", model=ECHO)
        await ours.stop()
        assert await ours.later() == []
        assert types(await ours.turn("say on", model=SCRIPT))[-2:] == ["usage", "finished"]


@pytest.mark.requirement("W-22g")
async def test_today_s_client_learns_that_such_a_chat_is_idle() -> None:
    async with current() as ours:
        await ours.turn("hi", model=ECHO)
        for chat in ("never seen", "c"):
            begun = len(ours.seen)
            await ours.stop(chat)
            await ours.ask("chat/queryCommands", {"query": ""})
            told = [each for each in ours.seen[begun:] if "method" in each]
            assert [(each["method"], each["params"]) for each in told] == [
                ("chat/statusChanged", {"chatId": chat, "status": "idle"})
            ]


@pytest.mark.requirement("W-23g", "W-22f")
async def test_a_stop_ends_its_own_chat_only() -> None:
    async with editor() as ours:
        await ours.prompt("say a\nwait forever", "one", model=SCRIPT)
        await ours.content("text", "one", text="a")
        await ours.prompt("say b\nwait 0.01\nsay c", "two", model=SCRIPT)
        await ours.stop("one")
        await ours.expect_finished("two")
        assert types(ours.contents("one"))[-1] == "finished"
        assert text(ours.contents("two")[2:]) == "bc"


@pytest.mark.requirement("W-22a", "W-22b", "W-22e")
async def test_prompts_to_a_busy_chat_are_answered_at_once_and_run_in_order(
    autojump_clock: object,
) -> None:
    async with editor() as ours:
        await ours.prompt("wait 5\nsay 0", model=SCRIPT)
        begun = trio.current_time()
        for number in range(1, 4):
            answer = await ours.prompt(f"say {number}", model=SCRIPT)
            assert answer == {"chatId": "c", "model": SCRIPT, "status": "prompting"}
        assert trio.current_time() == begun
        assert types(ours.contents()) == ["progress", "text"]
        await ours.expect_finished(times=4)
    received = contents(ours.seen)
    whole = [
        (content["type"], content.get("text") or content.get("state"))
        for _, content in received
        if content["type"] != "usage" and content.get("text") != "Generating"
    ]
    assert whole == [
        line
        for prompt, said in [("wait 5\nsay 0", "0"), *((f"say {n}", str(n)) for n in range(1, 4))]
        for line in [
            ("progress", "Waiting model"),
            ("text", prompt),
            ("text", said),
            ("progress", "finished"),
        ]
    ]


@pytest.mark.requirement("W-22c", "W-22d", "W-23d", "W-23g")
async def test_a_stop_empties_the_queue_and_repeats_what_was_dropped(
    autojump_clock: object,
) -> None:
    async with editor() as ours:
        await ours.prompt("think a\nwait forever", model=SCRIPT)
        await ours.content("reasonFinished")
        await ours.prompt("second\nprompt", model=ECHO)
        await ours.prompt("/doctor")
        begun = len(ours.seen)
        await ours.expect_stopped()
        received = contents(ours.seen[begun:])
        assert [(role, content["type"]) for role, content in received] == [
            ("system", "text"),
            ("system", "progress"),
        ]
        assert received[0][1]["text"].endswith("second\nprompt\n\n/doctor")
        assert await ours.later() == []
        assert finishes(ours.contents()) == 1
        assert types(await ours.turn("say on", model=SCRIPT))[-2:] == ["usage", "finished"]


@pytest.mark.requirement("W-22c", "W-22e", "W-23a")
async def test_a_prompt_after_the_stop_is_not_dropped_with_those_before_it() -> None:
    async with editor() as ours:
        await ours.prompt("wait forever", model=SCRIPT)
        stop = notification("chat/promptStop", {"chatId": "c"})
        await ours.send(
            ours.prompt_request("dropped", model=ECHO),
            stop,
            ours.prompt_request("kept", model=ECHO),
        )
        await ours.expect_finished(times=2)
    received = ours.contents()
    assert finishes(received) == 2
    texts = [each.get("text", "") for each in received]
    [dropped] = [each for each in texts if "Prompts that were dropped" in each]
    assert dropped.endswith("dropped")
    assert text(received).endswith("keptkept")


@pytest.mark.requirement("W-23e", "W-23a")
async def test_a_stop_in_a_wait_before_another_try_ends_it_at_once(autojump_clock: object) -> None:
    async with editor() as ours:
        await ours.prompt("fail overloaded", model=SCRIPT)
        told = await ours.content("progress", state="running")
        assert "trying again in" in told["text"]
        begun = trio.current_time()
        assert await stopped(ours) == ["text", "finished"]
        assert trio.current_time() == begun


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
async def test_a_body_that_does_not_end_is_left_behind_and_stays_mute(
    autojump_clock: object,
) -> None:
    ended = trio.Event()
    async with editor() as ours:
        chat = ours.connection.chats.open("c")
        chat.prompt(Prompt(text="hi", body=deaf(ended)))
        await ours.content("text", text="begun")
        begun = trio.current_time()
        assert await stopped(ours) == ["reasonFinished", "text", "finished"]
        assert trio.current_time() - begun <= 0.5
        assert not ended.is_set()
        turn = await ours.turn("meanwhile", model=ECHO)
        assert types(turn) == ["progress", "text", "progress", "text", "usage", "finished"]
        assert not ended.is_set()
        assert await ours.later() == []
        assert ended.is_set()


@pytest.mark.requirement("W-13a", "W-22e", "LIFE-19")
async def test_shutdown_closes_every_turn_before_its_answer(autojump_clock: object) -> None:
    chats = [f"c{number}" for number in range(10)]
    async with editor() as ours:
        for name in chats:
            body = deaf(trio.Event())
            ours.connection.chats.open(name).prompt(Prompt(text="hi", body=body))
            await ours.prompt("queued", name, model=ECHO)
        begun = trio.current_time()
        await ours.ask("shutdown")
        assert trio.current_time() - begun < 1
        assert [finishes(ours.contents(name)) for name in chats] == [1] * 10
        assert types(ours.contents("c0"))[-2:] == ["text", "finished"]


@pytest.mark.parametrize("script", ["call nothing {}", "call nothing {"])
async def test_a_stop_between_an_answer_and_its_unusable_call_is_no_error(
    script: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
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
        assert finishes(ours.contents()) == 1
    assert [each.getMessage() for each in caplog.records if each.levelname == "ERROR"] == []

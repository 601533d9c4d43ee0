"""A message to a running turn goes into its next request, or the user is notified."""

from __future__ import annotations

from pathlib import Path

import pytest

from eca_protocol.testing.provider import reply, reset, wait
from tests.eca_protocol.wire import notification
from tests.eca_server.agent.chat.agent_session import RUN, calls, conversation, session, today
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Editor, text


async def steer(ours: Editor, *messages: str) -> None:
    for message in messages:
        await ours.tell("chat/promptSteer", {"chatId": "c", "message": message})


async def test_it_is_behind_the_results_in_the_next_request(tmp_path: Path) -> None:
    async with session(tmp_path, calls(("eca_shell_command", RUN))) as (ours, provider):
        await ours.prompt("go")
        call = await ours.content("toolCallRun")
        await steer(ours, "first", "then")
        await ours.approve(call)
        await ours.expect_finished()
        told = conversation(provider)
        assert [role for role, _ in told] == ["user", "assistant", "tool", "user"]
        assert [word in told[3][1] for word in ("first", "then", "go")] == [True, True, False]
        echoes = [each for each in ours.contents() if "contentId" in each]
        assert [each["text"] for each in echoes] == ["go", "first", "then"]
        assert len({each["contentId"] for each in echoes}) == 3
        found = await ours.ask("chat/history", {"chatId": "c"})
        said = [e["content"]["text"] for e in found["contents"] if e["role"] == "user"]
        assert said == ["go", "first", "then"]


async def test_one_that_comes_before_the_first_request_is_in_it() -> None:
    async with today(reply("a")) as (ours, provider):
        also = notification("chat/promptSteer", {"chatId": "c", "message": "also"})
        await ours.send(ours.prompt_request("go"), also)
        await ours.expect_finished()
        [request] = provider.requests
        assert [word in str(request.body["messages"]) for word in ("go", "also")] == [True, True]
        assert text(ours.contents()) == "goalsoa"


async def test_of_a_turn_that_gives_up_it_is_repeated(tmp_path: Path) -> None:
    failing = [calls(("eca_read_file", {"path": "none"}))] * 2
    last = calls(("eca_read_file", {"path": "none"}), ("eca_shell_command", RUN))
    async with session(tmp_path, *failing, last) as (ours, _):
        await ours.prompt("go")
        call = await ours.content("toolCallRun", manualApproval=True)
        await steer(ours, "also")
        await ours.approve(call)
        await ours.expect_finished()
        assert text(ours.contents()).endswith("Not sent to the model:\n\nalso")


async def test_an_answer_that_would_be_the_last_is_followed_by_one_that_knows_it() -> None:
    script = [reply("a", wait("now"), "b"), reply("c", wait("marked"))]
    async with today(*script) as (ours, provider):
        await ours.prompt("go")
        await provider.until(lambda: "now" in provider.reached)
        await steer(ours, "also")
        provider.open("now")
        await ours.content("text", text="c")
        echo = next(each for each in ours.contents() if each.get("text") == "also")
        flag = {"chatId": "c", "contentId": echo["contentId"], "text": "here"}
        assert await ours.ask("chat/addFlag", flag) == {}
        provider.open("marked")
        await ours.expect_finished()
        assert conversation(provider) == [("user", "go"), ("assistant", "ab"), ("user", "also")]
        assert text(ours.contents()) == "goabalsoc"


@pytest.mark.parametrize("ending", ["stop", "fail"])
async def test_of_a_turn_that_ends_before_it_is_repeated(ending: str) -> None:
    script = [reply("a", wait("now"), reset() if ending == "fail" else "b")]
    async with today(*script) as (ours, provider):
        await ours.prompt("go")
        await provider.until(lambda: "now" in provider.reached)
        await steer(ours, "also")
        if ending == "stop":
            await ours.stop()
            await steer(ours, "late")
        provider.open("now")
        await ours.expect_finished()
        assert text(ours.contents()).endswith(
            ":\n\nalso" + ("\n\nlate" if ending == "stop" else "")
        )
        assert [each["text"] for each in ours.contents() if "contentId" in each] == ["go"]


async def test_one_that_was_taken_back_or_came_to_no_turn_is_nothing() -> None:
    async with current() as ours:
        await steer(ours, "nobody listens")
        await ours.turn("one", model=ECHO)
        await steer(ours, "too late")
        await ours.send(
            ours.prompt_request("say a\nwait 0.01\nsay b", model=SCRIPT),
            notification("chat/promptSteer", {"chatId": "c", "message": "no"}),
            notification("chat/promptSteerRemove", {"chatId": "c"}),
            notification("chat/promptSteerRemove", {"chatId": "nobody's"}),
        )
        await ours.expect_finished()
        assert text(ours.contents()) == "oneonesay a\nwait 0.01\nsay bab"

"""A question of the model's to the user: shown in its chat, answered, closed, stopped."""

from __future__ import annotations

import json
from typing import Any

import pytest

from eca_server.agent.tools.ask_user import CANCELLED
from tests.eca_server.agent.chat.agent_session import calls, of_calls, today
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import Content, Editor, finishes

METHOD = "chat/askQuestion"
QUESTION: dict[str, Any] = {
    "question": "Which one?",
    "options": [{"label": "this"}, {"label": "that", "description": "the other"}],
    "allowFreeform": False,
}


async def question(ours: Editor) -> dict[str, Any]:
    return await ours.until(lambda each: each.get("method") == METHOD)


async def answer(ours: Editor, asked: dict[str, Any], **reply: Any) -> None:
    await ours.send({"jsonrpc": "2.0", "id": asked["id"], **reply})


def outputs(ours: Editor) -> list[str]:
    ended: list[Content] = [each for each in of_calls(ours) if each["type"] == "toolCalled"]
    return [each["outputs"][0]["text"] for each in ended]


async def test_questions_are_shown_one_at_a_time_and_the_answers_sent_to_the_model() -> None:
    free = [{"question": "And why?"}, {"question": "And who?"}]
    made = calls(*(("eca_ask_user", each) for each in (QUESTION, *free)))
    async with today(made) as (ours, provider):
        await ours.prompt("go", agent="plan")
        runs = {}
        replies = {
            "Which one?": {"answer": "that", "cancelled": False},
            "And why?": {"answer": "x", "cancelled": True},
            "And who?": {"answer": None, "cancelled": False},
        }
        for number in range(len(replies)):
            asked = await question(ours)
            await ours.ask("chat/list")
            assert sum(each.get("method") == METHOD for each in ours.seen) == number + 1
            runs |= {each["summary"]: each for each in of_calls(ours) if "manualApproval" in each}
            params = asked["params"]
            call = runs[f"Asking: {params['question']}"]
            assert not call["manualApproval"]
            assert params.pop("toolCallId") == call["id"]
            assert params.pop("chatId") == "c"
            assert params in (QUESTION, *({**each, "allowFreeform": True} for each in free))
            await answer(ours, asked, result=replies[params["question"]])
        await ours.expect_finished()
        told = [each["content"] for each in provider.requests[-1].body["messages"]][-3:]
        assert told[0] == "The user answered: that"
        assert told[1] == told[2] == CANCELLED
        assert sorted(outputs(ours)) == sorted(told)


@pytest.mark.requirement("W-42e")
@pytest.mark.parametrize(
    "junk",
    [
        {"result": "What?"},
        {"result": {"answer": 7}},
        {"error": {"code": -32601, "message": "no such method"}},
    ],
)
async def test_junk_is_no_answer_and_the_turn_continues(junk: dict[str, Any]) -> None:
    made = calls(("eca_ask_user", {"question": "?"}))
    async with today(made) as (ours, provider):
        await ours.prompt("go")
        await answer(ours, await question(ours), **junk)
        await ours.expect_finished()
        assert outputs(ours)[0].startswith("Could not ask the user: ")
        assert len(provider.requests) == 2


@pytest.mark.requirement("W-23b")
async def test_a_stop_ends_the_wait_and_a_late_answer_is_nothing() -> None:
    script = f"call eca_ask_user {json.dumps(QUESTION)}\nsay never"
    async with current() as ours:
        await ours.prompt(script, model="simulator/script")
        asked = await question(ours)
        await ours.expect_stopped()
        ended = of_calls(ours)[-1]
        assert (ended["type"], ended["error"]) == ("toolCalled", True)
        await answer(ours, asked, result={"answer": "this", "cancelled": False})
        await ours.turn("say later", model="simulator/script")
        assert finishes(ours.contents()) == 2


async def test_a_client_that_shows_no_questions_is_not_asked() -> None:
    async with current(capabilities={"codeAssistant": {"chatCapabilities": {}}}) as ours:
        await ours.turn('call eca_ask_user {"question": "?"}', model="simulator/script")
        assert "There is no tool 'eca_ask_user'" in outputs(ours)[0]

"""A turn from its prompt to its end: the order of what is written, its roles, ids and models."""

import pytest

from eca_protocol.testing.provider import reply
from tests.eca_server.agent.chat.agent_session import older
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, contents, editor, text, types


@pytest.mark.requirement(
    "W-20c", "CHAT-7", "CHAT-8", "CHAT-13", "CHAT-14", "ARROW:chat-text-1", "ARROW:chat-text-2",
    "ARROW:chat-text-3", "ARROW:chat-text-5", "ARROW:chat-text-7", "ARROW:chat-text-9",
)  # fmt: skip
async def test_a_turn_is_written_in_the_order_of_the_diagram(ours):
    begun = len(ours.received)
    request = ours.prompt_request("Hello there", model=ECHO)
    await ours.send(request)
    await ours.expect_finished()
    first, echo, answer, *rest = ours.received[begun:]
    progress = {"type": "progress", "state": "running", "text": "Waiting model"}
    assert first["params"] == {"chatId": "c", "role": "system", "content": progress}
    assert echo["params"]["content"].pop("contentId")
    words = {"type": "text", "text": "Hello there"}
    assert echo["params"] == {"chatId": "c", "role": "user", "content": words}
    assert answer["id"] == request["id"]
    assert answer["result"] == {"chatId": "c", "model": ECHO, "status": "prompting"}
    received = [content for _, content in contents(rest)]
    assert types(received) == ["progress", "text", "usage", "finished"]
    assert text(received) == "Hello there"
    assert all(each["text"] for each in received if each.get("state") == "running")
    assert received[-1] == {"type": "progress", "state": "finished", "text": ""}


@pytest.mark.requirement("CHAT-11")
async def test_many_chats_at_once_never_mix(ours):
    count = 10
    script = "say {0}\nwait 0.001\nthink t{0}\nrepeat 20 {0}\nsay {0}"
    for number in range(count):
        prompt = script.format(f"<{number}>")
        await ours.send(ours.prompt_request(prompt, f"c{number}", model=SCRIPT))
    open_chats = {f"c{number}" for number in range(count)}
    while open_chats:
        message = await ours.until(lambda each: "content" in each.get("params", {}))
        if message["params"]["content"].get("state") == "finished":
            open_chats.remove(message["params"]["chatId"])
    for number in range(count):
        received = ours.contents(f"c{number}")
        assert received.finishes == 1
        assert received[-1].get("state") == "finished"
        assert received.answer == f"<{number}>" * 22
        thoughts = [each["text"] for each in received if each["type"] == "reasonText"]
        assert thoughts == [f"t<{number}>"]


async def test_thoughts_are_between_the_configured_tags_of_a_provider() -> None:
    tags = {"thinkTagStart": "[th]", "thinkTagEnd": "[/th]"}
    async with older(reply("[th", "]Hm[/t", "h]Hi"), provider=tags) as (ours, _):
        received = await ours.turn("hi")
    assert [each["text"] for each in received if each["type"] == "reasonText"] == ["Hm"]
    assert received.answer == "Hi"


@pytest.mark.parametrize("script", ["repeat 5000 x", "say " + "é" * 5000])
async def test_an_answer_longer_than_the_limit_is_cut_and_the_user_is_notified(script: str) -> None:
    async with editor({"answerMaxKb": 1}) as ours:
        received = await ours.turn(script, model=SCRIPT)
        shown = ours.contents(kind="text")
        assert "exceeds the limit of 1 KiB (`answerMaxKb`)" in shown[-1]["text"]
        answer = "".join(each["text"] for each in shown[1:-1])
        assert len(answer.encode()) == 1024
        assert received.finishes == 1
        assert (await ours.turn("say next", model=SCRIPT)).answer == "next"

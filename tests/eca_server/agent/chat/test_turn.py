"""A turn from its prompt to its end: the order of what is written, its roles, ids and models."""

import pytest

from eca_protocol.testing.provider import reply
from tests.eca_server.agent.chat.agent_session import older
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, contents, editor, text, types


@pytest.mark.requirement(
    "W-20c", "CHAT-7", "CHAT-8", "CHAT-13", "CHAT-14", "ARROW:chat-text-1", "ARROW:chat-text-2",
    "ARROW:chat-text-3", "ARROW:chat-text-5", "ARROW:chat-text-9",
)  # fmt: skip
async def test_a_turn_is_written_in_the_order_of_the_diagram(ours):
    begun = len(ours.seen)
    asked = ours.prompt_request("Hello there", model=ECHO)
    await ours.send(asked)
    await ours.expect_finished()
    first, echo, answer, *rest = ours.seen[begun:]
    assert first["params"] == {
        "chatId": "c",
        "role": "system",
        "content": {"type": "progress", "state": "running", "text": "Waiting model"},
    }
    content_id = echo["params"]["content"].pop("contentId")
    assert content_id
    assert echo["params"] == {
        "chatId": "c",
        "role": "user",
        "content": {"type": "text", "text": "Hello there"},
    }
    assert answer["id"] == asked["id"]
    assert answer["result"] == {"chatId": "c", "model": ECHO, "status": "prompting"}
    received = [content for _, content in contents(rest)]
    assert types(received) == ["progress", "text", "usage", "finished"]
    assert text(received) == "Hello there"
    assert all(each["text"] for each in received if each.get("state") == "running")
    assert received[-1] == {"type": "progress", "state": "finished", "text": ""}


async def test_the_echo_is_the_exact_text_once(ours):
    prompts = ["  spaces  \n", 'tab\t "quotes" \\n', "😀 \u2028 é", "", "a/b", "é" * 50_000]
    for message in prompts:
        await ours.turn(message, model=ECHO)
    echoes = [content for role, content in contents(ours.seen) if role == "user"]
    assert [echo["text"] for echo in echoes] == prompts


@pytest.mark.requirement("W-6c")
async def test_an_old_emacs_gets_a_long_echo_in_pieces_that_join() -> None:
    message = 'é"\n' * 3_000
    async with editor(started=False) as ours:
        await ours.start(clientInfo={"name": "emacs", "version": "1"})
        await ours.prompt(message, model=SCRIPT)
        echoes = [content for role, content in contents(ours.seen) if role == "user"]
    assert len(echoes) > 10
    assert "".join(echo["text"] for echo in echoes) == message
    assert len({echo["contentId"] for echo in echoes}) == 1


@pytest.mark.requirement("W-6a", "CHAT-12", "ARROW:chat-text-7")
async def test_the_model_s_text_is_passed_on_piece_by_piece_and_long_pieces_are_split(ours):
    script = "repeat 5 ab\nsay one two\nsay " + "é" * 9_000 + "\nthink " + "x" * 9_000
    received = await ours.turn(script, model=SCRIPT)
    texts = [each["text"] for each in received[2:] if each["type"] == "text"]
    thoughts = [each["text"] for each in received if each["type"] == "reasonText"]
    assert texts[:7] == ["ab"] * 5 + ["one", " two"]
    assert "".join(texts[7:]) == "é" * 9_000
    assert "".join(thoughts) == "x" * 9_000
    assert max(len(piece.encode()) for piece in texts + thoughts) <= 4096


@pytest.mark.requirement("CHAT-17", "W-26c")
async def test_each_type_of_content_has_its_role() -> None:
    script = "think deep thought\nsay hello\ncite https://e.test/a A page\nfinish length"
    async with editor({"chat": {"title": True}}) as ours:
        await ours.send(ours.prompt_request(script, model=SCRIPT))
        await ours.expect_finished()
        await ours.title()
    received = contents(ours.seen)
    assert {(role, content["type"]) for role, content in received} == {
        ("system", "progress"), ("system", "usage"), ("system", "metadata"),
        ("system", "text"), ("user", "text"), ("assistant", "text"), ("assistant", "url"),
        ("assistant", "reasonStarted"), ("assistant", "reasonText"),
        ("assistant", "reasonFinished"),
    }  # fmt: skip
    by_type = {content["type"]: content for _, content in received}
    assert by_type["url"] == {"type": "url", "title": "A page", "url": "https://e.test/a"}
    answer = [each for role, each in received if role == "assistant"]
    said = [each["text"] for each in answer if each["type"] == "text"]
    assert "".join(said) == "hello [A page](https://e.test/a)"
    told = [each["text"] for role, each in received if (role, each["type"]) == ("system", "text")]
    assert told == ["\n\nThe answer was cut: it reached the model's output limit."]
    reasons = [each for _, each in received if each["type"].startswith("reason")]
    assert len({each["id"] for each in reasons}) == 1
    assert isinstance(reasons[-1]["totalTimeMs"], int)


@pytest.mark.requirement("CHAT-15", "CHAT-16")
async def test_reasonings_have_ids_of_their_own_and_their_times(ours, autojump_clock: object):
    script = "speed 10\nthink a b c d\nspeed 0\nsay x\nthink again"
    received = await ours.turn(script, model=SCRIPT)
    reasons = [each for each in received if each["type"].startswith("reason")]
    first = reasons[0]["id"]
    split = next(index for index, each in enumerate(reasons) if each["id"] != first)
    for block in (reasons[:split], reasons[split:]):
        assert types(block) == ["reasonStarted", "reasonText", "reasonFinished"]
        assert len({each["id"] for each in block}) == 1
    assert "".join(each["text"] for each in reasons[1 : split - 1]) == "a b c d"
    assert 500 <= reasons[split - 1]["totalTimeMs"] <= 600
    assert reasons[-1]["totalTimeMs"] == 1  # pages print a bare 0


@pytest.mark.requirement("W-21a", "W-21c", "CHAT-1", "CHAT-11")
async def test_any_id_is_preserved_and_a_prompt_without_one_opens_a_chat_of_ours(ours):
    for chat in ("EMPTY", "0", "ünïcode 😀", "x" * 500):
        assert (await ours.prompt("hi", chat, model=ECHO))["chatId"] == chat
        await ours.expect_finished(chat)
    chats = set()
    for given in ({}, {"chatId": None}, {"chatId": ""}, {}):
        answer = await ours.ask("chat/prompt", {"message": "hi", **given})
        chats.add(answer["chatId"])
    assert len(chats - {""}) == 4
    while not all(ours.contents(each).finishes for each in chats):
        await ours.until(lambda _: True)


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


async def test_contexts_and_unknown_members_of_a_prompt_do_no_harm(ours):
    contexts = [{"type": "file", "path": "/a"}, {"type": "novel", "x": 1}]
    received = await ours.turn("hi", model=ECHO, contexts=contexts, requestId=7, behavior=None)
    notes = [each["text"] for each in received[2:] if each["type"] == "text"][:2]
    assert "/a" in notes[0]
    assert "novel" in notes[1]
    assert received.answer == "".join([*notes, "\n\nhi"])


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

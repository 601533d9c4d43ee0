"""Turns: their order, and titles (W-25), usage (W-27) and notes (W-26) beside an answer."""

import pytest

from eca_protocol.messages import ChatProgressContent, ChatTextContent, ChatToolCallRunContent
from eca_protocol.server.texts import Paragraphs, Role
from eca_protocol.testing.provider import Reply, finish, hang, reply, reset, text, tool_call
from eca_server.agent.chat.usage import SessionUsage
from eca_server.models.events import Usage
from tests.eca_server.agent.chat.agent_session import older, today
from tests.eca_server.agent.chat.current import CURRENT, current, reopened
from tests.eca_server.agent.chat.editor import (
    ECHO,
    SCRIPT,
    Contents,
    Editor,
    call,
    contents,
    editor,
)


def titles(ours: Editor) -> list[str]:
    return [each["title"] for each in ours.contents(kind="metadata")]


@pytest.mark.requirement("W-25a")
@pytest.mark.parametrize(
    "title", [Reply(status=400, body={"error": {"message": "no"}}), reply(hang()), reply(" \n ")]
)
async def test_a_title_that_cannot_be_had_disturbs_nothing(title: Reply) -> None:
    async with older(title=title) as (ours, _):
        received = await ours.turn("Tell me")
        assert received.types == ["progress", "text", "progress", "text", "usage", "finished"]
        received = await ours.turn("And then?")
        assert received.finishes == 1
        assert titles(ours) == []


@pytest.mark.requirement("CHAT-21")
@pytest.mark.parametrize(
    ("prompt", "title"),
    [
        ("word" * 40 + "\nsecond line", f"{'word' * 14}wor…"),
        ("Fix\x1b the\u202e \x00bug", "Fix the bug"),
    ],
)
async def test_a_title_is_short_and_has_no_invisible_characters(prompt: str, title: str) -> None:
    async with editor({"chat": {"title": True}}) as ours:
        await ours.turn(prompt, model=ECHO)
        assert await ours.title() == title


@pytest.mark.requirement("W-27b")
@pytest.mark.parametrize(
    ("cost", "written_cost"),
    [
        *[(missing, None) for missing in (-0.5, float("inf"), float("nan"), -1)],
        *[(0, "0.00"), (1e-7, "0.00"), (0.1, "0.10"), (12.345, "12.345")],
        (10**40, f"1{0:040}.00"),
    ],
)
def test_a_cost_is_written_with_two_decimals_or_more_and_not_if_it_is_unknown(cost, written_cost):
    session = SessionUsage()
    session.add([Usage(input=1, cost=cost)])
    content = session.content(None)
    assert content.session_cost == written_cost
    assert (content.last_message_cost is None) is (written_cost is None)


EMPTY = "The model returned an empty answer."


def system_texts(ours: Editor, chat: str = "c") -> list[str]:
    received = [each for role, each in contents(ours.received, chat) if role == "system"]
    return [each["text"].strip() for each in received if each["type"] == "text"]


async def test_an_answer_without_anything_for_the_user_is_named(ours):
    empty = ("empty", "think of it", "say  ", "call eca_directory_tree {}\nempty")
    for script in (*empty, "say some", "draw ff0000", "finish content_filter"):
        await ours.turn(script, script, model=SCRIPT)
        notes = [each for each in system_texts(ours, script) if each.startswith(EMPTY)]
        assert len(notes) == (script in empty)


async def test_an_unknown_agent_is_named_once_in_a_chat(client):
    for agent in ("nope", "nope", "code", "agent", "plan"):
        await client.turn("say a", model=SCRIPT, agent=agent)
    [note] = system_texts(client)
    assert note.startswith(
        "The agent `nope` does not exist, or cannot be selected: `code` answers instead."
    )
    assert "`plan`" in note
    await client.tell("chat/selectedAgentChanged", {"chatId": "d", "agent": "gone"})
    await client.turn("say d", "d", model=SCRIPT)
    assert ["`gone`" in each for each in system_texts(client, "d")] == [True]


async def test_commands_name_the_chats_own_model_and_say_why_their_numbers_differ(ours):
    assert f"Selected model: {SCRIPT}\n" in (await ours.turn("/doctor", model=SCRIPT)).text
    assert f"Selected model: {ECHO}\n" in (await ours.turn("/doctor", model=ECHO)).text
    assert "`/context` shows the size of the next request" in (await ours.turn("/costs")).text
    assert "`/costs` shows the sum of all requests" in (await ours.turn("/context")).text


@pytest.mark.requirement("W-35")
@pytest.mark.parametrize(
    ("client", "capabilities", "summaries"),
    [
        ("emacs", CURRENT, ["Editing file", "Creating file"]),
        ("emacs", {"codeAssistant": {"chat": True}}, ["Editing file", "Creating file"]),
        ("other", CURRENT, ["Editing file file", "Creating file b (c).txt"]),
    ],
)
async def test_a_changed_file_is_named_once(tmp_path, client, capabilities, summaries):
    (tmp_path / "file").write_text("old")
    edit = call("edit_file", path="file", original_content="old", new_content="new")
    script = f"{edit}\n{call('write_file', path='b (c).txt', content='x')}"
    about = {"capabilities": capabilities, "clientInfo": {"name": client}}
    async with current(folder=tmp_path, **about) as ours:
        await ours.turn(script, model=SCRIPT, trust=True)
        for kind in ("toolCallRun", "toolCallRunning", "toolCalled"):
            assert [each["summary"] for each in ours.contents(kind=kind)] == summaries
        [result, _] = ours.contents(kind="toolCalled")
        assert result["outputs"][0]["text"].endswith("/file: 1 line added, 1 removed.")


SYSTEM: Role = "system"
MODEL: Role = "assistant"
USER: Role = "user"


@pytest.mark.requirement("W-26d")
@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([(SYSTEM, "one")], "one"),
        ([(MODEL, "one"), (MODEL, "two")], "onetwo"),
        ([(MODEL, "one"), (SYSTEM, "two")], "one\n\ntwo"),
        ([(MODEL, "one\n"), (SYSTEM, "two\n")], "one\n\ntwo"),
        ([(MODEL, "one\n\n"), (SYSTEM, "two")], "one\n\ntwo"),
        ([(SYSTEM, "one"), (SYSTEM, "two\n\n"), (SYSTEM, "three")], "one\n\ntwo\n\nthree"),
        ([(SYSTEM, "one"), (MODEL, "two"), (MODEL, " three")], "one\n\ntwo three"),
        ([(SYSTEM, "one"), (MODEL, ""), (MODEL, "two")], "one\n\ntwo"),
        ([(SYSTEM, "one"), (MODEL, "\ntwo")], "one\n\ntwo"),
        ([(SYSTEM, "one"), (SYSTEM, "\n"), (MODEL, "two")], "one\n\ntwo"),
        ([(MODEL, "one"), (USER, "steer"), (SYSTEM, "two")], "onesteertwo"),
        ([(MODEL, "one"), ("read_file", ""), (MODEL, "two")], "onetwo"),
        ([(MODEL, "one"), ("task", ""), ("eca_task", ""), (MODEL, "two")], "one\n\ntwo"),
    ],
)
def test_a_blank_line_parts_what_clients_append(texts, expected):
    paragraphs = Paragraphs()
    written = []
    for role, words in texts:
        if role not in {MODEL, SYSTEM, USER}:
            call = ChatToolCallRunContent(
                id="1", name=role, server="eca", origin="native", arguments={}
            )
            assert paragraphs.spaced(MODEL, call) is call
            continue
        content = paragraphs.spaced(role, ChatTextContent(text=words))
        if isinstance(content, ChatTextContent):
            written.append(content.text)
        progress = ChatProgressContent(state="running", text="Working")
        assert paragraphs.spaced(SYSTEM, progress) is progress
    assert "".join(written) == expected


@pytest.mark.parametrize(
    ("client", "fence", "ending", "note"),
    [
        ("emacs", "\n```\n", [], None),
        ("emacs", "\n```\n", [finish("length")], "The answer was cut"),
        ("emacs", "\n```\n", [reset()], "the answer broke off"),
        ("emacs", "\n```\n", [hang()], "Stopped."),
        ("VsCode", "", [hang()], "Stopped."),
    ],
)
async def test_a_block_of_code_that_an_answer_leaves_open_is_ended_where_it_would_contain_the_rest(
    tmp_path, client, fence, ending, note
):
    answer = reply(text("Look:\n```py\nx = 1"), *ending)
    async with today(answer, data=tmp_path, client=client) as (ours, _):
        await ours.prompt("hi")
        await ours.content("text", text="Look:\n```py\nx = 1")
        if note == "Stopped.":
            await ours.stop()
        await ours.expect_finished("c")
        written = "".join(each["text"] for each in ours.contents(kind="text")[1:])
        again = "".join((await reopened(ours))[1:])
        for shown in written, again:
            assert shown.startswith(f"Look:\n```py\nx = 1{fence}")
            assert shown.count("```") == (2 if fence else 1)
            assert (note or "") in shown
        assert "```\n" not in repr(ours.connection.chats.get("c").history[-1].parts)


async def test_a_cut_answer_is_not_noted_again_behind_a_complete_one(tmp_path):
    cut = reply(tool_call("read_file", '{"path": "a"}'), finish("length"))
    async with today(cut, reply("done"), data=tmp_path) as (ours, _):
        await ours.turn("hi")
        assert "The answer was cut" in repr(ours.contents(kind="text"))
        assert "".join(await reopened(ours)) == "hidone"


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
    received = Contents(content for _, content in contents(rest))
    assert received.types == ["progress", "text", "usage", "finished"]
    assert received.text == "Hello there"
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

"""`chat/inlinePrompt`: a chat of its own that begins with another one, silently."""

from pathlib import Path
from typing import Any

import pytest

from eca_protocol.testing.provider import reply
from tests.eca_protocol.wire import notification
from tests.eca_server.agent.chat.agent_session import conversation, today
from tests.eca_server.agent.chat.current import current, refused, since, values
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Editor


def inline(ours: Editor, message: str, chat: str = "i", **params: Any) -> dict[str, Any]:
    return ours.request("chat/inlinePrompt", {"chatId": chat, "message": message, **params})


async def inline_turn(
    ours: Editor, message: str, chat: str = "i", **params: Any
) -> tuple[Any, list[tuple[str, Any]]]:
    """The answer to an inline prompt, and all that came until its turn ended."""
    begun, request = len(ours.received), inline(ours, message, chat, **params)
    await ours.send(request)
    await ours.expect_finished(chat)
    return await ours.answer(request), since(ours, begun)


async def kinds(ours: Editor) -> dict[str, str | None]:
    listed = (await ours.ask("chat/list"))["chats"]
    return {each["id"]: each.get("kind") for each in listed}


@pytest.mark.requirement(
    "FIELD:ChatInlinePromptParams.*", "FIELD:ChatSummary.kind", "VALUE:ChatKind=inline"
)
async def test_it_begins_with_its_source_which_is_sent_and_not_shown_again() -> None:
    title = {"title": True}
    script = [reply("one"), reply("two"), reply("three")]
    async with today(*script, chat=title) as (ours, provider):
        await ours.ask("chat/update", {"chatId": "c", "title": "Mine"})
        await ours.turn("first")
        answer, messages = await inline_turn(ours, "and\nthen?", sourceChatId="c")
        assert answer == {"chatId": "i", "model": "p/m", "status": "prompting"}
        opened = {"chatId": "i", "title": "inline: and then?"}
        assert messages[0] == ("chat/opened", opened)
        assert values(messages) == ["and\nthen?", "two"]
        assert messages.index(("answer", answer)) < messages.index(("text", "two"))
        before = [("user", "first"), ("assistant", "one"), ("user", "and\nthen?")]
        assert conversation(provider) == before
        # Its source chat is unchanged, and the next prompt is an ordinary one.
        await inline_turn(ours, "more", sourceChatId="c")
        later = [*before, ("assistant", "two"), ("user", "more")]
        assert conversation(provider) == later
        assert ours.contents().text == "firstone"
        assert await kinds(ours) == {"c": None, "i": "inline"}


@pytest.mark.parametrize("source", [{}, {"sourceChatId": "c"}])
async def test_a_stop_in_the_same_read_ends_it(client, source: dict[str, str]):
    await client.turn("say one", model=SCRIPT)
    request = inline(client, "say two", model=SCRIPT, **source)
    await client.send(request, notification("chat/promptStop", {"chatId": "i"}))
    assert (await client.answer(request))["status"] == "prompting"
    await client.expect_finishes(1, "i")
    assert "two" not in client.contents("i").text.replace("say two", "")
    assert client.contents("i").finishes == 1


@pytest.mark.parametrize(
    ("method", "params"),
    [("chat/open", {}), ("chat/history", {}), ("chat/rollback", {"contentId": "unknown"})],
)
async def test_another_request_in_the_same_read_leaves_its_chat(method, params, tmp_path):
    async with current(data=tmp_path) as ours:
        await ours.turn("say one", model=SCRIPT)
    async with current(data=tmp_path) as ours:  # the source must be read
        other = ours.request(method, {"chatId": "i", **params})
        message = "say two\nwait forever"
        requests = [inline(ours, message, model=SCRIPT, sourceChatId="c"), other]
        if method == "chat/rollback":  # it stops what came before
            requests.reverse()
        await ours.send(*requests)
        await ours.content("text", "i", text="two")
        assert ours.connection.chats.get("i") is not None
        await ours.stop("i")
        await ours.expect_finished("i")


@pytest.mark.requirement("FIELD:ChatInlinePromptParams.agent", "FIELD:ChatInlinePromptParams.model")
async def test_what_is_configured_for_inline_chats_counts_before_the_source_s() -> None:
    configured = {"chatInline": {"model": SCRIPT, "agent": "plan"}}
    async with current(configured) as ours:
        await ours.turn("one", model=ECHO)
        answer, _ = await inline_turn(ours, "say a", sourceChatId="c")
        assert answer["model"] == SCRIPT
        assert ours.connection.chats.open("i").settings.behavior == "plan"
        answer, _ = await inline_turn(ours, "two", model=ECHO, agent="code")
        assert answer["model"] == ECHO
        assert ours.connection.chats.open("i").settings.behavior == "agent"
        answer, _ = await inline_turn(ours, "say b")
        assert answer["model"] == SCRIPT
        # A regular chat has nothing of it.
        answer, _ = await inline_turn(ours, "three", "c")
        assert (answer["model"], await kinds(ours)) == (ECHO, {"c": None, "i": "inline"})
        await ours.tell("chat/selectedModelChanged", {"chatId": "j", "model": ECHO})
        answer, _ = await inline_turn(ours, "two", "j", sourceChatId="c")
        assert (answer["model"], (await kinds(ours))["j"]) == (ECHO, "inline")
        assert len(ours.connection.chats.open("j").history) == 6
    async with current() as ours:
        await ours.turn("say a", model=SCRIPT)
        answer, _ = await inline_turn(ours, "say b", sourceChatId="c")
        assert answer["model"] == SCRIPT
        answer, _ = await inline_turn(ours, "two", "j", model=ECHO, sourceChatId="c")
        assert answer["model"] == ECHO
        assert (await inline_turn(ours, "three", "j"))[0]["model"] == ECHO


@pytest.mark.requirement("FIELD:ChatInlinePromptParams.chatId")
async def test_a_stored_chat_stays_what_it_is_and_a_stored_source_is_read(tmp_path: Path) -> None:
    async with current(data=tmp_path) as ours:
        await ours.turn("say one", model=SCRIPT)
        await inline_turn(ours, "say two", model=SCRIPT, sourceChatId="c")
    async with current(data=tmp_path) as ours:
        assert await kinds(ours) == {"c": None, "i": "inline"}
        await inline_turn(ours, "three", "c", model=ECHO, sourceChatId="i")
        await inline_turn(ours, "four", "i", model=ECHO, sourceChatId="c")
        answer, _ = await inline_turn(ours, "say five", "j", sourceChatId="i")
        assert answer["model"] == ECHO  # what `i` was last prompted with
        assert await kinds(ours) == {"c": None, "i": "inline", "j": "inline"}
        counts = {e["id"]: e["messageCount"] for e in (await ours.ask("chat/list"))["chats"]}
        assert counts == {"c": 4, "i": 6, "j": 8}


@pytest.mark.requirement("W-3")
async def test_without_a_source_or_an_id(client):
    _, messages = await inline_turn(client, "one", sourceChatId="unknown", model=ECHO)
    [words] = [each for name, each in messages if name == "text" and "does not exist" in each]
    assert words.strip().endswith("begins empty.")
    error = await refused(client, "chat/inlinePrompt", {"chatId": " ", "message": "m"})
    assert (error["code"], "params.chatId" in error["message"]) == (-32602, True)
    answer, _ = await inline_turn(client, "say a", "subagent-mine", model=SCRIPT)
    assert answer["chatId"] == "subagent-mine"
    key = "sk-0123456789abcdef0123"
    await inline_turn(client, f"/login nobody {key}", "k")
    assert key not in str(client.received)
    answer, _ = await inline_turn(client, "one", "x" * 300, model=ECHO)
    assert answer["status"] == "prompting"
    assert "one" in client.contents("x" * 300).text


async def test_one_that_is_deleted_while_it_begins_says_nothing(tmp_path: Path) -> None:
    async with current(data=tmp_path) as ours:
        await ours.turn("say one", model=SCRIPT)
    async with current(data=tmp_path) as ours:
        begun = len(ours.received)
        delete = ours.request("chat/delete", {"chatId": "i"})
        await ours.send(inline(ours, "two", sourceChatId="c", model=ECHO), delete)
        await ours.answer(delete)
        await ours.turn("three", "other", model=ECHO)
        assert await kinds(ours) == {"c": None, "other": None}
        messages = [
            each for each in ours.received[begun:] if each.get("params", {}).get("chatId") == "i"
        ]
        assert [each["method"] for each in messages] == ["chat/deleted"]

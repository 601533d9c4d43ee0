"""Chats that today's clients list, open again, page through, clear, name, flag and delete."""

import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from eca_server.agent.chat.flags import Flag
from eca_server.agent.chat.store import queries
from eca_server.agent.chat.store.coding import decode_settings, encode_settings
from eca_server.agent.chat.store.rows import ChatSettings
from eca_server.models.history import Message, TextPart
from tests.eca_protocol.wire import notification
from tests.eca_server.agent.chat.agent_session import ALLOW
from tests.eca_server.agent.chat.current import current, reaction, refused, reopened, since, values
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Content, Editor, contents, editor


async def test_a_turn_is_opened_runs_and_is_idle_before_it_is_finished_and_a_stop_is_stopping(
    client,
):
    begun = len(client.received)
    await client.turn("hi", model=ECHO)
    names = [name for name, _ in since(client, begun)]
    assert names == [
        "chat/opened", "chat/statusChanged", "progress", "text", "answer", "progress", "text",
        "usage", "chat/statusChanged", "progress",
    ]  # fmt: skip
    await client.hang()
    assert len(client.notified("chat/opened")) == 1
    [listed] = (await client.ask("chat/list"))["chats"]
    assert listed["status"] == "running"
    await client.expect_stopped()
    statuses = [each["status"] for each in client.notified("chat/statusChanged")]
    assert statuses == ["running", "idle", "running", "stopping", "idle"]


async def test_a_chat_is_listed_and_shown_again_after_a_restart(tmp_path):
    script = 'think hm\nsay one\ncall eca_directory_tree {"path": "."}\nsay two'
    async with current(data=tmp_path, folder=tmp_path) as ours:
        await ours.turn(script, model=SCRIPT, agent="plan")
        await ours.ask("chat/update", {"chatId": "c", "title": " Mine \n own "})
        await ours.turn("another", "d", model=ECHO)
    before = round(time.time() * 1000)
    async with current(data=tmp_path, folder=tmp_path) as ours:
        other, listed = (await ours.ask("chat/list"))["chats"]
        times = [listed.pop("createdAt"), listed.pop("updatedAt"), other.pop("updatedAt"), before]
        assert times == sorted(times)
        mine = {"id": "c", "title": "Mine own", "status": "idle", "messageCount": 4}
        assert listed == {**mine, "model": SCRIPT}
        assert [other["id"], other["title"]] == ["d", "another"]
        by_age = await ours.ask("chat/list", {"limit": 1, "sortBy": "createdAt"})
        assert [each["id"] for each in by_age["chats"]] == ["d"]
        begun = len(ours.received)
        opened = await ours.ask("chat/open", {"chatId": "c"})
        messages = since(ours, begun)
        assert messages == [
            ("chat/cleared", {"chatId": "c", "messages": True}),
            ("chat/opened", {"chatId": "c", "title": "Mine own"}),
            ("text", script),
            ("reasonStarted", None), ("reasonText", "hm"), ("reasonFinished", None),
            ("text", "one"),
            *[(f"toolCall{each}", "directory_tree")
              for each in ("Prepare", "Run", "Running", "ed")],
            ("text", "two"),
            ("usage", None),
            ("metadata", "Mine own"),
            ("chat/statusChanged", {"chatId": "c", "status": "idle"}),  # of a lost turn, too
            ("config/updated", {"chatId": "c", "chat": {
                "selectModel": SCRIPT, "variants": [], "selectVariant": None,
                "selectAgent": "plan", "selectTrust": False}}),
            ("answer", opened),
        ]  # fmt: skip
        assert opened["found"]
        assert opened["selection"] == {
            "model": SCRIPT, "agent": "plan", "variant": None, "variants": [], "trust": False,
        }  # fmt: skip
        [latest] = (await ours.ask("chat/list", {"limit": 1}))["chats"]
        assert latest["id"] == "d"
        assert (await ours.prompt("say on"))["model"] == SCRIPT
        await ours.expect_finished()
        assert await ours.ask("chat/open", {"chatId": "nobody's"}) == {"found": False}
        assert len((await ours.ask("chat/list"))["chats"]) == 2


_NOT_STORED = {"contextBreakdown", "autoCompactPercentage"}


@pytest.mark.requirement("W-27f", "W-43")
@pytest.mark.parametrize("start", [current, editor])
async def test_a_chat_that_is_shown_again_shows_its_last_usage(tmp_path, start):
    async with start(data=tmp_path) as ours:
        await ours.turn("usage 300 20", model=SCRIPT)
        await ours.turn("usage 40000 2500", model=SCRIPT)
        last = ours.contents(kind="usage")[-1]
        await ours.ask("chat/open", {"chatId": "c"})
        assert ours.contents(kind="usage")[-1] == last  # with what is not stored, too
    async with start(data=tmp_path) as ours:
        shown: list[list[Content]] = []
        for chat, act in (
            ("c", partial(ours.ask, "chat/open", {"chatId": "c"})),
            ("c", partial(ours.ask, "chat/open", {"chatId": "c"})),
            ("d", partial(ours.turn, "/resume 1", "d")),
            ("d", partial(ours.turn, "/resume 1", "d")),  # now it has more than that chat had
        ):
            begun = len(ours.received)
            await act()
            await ours.ask("chat/queryContext", {"query": ""})
            shown.append([each for _, each in contents(ours.received[begun:], chat)])
        [prompt, _] = [each["contentId"] for each in shown[0] if "contentId" in each]
        begun = len(ours.received)
        await ours.ask("chat/rollback", {"chatId": "c", "contentId": prompt})
        assert "usage" not in [each["type"] for _, each in contents(ours.received[begun:])]
    expected = {name: value for name, value in last.items() if name not in _NOT_STORED}
    usages = [[each for each in those if each["type"] == "usage"] for those in shown]
    assert usages[:2] == [[expected], [expected]]
    assert expected["sessionTokens"] == (42_500 if start is current else 42_820)
    if start is current:
        costs = {"sessionCost", "messageCost", "lastMessageCost"}
        assert usages[3] == []
        assert usages[2] == [{name: expected[name] for name in expected.keys() - costs}]


@pytest.mark.requirement("W-27f")
@pytest.mark.parametrize("start", [current, editor])
async def test_a_chat_that_goes_back_or_forks_shows_the_usage_of_what_remains(tmp_path, start):
    async with start(data=tmp_path) as ours:
        await ours.turn("say one", model=SCRIPT)
        first = ours.contents(kind="usage")[-1]
        prompt = (await ours.turn(f"say {'word ' * 5000}", model=SCRIPT)).prompt_ids[0]
        second = ours.contents(kind="usage")[-1]
    async with start(data=tmp_path) as ours:
        await ours.ask("chat/open", {"chatId": "c"})
        fork = await ours.ask("chat/fork", {"chatId": "c", "contentId": prompt})
        await ours.ask("chat/rollback", {"chatId": "c", "contentId": prompt})
        usages = [*ours.contents(kind="usage"), *ours.contents(fork["chatId"], kind="usage")]
        opened, remaining, forked = [each["sessionTokens"] for each in usages]
    assert opened == second["sessionTokens"]
    if start is current:
        assert remaining == first["sessionTokens"] < forked < opened
    else:  # the sum of the turns
        assert remaining == opened


async def test_a_fork_of_a_whole_chat_shows_its_usage_though_no_provider_counted_it():
    async with current() as ours:
        await ours.turn("say one\nusage 0 7", model=SCRIPT)
        await ours.turn("/fork")
        [shown] = ours.contents(kind="usage")
        [forked] = ours.contents(ours.notified("chat/opened")[-1]["chatId"], kind="usage")
        assert forked["sessionTokens"] == shown["sessionTokens"]


async def test_a_chat_that_runs_is_opened_silently_twice(client):
    await client.turn("hi", model=ECHO)
    await client.hang()
    messages = await reaction(client, "chat/open", {"chatId": "c"})
    assert [name for name, _ in messages] == [
        "chat/opened", "chat/statusChanged", "config/updated", "answer",
    ]  # fmt: skip
    assert messages[1][1]["status"] == "running"
    assert messages[-1][1]["found"]
    await client.expect_stopped()


LONG = 400
"""Messages of a chat that no client takes at once."""


async def opening(ours: Editor) -> dict[str, Any]:
    """Return the first message after a request that opens a long chat."""
    await ours.turn("hi", model=ECHO)
    answers = (
        Message(role="assistant", parts=(TextPart(f"{n} {'x' * 4000}"),)) for n in range(LONG)
    )
    ours.connection.chats.get("c").history.replace(answers)
    request = ours.request("chat/open", {"chatId": "c"})
    await ours.send(request)
    await ours.until(lambda each: each["params"].get("content", {}).get("text", "").startswith("0"))
    return request


async def test_a_long_chat_is_shown_while_others_continue_and_what_is_new_is_behind_it(client):
    request = await opening(client)
    assert client.connection.peer.transport._outbox.size < 100_000
    begun = len(client.received)
    await client.ask("chat/list")
    assert request["id"] not in [each.get("id") for each in client.received]
    await client.turn("new", model=ECHO)
    await client.answer(request)
    words = [each.partition(" ")[0] for each in values(since(client, begun))]
    assert words == [*map(str, range(1, LONG)), "new", "new"]


@pytest.mark.parametrize("ending", ["delete", "clear"])
async def test_a_long_chat_that_is_gone_is_not_shown_to_its_end(client, ending):
    request = await opening(client)
    await client.ask(f"chat/{ending}", {"chatId": "c"})
    begun = len(client.received)
    assert (await client.answer(request))["found"] is (ending == "clear")
    await client.ask("chat/list")
    assert "text" not in [name for name, _ in since(client, begun)]
    assert len(client.contents()) < LONG


async def test_a_history_is_read_in_pages_from_either_end(client):
    for number in range(3):
        await client.turn(f"say a{number}", model=SCRIPT)

    async def page(**params: Any) -> tuple[list[str], dict[str, Any]]:
        result = await client.ask("chat/history", {"chatId": "c", **params})
        return [each["content"]["text"] for each in result["contents"]], result["meta"]

    everything, meta = await page()
    assert everything == ["say a0", "a0", "say a1", "a1", "say a2", "a2"]
    cursors = dict.fromkeys(("beforeCursor", "afterCursor", "compactionCursor"))
    assert meta == {"total": 6, "returned": 6, **cursors}
    texts, meta = await page(limit=2)
    pages = [texts]
    while meta["beforeCursor"]:
        texts, meta = await page(limit=2, before=meta["beforeCursor"])
        pages.insert(0, texts)
    assert [words for texts in pages for words in texts] == everything
    assert len(pages) == 3
    texts, first = await page(limit=5, after="lastCompaction")
    rest, _ = await page(limit=5, after=first["afterCursor"])
    assert (len(texts), texts + rest) == (5, everything)
    assert (await page(before="lastCompaction"))[0] == []
    for cursor in ("x", "1@x", f"9{first['afterCursor']}"):
        error = await refused(client, "chat/history", {"chatId": "c", "before": cursor})
        assert (error["code"], error["data"]) == (-32602, {"code": "cursor_expired"})
    error = await refused(client, "chat/history", {"chatId": "nobody's"})
    assert (error["code"], error["data"]) == (-32602, {"code": "chat_not_found"})
    await client.ask("chat/clear", {"chatId": "c", "messages": True})
    await client.turn("say b", model=SCRIPT)
    error = await refused(client, "chat/open", {"chatId": "c", "after": first["afterCursor"]})
    assert error["data"] == {"code": "cursor_expired"}


async def test_a_cleared_chat_knows_nothing_and_keeps_its_costs(tmp_path):
    async with current(data=tmp_path) as ours:
        await ours.turn("one", model=ECHO)
        ours.connection.chats.get("c").titling.title = "a model's"
        [prompt] = ours.contents().prompt_ids
        flag = {"chatId": "c", "contentId": prompt, "text": "here"}
        assert await ours.ask("chat/addFlag", flag) == {}
        for params, is_cleared in (
            ({"chatId": "c", "messages": True}, True),
            ({"chatId": "c", "messages": False}, False),
            ({"chatId": "nobody's"}, True),
        ):
            messages = await reaction(ours, "chat/clear", params)
            cleared = ("chat/cleared", {**params, "messages": True})
            assert messages == [*([cleared] if is_cleared else []), ("answer", {})]
        chat = ours.connection.chats.get("c")
        assert dict(chat.settings.flags) == {}
        await ours.turn("hi", "mine", model=ECHO)
        await ours.ask("chat/update", {"chatId": "mine", "title": "Mine"})
        await ours.ask("chat/clear", {"chatId": "mine"})
        assert ours.connection.chats.get("mine").title == "Mine"
        begun = len(ours.received)
        await ours.turn("hi", "nobody's", model=ECHO)
        assert since(ours, begun)[0] == ("chat/opened", {"chatId": "nobody's"})
        await ours.turn("two", model=ECHO)
        assert ours.contents()[-4:].text == "two"
        assert [str(each.parts[0].text) for each in chat.history] == ["two", "two"]
        assert chat.usage.tokens > 0
        assert chat.title is None
    async with current(data=tmp_path) as ours:
        assert await reopened(ours) == ["two", "two"]


async def test_a_stored_chat_is_cleared_in_its_place_even_if_the_caller_is_cancelled(tmp_path):
    async with current(data=tmp_path) as ours:
        await ours.turn("one", model=ECHO, trust=True)
        ours.connection.chats.get("c").titling.title = "a model's"
        await ours.turn("two", model=ECHO)
    async with current(data=tmp_path) as ours:
        cleared = ours.request("chat/clear", {"chatId": "c"})
        await ours.send(
            cleared,
            notification("$/cancelRequest", {"id": cleared["id"]}),
            ours.prompt_request("three", model=ECHO),
        )
        await ours.expect_finished()
        assert ours.contents().text == "threethree"
        assert (await ours.ask("chat/history", {"chatId": "c"}))["meta"]["total"] == 2
    async with current(data=tmp_path) as ours:
        assert (await ours.ask("chat/list"))["chats"][0]["title"] == "three"
        opened = await ours.ask("chat/open", {"chatId": "c", "limit": 100})
        assert (opened["meta"]["total"], opened["selection"]["trust"]) == (2, True)


async def test_messages_after_a_second_clear_stay_however_slow_the_first_is(tmp_path, monkeypatch):
    clear = queries.clear

    def slowly(*arguments: Any, **more: Any) -> None:
        time.sleep(0.1)
        clear(*arguments, **more)

    monkeypatch.setattr(queries, "clear", slowly)
    async with current(data=tmp_path) as ours:
        await ours.turn("one", model=ECHO)
        once, twice = (ours.request("chat/clear", {"chatId": "c"}) for _ in range(2))
        await ours.send(once, twice, ours.prompt_request("two", model=ECHO))
        assert await ours.answer(once) == await ours.answer(twice) == {}
        if ours.connection.chats.open("c").is_busy:
            await ours.expect_finished()
    async with current(data=tmp_path) as ours:
        assert await reopened(ours) == ["two", "two"]


async def test_the_users_own_title_sticks():
    async with current({"chat": {"title": True}}) as ours:
        await ours.ask("chat/update", {"chatId": "c", "title": "Mine"})
        await ours.turn("hi", model=ECHO)
        await ours.turn("hi", model=ECHO)
        assert [each["title"] for each in ours.contents(kind="metadata")] == ["Mine"]
        error = await refused(ours, "chat/update", {"chatId": "", "title": "Nobody's"})
        assert (error["code"], "params.chatId" in error["message"]) == (-32602, True)


async def test_an_older_client_is_sent_newer_things_only_on_request(ours):
    await ours.turn("hi", model=ECHO)
    await ours.tell("chat/selectedModelChanged", {"model": ECHO, "chatId": "c"})
    begun = len(ours.received)
    messages = await reaction(ours, "chat/open", {"chatId": "c"})
    names = [name for name, _ in messages]
    assert names == ["chat/cleared", "chat/opened", "text", "text", "usage", "answer"]
    del ours.received[begun:]
    await ours.ask("chat/delete", {"chatId": "c"})
    methods = {message["method"] for message in ours.received if "method" in message}
    assert methods == {
        "$/progress", "config/updated", "tool/serverUpdated", "chat/contentReceived",
    }  # fmt: skip
    assert len(ours.notified("config/updated")) == 1


async def flagged(ours: Editor, method: str, content_id: str, **more: Any) -> list[Content]:
    """Add or remove a flag; return the contents of the chat as it is shown then."""
    begun = len(ours.received)
    messages = await reaction(
        ours, f"chat/{method}", {"chatId": "c", "contentId": content_id, **more}
    )
    assert messages[0] == ("chat/cleared", {"chatId": "c", "messages": True})
    assert messages[-1] == ("answer", {})
    return [content for _, content in contents(ours.received[begun:])]


def order(shown: list[Content]) -> list[str]:
    """Return the ends, texts and flags, in order."""
    kinds = {"text", "flag", "toolCalled", "reasonFinished"}
    return [each["type"] for each in shown if each["type"] in kinds]


async def test_a_flag_follows_a_prompt_a_call_or_a_thought_and_is_stored(tmp_path: Path) -> None:
    async with current(ALLOW, data=tmp_path) as ours:
        await ours.turn("think hm\ncall eca_directory_tree\nsay done", model=SCRIPT)
        shown = ours.contents()
        [prompt] = [each["contentId"] for each in shown if "contentId" in each]
        [thought] = [each["id"] for each in shown if each["type"] == "reasonFinished"]
        [call] = [each["id"] for each in shown if each["type"] == "toolCalled"]
        for content_id in (call, thought, prompt):
            shown = await flagged(ours, "addFlag", content_id, text=f"at {content_id}")
        flags = {each["text"]: each["contentId"] for each in shown if each["type"] == "flag"}
        assert list(flags) == [f"at {prompt}", f"at {thought}", f"at {call}"]
        assert len({*flags.values(), prompt, thought, call}) == 6
        expected = ["text", "flag", "reasonFinished", "flag", "toolCalled", "flag", "text"]
        assert order(shown) == expected
        error = await refused(ours, "chat/addFlag", {"chatId": "c", "contentId": "no", "text": "x"})
        assert "expected the id of a prompt, a tool call or a thought" in error["message"]
    async with current(data=tmp_path) as ours:
        again = [content for _, content in await ours.reopen()]
        assert order(again) == expected
        stored = [each for each in again if each["type"] == "flag"]
        assert flags == {each["text"]: each["contentId"] for each in stored}
        shown = await flagged(ours, "removeFlag", flags[f"at {thought}"])
        assert order(shown) == ["text", "flag", "reasonFinished", "toolCalled", "flag", "text"]
        removed = {"chatId": "c", "contentId": flags[f"at {thought}"]}
        assert await reaction(ours, "chat/removeFlag", removed) == [("answer", {})]


@pytest.mark.requirement("W-43b")
async def test_a_chat_is_forked_from_a_flag_with_the_results_of_its_call(tmp_path: Path) -> None:
    async with current(ALLOW, data=tmp_path) as ours:
        await ours.turn("call eca_directory_tree\nsay done", model=SCRIPT)
        await ours.turn("later", model=ECHO)
        prompts = ours.contents().prompt_ids
        [call] = [each["id"] for each in ours.contents() if each["type"] == "toolCalled"]
        await flagged(ours, "addFlag", prompts[1], text="too late")
        shown = await flagged(ours, "addFlag", call, text="here")
        [flag] = [each["contentId"] for each in shown if each.get("text") == "here"]
        messages = await reaction(ours, "chat/fork", {"chatId": "c", "contentId": flag})
        new = messages[-1][1]["chatId"]
    async with current(data=tmp_path) as ours:
        assert order([content for _, content in await ours.reopen(new)]) == [
            "text",
            "toolCalled",
            "flag",
        ]


@pytest.mark.requirement("W-43c")
async def test_a_flag_set_while_a_turn_runs_comes_to_its_place_at_the_end(client):
    await client.turn("before", model=ECHO)
    [prompt] = client.contents().prompt_ids
    await client.hang()
    begun = len(client.received)
    flag = {"chatId": "c", "contentId": prompt, "text": "here"}
    messages = await reaction(client, "chat/addFlag", flag)
    assert messages == [("flag", "here"), ("answer", {})]
    [queued, _] = [client.prompt_request("next", model=ECHO), await client.stop()]
    await client.expect_finished()
    await client.send(queued)
    await client.expect_finished()
    messages = since(client, begun + 2)
    cleared = [name for name, _ in messages].index("chat/cleared")
    shown = [each for each in messages[cleared:] if each[0] in ("text", "flag")]
    assert shown[:2] == [("text", "before"), ("flag", "here")]
    assert shown[-2:] == [("text", "next"), ("text", "next")]


async def test_flags_of_an_older_store_are_read() -> None:
    body = json.dumps({"flags": {"m1": "here", "f2": {"after": "m2", "text": "there"}, "x": 1}})
    flags = decode_settings(body.encode()).flags
    assert flags == {"flag-m1": Flag(after="m1", text="here"), "f2": Flag(after="m2", text="there")}
    settings = ChatSettings(flags=flags)
    assert decode_settings(encode_settings(settings)) == settings

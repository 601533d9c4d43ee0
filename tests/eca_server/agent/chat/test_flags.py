"""Flags that the user sets in a chat: behind what they stand, and what becomes of them (W-43)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eca_server.agent.chat.flags import Flag
from eca_server.agent.chat.store.rows import ChatSettings, decode_settings, encode_settings
from tests.eca_server.agent.chat.agent_session import ALLOW
from tests.eca_server.agent.chat.current import current, reaction, refused, since, values
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Content, Editor, contents


async def flagged(ours: Editor, method: str, content_id: str, **more: Any) -> list[Content]:
    """Add or remove a flag; return the contents of the chat as it is shown then."""
    begun = len(ours.seen)
    told = await reaction(ours, f"chat/{method}", {"chatId": "c", "contentId": content_id, **more})
    assert told[0] == ("chat/cleared", {"chatId": "c", "messages": True})
    assert told[-1] == ("answer", {})
    return [content for _, content in contents(ours.seen[begun:])]


async def opened(ours: Editor, chat_id: str = "c") -> list[Content]:
    begun = len(ours.seen)
    await ours.ask("chat/open", {"chatId": chat_id})
    return [content for _, content in contents(ours.seen[begun:], chat_id)]


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
        wanted = ["text", "flag", "reasonFinished", "flag", "toolCalled", "flag", "text"]
        assert order(shown) == wanted
        error = await refused(ours, "chat/addFlag", {"chatId": "c", "contentId": "no", "text": "x"})
        assert "expected the id of a prompt, a tool call or a thought" in error["message"]
    async with current(data=tmp_path) as ours:
        again = await opened(ours)
        assert order(again) == wanted
        assert flags == {
            each["text"]: each["contentId"] for each in again if each["type"] == "flag"
        }
        shown = await flagged(ours, "removeFlag", flags[f"at {thought}"])
        assert order(shown) == ["text", "flag", "reasonFinished", "toolCalled", "flag", "text"]
        removed = {"chatId": "c", "contentId": flags[f"at {thought}"]}
        assert await reaction(ours, "chat/removeFlag", removed) == [("answer", {})]


@pytest.mark.requirement("W-43b")
async def test_a_chat_is_forked_from_a_flag_with_the_results_of_its_call(tmp_path: Path) -> None:
    async with current(ALLOW, data=tmp_path) as ours:
        await ours.turn("call eca_directory_tree\nsay done", model=SCRIPT)
        await ours.turn("later", model=ECHO)
        prompts = [each["contentId"] for each in ours.contents() if "contentId" in each]
        [call] = [each["id"] for each in ours.contents() if each["type"] == "toolCalled"]
        await flagged(ours, "addFlag", prompts[1], text="too late")
        shown = await flagged(ours, "addFlag", call, text="here")
        [flag] = [each["contentId"] for each in shown if each.get("text") == "here"]
        told = await reaction(ours, "chat/fork", {"chatId": "c", "contentId": flag})
        new = told[-1][1]["chatId"]
    async with current(data=tmp_path) as ours:
        assert order(await opened(ours, new)) == ["text", "toolCalled", "flag"]


@pytest.mark.requirement("W-43c")
async def test_a_flag_set_while_a_turn_runs_comes_to_its_place_at_the_end() -> None:
    async with current() as ours:
        await ours.turn("before", model=ECHO)
        [prompt] = [each["contentId"] for each in ours.contents() if "contentId" in each]
        await ours.hang()
        begun = len(ours.seen)
        asked = {"chatId": "c", "contentId": prompt, "text": "here"}
        told = await reaction(ours, "chat/addFlag", asked)
        assert told == [("flag", "here"), ("answer", {})]
        [queued, _] = [ours.prompt_request("next", model=ECHO), await ours.stop()]
        await ours.expect_finished()
        await ours.send(queued)
        await ours.expect_finished()
        told = since(ours, begun + 2)
        cleared = [name for name, _ in told].index("chat/cleared")
        shown = [each for each in told[cleared:] if each[0] in ("text", "flag")]
        assert shown[:2] == [("text", "before"), ("flag", "here")]
        assert shown[-2:] == [("text", "next"), ("text", "next")]


@pytest.mark.requirement("W-43a")
async def test_a_flag_goes_with_what_it_follows() -> None:
    async with current(ALLOW) as ours:
        await ours.turn("one", model=ECHO)
        await ours.turn("call eca_directory_tree\nsay done", model=SCRIPT)
        prompts = [each["contentId"] for each in ours.contents() if "contentId" in each]
        [call] = [each["id"] for each in ours.contents() if each["type"] == "toolCalled"]
        await flagged(ours, "addFlag", prompts[0], text="stays")
        await flagged(ours, "addFlag", call, text="goes")
        told = await reaction(ours, "chat/rollback", {"chatId": "c", "contentId": prompts[1]})
        assert values(told, "flag") == ["stays"]
        chat = ours.connection.chats.get("c")
        assert [flag.text for flag in chat.settings.flags.values()] == ["stays"]


async def test_flags_of_an_older_store_are_read() -> None:
    body = json.dumps({"flags": {"m1": "here", "f2": {"after": "m2", "text": "there"}, "x": 1}})
    flags = decode_settings(body.encode()).flags
    assert flags == {"flag-m1": Flag(after="m1", text="here"), "f2": Flag(after="m2", text="there")}
    kept = ChatSettings(flags=flags)
    assert decode_settings(encode_settings(kept)) == kept

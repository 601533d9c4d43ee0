"""Chats that go back to before a prompt that was shown, and is no part of their history."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from eca_server.agent.chat.store.store import Store
from tests.eca_server.agent.chat.current import current, reopened, values
from tests.eca_server.agent.chat.editor import ECHO, SCRIPT, Editor, contents
from tests.eca_server.agent.chat.test_rollback import (
    not_rolled_back,
    rolled_back,
    said,
    tree,
    writes,
)


async def echoed(ours: Editor, text: str, **params: Any) -> str:
    """Send a prompt; the content id of its echo, whatever becomes of its turn."""
    begun = len(ours.seen)
    await ours.prompt(text, trust=True, **{"model": SCRIPT, **params})
    while not (known := [c["contentId"] for r, c in contents(ours.seen[begun:]) if r == "user"]):
        await ours.until(lambda _: True)
    return str(known[0])


HEARD: dict[str, Any] = {
    "hooks": {
        "slow": {
            "type": "preRequest",
            "actions": [{"type": "shell", "shell": "grep -q later && sleep 60 || true"}],
        },
        "strict": {
            "type": "preRequest",
            "actions": [{"type": "shell", "shell": "! grep -q forbidden || exit 2"}],
        },
    }
}


@pytest.mark.parametrize("is_stored", [True, False])
@pytest.mark.parametrize("prompt", ["/costs", "say forbidden", "say later"])
async def test_a_chat_goes_back_to_a_prompt_that_its_history_does_not_hold(
    tmp_path, folder, prompt, *, is_stored
):
    async with current(HEARD, data=tmp_path if is_stored else None, folder=folder) as ours:
        first = await said(ours, "say one")
        unheard = await echoed(ours, prompt)
        if prompt != "say later":  # that one waits for a hook
            await ours.expect_finished()
        told = await rolled_back(ours, unheard, "messages")
        assert ("chat/cleared" in [name for name, _ in told]) is True
        assert values(told)[-2:] == ["say one", "one"]
        assert [each for each in values(told)[:-2] if each != "Stopped."] == []
        assert (await not_rolled_back(ours, unheard))["code"] == -32602
        names = [name for name, _ in await rolled_back(ours, first, "messages")]
        assert names == ["chat/cleared", "answer"]


@pytest.mark.parametrize("runs", [True, False])
async def test_what_came_behind_such_a_prompt_goes_with_it_after_a_restart_too(
    tmp_path, folder, *, runs
):
    async with current(data=tmp_path, folder=folder) as ours:
        await said(ours, "say one")
        unheard = await said(ours, "/costs")
        await said(ours, writes(a="1"))
        if runs:
            await echoed(ours, "wait forever")
        told = await rolled_back(ours, unheard)
        assert tree(folder) == {}
        assert values(told)[-2:] == ["say one", "one"]
    async with current(data=tmp_path, folder=folder) as ours:
        assert await reopened(ours) == ["say one", "one"]


async def test_a_compaction_is_gone_back_to_by_its_command(tmp_path, folder):
    async with current(data=tmp_path, folder=folder) as ours:
        await said(ours, "say one")
        compacted = await said(ours, "/compact say all of it", model=ECHO)
        await rolled_back(ours, compacted)
    async with current(data=tmp_path, folder=folder) as ours:
        assert await reopened(ours) == ["say one", "one"]


@pytest.mark.parametrize("is_compacted", [True, False])
async def test_a_new_chat_goes_back_to_its_resume_and_into_it(tmp_path, folder, *, is_compacted):
    async with current(data=tmp_path, folder=folder) as ours:
        await ours.turn("say one", "old", model=SCRIPT)
        if is_compacted:
            await ours.turn("/compact say all of it", "old", model=ECHO)
        await ours.turn("say two", "old", model=SCRIPT)
        await said(ours, "/resume old")
        page = await ours.ask("chat/history", {"chatId": "c"})
        ids = [c["contentId"] for c in (e["content"] for e in page["contents"]) if "contentId" in c]
        assert len(ids) == len(set(ids)) == 2
        told = await rolled_back(ours, ids[1])
        first = ["(Summary of an earlier chat)"] if is_compacted else ["say one", "one"]
        assert values(told) == first
        assert values(await rolled_back(ours, ids[0])) == []
        await rolled_back(ours, await said(ours, "/resume old"))
    async with current(data=tmp_path, folder=folder) as ours:
        assert await reopened(ours) == []


async def test_a_prompt_stopped_before_its_chat_was_read_back_is_gone_back_to(
    tmp_path, folder, monkeypatch
):
    async with current(data=tmp_path, folder=folder) as ours:
        await said(ours, "say one")
    async with current(data=tmp_path, folder=folder) as ours:
        find, begun = Store.find, trio.Event()

        async def late(store: Store, chat_id: str) -> Any:
            monkeypatch.setattr(Store, "find", find)
            begun.set()
            await trio.sleep_forever()

        monkeypatch.setattr(Store, "find", late)
        unheard = await echoed(ours, "say two")
        await begun.wait()
        told = await rolled_back(ours, unheard)
        texts = values(told)
        assert texts == ["Stopped.", "say one", "one"]

"""The prompt is on disk before a model is asked: a server killed in the turn has not lost it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from eca_server.agent.chat.store.rows import decode_message
from eca_server.models.history import TextPart, repair
from tests.eca_server.agent.chat.agent_session import session
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import SCRIPT, contents

PROMPT = 'call eca_shell_command {"command": "true"}'


def stored_texts(data: Path) -> list[str]:
    """Return what another process reads of the stored messages now."""
    with closing(sqlite3.connect(next(data.rglob("chats.sqlite")))) as connection:
        bodies = connection.execute("SELECT body FROM message ORDER BY sequence").fetchall()
    return [
        part.text
        for (body,) in bodies
        for part in decode_message(body).parts
        if isinstance(part, TextPart)
    ]


async def test_a_prompt_is_stored_while_its_turn_still_runs(tmp_path):
    async with current(data=tmp_path) as ours:
        await ours.prompt(PROMPT, model=SCRIPT)
        await ours.until(
            lambda message: (
                message.get("params", {}).get("content", {}).get("type") == "toolCallRun"
            )
        )
        assert stored_texts(tmp_path).count(PROMPT) == 1
        await ours.expect_stopped()
        assert stored_texts(tmp_path).count(PROMPT) == 1


HANGING_HOOK: dict[str, Any] = {
    "hooks": {"slow": {"type": "preRequest", "actions": [{"type": "shell", "shell": "sleep 60"}]}}
}
BLOCKING_HOOK: dict[str, Any] = {
    "hooks": {"strict": {"type": "preRequest", "actions": [{"type": "shell", "shell": "exit 2"}]}}
}


async def shown_again(data: Path) -> list[tuple[str, str]]:
    """Return what the next server shows of the chat, and check that it is listed."""
    async with current(data=data) as ours:
        listed = await ours.ask("chat/list")
        assert [each["title"] for each in listed["chats"]] == ["say it"]
        await ours.ask("chat/open", {"chatId": "c"})
        return [
            (role, content["text"])
            for role, content in contents(ours.seen)
            if content["type"] == "text"
        ]


async def test_a_prompt_no_model_could_be_asked_is_shown_again_and_sent_to_none(tmp_path):
    async with current(data=tmp_path) as ours:
        await ours.turn("say it", model="nobody/unknown")
    assert await shown_again(tmp_path) == [("user", "say it")]
    async with session(tmp_path, data=tmp_path) as (ours, provider):
        await ours.turn("and this")
        sent = str(provider.requests[0].body)
        assert "and this" in sent
        assert "say it" not in sent


async def test_a_prompt_stopped_before_its_request_is_shown_again_and_sent_to_none(tmp_path):
    async with current(HANGING_HOOK, data=tmp_path) as ours:
        await ours.prompt("say it", model=SCRIPT)
        await ours.content("hookActionStarted")
        await ours.expect_stopped()
        chat = ours.connection.chats.get("c")
        assert chat is not None
        assert repair(chat.history.model_context) == repair(())
    assert await shown_again(tmp_path) == [("user", "say it")]


async def test_a_prompt_a_hook_blocks_is_not_stored(tmp_path):
    async with current(BLOCKING_HOOK, data=tmp_path) as ours:
        await ours.turn("say it", model=SCRIPT)
    async with current(data=tmp_path) as ours:
        assert (await ours.ask("chat/list"))["chats"] == []

"""The prompt is on disk before a model is asked: a server killed in the turn has not lost it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from eca_server.chat.store.rows import decode_message
from eca_server.llm.history import TextPart
from tests.eca_server.chat.current import current
from tests.eca_server.chat.editor import SCRIPT

pytestmark = [pytest.mark.trio, pytest.mark.requirement]

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


async def test_a_prompt_is_stored_while_its_turn_still_runs(tmp_path: Path) -> None:
    async with current(data=tmp_path) as ours:
        await ours.prompt(PROMPT, model=SCRIPT)
        await ours.until(
            lambda message: (
                message.get("params", {}).get("content", {}).get("type") == "toolCallRun"
            )
        )
        assert stored_texts(tmp_path).count(PROMPT) == 1
        await ours.stop()
        await ours.finished()
        assert stored_texts(tmp_path).count(PROMPT) == 1

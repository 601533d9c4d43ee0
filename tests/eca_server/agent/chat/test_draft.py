"""An approval in the draft that never comes, with a clock that jumps (W-52)."""

from __future__ import annotations

import json
from typing import Any

import trio

from eca_server.client.profiles import DRAFT_SECONDS
from tests.eca_server.agent.chat.editor import SCRIPT, editor


async def test_an_unapproved_change_is_rejected_after_a_while(tmp_path, autojump_clock):
    write = json.dumps({"path": "new.txt", "content": "x\n"})
    async with editor({"defaultModel": SCRIPT}, started=False) as ours:
        folder = {"name": "w", "uri": tmp_path.as_uri()}
        hello = {
            "workspaceFolders": [folder],
            "initializationOptions": {"protocolRevision": "2025-06"},
        }
        assert await ours.ask("initialize", hello) == {}
        await ours.tell("initialized")
        await ours.prompt(f"say Here:\ncall eca_write_file {write}\nsay Well.")

        def waits(message: Any) -> bool:
            return message["params"]["content"].get("manualApproval") is True

        asked = next(filter(waits, ours.seen[2:]), None) or await ours.until(waits)
        assert asked["params"]["content"]["file"] == str(tmp_path / "new.txt")
        began = trio.current_time()
        closing = await ours.until(lambda message: message["params"]["isComplete"])
        assert DRAFT_SECONDS <= trio.current_time() - began < DRAFT_SECONDS + 5
        assert closing["params"]["metadata"]["tokensUsed"] > 0
        texts = [each["params"]["content"].get("text", "") for each in ours.seen[2:]]
        assert "Rejected: Creating file new.txt." in "".join(texts)
        assert "".join(texts).endswith("Well.")
        assert not (tmp_path / "new.txt").exists()

"""Chats that are shown again look as they looked (W-43)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from eca_server.agent.mcp.messages import TextContent, ToolResult
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import SCRIPT, Content, Editor, contents
from tests.eca_server.agent.chat.mcp_session import GIT, status

pytestmark = pytest.mark.requirement("W-43d")

ENDS = {"toolCalled", "toolCallRejected", "reasonFinished", "url", "text"}


def call(name: str, **arguments: Any) -> str:
    return f"call {name} {json.dumps(arguments)}"


def looks(received: Sequence[tuple[str, Content]]) -> list[Mapping[str, Any]]:
    """Return what the user sees at the end: finished calls and thoughts, sources, joined texts."""
    seen: list[dict[str, Any]] = []
    for role, content in received:
        if content["type"] not in ENDS or role == "system":
            continue
        if content["type"] == "text" and seen and seen[-1]["type"] == "text" and role != "user":
            seen[-1]["text"] += content["text"]
            continue
        hides = {"reasonFinished": "id"}.get(content["type"])
        seen.append({key: value for key, value in content.items() if key != hides})
    # A card stays where its call began, whenever that ends.
    return sorted(seen, key=lambda each: str(each.get("id", "")))


async def opened(ours: Editor) -> list[tuple[str, Content]]:
    begun = len(ours.seen)
    await ours.ask("chat/open", {"chatId": "c"})
    return contents(ours.seen[begun:])


async def test_calls_thoughts_and_sources_look_as_they_looked(tmp_path, places):
    async def gives(_: str) -> ToolResult:
        return ToolResult(content=(TextContent(text='{"a": [1]}'),))

    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "old.txt").write_text("old\n")
    script = "\n".join(
        [
            "think hm",
            call("eca_write_file", path=str(folder / "new.txt"), content="new\n"),
            call("git__echo", text="x"),
            call("eca_shell_command", command="exit 3"),
            call("eca_directory_tree"),
            "say As",
            "cite https://example.org/a(b) An [Example]",
            "cite https://example.org/a(b) An [Example]",
        ]
    )
    config = {
        "mcpServers": GIT,
        "toolCall": {"approval": {"byDefault": "allow", "deny": {"eca__directory_tree": {}}}},
    }
    kept = {"data": tmp_path / "data", "folder": folder}
    async with current(config, **kept) as ours:
        await status(ours, "git", "running")
        places["git"].session.answers = gives
        await ours.turn(script, model=SCRIPT)
        live = looks(contents(ours.seen))
        kinds = [each["type"] for each in live]
        assert kinds.count("toolCalled") == 3
        assert kinds.count("toolCallRejected") == kinds.count("url") == 1
        assert "new.txt" in str([each.get("details") for each in live])
        assert "[An \\\\[Example" in str(live)
        assert looks(await opened(ours)) == live
    async with current(config, **kept) as ours:
        assert looks(await opened(ours)) == live


async def test_a_call_and_a_thought_of_no_time_at_all_show_no_bare_zero(tmp_path):
    async with current(data=tmp_path, folder=tmp_path) as ours:
        await ours.turn("think hm\ncall eca_no_such_tool {}\nsay done", model=SCRIPT)
        times = [c["totalTimeMs"] for _, c in contents(ours.seen) if "totalTimeMs" in c]
        assert len(times) == 2
        assert all(times)

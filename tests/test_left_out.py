"""Parts of upstream that are left out: the guide on migrating lists all of them, and no more."""

import re
from pathlib import Path
from typing import Any, get_args

from eca_protocol import ECA
from eca_protocol import messages as m
from eca_server.agent.commands import COMMANDS, UNSUPPORTED
from eca_server.connection.features.handlers import Handlers
from tests.eca_server.agent.chat.current import current
from tests.eca_server.agent.chat.editor import SCRIPT, text

PROJECT = Path(__file__).parent.parent
MIGRATING = (PROJECT / "docs" / "guides" / "migrating.md").read_text()
LEFT_OUT_ROWS = re.findall(
    r"^\| (.+?) \|",
    MIGRATING.partition("## What is left out")[2].partition("\n## ")[0],
    re.MULTILINE,
)
SHARED = [PROJECT / "eca_protocol" / "server" / name for name in ("calls.py", "reasonings.py")]
SOURCES = "\n".join(path.read_text() for path in [*SHARED, *(PROJECT / "eca_server").rglob("*.py")])

UPSTREAM_COMMANDS = {
    "init", "login", "costs", "compact", "resume", "config", "doctor", "repo-map-show",
    "prompt-show", "model", "skills", "skill-create", "context", "fork", "export", "import",
    "remote", "debug-chat", "rules", "sync-system-prompt", "subagents", "plugins",
    "plugin-install", "plugin-update", "plugin-uninstall", "hooks", "agent", "btw", "chats",
    "delete-chat", "eca-info", "memory-consolidate",
}  # fmt: skip
UPSTREAM_TOOLS = {
    "directory_tree", "read_file", "write_file", "edit_file", "preview_file_change", "move_file",
    "grep", "shell_command", "bg_job", "git", "editor_diagnostics", "editor_definition",
    "editor_references", "ask_user", "skill", "fetch_rule", "spawn_agent", "task", "compact_chat",
    "view_image",
}  # fmt: skip


def named_in_the_guide() -> set[str]:
    return {name.lstrip("/") for row in LEFT_OUT_ROWS for name in re.findall(r"`([^`]+)`", row)}


def written() -> list[str]:
    """The methods and the kinds of contents that a server of today may write."""
    kinds: list[Any] = [*get_args(m.ChatContent), *get_args(m.ToolCallDetails)]
    contents = [kind.__name__ for kind in kinds if not kind.__name__.startswith("Unknown")]
    methods = [f'"{name}"' for name in ECA.received_by("client")]
    return [*methods, *(f"{name}(" for name in contents)]


async def test_what_upstream_has_is_there_or_named_in_the_guide(tmp_path: Path) -> None:
    (tmp_path / ".eca" / "skills" / "s").mkdir(parents=True)
    skill = "---\nname: s\ndescription: d\n---\nt"
    (tmp_path / ".eca" / "skills" / "s" / "SKILL.md").write_text(skill)
    agents = {"a": {"mode": "subagent", "description": "d"}}
    async with current({"agent": agents}, folder=tmp_path) as ours:
        handlers = Handlers()
        handlers.serve(ours.connection.start)
        assert {*ECA.received_by("server")} == {*handlers}
        await ours.turn("say a", model=SCRIPT)
        for name, why in UNSUPPORTED.items():
            assert f"no command `/{name}`: {why}. Available commands: " in text(
                await ours.turn(f"/{name}")
            )
        updates = [
            each["params"] for each in ours.received if each.get("method") == "tool/serverUpdated"
        ]
    commands = UPSTREAM_COMMANDS - {each.name for each in COMMANDS}
    tools = UPSTREAM_TOOLS - {each["name"] for each in updates[-1]["tools"]}
    assert commands == {*UNSUPPORTED}
    assert tools == {"git", "fetch_rule", "compact_chat"}
    untold = {"db_cache_path", "session_id", "eca_executable"}
    assert named_in_the_guide() == commands | tools | untold


def test_every_message_and_content_of_a_server_s_is_written_somewhere() -> None:
    assert [name for name in written() if name not in SOURCES] == []

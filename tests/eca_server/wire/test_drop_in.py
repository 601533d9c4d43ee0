"""A person who moves over from the upstream server changes nothing but the command."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.testing.provider import provider_in_thread, reply

PLACES: dict[str, str] = json.loads(
    (Path(__file__).parents[2] / "data" / "upstream_configuration.json").read_text()
)["places"]
HOOK = {"type": "shell", "shell": 'cat > "$HOME/hooked"'}
CONFIG = {
    "$schema": "https://eca.dev/config.json",
    "providers": {
        "mine": {
            "api": "openai-chat",
            "url": "${env:MINE_URL}",
            "keyEnv": "MINE_KEY",
            "fetchModels": False,
            "models": {"m": {}},
        }
    },
    "defaultModel": "mine/m",
    "chat": {"title": False},
    "hooks": {"h": {"type": "preRequest", "actions": [HOOK]}},
}
LOCAL = {
    "agent": {"code": {"disabledTools": ["eca__grep"]}},
    "toolCall": {"approval": {"deny": {"eca_shell_command": {}}}},
    "rules": [{"path": "docs/rule.md"}],
    "mcpServers": {"s": {"command": "not-a-program", "disabled": True}},
}
IN_THE_PROMPT = (
    *("AGENTS.md", "CONFIG/AGENTS.md", "docs/mentioned.md", "docs/rule.md"),
    *("CONFIG/rules/global.md", ".eca/rules/local.md"),
    *("CONFIG/skills/s/SKILL.md", ".eca/skills/t/SKILL.md"),
)


def home_of_an_upstream_user(home: Path) -> dict[Path, tuple[bytes, int]]:
    """Write every file that such a user may have; return their contents and times."""
    bases = {"CONFIG": home / ".config" / "eca", "CACHE": home / ".cache" / "eca"}
    files: dict[str, Path] = {}
    for place in PLACES:
        first, _, rest = place.partition("/")
        files[place] = bases[first] / rest if first in bases else home / "project" / place
        files[place].parent.mkdir(parents=True, exist_ok=True)
        head = f"---\ndescription: Word of {place}.\n---\n" if place.endswith("SKILL.md") else ""
        files[place].write_text(f"{head}How to." if head else f"Word of {place}.")
    files["AGENTS.md"].write_text("Word of AGENTS.md. Style: @docs/mentioned.md")
    files["CONFIG/config.json"].write_text(f"// mine\n{json.dumps(CONFIG)}")
    files[".eca/config.json"].write_text(json.dumps(LOCAL))
    return contents_of(*files.values())


def contents_of(*files: Path) -> dict[Path, tuple[bytes, int]]:
    return {file: (file.read_bytes(), file.stat().st_mtime_ns) for file in files}


def params_of(messages: list[Any], method: str) -> list[Any]:
    return [each["params"] for each in messages if each.get("method") == method]


@pytest.mark.requirement("W-33e")
def test_all_of_it_counts_or_is_reported_and_none_of_it_is_written_to(start_server, tmp_path):
    with provider_in_thread(otherwise=reply("the end")) as provider:
        before = home_of_an_upstream_user(tmp_path)
        server = start_server(
            command=(sys.executable, "-P", "-m", "eca_server", "--log-level", "error", "server"),
            env={"MINE_URL": provider.url, "MINE_KEY": "sk-planted-0123456789"},
        )
        introduction = server.introduced(
            tmp_path / "project",
            initializationOptions={"chatAgent": "code", "workspaceTrusted": True},
            capabilities={"codeAssistant": {"chat": True}},
        )
        chat = params_of(introduction, "config/updated")[0]["chat"]
        assert (chat["selectModel"], chat["selectAgent"]) == ("mine/m", "code")
        assert {"a", "b"} <= set(chat["agents"])
        updates = params_of(introduction, "tool/serverUpdated")
        tools = [tool for update in updates for tool in update["tools"]]
        assert {tool["name"] for tool in tools if tool["disabled"]} >= {"grep", "shell_command"}
        commands = server.result("chat/queryCommands", {"query": ""})["commands"]
        assert {"global", "local", "s", "t"} <= {each["name"] for each in commands}
        server.turn("/local", model="mine/m")
        request = provider.requests[0]
        assert request.headers["authorization"] == "Bearer sk-planted-0123456789"
        system, prompt = (request.body["messages"][index]["content"] for index in (0, -1))
        assert "Word of .eca/commands/nested/local.md." in prompt.splitlines()
        hooked = json.loads((tmp_path / "hooked").read_text())
        assert (hooked["hook_name"], hooked["prompt"]) == ("h", prompt)
        for place in IN_THE_PROMPT:
            assert system.count(f"Word of {place}.") == 1, place
        assert "agents" not in str(params_of(server.received, "$/showMessage"))
        server.tell("mcp/enableServer", {"name": "s"})
        server.until(lambda each: each.get("params", {}).get("status") == "failed")
        assert server.leave() == 0
    assert contents_of(*before) == before
    settings = tmp_path / ".local" / "share" / "eca-python" / "settings.json"
    enabled = {"mcpServers": {"s": {"disabled": False}}}
    assert json.loads(settings.read_text())["workspaces"][str(tmp_path / "project")] == enabled

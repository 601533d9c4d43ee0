"""A person who moves over from the upstream server changes nothing but the command."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from eca_protocol.testing.provider import provider_in_thread, reply
from tests.eca_server.stranger import Stranger

PLACES: dict[str, str] = json.loads(
    (Path(__file__).parents[2] / "data" / "upstream_configuration.json").read_text()
)["places"]


def home_of_an_upstream_user(home: Path, model_url: str) -> dict[str, Path]:
    """Every file that such a user may have; where each place is."""
    bases = {"CONFIG": home / ".config" / "eca", "CACHE": home / ".cache" / "eca"}
    found: dict[str, Path] = {}
    for place in PLACES:
        first, _, rest = place.partition("/")
        found[place] = bases[first] / rest if first in bases else home / "project" / place
        found[place].parent.mkdir(parents=True, exist_ok=True)
        found[place].write_text(f"Word of {place}.")
        if place.endswith("SKILL.md"):
            found[place].write_text(f"---\ndescription: Word of {place}.\n---\nHow to.")
    found["AGENTS.md"].write_text("Word of AGENTS.md. Style: @docs/mentioned.md")
    config = {
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
        "hooks": {
            "h": {
                "type": "preRequest",
                "actions": [{"type": "shell", "shell": 'cat > "$HOME/hooked"'}],
            }
        },
    }
    found["CONFIG/config.json"].write_text(f"// mine\n{json.dumps(config)}")
    local = {
        "agent": {"code": {"disabledTools": ["eca__grep"]}},
        "toolCall": {"approval": {"deny": {"eca_shell_command": {}}}},
        "rules": [{"path": "docs/rule.md"}],
        "mcpServers": {"s": {"command": "not-a-program", "disabled": True}},
    }
    found[".eca/config.json"].write_text(json.dumps(local))
    return found


def shown(server: Stranger) -> str:
    return "\n".join(
        message["params"]["message"]
        for message in server.seen
        if message.get("method") == "$/showMessage"
    )


@pytest.mark.requirement("W-33e")
def test_all_of_it_counts_or_is_reported_and_none_of_it_is_written_to(start_server, tmp_path):
    with provider_in_thread(otherwise=reply("the end")) as provider:
        files = home_of_an_upstream_user(tmp_path, provider.url)
        before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in files.values()}
        command = (sys.executable, "-P", "-m", "eca_server", "--log-level", "error", "server")
        env = {"MINE_URL": provider.url, "MINE_KEY": "sk-planted-0123456789"}
        server = start_server(command=command, env=env)
        folder = {"name": "project", "uri": (tmp_path / "project").as_uri()}
        told = server.introduced(
            workspaceFolders=[folder],
            initializationOptions={"chatAgent": "code", "workspaceTrusted": True},
            capabilities={"codeAssistant": {"chat": True}},
        )
        chat = next(
            each["params"]["chat"] for each in told if each.get("method") == "config/updated"
        )
        assert (chat["selectModel"], chat["selectAgent"]) == ("mine/m", "code")
        assert {"a", "b"} <= set(chat["agents"])
        tools = {
            tool["name"]: tool["disabled"]
            for each in told
            if each.get("method") == "tool/serverUpdated"
            for tool in each["params"]["tools"]
        }
        assert {name for name, disabled in tools.items() if disabled} >= {"grep", "shell_command"}
        commands = server.result("chat/queryCommands", {"query": ""})["commands"]
        assert {"global", "local", "s", "t"} <= {each["name"] for each in commands}
        server.prompt("/local", model="mine/m")
        server.expect_finished()
        request = provider.requests[0]
        assert request.headers["authorization"] == "Bearer sk-planted-0123456789"
        system, asked = (request.body["messages"][index]["content"] for index in (0, -1))
        assert "Word of .eca/commands/nested/local.md." in asked.splitlines()
        hooked = json.loads((tmp_path / "hooked").read_text())
        assert (hooked["hook_name"], hooked["prompt"]) == ("h", asked)
        for place in ("AGENTS.md", "CONFIG/AGENTS.md", "docs/mentioned.md", "docs/rule.md"):
            assert system.count(f"Word of {place}.") == 1, place
        skills = ("CONFIG/skills/s/SKILL.md", ".eca/skills/t/SKILL.md")
        for place in ("CONFIG/rules/global.md", ".eca/rules/local.md", *skills):
            assert system.count(f"Word of {place}.") == 1, place
        assert "agents" not in shown(server)
        server.tell("mcp/enableServer", {"name": "s"})
        server.until(
            lambda each: (
                each.get("method") == "tool/serverUpdated" and each["params"]["status"] == "failed"
            )
        )
        assert server.leave() == 0
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in before} == before
    ours: dict[str, Any] = json.loads(
        (tmp_path / ".local" / "share" / "eca-python" / "settings.json").read_text()
    )
    assert ours["workspaces"][str(tmp_path / "project")] == {
        "mcpServers": {"s": {"disabled": False}}
    }

"""The question about a folder names what its settings do, also if others hide it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from eca_server.config.loading import LoadedConfig, load


def _loaded(tmp_path: Path, files: dict[str, Any], **options: Any) -> LoadedConfig:
    root, home = tmp_path / "root", tmp_path / "home"
    home.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        path = root / ".eca" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content))
    return load(
        initialization_options=options.pop("own", {}),
        roots=[root],
        environ={"HOME": str(home)},
        **options,
    )


def _lines(loaded: LoadedConfig) -> str:
    return "\n".join(line for item in loaded.withheld for line in item.lines)


def test_an_extra_config_among_the_agents_changes_nothing_of_the_users(tmp_path):
    files = {
        "config.json": {"extraConfigs": ["agents/x.json"]},
        "agents/x.json": {
            "keyring": True,
            "mcpServers": {"github": {"url": "http://evil.example"}},
            "customTools": {"mine": {"command": "true"}},
        },
    }
    own = {"mcpServers": {"github": {"url": "http://good.example"}}}

    config = _loaded(tmp_path, files, own=own, trusts_workspace=True).config

    assert config.keyring is False
    assert config.mcp_servers["github"].url == "http://good.example"
    assert "mine" in config.custom_tools


@pytest.mark.parametrize(
    "settings",
    [
        {"mcpServers": {"x": {"url": " ", "command": "evil-command"}}},
        {"mcpServers": {"x": {"command": "node", "env": {"NODE_OPTIONS": "evil-command"}}}},
        {"mcpServers": {"x": {"command": "sh", "args": [f"{'a' * 900}evil-command{'a' * 900}"]}}},
        {
            "hooks": {
                "x": {"type": "chatStart", "actions": [{"shell": " ", "file": "evil-command"}]}
            }
        },
        {"agent": {"x": {"inherit": "evil-command"}}},
        {"agent": {"x": {"systemPromptFile": "evil-command"}}},
        {"agent": {"agent": {"toolCall": {"approval": {"deny": {"evil-command": None}}}}}},
    ],
)
def test_the_list_shows_what_a_setting_does(tmp_path, settings):
    assert "evil-command" in _lines(_loaded(tmp_path, {"config.json": settings}))


@pytest.mark.parametrize(
    ("tool_call", "expected"),
    [
        ({"approval": None}, "unsets toolCall.approval, all rules for calls, in agent"),
        ({"approval": {"deny": None}}, "unsets toolCall.approval.deny, all rules"),
        ({"approval": {"ask": None}}, "unsets toolCall.approval.ask, all rules"),
        ({"approval": {"byDefault": None}}, "unsets toolCall.approval.byDefault, the verdict"),
    ],
)
def test_the_list_shows_the_rules_that_an_agent_unsets(tmp_path, tool_call, expected):
    agent = {"description": "Friendly", "toolCall": tool_call}

    assert expected in _lines(_loaded(tmp_path, {"config.json": {"agent": {"agent": agent}}}))


def test_the_list_shows_the_rules_that_an_agent_s_file_replaces(tmp_path):
    text = "---\ntools: {byDefault: ask, deny: ['eca__shell_command(zzz)']}\n---\nBe kind.\n"
    file = tmp_path / "root/.eca/agents/agent.md"
    file.parent.mkdir(parents=True)
    file.write_text(text)
    lines = _lines(_loaded(tmp_path, {}))

    rule = "sets deny.eca__shell_command, a rule for calls when its command matches zzz, in agent"
    assert rule in lines
    assert 'sets the verdict for calls that no rule covers to "ask" in agent' in lines


AGENT, ADDRESS = "which runs: evil-command", "at http://evil.example"


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"api": "acp"}, [AGENT]),
        ({"api": " acp "}, [AGENT]),
        ({"api": "acp", "url": "http://evil.example"}, [AGENT, ADDRESS]),
        ({"api": "openai-chat", "url": "http://evil.example"}, [ADDRESS]),
        ({"url": "http://evil.example"}, [ADDRESS]),
        ({"api": "${env:API:acp}", "url": "http://evil.example"}, [AGENT, ADDRESS]),
        ({"api": "${env:API:acp}"}, [AGENT, "at an unspecified address"]),
    ],
)
def test_the_list_shows_the_program_and_the_address_of_a_provider(tmp_path, settings, expected):
    provider = {"command": ["evil-command"], "keyEnv": "OPENAI_API_KEY", **settings}
    [item] = _loaded(tmp_path, {"config.json": {"providers": {"x": provider}}}).withheld

    assert len(item.lines) == len(expected)
    assert all(part in line for part, line in zip(expected, item.lines, strict=True))


@pytest.mark.parametrize("key", [" ", 5, "${env:NONE:}"])
def test_a_provider_whose_key_may_be_none_names_the_variable(tmp_path, key):
    settings = {"providers": {"stripe": {"api": "openai-chat", "url": "http://x", "key": key}}}

    assert "$STRIPE_API_KEY" in _lines(_loaded(tmp_path, {"config.json": settings}))


@pytest.mark.parametrize(
    "settings",
    [{"compactPromptFile": "~/secret"}, {"agent": {"x": {"systemPromptFile": "~/secret"}}}],
)
def test_a_prompt_from_outside_is_not_trusted_unseen(tmp_path, settings):
    loaded = _loaded(tmp_path, {"config.json": settings}, trusts_workspace=True)

    assert [item.uses for item in loaded.withheld] == [("~/secret",)]


def test_a_changed_file_behind_a_reference_waits_for_a_new_answer(tmp_path):
    files = {"config.json": {"mcpServers": {"x": {"command": "${file:command}"}}}, "command": 1}
    [before] = _loaded(tmp_path, files).withheld
    [after] = _loaded(tmp_path, {**files, "command": 2}).withheld

    assert after.digest != before.digest

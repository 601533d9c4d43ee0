"""The question about a folder names what its settings do, also if others hide it."""

from __future__ import annotations

import pytest


def lines(untrusted, settings: object) -> str:
    """Return what the user is shown about these settings of a folder."""
    untrusted.in_root(0, settings)
    return "\n".join(line for item in untrusted.load().withheld for line in item.lines)


def test_an_extra_config_among_the_agents_changes_nothing_of_the_users(untrusted):
    untrusted.options = {"mcpServers": {"github": {"url": "http://good.example"}}}
    path = untrusted.in_root(0, {"extraConfigs": ["agents/x.json"]})
    extra = {
        "keyring": True,
        "mcpServers": {"github": {"url": "http://evil.example"}},
        "customTools": {"mine": {"command": "true"}},
    }
    untrusted.write(path.parent / "agents" / "x.json", extra)
    config = untrusted.load(trusts_workspace=True).config
    assert config.keyring is False
    assert config.mcp_servers["github"].url == "http://good.example"
    assert "mine" in config.custom_tools


DENIED = {"toolCall": {"approval": {"deny": {"evil-command": None}}}}
LONG = f"{'a' * 900}evil-command{'a' * 900}"


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("mcpServers", {"x": {"url": " ", "command": "evil-command"}}),
        ("mcpServers", {"x": {"command": "node", "env": {"NODE_OPTIONS": "evil-command"}}}),
        ("mcpServers", {"x": {"command": "sh", "args": [LONG]}}),
        (
            "hooks",
            {"x": {"type": "chatStart", "actions": [{"shell": " ", "file": "evil-command"}]}},
        ),
        ("agent", {"x": {"inherit": "evil-command"}}),
        ("agent", {"x": {"systemPromptFile": "evil-command"}}),
        ("agent", {"agent": DENIED}),
    ],
)
def test_the_list_shows_what_a_setting_does(untrusted, kind, settings):
    assert "evil-command" in lines(untrusted, {kind: settings})


@pytest.mark.parametrize(
    ("approval", "expected"),
    [
        (None, "unsets toolCall.approval, all rules for calls, in agent"),
        ({"deny": None}, "unsets toolCall.approval.deny, all rules"),
        ({"ask": None}, "unsets toolCall.approval.ask, all rules"),
        ({"byDefault": None}, "unsets toolCall.approval.byDefault, the verdict"),
    ],
)
def test_the_list_shows_the_rules_that_an_agent_unsets(untrusted, approval, expected):
    agent = {"description": "Friendly", "toolCall": {"approval": approval}}
    assert expected in lines(untrusted, {"agent": {"agent": agent}})


def test_the_list_shows_the_rules_that_an_agent_s_file_replaces(untrusted):
    text = "---\ntools: {byDefault: ask, deny: ['eca__shell_command(zzz)']}\n---\nBe kind.\n"
    untrusted.write(untrusted.roots[0] / ".eca/agents/agent.md", text)
    shown = lines(untrusted, {})
    rule = "sets deny.eca__shell_command, a rule for calls when its command matches zzz, in agent"
    assert rule in shown
    assert 'sets the verdict for calls that no rule covers to "ask" in agent' in shown


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
def test_the_list_shows_the_program_and_the_address_of_a_provider(untrusted, settings, expected):
    provider = {"command": ["evil-command"], "keyEnv": "OPENAI_API_KEY", **settings}
    shown = lines(untrusted, {"providers": {"x": provider}}).splitlines()
    assert len(shown) == len(expected)
    assert all(part in line for part, line in zip(expected, shown, strict=True))


@pytest.mark.parametrize("key", [" ", 5, "${env:NONE:}"])
def test_a_provider_whose_key_may_be_none_names_the_variable(untrusted, key):
    provider = {"api": "openai-chat", "url": "http://x", "key": key}
    assert "$STRIPE_API_KEY" in lines(untrusted, {"providers": {"stripe": provider}})


def test_files_whose_text_is_put_in_are_named_in_the_question(untrusted):
    folder = untrusted.in_root(0, {"mcpServers": {"s": {"command": "${file:cmd}"}}}).parent
    untrusted.write(folder / "cmd", "rm -rf /")
    before = untrusted.waiting()
    assert before.uses == ()
    shown = 'starts the MCP server s: ${file:cmd} (inserts the text of cmd: "rm -rf /")'
    assert before.lines == (shown,)
    untrusted.write(folder / "cmd", "a\n\x1b" + "b" * 300)
    after = untrusted.waiting()
    assert after.digest != before.digest
    assert after.lines[0].endswith(
        f'(inserts the text of cmd: "a\\n\\u001b{"b" * 197}" and 103 more characters)'
    )


OUTSIDE = "/elsewhere/x.md"


@pytest.mark.parametrize(
    ("key", "content"),
    [
        ("rules", {"rules": [{"path": OUTSIDE}, {"path": "rules/inside.md"}]}),
        ("commands", {"commands": [{"path": OUTSIDE}]}),
        ("skills", {"skills": [{"path": OUTSIDE}]}),
        ("rules", {"rules": [{"path": "${file:path}"}]}),
        ("toolCall.sandbox.writable", {"toolCall": {"sandbox": {"writable": [OUTSIDE]}}}),
        ("compactPromptFile", {"compactPromptFile": OUTSIDE}),
        ("agent.x", {"agent": {"x": {"systemPromptFile": OUTSIDE}}}),
    ],
)
def test_paths_outside_the_folder_are_named_and_never_trusted_unseen(untrusted, key, content):
    folder = untrusted.in_root(0, content).parent
    untrusted.write(folder / "path", OUTSIDE)
    item = untrusted.waiting(trusts_workspace=True)
    assert (item.key, item.uses) == (key, (OUTSIDE,))

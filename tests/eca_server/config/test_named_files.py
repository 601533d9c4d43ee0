"""The files that a folder's configuration names, and the question that names what it does."""

import os
from pathlib import Path
from typing import Any

import pytest
import trio

from eca_server.agent.chat.instructions import UnreadablePrompt, compact_prompt, own_prompt
from eca_server.agent.context.instructions_files import InstructionFiles, InstructionSearch
from eca_server.agent.hooks.action import ActionResult, run_action
from eca_server.config import files, workspace_files
from eca_server.config.loading import LoadedConfig
from eca_server.config.settings import Config
from eca_server.config.trust_texts import guards_off
from eca_server.system.threads import run_on_disk
from eca_server.workspace.boundary import Workspace
from tests.eca_server.agent.context.conftest import root_of
from tests.eca_server.agent.hooks.test_hooks import HERE


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def hook(file: str, event: str = "sessionStart") -> dict[str, Any]:
    return {"hooks": {"h": {"type": event, "actions": [{"file": file}]}}}


def run_hook(loaded: LoadedConfig, directory: Path = Path("/")) -> ActionResult:
    (action,) = loaded.config.hooks["h"].actions

    async def run() -> ActionResult:
        environment = {**HERE, "XDG_DATA_HOME": os.environ["XDG_DATA_HOME"]}
        return await run_action(
            action, b"{}", directory=directory, environment=environment, timeout=10
        )

    return trio.run(run)


@pytest.fixture
def script(untrusted) -> Path:
    """Return the script of a hook of the folder that the user has not yet accepted."""
    folder = untrusted.in_root(0, hook(".eca/guard.sh", "preToolCall")).parent
    return untrusted.write(folder / "guard.sh", "echo accepted")


def test_a_hook_without_an_event_waits_and_guards_nothing(untrusted):
    untrusted.in_root(0, {"hooks": {"odd": {"type": {}, "actions": []}}})
    item = untrusted.waiting()
    assert item.key == "hooks.odd"
    assert guards_off([item]) == ""


def test_a_hooks_file_outside_the_folder_is_named_and_not_read(untrusted):
    path = untrusted.write(untrusted.folder / "mine.sh", "true")
    untrusted.in_root(0, hook(str(path)))
    assert untrusted.waiting(trusts_workspace=True).uses == (str(path),)
    assert path not in untrusted.load(trusts_workspace=True).files


def change(path: Path) -> None:
    path.write_text("echo changed")


def link(path: Path) -> None:
    path.rename(path.parent.parent.parent / "outside.sh")
    path.symlink_to(path.parent.parent.parent / "outside.sh")


def link_the_directory(path: Path) -> None:
    aside = path.parent.parent.parent / "aside"
    path.parent.rename(aside)
    path.parent.symlink_to(aside)


def enlarge(path: Path) -> None:
    path.write_bytes(b"#" * files.MAX_BYTES + b"\necho changed")


@pytest.mark.parametrize(
    ("name", "swap"),
    [
        *(
            (".eca/guard.sh", swap)
            for swap in (change, link, link_the_directory, enlarge, Path.unlink)
        ),
        *(
            (name, change)
            for name in (".eca/${env:NAME}.sh", ".eca/${env:ABSENT:guard}.sh", "${file:name}")
        ),
    ],
)
def test_a_changed_hooks_file_runs_as_it_was_accepted(untrusted, script, name, swap):
    untrusted.environ["NAME"] = "guard"
    untrusted.in_root(0, hook(name, "preToolCall"))
    untrusted.write(script.with_name("name"), ".eca/guard.sh\n")
    accepted = untrusted.accept()
    swap(script)
    assert not accepted.is_current() or swap is link_the_directory
    assert run_hook(accepted).stdout == "accepted\n"
    changed = untrusted.load(accepted)
    if swap is link_the_directory:  # the setting itself leads out of the folder now
        assert changed.config.hooks == {}
        return
    item = untrusted.waiting(accepted)
    assert (item.key, item.is_changed, guards_off([item])) == ("hooks.h", True, "")
    assert changed.config.hooks == accepted.config.hooks
    assert run_hook(changed).stdout == "accepted\n"
    assert run_hook(untrusted.load(changed)).stdout == "accepted\n"
    after_restart = untrusted.load()
    assert after_restart.config.hooks == {}
    assert "the hook h, which can block calls" in guards_off(after_restart.withheld)
    untrusted.accept(changed)
    ran = run_hook(untrusted.load(changed))
    assert ran.stdout == {change: "changed\n", link: "accepted\n"}.get(swap, "")


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("echo by the shell", "by the shell\n"),
        ("#!/bin/cat\n", "#!/bin/cat\n"),
        ("#!/bin/sh\necho $0", "guard.sh\n"),
    ],
)
@pytest.mark.parametrize("mode", [0o600, 0o700])
def test_the_first_line_of_a_file_says_what_runs_it(untrusted, script, content, expected, mode):
    script.write_text(content)
    script.chmod(mode)
    assert run_hook(untrusted.accept(), script.parent).stdout.endswith(expected)


def test_a_copy_of_a_hooks_file_is_private_and_unchanged(untrusted, script, tmp_path):
    script.write_text("echo $0")
    accepted = untrusted.accept()
    copy = Path(run_hook(accepted).stdout.strip())
    assert copy.is_relative_to(tmp_path / "data" / "eca-python" / "hooks")
    assert copy.parent.stat().st_mode & 0o077 == copy.stat().st_mode & 0o077 == 0
    copy.write_text("echo changed")
    assert run_hook(accepted).stdout == f"{copy}\n"


def test_a_hooks_file_that_is_too_large_or_named_by_an_unseen_file_never_runs(untrusted, script):
    script.write_text("echo large\n" + "#" * files.MAX_BYTES)
    assert run_hook(untrusted.accept()).stdout == ""
    script.write_text("echo small")
    untrusted.in_root(0, hook("${file:~/name}"))
    named = untrusted.write(untrusted.home / "name", str(script))
    assert untrusted.waiting().uses == ("~/name",)
    assert named not in untrusted.load().files
    ran = run_hook(untrusted.accept())
    assert (ran.status, ran.stdout) == (1, "")


def test_a_hooks_file_behind_a_link_that_leads_elsewhere_waits_again(untrusted, script):
    two = untrusted.write(untrusted.folder / "two.sh", "echo two")
    link(script)
    assert untrusted.waiting().uses == (f".eca/guard.sh (a link to {script.readlink()})",)
    accepted = untrusted.accept()
    assert run_hook(accepted).stdout == "accepted\n"
    script.unlink()
    script.symlink_to(two)
    assert run_hook(accepted).stdout == ""
    assert untrusted.waiting(accepted).uses == (f".eca/guard.sh (a link to {two})",)


@pytest.mark.parametrize("key", ["systemPromptFile", "compactPromptFile"])
@pytest.mark.parametrize("is_directory", [True, False])
def test_a_prompts_file_that_is_a_link_now_is_not_read(untrusted, key, is_directory):
    setting = {key: "prompts/p.md"}
    is_compact = key == "compactPromptFile"
    folder = untrusted.in_root(0, setting if is_compact else {"agent": {"plan": setting}}).parent
    path = untrusted.write(folder / "prompts" / "p.md", "Be brief.")
    accepted = untrusted.accept()
    secret = untrusted.write(untrusted.folder / "keys" / "p.md", "a key of the user's")

    def prompt(loaded: LoadedConfig) -> str | None:
        if is_compact:
            return trio.run(compact_prompt, loaded.config)
        return trio.run(own_prompt, loaded.config, "plan")

    assert prompt(accepted) == "Be brief."
    path.write_text("Be very brief.")  # the text of the folder's own prompt may change
    assert prompt(accepted) == "Be very brief."
    path.unlink()
    if is_directory:
        path.parent.rmdir()
        path.parent.symlink_to(secret.parent)
    else:
        path.symlink_to(secret)
    with pytest.raises(UnreadablePrompt, match=r"expected a|does not exist"):
        prompt(accepted)
    changed = untrusted.load(accepted)  # the setting in force names the same file
    assert "a key" not in (prompt(changed) or "")
    assert untrusted.waiting(accepted).uses == (f"prompts/p.md (a link to {secret})",)


def instructions(loaded: LoadedConfig, root: Path) -> InstructionFiles:
    async def read() -> InstructionFiles:
        search = InstructionSearch(
            workspace=Workspace([root_of(root)]),
            user_directory=root / "none",
            rules=[rule.path for rule in loaded.config.rules if rule.path is not None],
            trusted_roots=loaded.trusted_roots,
        )
        return await run_on_disk(search.run)

    return trio.run(read)


@pytest.mark.parametrize("name", ["docs/rule.md", "link.md"])
def test_a_rules_file_that_is_a_link_now_is_read_if_the_link_stays_inside(house, name):
    root = house.roots[0]
    house.write(root / "docs" / "rule.md", "Be kind.")
    (root / "link.md").symlink_to(house.write(house.home / "shared.md", "Be brief."))
    house.in_root(0, {"rules": [{"path": name}]})
    loaded = house.load()
    before = instructions(loaded, root)
    assert [each.attributes["source"] for each in before.sections] == ["workspace"]
    (root / name).unlink()
    (root / name).symlink_to(house.write(house.home / "key", "PRIVATE KEY"))
    after = instructions(loaded, root)
    assert after.text == ""
    assert "to a file that was not accepted" in str(after.notes)
    if name == "docs/rule.md":
        (root / name).unlink()
        (root / name).symlink_to(house.write(root / "new.md", "Be new."))
        assert "Be new." in instructions(loaded, root).text


def test_the_text_of_a_file_is_the_one_that_the_digest_covers(untrusted, monkeypatch):
    folder = untrusted.in_root(0, {"prompts": {"chat": "${file:p.md}"}}).parent
    path = untrusted.write(folder / "p.md", "accepted")
    untrusted.accept()
    read = files.read_real

    def read_and_change(real: Path, **options: Any) -> bytes:
        content = read(real, **options)
        if real == path:
            path.write_text("changed")
        return content

    monkeypatch.setattr(workspace_files, "read_real", read_and_change)
    loaded = untrusted.load()
    assert loaded.config.prompts.chat == "accepted"
    assert not loaded.is_current()


def test_agents_that_lead_out_of_the_folder_are_not_read_before_trust(untrusted):
    outside = untrusted.write(untrusted.folder / "agents" / "a.md", "a key of the user's")
    agents = untrusted.in_root(0, {}).parent / "agents"
    agents.mkdir()
    (agents / "linked.md").symlink_to(outside)
    untrusted.in_root(1, {}).with_name("agents").symlink_to(outside.parent)
    waiting = untrusted.load(trusts_workspace=True)
    assert [item.key for item in waiting.withheld] == ["link:agents/linked.md", "link:agents"]
    assert all(f"a link to {outside.parent}" in item.uses[0] for item in waiting.withheld)
    assert not any("a key" in str(value) for value in waiting.values.values())
    untrusted.accept(waiting)
    behaviors = untrusted.accept().config.behaviors
    for name in ("linked", "a"):
        assert behaviors[name].system_prompt == "a key of the user's"
    assert len(behaviors) == len(Config().behaviors) + 2


def test_a_link_to_nothing_is_no_question_until_there_is_something(untrusted):
    path = untrusted.in_root(0, {})
    path.unlink()
    path.symlink_to(untrusted.folder / "later.json")
    path.with_name("agents").symlink_to(untrusted.folder / "later")
    loaded = untrusted.load()
    assert (loaded.withheld, loaded.problems) == ((), ())
    untrusted.write(untrusted.folder / "later" / "a.md", "text")
    assert not loaded.is_current()
    assert untrusted.waiting(loaded).key == "link:agents"


def lines(untrusted, settings: object) -> str:
    """Return what the user is shown about these settings of a folder."""
    untrusted.in_root(0, settings)
    return "\n".join(line for item in untrusted.load().withheld for line in item.lines)


def test_an_extra_config_among_the_agents_changes_nothing_of_the_users(untrusted):
    untrusted.options = {"mcpServers": {"github": {"url": "http://good.example"}}}
    path = untrusted.in_root(0, {"extraConfigs": [".eca/agents/x.json"]})
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
        ("mcpServers", {"x": {"url": "https://sk-evil-command.example/mcp"}}),
        ("mcpServers", {"x": {"command": "c", "env": {"NODE_OPTIONS": "-r ./sk-evil-command.js"}}}),
        ("providers", {"x": {"auth": {"url": "https://evil-command.example"}}}),
        ("providers", {"x": {"auth": {"tokenUrl": "https://evil-command.example"}}}),
        ("agent", {"x": {"inherit": "evil-command"}}),
        ("agent", {"x": {"systemPromptFile": "evil-command"}}),
        ("agent", {"agent": DENIED}),
    ],
)
def test_the_list_shows_what_a_setting_does(untrusted, kind, settings):
    assert "evil-command" in lines(untrusted, {kind: settings})


@pytest.mark.parametrize(
    "env",
    [
        {"X": "sk-planted123"},
        {"X": "Bearer planted123"},
        {"API_KEY": "planted123"},
        {"X": "https://me:planted123@host.example/"},
        {"X": "https://host.example:planted123@host.example/"},
    ],
)
def test_the_list_hides_the_keys_of_variables(untrusted, env):
    shown = lines(untrusted, {"mcpServers": {"x": {"command": "c", "env": env}}})
    assert "***" in shown
    assert "planted" not in shown


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

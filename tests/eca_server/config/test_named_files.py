"""The files that a workspace folder's configuration names: only accepted content applies."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import trio

from eca_server.agent.chat.instructions import UnreadablePrompt, compact_prompt, own_prompt
from eca_server.agent.context.instructions_files import InstructionFiles, read_instruction_files
from eca_server.agent.hooks.action import run_action
from eca_server.config import files, workspace_files, workspace_layer
from eca_server.config.settings import Config
from eca_server.workspace.boundary import Workspace
from tests.eca_server.agent.context.conftest import root_of
from tests.eca_server.agent.hooks.test_hooks import HERE

if TYPE_CHECKING:
    from conftest import House

    from eca_server.agent.hooks.action import ActionResult
    from eca_server.config.loading import LoadedConfig
    from eca_server.config.trust_items import TrustItem


@pytest.fixture
def untrusted(house: House) -> House:
    house.accepts = False
    return house


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def hook(file: str) -> dict[str, Any]:
    return {"hooks": {"h": {"type": "sessionStart", "actions": [{"file": file}]}}}


def run_hook(loaded: LoadedConfig, folder: Path) -> ActionResult:
    (action,) = loaded.config.hooks["h"].actions

    async def run() -> ActionResult:
        environment = {**HERE, "XDG_DATA_HOME": os.environ["XDG_DATA_HOME"]}
        return await run_action(
            action, b"{}", directory=folder, environment=environment, timeout=10
        )

    return trio.run(run)


def only(loaded: LoadedConfig) -> TrustItem:
    (item,) = loaded.withheld
    return item


@pytest.mark.parametrize("name", ["${env:NAME}.sh", "${env:ABSENT:guard}.sh", "${file:name}"])
def test_a_hooks_file_behind_a_reference_is_a_part_of_what_is_accepted(untrusted, name):
    untrusted.environ["NAME"] = "guard"
    folder = untrusted.in_root(0, hook(name)).parent
    untrusted.write(folder / "name", "guard.sh\n")
    script = untrusted.write(folder / "guard.sh", "echo accepted")
    untrusted.accept(untrusted.load())
    accepted = untrusted.load()
    assert run_hook(accepted, folder).stdout == "accepted\n"
    script.write_text("echo changed")
    assert not accepted.is_current()
    changed = untrusted.load(accepted)
    assert only(changed).key == "hooks.h"
    assert run_hook(accepted, folder).stdout == "accepted\n"
    assert run_hook(changed, folder).stdout == "accepted\n"
    untrusted.accept(changed)
    assert run_hook(untrusted.load(changed), folder).stdout == "changed\n"


def test_a_hooks_file_that_only_a_file_of_the_users_names_never_runs_inside_the_folder(untrusted):
    folder = untrusted.in_root(0, hook("${file:~/name}")).parent
    named = untrusted.write(untrusted.home / "name", str(folder / "guard.sh"))
    untrusted.write(folder / "guard.sh", "echo unseen")
    waiting = untrusted.load()
    assert only(waiting).uses == ("~/name",)
    assert named not in waiting.files
    untrusted.accept(waiting)
    ran = run_hook(untrusted.load(), folder)
    assert (ran.status, ran.stdout) == (1, "")
    assert "was never accepted. The hook was not run." in ran.stderr


def change(path: Path) -> None:
    path.write_text("echo changed")


def link(path: Path) -> None:
    target = path.parent.parent.parent / "outside.sh"
    target.write_text(path.read_text())
    path.unlink()
    path.symlink_to(target)


def link_the_directory(path: Path) -> None:
    aside = path.parent.parent.parent / "aside"
    path.parent.rename(aside)
    path.parent.symlink_to(aside)


def enlarge(path: Path) -> None:
    path.write_bytes(b"#" * files.MAX_BYTES + b"\necho changed")


@pytest.mark.parametrize("swap", [change, link, link_the_directory, enlarge, Path.unlink])
def test_a_hooks_file_that_changed_after_it_was_loaded_runs_as_it_was_accepted(untrusted, swap):
    folder = untrusted.in_root(0, hook("guard.sh")).parent
    script = untrusted.write(folder / "guard.sh", "echo accepted")
    untrusted.accept(untrusted.load())
    accepted = untrusted.load()
    assert run_hook(accepted, folder).stdout == "accepted\n"
    swap(script)
    assert run_hook(accepted, untrusted.folder).stdout == "accepted\n"
    changed = untrusted.load(accepted)
    if swap is link_the_directory:  # the setting itself leads out of the folder now
        assert changed.config.hooks == {}
        return
    assert only(changed).is_changed
    assert run_hook(changed, untrusted.folder).stdout == "accepted\n"
    assert run_hook(untrusted.load(changed), untrusted.folder).stdout == "accepted\n"


def test_a_hook_of_another_file_stays_in_force_when_its_script_changes(untrusted):
    folder = untrusted.in_root(0, {"extraConfigs": ["more.json"]}).parent
    more = untrusted.write(folder / "more.json", hook("guard.sh"))
    script = untrusted.write(folder / "guard.sh", "echo accepted")
    untrusted.accept(untrusted.load())
    accepted = untrusted.load()
    script.write_text("echo changed")
    changed = untrusted.load(accepted)
    assert only(changed).is_changed
    assert run_hook(changed, folder).stdout == "accepted\n"
    again = untrusted.load(changed)
    assert run_hook(again, folder).stdout == "accepted\n"
    untrusted.accept(again)
    assert run_hook(untrusted.load(again), folder).stdout == "changed\n"
    untrusted.write(more, hook("./guard.sh"))
    assert untrusted.load(again).config.hooks == {}


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ("echo by the shell", "by the shell\n"),
        ("#!/bin/cat\n", "#!/bin/cat\n"),
        ("#!/bin/sh\necho $0", "guard.sh\n"),
    ],
)
@pytest.mark.parametrize("mode", [0o600, 0o700])
def test_the_first_line_of_a_folders_file_says_what_runs_it(untrusted, content, expected, mode):
    folder = untrusted.in_root(0, hook("guard.sh")).parent
    untrusted.write(folder / "guard.sh", content).chmod(mode)
    untrusted.accept(untrusted.load())
    assert run_hook(untrusted.load(), folder).stdout.endswith(expected)


def test_a_copy_of_a_hooks_file_is_private_and_written_anew_if_it_changed(untrusted, tmp_path):
    folder = untrusted.in_root(0, hook("guard.sh")).parent
    untrusted.write(folder / "guard.sh", "echo $0")
    untrusted.accept(untrusted.load())
    accepted = untrusted.load()
    copy = Path(run_hook(accepted, folder).stdout.strip())
    assert copy.is_relative_to(tmp_path / "data" / "eca-python" / "hooks")
    assert copy.parent.stat().st_mode & 0o077 == copy.stat().st_mode & 0o077 == 0
    copy.write_text("echo changed")
    assert run_hook(accepted, folder).stdout == f"{copy}\n"


def test_a_hooks_file_too_large_to_be_looked_at_never_runs(untrusted):
    folder = untrusted.in_root(0, hook("guard.sh")).parent
    untrusted.write(folder / "guard.sh", "echo large\n" + "#" * files.MAX_BYTES)
    untrusted.accept(untrusted.load())
    assert run_hook(untrusted.load(), folder).stdout == ""


def test_a_hooks_file_behind_a_link_that_leads_elsewhere_waits_again(untrusted):
    folder = untrusted.in_root(0, hook("guard.sh")).parent
    one = untrusted.write(untrusted.folder / "one.sh", "echo one")
    two = untrusted.write(untrusted.folder / "two.sh", "echo two")
    (folder / "guard.sh").symlink_to(one)
    waiting = untrusted.load()
    assert only(waiting).uses == (f"guard.sh (a link to {one})",)
    untrusted.accept(waiting)
    accepted = untrusted.load()
    assert run_hook(accepted, folder).stdout == "one\n"
    (folder / "guard.sh").unlink()
    (folder / "guard.sh").symlink_to(two)
    assert run_hook(accepted, folder).stdout == ""
    assert only(untrusted.load(accepted)).uses == (f"guard.sh (a link to {two})",)


PROMPTS = {
    "systemPromptFile": {"agent": {"plan": {"systemPromptFile": "prompts/p.md"}}},
    "compactPromptFile": {"compactPromptFile": "prompts/p.md"},
}


@pytest.mark.parametrize("key", PROMPTS)
@pytest.mark.parametrize("is_directory", [True, False])
def test_a_prompts_file_that_is_a_link_now_is_not_read(untrusted, key, is_directory):
    folder = untrusted.in_root(0, PROMPTS[key]).parent
    path = untrusted.write(folder / "prompts" / "p.md", "Be brief.")
    untrusted.accept(untrusted.load())
    accepted = untrusted.load()
    secret = untrusted.write(untrusted.folder / "keys" / "p.md", "a key of the user's")

    def prompt(loaded: LoadedConfig) -> str:
        if key == "compactPromptFile":
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
    assert only(changed).uses == (f"prompts/p.md (a link to {secret})",)


def instructions(loaded: LoadedConfig, house: House) -> InstructionFiles:
    async def read() -> InstructionFiles:
        return await read_instruction_files(
            Workspace([root_of(house.roots[0])]),
            user_directory=house.user.parent,
            rules=[rule.path for rule in loaded.config.rules if rule.path is not None],
            trusted_roots=loaded.trusted_roots,
        )

    return trio.run(read)


@pytest.mark.parametrize("name", ["docs/rule.md", "link.md"])
def test_a_rules_file_that_is_a_link_now_is_not_read(house, name):
    root = house.roots[0]
    house.write(root / "docs" / "rule.md", "Be kind.")
    (root / "link.md").symlink_to(house.write(house.home / "shared.md", "Be brief."))
    house.in_root(0, {"rules": [{"path": name}]})
    loaded = house.load()
    before = instructions(loaded, house)
    assert [each.attributes["source"] for each in before.sections] == ["workspace"]
    (root / name).unlink()
    (root / name).symlink_to(house.write(house.home / "key", "PRIVATE KEY"))
    after = instructions(loaded, house)
    assert after.text == ""
    assert "to a file that was not accepted" in str(after.notes)


def test_a_rules_file_that_leaves_the_folder_while_it_is_checked_does_not_count(
    untrusted, monkeypatch
):
    monkeypatch.setattr(workspace_layer, "is_inside", lambda *_: True)
    path = untrusted.write(untrusted.home / "key", "PRIVATE KEY")
    untrusted.in_root(0, {"rules": [{"path": "rule.md"}]})
    (untrusted.roots[0] / "rule.md").symlink_to(path)
    assert untrusted.load().config.rules == ()


def test_a_rules_file_that_another_file_of_the_folder_replaces_is_read(house):
    path = house.write(house.roots[0] / "rule.md", "Be kind.")
    house.in_root(0, {"rules": [{"path": "rule.md"}]})
    loaded = house.load()
    path.unlink()
    path.symlink_to(house.write(house.roots[0] / "new.md", "Be brief."))
    assert "Be brief." in instructions(loaded, house).text


def test_the_text_of_a_file_is_the_one_that_the_digest_covers(untrusted, monkeypatch):
    folder = untrusted.in_root(0, {"prompts": {"chat": "${file:p.md}"}}).parent
    path = untrusted.write(folder / "p.md", "accepted")
    untrusted.accept(untrusted.load())
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


def test_files_whose_text_is_put_in_are_named_in_the_question(untrusted):
    folder = untrusted.in_root(0, {"mcpServers": {"s": {"command": "${file:cmd}"}}}).parent
    untrusted.write(folder / "cmd", "rm -rf /")
    item = only(untrusted.load())
    assert item.uses == ()
    shown = 'starts the MCP server s: ${file:cmd} (inserts the text of cmd: "rm -rf /")'
    assert item.lines == (shown,)
    untrusted.write(folder / "cmd", "a\n\x1b" + "b" * 300)
    (line,) = only(untrusted.load()).lines
    assert line.endswith(
        f'(inserts the text of cmd: "a\\n\\u001b{"b" * 197}" and 103 more characters)'
    )


OUTSIDE: list[tuple[str, dict[str, Any]]] = [
    ("rules", {"rules": [{"path": "/elsewhere/x.md"}, {"path": "rules/inside.md"}]}),
    ("commands", {"commands": [{"path": "/elsewhere/x.md"}]}),
    ("skills", {"skills": [{"path": "/elsewhere/x.md"}]}),
    ("rules", {"rules": [{"path": "${file:path}"}]}),
    ("toolCall.sandbox.writable", {"toolCall": {"sandbox": {"writable": ["/elsewhere/x.md"]}}}),
]


@pytest.mark.parametrize(("key", "content"), OUTSIDE)
def test_paths_outside_the_folder_are_named(untrusted, key, content):
    folder = untrusted.in_root(0, content).parent
    untrusted.write(folder / "path", "/elsewhere/x.md")
    item = only(untrusted.load(trusts_workspace=True))
    assert item.key == key
    assert item.uses == ("/elsewhere/x.md",)


def test_agents_that_lead_out_of_the_folder_are_not_read_before_trust(untrusted):
    outside = untrusted.write(untrusted.folder / "agents" / "a.md", "a key of the user's")
    folder = untrusted.in_root(0, {}).parent
    (folder / "agents").mkdir()
    (folder / "agents" / "linked.md").symlink_to(outside)
    untrusted.roots[1].joinpath(".eca").mkdir(parents=True)
    untrusted.roots[1].joinpath(".eca", "agents").symlink_to(outside.parent)
    waiting = untrusted.load(trusts_workspace=True)
    assert [item.key for item in waiting.withheld] == ["link:agents/linked.md", "link:agents"]
    assert all(f"a link to {outside.parent}" in item.uses[0] for item in waiting.withheld)
    assert not any("a key" in str(value) for value in waiting.values.values())
    untrusted.accept(waiting)
    untrusted.accept(untrusted.load())
    behaviors = untrusted.load().config.behaviors
    own = behaviors.keys() - Config().behaviors.keys()
    assert {name: behaviors[name].system_prompt for name in own} == {
        "linked": "a key of the user's",
        "a": "a key of the user's",
    }


def test_steps_of_an_agent_are_only_ever_fewer(untrusted):
    untrusted.in_user(
        {"agent": {"base": {"maxSteps": 5}, "mid": {"inherit": "base"}, "top": {"inherit": "mid"}}}
    )
    for steps, counts in ((5, 5), (3, 3), (6, 5), (0, 5)):
        untrusted.in_root(0, {"agent": {"top": {"maxSteps": steps}}})
        loaded = untrusted.load()
        assert loaded.config.behaviors["top"].max_steps == counts
        assert bool(loaded.withheld) == (steps not in (3, 5))


def test_a_link_to_nothing_is_no_question_until_there_is_something(untrusted):
    folder = untrusted.in_root(0, {}).parent
    (folder / "config.json").unlink()
    (folder / "config.json").symlink_to(untrusted.folder / "later.json")
    (folder / "agents").symlink_to(untrusted.folder / "later")
    loaded = untrusted.load()
    assert (loaded.withheld, loaded.problems) == ((), ())
    untrusted.write(untrusted.folder / "later" / "a.md", "text")
    assert not loaded.is_current()
    assert only(untrusted.load(loaded)).key == "link:agents"

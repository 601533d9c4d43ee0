import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from eca_server.agent.tools.approval import Decision, Memo, Policy
from eca_server.agent.tools.custom import custom_commands
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.shell_command import ShellCommand
from eca_server.config.tool_settings import Approval, ApprovalRule, CustomTool
from eca_server.system.child_process import harden_environment
from tests.eca_server.agent.tools.file_tools import permissions_in, workspace_of

GIT = shutil.which("git")
STATUS = ApprovalRule(args_matchers={"command": ("git status.*",)})
GIT_STATUS = Approval(allow={"shell_command": STATUS})
EVERYTHING = Approval(by_default="allow")
ENVIRONMENT = {"PATH": os.environ["PATH"]}
pytestmark = pytest.mark.skipif(GIT is None, reason="there is no git")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Create a work tree with a committed bare repository that runs a program."""
    root = tmp_path / "ws"
    bare = root / "docs" / "store"
    for command in (["init", "-q", str(root)], ["init", "-q", "--bare", str(bare)]):
        subprocess.run([GIT, *command], check=True, cwd=tmp_path, env=git_environment(tmp_path))
    with (bare / "config").open("a") as config:
        mark = tmp_path / "mark"
        config.write(f'[core]\nbare = false\nworktree = .\nfsmonitor = "touch {mark}; false"\n')
    shutil.copytree(bare, root / "docs" / "store-2.git")
    (root / "docs" / "pointer").write_text("gitdir: store\n")
    return root


def git_environment(home: Path) -> dict[str, str]:
    return {**ENVIRONMENT, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}


async def decided(
    root: Path, policy: Policy, arguments: Mapping[str, Any], *, trusted: bool = False, **memos: Any
) -> Decision:
    workspace = workspace_of(root)
    tool = ShellCommand(workspace=workspace, environment=ENVIRONMENT)
    about: Any = {"variables": ENVIRONMENT, "trusts": lambda: trusted, **memos}
    permissions = permissions_in(workspace, policy, **about)
    return await permissions.decide(tool, await tool.prepare(arguments), arguments)


PLAN = Policy(common=EVERYTHING, reads_only=True)


@pytest.mark.parametrize(
    "arguments",
    [
        {"command": "git status", "working_directory": "docs/store"},
        {"command": "git status -s", "working_directory": "docs/store/refs"},
        {"command": "git status; cd docs/store && git status"},
        {"command": "git status; git -C docs/store status"},
        {"command": "git status; git --git-dir=docs/store status"},
        {"command": "git status; GIT_DIR=docs/store git status"},
        {"command": "git status; cd docs/stor[e] && git status"},
        {"command": "git status; git -C docs/s?ore status"},
        {"command": "git push docs/store-2 HEAD"},
        {"command": "git push docs/pointer HEAD"},
    ],
)
async def test_no_rule_lets_git_run_in_a_bare_repository_of_the_workspace(root, arguments):
    for approval in (GIT_STATUS, EVERYTHING):
        policy = Policy(common=approval)
        decision = await decided(root, policy, arguments)
        assert (decision.verdict, decision.memos) == ("ask", ())
        assert "docs/store" in decision.rule
        assert (await decided(root, policy, arguments, trusted=True)).verdict == "ask"
    assert (await decided(root, PLAN, arguments)).verdict == "deny"


async def test_git_needs_approval_in_more_folders_than_are_checked(root):
    names = [f"d{number}" for number in range(120)]
    for name in names:
        (root / name).mkdir()
    arguments = {"command": f"git status {' '.join(names)}"}
    decision = await decided(root, Policy(common=EVERYTHING), arguments)
    assert decision.verdict == "ask"
    assert "more than 100 folders" in decision.rule


async def test_git_runs_by_its_rule_unless_the_configuration_names_a_program(root):
    rule = Policy(common=GIT_STATUS)
    arguments = {"command": "git status"}
    for where in ({}, {"working_directory": "docs"}):
        for policy in (rule, PLAN):
            assert (await decided(root, policy, {**arguments, **where})).verdict == "allow"
    with (root / ".git" / "config").open("a") as config:
        config.write("[diff]\n\texternal = ./x\n")
    for policy, verdict in ((rule, "ask"), (PLAN, "deny")):
        decision = await decided(root, policy, arguments)
        assert decision.verdict == verdict
        assert "diff.external" in decision.rule
    ls = {"command": "ls"}
    assert (await decided(root, Policy(common=EVERYTHING), ls)).verdict == "allow"


async def test_the_program_of_a_bare_repository_does_not_run_after_an_approval(root):
    workspace = workspace_of(root)
    environment = git_environment(root.parent)
    for variables, runs in ((harden_environment(environment), False), (environment, True)):
        tool = ShellCommand(workspace=workspace, environment=variables)
        call = await tool.prepare({"command": "git status", "working_directory": "docs/store"})
        await call.run()
        assert (root.parent / "mark").exists() is runs


@pytest.mark.parametrize("path", ["AGENTS.md", "sub/.vscode/tasks.json", ".github/workflows/x.yml"])
async def test_neither_a_rule_nor_a_memo_nor_trust_covers_a_guarded_path(root, path):
    arguments = {"command": f"echo x > {path}"}
    memos = {
        Memo(server="eca", tool="shell_command", command="echo", folder=str(root.resolve())),
        Memo(server="eca", tool="shell_command", command=arguments["command"]),
        Memo(server="eca", tool="shell_command"),
    }
    for trusted in (False, True):
        policy = Policy(common=EVERYTHING)
        decision = await decided(root, policy, arguments, memos=memos, trusted=trusted)
        assert (decision.verdict, decision.memos) == ("ask", ())
        assert path in decision.rule


async def test_a_change_inside_of_a_bare_repository_asks(root):
    for command, verdict in (
        ("echo x > docs/store/hooks/pre-commit", "ask"),
        ("cat docs/store/description", "allow"),
        ("echo x > docs/x", "allow"),
    ):
        decision = await decided(root, Policy(common=EVERYTHING), {"command": command})
        assert decision.verdict == verdict, command


async def test_a_custom_tool_is_judged_by_its_command_as_well(root):
    workspace = workspace_of(root)
    parameters = {"properties": {"where": {"type": "string"}}}
    state = CustomTool(command="git -C {{where}} status", parameters=parameters)
    (tool,), _ = custom_commands(
        {"state": state}, workspace=workspace, environment=ENVIRONMENT, taken=(), cap=Cap()
    )
    policy = Policy(common=EVERYTHING)
    permissions = permissions_in(workspace, policy, variables=ENVIRONMENT)
    for where, verdict in (("docs", "allow"), ("docs/store", "ask"), ("{.,.}./x", "allow")):
        arguments = {"where": where}
        call = await tool.prepare(arguments)
        assert (await permissions.decide(tool, call, arguments)).verdict == verdict

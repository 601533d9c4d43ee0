from __future__ import annotations

import time
from typing import Any

import pytest

from eca_server.agent.tools.approval import Call, Decision, Policy, policy_of, spellings
from eca_server.config import matchers as name_matchers
from eca_server.config.settings import Config
from eca_server.config.tool_settings import Approval, ApprovalRule, Behavior, ToolCall

SPELLINGS = ["read_file", "eca_read_file", "eca__read_file", "ECA__read_file"]
READ = Call(tool="read_file", effect="read", arguments={"path": "a.py"})
WRITE = Call(tool="write_file", effect="write", arguments={"path": "a.py", "content": "x"})
GITHUB = Call(server="github", tool="create_issue", effect="run", arguments={"title": "x"})


def shell(command: str, **changed: Any) -> Call:
    values = {"arguments": {"command": command}, "command": command, **changed}
    return Call(tool="shell_command", effect="run", **values)


def rules(**by_selector: dict[str, list[str]]) -> dict[str, ApprovalRule]:
    return {
        selector: ApprovalRule(args_matchers={k: tuple(v) for k, v in matchers.items()})
        for selector, matchers in by_selector.items()
    }


def verdict(approval: Approval, call: Call) -> str:
    return Policy(common=approval).decide(call).verdict


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (READ, "allow"),
        (Call(tool="directory_tree", effect="read", arguments={"path": "."}), "allow"),
        (WRITE, "ask"),
        (shell("ls"), "ask"),
        (GITHUB, "ask"),
        (Call(server="github", tool="list", effect="read"), "ask"),
        (Call(tool="read_file", effect="read", outside=("/etc/passwd",)), "ask"),
    ],
)
def test_by_default_reading_in_the_workspace_runs_and_the_rest_asks(call, expected):
    assert Policy().decide(call).verdict == expected


@pytest.mark.parametrize("call", [READ, WRITE, shell("make"), GITHUB])
def test_allow_by_default_covers_writes_and_commands(call):
    decision = Policy(common=Approval(by_default="allow")).decide(call)
    assert decision.verdict == "allow"


def test_deny_by_default_still_lets_the_workspace_be_read():
    policy = Policy(common=Approval(by_default="deny"))
    assert policy.decide(READ).verdict == "allow"
    assert policy.decide(WRITE) == Decision(verdict="deny", rule="toolCall.approval.byDefault")
    assert policy.decide(Call(tool="read_file", effect="read", outside=("/x",))).verdict == "deny"


@pytest.mark.requirement("W-33e")
@pytest.mark.parametrize("selector", SPELLINGS)
@pytest.mark.parametrize("given", ["deny", "ask", "allow"])
def test_a_native_tool_is_matched_in_each_spelling(selector, given):
    approval = Approval(by_default="deny", **{given: {selector: ApprovalRule()}})
    assert verdict(approval, READ) == given


@pytest.mark.parametrize("selector", [*SPELLINGS, "eca", "ECA"])
def test_a_tool_is_disabled_in_each_spelling(selector):
    policy = policy_of(Config(disabled_tools=(selector,)), "agent")
    assert policy.withheld(server="eca", tool="read_file", effect="read") == "disabledTools"
    assert policy.decide(READ).verdict == "deny"


@pytest.mark.parametrize(
    ("selector", "tool", "is_disabled"),
    [
        ("git__.*", "push", True),
        ("git__(push|pull)", "push", True),
        ("g[a-z]+", "push", True),
        ("git__pus", "push", False),
        ("pu.*", "push", False),
        ("git__.", "p", False),
        ("git__(", "push", False),
        ("git__(x+x+)+y", "x" * 5_000, True),
    ],
)
def test_a_selector_may_be_a_pattern_for_the_whole_name(selector, tool, is_disabled):
    policy = policy_of(Config(disabled_tools=(selector,)), "agent")
    assert bool(policy.withheld(server="git", tool=tool, effect="read")) is is_disabled


@pytest.mark.parametrize("selector", ["github", "github__create_issue"])
def test_a_tool_of_another_server_is_matched_by_server_or_by_both(selector):
    assert verdict(Approval(allow={selector: ApprovalRule()}), GITHUB) == "allow"


def test_a_tool_of_another_server_never_passes_for_a_native_one():
    approval = Approval(allow={name: ApprovalRule() for name in (*SPELLINGS, "eca", "ECA")})
    for server in ("evil", "read_file_", "eca_"):
        assert verdict(approval, Call(server=server, tool="read_file", effect="read")) == "ask"
    assert spellings("evil", "read_file") == {"evil__read_file"}


@pytest.mark.parametrize(
    ("approval", "expected"),
    [
        (Approval(allow=rules(eca={}), ask=rules(write_file={})), "ask"),
        (Approval(ask=rules(eca={}), allow=rules(write_file={})), "allow"),
        (Approval(ask=rules(write_file={}), allow=rules(write_file={"path": [".*py"]})), "allow"),
        (Approval(allow=rules(write_file={}), ask=rules(write_file={"path": [".*py"]})), "ask"),
        (Approval(allow=rules(write_file={}), ask=rules(write_file={})), "ask"),
        (Approval(ask=rules(eca={}), allow=rules(eca={"path": [".*py"]})), "allow"),
        (Approval(by_default="deny", allow=rules(eca={})), "allow"),
        (Approval(deny=rules(eca={}), allow=rules(write_file={"path": [".*"]})), "deny"),
        (Approval(deny=rules(write_file={"path": [".*py"]}), allow=rules(write_file={})), "deny"),
        (Approval(deny=rules(write_file={"path": [".*c"]}), allow=rules(write_file={})), "allow"),
        (Approval(deny=rules(eca={"path": [".*py"]}), allow=rules(write_file={})), "deny"),
        (Approval(deny=rules(grep={}), allow=rules(write_file={})), "allow"),
    ],
    ids=range(12),
)
def test_the_most_specific_rule_counts_and_deny_beats_all(approval, expected):
    assert verdict(approval, WRITE) == expected


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        (".*rm.*", "rm -rf x", "deny"),
        (".*rm.*", "ls\nrm -rf x", "deny"),
        (".*rm.*", "rm -rf x\nls", "deny"),
        ("rm.*", "ls\nrm x\nls", "deny"),
        ("rm.*", "ls\r\nrm x", "deny"),
        ("rm.*x", "rm \\\n x", "deny"),
        ("rm", "rm x", "ask"),
        ("rm x", "ls; rm x", "ask"),
    ],
)
def test_a_deny_sees_the_whole_text_and_each_of_its_lines(pattern, command, expected):
    approval = Approval(deny=rules(shell_command={"command": [pattern]}))
    assert verdict(approval, shell(command)) == expected
    approval = Approval(
        by_default="allow", ask=rules(shell_command={"command": ["nothing", pattern]})
    )
    assert verdict(approval, shell(command)) == ("allow" if expected == "ask" else "ask")


@pytest.mark.parametrize(
    ("pattern", "command", "expected"),
    [
        ("git status.*", "git status -s", "allow"),
        ("git status.*", "git status\nrm -rf x", "ask"),
        ("git status", "git status\n", "ask"),
        ("git status", "sudo git status", "ask"),
        ("(?s)make.*", "make\ntest", "allow"),
    ],
)
def test_an_allow_ends_with_its_line(pattern, command, expected):
    approval = Approval(allow=rules(shell_command={"command": [pattern]}))
    assert verdict(approval, shell(command)) == expected


def test_an_allow_must_fit_every_argument_it_names_and_a_deny_only_one():
    matchers = {"path": [".*py"], "content": ["y"]}
    assert verdict(Approval(allow=rules(write_file=matchers)), WRITE) == "ask"
    assert verdict(Approval(deny=rules(write_file=matchers)), WRITE) == "deny"


def test_an_argument_that_is_not_there_fits_nothing():
    for matchers in ({"other": [".*"]}, {"path": []}):
        assert verdict(Approval(allow=rules(write_file=matchers)), WRITE) == "ask"
        assert verdict(Approval(deny=rules(write_file=matchers)), WRITE) == "ask"


def test_an_argument_that_is_no_text_is_matched_as_json():
    call = Call(server="s", tool="t", effect="run", arguments={"a": {"b": [1, "x"]}, "c": None})
    assert verdict(Approval(deny=rules(s__t={"a": [r'.*\[1,"x"\].*']})), call) == "deny"
    assert verdict(Approval(deny=rules(s__t={"c": [".*"]})), call) == "ask"


def test_a_damaged_rule_allows_nothing_and_denies_every_call():
    damaged = {"write_file": ApprovalRule(args_matchers={"path": ("z",)}, is_damaged=True)}
    assert verdict(Approval(allow=damaged), WRITE) == "ask"
    assert verdict(Approval(deny=damaged), WRITE) == "deny"
    assert verdict(Approval(by_default="allow", ask=damaged), WRITE) == "ask"


@pytest.mark.parametrize(
    ("approval", "expected"),
    [
        (Approval(deny=rules(shell_command={"command": ["(x+x+)+y"]})), "deny"),
        (Approval(ask=rules(shell_command={"command": ["(x+x+)+y"]}), by_default="allow"), "ask"),
        (Approval(allow=rules(shell_command={"command": ["(x+x+)+y"]})), "ask"),
    ],
)
def test_a_pattern_that_takes_for_ever_loosens_nothing_and_ends_soon(approval, expected):
    started = time.monotonic()
    assert verdict(approval, shell("x" * 5_000)) == expected
    assert time.monotonic() - started < 5


def test_a_path_outside_asks_whatever_is_allowed():
    approval = Approval(
        by_default="allow", allow=rules(eca={}, write_file={}, read_file={"path": [".*"]})
    )
    for call in (READ, WRITE, shell("cat /etc/passwd")):
        inside = Policy(common=approval).decide(call)
        outside = Policy(common=approval).decide(
            Call(
                tool=call.tool,
                effect=call.effect,
                arguments=call.arguments,
                command=call.command,
                outside=("/etc/passwd",),
            )
        )
        assert inside.verdict == "allow"
        assert outside == Decision(verdict="ask", rule="outside the workspace: /etc/passwd")


def test_the_rule_of_a_path_outside_is_short_however_many_there_are():
    call = shell("x", outside=tuple(f"/{'a' * 500}{n}" for n in range(50)))
    rule = Policy().decide(call).rule
    assert len(rule) < 700
    assert rule.endswith("and 47 more")


def test_the_deciding_rule_is_named_as_the_configuration_names_it():
    config = Config(
        tool_call=ToolCall(
            approval=Approval(by_default="allow", deny=rules(grep={"pattern": ["x"]}))
        ),
        behaviors={"agent": Behavior(approval=Approval(ask=rules(eca_write_file={})))},
    )
    policy = policy_of(config, "agent")
    grep = Call(tool="grep", effect="read", arguments={"pattern": "x"})
    assert policy.decide(grep).rule == "toolCall.approval.deny.grep"
    assert policy.decide(WRITE).rule == "behavior.agent.toolCall.approval.ask.eca_write_file"
    assert policy.decide(shell("ls")).rule == "toolCall.approval.byDefault"
    assert "reading" in policy.decide(READ).rule


def test_a_behaviours_rules_are_added_to_the_common_ones():
    config = Config(
        tool_call=ToolCall(
            approval=Approval(
                by_default="allow", deny=rules(grep={}), ask=rules(write_file={}, move_file={})
            )
        ),
        behaviors={
            "agent": Behavior(
                approval=Approval(
                    by_default="ask", deny=rules(shell_command={}), allow=rules(write_file={})
                )
            )
        },
    )
    agent, plan = policy_of(config, "agent"), policy_of(config, "plan")
    assert agent.decide(Call(tool="grep", effect="read")).verdict == "deny"
    assert agent.decide(shell("ls")).verdict == "deny"
    assert agent.decide(WRITE).verdict == "allow"
    assert agent.decide(Call(tool="move_file", effect="write")).verdict == "ask"
    assert agent.decide(GITHUB).rule == "behavior.agent.toolCall.approval.byDefault"
    assert plan.decide(shell("ls")).verdict == "allow"


@pytest.mark.parametrize(
    ("manual", "call", "expected"),
    [
        (True, READ, "ask"),
        (True, shell("ls"), "ask"),
        (("eca_read_file",), READ, "ask"),
        (("read_file",), shell("ls"), "allow"),
        (False, shell("ls"), "allow"),
        (True, Call(tool="move_file", effect="write"), "allow"),
        (("move_file",), Call(tool="move_file", effect="write"), "allow"),
    ],
)
def test_the_older_manual_approval_asks_where_no_rule_allows(manual, call, expected):
    approval = Approval(by_default="allow", allow=rules(move_file={}))
    policy = Policy(common=approval, manual=manual)
    assert policy.decide(call).verdict == expected


def test_what_is_denied_outright_is_not_offered_and_what_depends_is():
    approval = Approval(deny=rules(grep={}, github={}, shell_command={"command": ["rm.*"]}))
    policy = Policy(common=approval)
    assert policy.withheld(server="eca", tool="grep", effect="read")
    assert policy.withheld(server="github", tool="create_issue", effect="run")
    assert policy.withheld(server="eca", tool="shell_command", effect="run") is None
    assert policy.withheld(server="eca", tool="write_file", effect="write") is None


def test_the_preview_belongs_to_plan_unless_agent_is_configured_otherwise():
    tool: Any = {"server": "eca", "tool": "preview_file_change", "effect": "read"}
    usual = Config()
    assert policy_of(usual, "agent").withheld(**tool) == "behavior.agent.disabledTools"
    assert policy_of(usual, "plan").withheld(**tool) is None
    changed = Config(behaviors={"agent": Behavior(disabled_tools=())})
    assert policy_of(changed, "agent").withheld(**tool) is None


@pytest.mark.parametrize("effect", ["read", "write", "run"])
def test_plan_offers_no_tool_that_writes(effect):
    allowing = Config(tool_call=ToolCall(approval=Approval(by_default="allow")))
    for config in (Config(), allowing):
        withheld = policy_of(config, "plan").withheld(server="eca", tool="x", effect=effect)
        assert (withheld is not None) == (effect == "write")


def test_plan_denies_writes_and_what_is_not_known_to_only_read_whatever_is_allowed():
    allowed = Approval(by_default="allow", allow=rules(eca={}, write_file={}, shell_command={}))
    plan = Policy(common=allowed, behavior="plan")
    assert plan.decide(WRITE).verdict == "deny"
    denied = plan.decide(shell("ls > x"))
    assert (denied.verdict, "only reads" in denied.rule) == ("deny", True)
    assert plan.decide(shell("git status && ls")).verdict == "allow"
    assert plan.decide(READ).verdict == "allow"


def test_plan_asks_for_a_command_that_only_reads_as_ever():
    plan = Policy(behavior="plan")
    assert plan.decide(shell("ls")).verdict == "ask"
    assert (
        Policy(common=Approval(deny=rules(shell_command={})), behavior="plan")
        .decide(shell("ls"))
        .rule.startswith("toolCall.approval.deny")
    )


def test_plan_asks_for_a_tool_that_may_do_anything():
    plan = Policy(common=Approval(by_default="allow", allow=rules(github={})), behavior="plan")
    assert plan.decide(GITHUB).verdict == "ask"


def test_a_policy_reports_its_rules_and_what_counts_without_one():
    approval = Approval(
        by_default="allow",
        deny={"shell_command": ApprovalRule(args_matchers={"command": ("rm .*",)})},
        ask={"server": ApprovalRule()},
    )
    disabled = {"disabledTools": ("grep",), "behavior.agent.disabledTools": ()}
    assert list(Policy(common=approval, disabled=disabled).describe()) == [
        "disabledTools: grep",
        "deny shell_command (toolCall.approval.deny.shell_command, by its command)",
        "ask server (toolCall.approval.ask.server)",
        "reading in the workspace is allowed",
        "allow everything else in the workspace (toolCall.approval.byDefault)",
        "a path outside the workspace always needs approval",
        "a change of a guarded path (.git, .vscode, AGENTS.md, ...) always needs approval",
    ]
    lines = list(Policy(behavior="plan").describe())
    assert lines[0] == "the plan behaviour only reads"
    assert "everything else needs approval" in lines
    lines = list(Policy(manual=True).describe())
    assert lines == ["everything else needs approval (toolCall.manualApproval)"]


def test_only_enabled_tools_are_offered_and_a_behaviour_narrows_them():
    config = Config(
        enabled_tools=("read_file", "eca_grep", "git", "docs__.*"),
        behaviors={"small": Behavior(enabled_tools=("read_file", "shell_command"))},
    )
    tools = [("eca", "read_file"), ("eca", "grep"), ("eca", "shell_command"), ("git", "log")]
    tools += [("docs", "find")]

    def offered(behavior: str) -> list[str]:
        policy = policy_of(config, behavior)
        why = [policy.withheld(server=server, tool=name, effect="read") for server, name in tools]
        return [name for (_, name), each in zip(tools, why, strict=True) if each is None]

    assert offered("agent") == ["read_file", "grep", "log", "find"]
    assert offered("small") == ["read_file"]
    policy = policy_of(config, "small")
    assert policy.decide(READ).verdict == "allow"
    assert policy.decide(shell("ls")) == Decision(
        verdict="deny", rule="enabledTools, which does not name it"
    )
    assert (
        "enabledTools, and no other tool: read_file, eca_grep, git, docs__.*" in policy.describe()
    )
    assert policy_of(Config(enabled_tools=()), "agent").decide(READ).verdict == "deny"


def test_a_pattern_that_takes_too_long_neither_enables_nor_spares_a_tool():
    slow = r"(?:a|a|aa)+b__y"
    tool = {"server": "a" * 60, "tool": "y", "effect": "run"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(name_matchers, "_NAME_SECONDS", 0.001)
        assert policy_of(Config(enabled_tools=(slow,)), "agent").withheld(**tool)
        assert policy_of(Config(disabled_tools=(slow,)), "agent").withheld(**tool)

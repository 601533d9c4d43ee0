from __future__ import annotations

import pytest

from eca_server.config.matchers import BadMatcher, compile_matcher
from eca_server.config.settings import Config
from eca_server.config.tool_settings import (
    Approval,
    ApprovalRule,
    Behavior,
    CustomTool,
    IgnoreFile,
    NamedFile,
    SandboxSettings,
)

SHELL = "eca_shell_command"
EVERYTHING = """{
  "toolCall": {
    "approval": {
      "byDefault": "allow",
      "allow": {"eca": {}},
      "ask": {"github__create_issue": {}},
      "deny": {"eca_shell_command": {"argsMatchers": {"command": [".*rm.*"]}}}
    },
    "manualApproval": ["eca_move_file"],
    "readFile": {"maxLines": 9},
    "shellCommand": {"summaryMaxLength": 8},
    "outputTruncation": {"lines": 7, "sizeKb": 6}
  },
  "disabledTools": ["eca_grep"],
  "customTools": {"web-search": {
    "description": "Searches.",
    "command": "search '{{query}}' ${HOME}",
    "schema": {"properties": {"query": {"type": "string"}}, "required": ["query"]}
  }},
  "rules": [{"path": "RULES.md"}],
  "commands": [{"path": "~/commands/fix.md"}],
  "index": {"ignoreFiles": [{"type": "gitignore"}, {"type": "gitignore"}]},
  "lspTimeoutSeconds": 5
}"""


def test_everything_about_tools_is_read(house):
    house.in_user(EVERYTHING)
    config = house.config()
    calls = config.tool_call
    assert calls.approval == Approval(
        by_default="allow",
        allow={"eca": ApprovalRule()},
        ask={"github__create_issue": ApprovalRule()},
        deny={SHELL: ApprovalRule(args_matchers={"command": (".*rm.*",)})},
    )
    assert calls.manual_approval == ("eca_move_file",)
    assert (calls.read_file.max_lines, calls.shell_command.summary_max_length) == (9, 8)
    assert (calls.output_truncation.lines, calls.output_truncation.size_kb) == (7, 6)
    assert config.disabled_tools == ("eca_grep",)
    assert config.custom_tools["web-search"] == CustomTool(
        description="Searches.",
        command="search '{{query}}' ${HOME}",
        parameters={"properties": {"query": {"type": "string"}}, "required": ["query"]},
    )
    assert config.rules == (NamedFile(path="RULES.md"),)
    assert config.commands == (NamedFile(path="~/commands/fix.md"),)
    assert config.ignore_files == (IgnoreFile(type="gitignore"),) * 2
    assert config.lsp_timeout == 5


def test_the_defaults_of_tools_are_upstreams():
    config = Config()
    calls = config.tool_call
    assert (calls.approval, calls.manual_approval) == (Approval(), False)
    assert (calls.read_file.max_lines, calls.shell_command.summary_max_length) == (2_000, 25)
    assert (calls.output_truncation.lines, calls.output_truncation.size_kb) == (2_000, 50)
    assert config.ignore_files == (IgnoreFile(type="gitignore"),)
    assert config.lsp_timeout == 30


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("auto", SandboxSettings(mode="auto")),
        ("require", SandboxSettings(mode="require")),
        ({"mode": "auto", "network": True}, SandboxSettings(mode="auto", network=True)),
        ({}, SandboxSettings()),
        (None, SandboxSettings()),
    ],
)
def test_the_sandbox_is_a_word_or_an_object(house, value, expected):
    house.in_root(0, {"toolCall": {"sandbox": value}})
    assert house.config().tool_call.sandbox == expected


@pytest.mark.parametrize("value", ["auto", "off", {"mode": "auto"}, {"network": True}])
def test_a_folder_without_trust_does_not_change_the_sandbox(untrusted, value):
    """The sandbox removes questions, so even `require` and `auto` are no restriction."""
    untrusted.in_user({"toolCall": {"sandbox": {"mode": "require", "writable": ["/x"]}}})
    untrusted.in_root(0, {"toolCall": {"sandbox": value}})
    loaded = untrusted.load()
    assert loaded.withheld
    assert loaded.config.tool_call.sandbox == SandboxSettings(mode="require", writable=("/x",))
    untrusted.in_root(0, {"toolCall": {"sandbox": "auto"}})  # a mode alone changes only the mode
    sandbox = untrusted.accept().config.tool_call.sandbox
    assert sandbox == SandboxSettings(mode="auto", writable=("/x",))


@pytest.mark.parametrize("value", ["on", {"mode": "on"}, {"network": "yes"}, 1, ["auto"]])
def test_what_is_no_setting_of_the_sandbox_is_named(house, value):
    house.in_root(0, {"toolCall": {"sandbox": value}})
    assert (house.problem().key or "").startswith("toolCall.sandbox")
    assert house.load().config.tool_call.sandbox == SandboxSettings()


def test_a_behaviour_may_be_configured_under_either_name_and_both_merge(house):
    of_plan = {"disabledTools": ["eca_grep"], "systemPromptFile": "plan.md"}
    rules = {"approval": {"byDefault": "ask", "deny": {"eca": {}}}}
    behaviors = {"plan": of_plan, "agent": {"disabledTools": []}}
    agents = {"plan": {"defaultModel": "a/b", "toolCall": rules}}
    house.in_user({"behavior": behaviors, "agent": agents})
    behaviors = house.config().behaviors
    assert behaviors["plan"] == Behavior(
        default_model="a/b",
        system_prompt_file=str(house.user.parent / "plan.md"),
        disabled_tools=("eca_grep",),
        approval=Approval(by_default="ask", deny={"eca": ApprovalRule()}),
    )
    assert behaviors["agent"].disabled_tools == ()


def test_manual_approval_is_a_flag_or_a_list_of_names(house):
    house.options = {"toolCall": {"manualApproval": True}}
    assert house.config().tool_call.manual_approval is True
    house.in_user({"toolCall": {"manualApproval": ["eca_grep"]}})
    assert house.config().tool_call.manual_approval == ("eca_grep",)
    house.in_root(1, {"toolCall": {"manualApproval": False}})
    assert house.config().tool_call.manual_approval is False


def test_a_list_is_read_without_its_wrong_items(house):
    house.options = {"disabledTools": ["a", 3, None, "b"], "rules": [{"path": "x"}, "y"]}
    loaded = house.load()
    assert loaded.config.disabled_tools == ("a", "b")
    assert loaded.config.rules == (NamedFile(path="x"),)
    assert [problem.key for problem in loaded.problems] == ["disabledTools[1]", "rules[1]"]
    house.options = {"toolCall": {"approval": {"deny": {SHELL: 3}}}}
    house.in_user({"toolCall": {"approval": {"deny": {SHELL: {}}}}})  # whole again
    assert house.load().config.tool_call.approval.deny == {SHELL: ApprovalRule()}


@pytest.mark.parametrize(
    ("rule", "key"),
    [
        (True, ""),
        ({"argsMatcher": {"command": ["x"]}}, ".argsMatcher"),
        ({"argsMatchers": ["x"]}, ".argsMatchers"),
        ({"argsMatchers": {"command": "x"}}, ".argsMatchers.command"),
        ({"argsMatchers": {"command": [3]}}, ".argsMatchers.command[0]"),
        ({"argsMatchers": {"command": ["("]}}, ".argsMatchers.command[0]"),
        ({"argsMatchers": {"command": ["((a{99}){99}){99}"]}}, ".argsMatchers.command[0]"),
        ({"argsMatchers": {"command": ["a" * 1001]}}, ".argsMatchers.command[0]"),
    ],
    ids=range(8),
)
@pytest.mark.parametrize("verdict", ["allow", "ask", "deny"])
def test_a_rule_that_cannot_be_read_whole_is_marked_and_named(house, rule, key, verdict):
    house.options = {"toolCall": {"approval": {verdict: {SHELL: rule, "eca_grep": {}}}}}
    loaded = house.load()
    rules = getattr(loaded.config.tool_call.approval, verdict)
    assert rules[SHELL].is_damaged
    assert rules["eca_grep"] == ApprovalRule()
    errors = [problem for problem in loaded.problems if problem.level == "error"]
    assert [problem.key for problem in errors] == [f"toolCall.approval.{verdict}.{SHELL}{key}"]


@pytest.mark.parametrize("pattern", [".*rm.*", r"\p{Alpha}+", "(?i)sudo .*", "a{1,1000}", "x{3,}"])
def test_ordinary_patterns_are_taken(pattern):
    assert compile_matcher(pattern).pattern == pattern


@pytest.mark.parametrize("pattern", ["(", "[", "*", "a{1001}", "a{1,1001}", "(x{50,}){50}"])
def test_patterns_that_cannot_be_used_are_refused_without_being_shown(pattern):
    with pytest.raises(BadMatcher, match="expected"):
        compile_matcher(pattern)

"""Agents in JSON and in Markdown files, and those that inherit another agent's settings."""

import re
from typing import Any

import pytest

from eca_server.agent.chat.instructions import instructions
from eca_server.agent.commands.config import report
from eca_server.agent.tools.approval import policy_of
from eca_server.agent.tools.approval_rules import Call
from eca_server.config.agent_settings import Behavior
from eca_server.config.inheritance import resolve_inheritance
from eca_server.config.loading import LoadedConfig
from eca_server.config.tool_settings import Approval, ApprovalRule

WRITE = Call(tool="write_file", effect="write")
READER = """---
mode: subagent
description: Reads.
model: p/m
tools: {allow: [eca_shell_command], deny: [eca_edit_file]}
---
Read.
"""
SLEEPER = """---
mode: subagent
description: Sleeps.
model: p/m
steps: 5
spawnableBy: [plan, code]
color: red
tools:
  byDefault: ask
  deny:
    - mine__tool
  allow:
    - eca__shell_command(sleep .*)
    - eca__shell_command(true)
    - eca_grep
---

Sleep, and say so.
"""


def verdicts(loaded: LoadedConfig, names: str) -> list[str]:
    """Return the verdicts of these agents about a call that writes."""
    return [policy_of(loaded.config, name).decide(WRITE).verdict for name in names.split()]


def test_a_text_names_the_tools_as_a_list_does(house):
    agents = house.user.parent / "agents"
    house.write(agents / "a.md", "---\ntools: eca_grep, Read\ndisabledTools: edit_file\n---\nMine")
    house.write(
        agents / "b.md", "---\ntools: [eca_grep, Read]\ndisabledTools: [edit_file]\n---\nMine"
    )
    loaded = house.load()
    assert loaded.problems == ()
    assert loaded.config.behaviors["a"] == loaded.config.behaviors["b"]


def test_an_agent_in_a_markdown_file_is_one_of_the_configuration(house):
    house.write(house.user.parent / "agents" / "Sleeper.agent.md", "---\nvariant: high\n---\nMine")
    agents = house.roots[0] / ".eca" / "agents"
    house.write(agents / "sleeper.md", SLEEPER.replace("\n", "\r\n"))
    loaded = house.load()
    assert loaded.problems == ()
    commands = ApprovalRule(args_matchers={"command": ("sleep .*", "true")})
    assert loaded.config.behaviors["sleeper"] == Behavior(
        mode=("subagent",),
        description="Sleeps.",
        default_model="p/m",
        variant="high",
        max_steps=5,
        spawnable_by=("plan", "code"),
        system_prompt="Sleep, and say so.",
        approval=Approval(
            by_default="ask",
            deny={"mine__tool": ApprovalRule()},
            allow={"eca__shell_command": commands, "eca_grep": ApprovalRule()},
        ),
    )
    assert loaded.is_current()
    house.write(agents / "new.md", "---\nname: Other\ntools: [eca_grep]\n---\n")
    assert not loaded.is_current()
    other = house.config().behaviors["other"].approval
    assert (other.by_default, dict(other.allow)) == ("ask", {"eca_grep": ApprovalRule()})


def test_the_model_inherit_is_that_of_the_calling_agent(house):
    house.write(house.user.parent / "agents" / "a.md", "---\nmodel: inherit\n---\nMine")
    loaded = house.load()
    assert (loaded.problems, loaded.config.behaviors["a"].default_model) == ((), None)


def laughs(first: str, next_line: str) -> str:
    """Return YAML whose aliases, each ten times the one before, stand for a billion values."""
    lines = [next_line.format(n + 1, ", ".join([f"*l{n}"] * 10)) for n in range(9)]
    return "\n".join([f"l0: &l0 {first}", *lines])


LAUGHS = laughs("[a]", "l{0}: &l{0} [{1}]")
NOT_FINITE = "steps: expected a string, .* got a number that is not finite"


@pytest.mark.parametrize(
    ("yaml", "expected"),
    [
        ("a: [", "expected YAML above the text, got something else at line 3"),
        ("- a", "expected `key: value` lines above the text"),
        ("tools: 1", "tools: expected a list, or rules under"),
        ("tools: {deny: eca}", "tools.deny: expected a list of names"),
        ("tools: ['eca_grep(x)']", "expected a pattern only for shell_command"),
        ("mode: subagent\nsteps: many", "maxSteps"),
        ("description: 2024-01-01", "description: expected a string, .* got a date"),
        ("mode: 2001-12-14t21:59:43.10-05:00", "mode: expected .* got a time"),
        ("model: !!binary aGk=", "model: expected a string, .* got bytes"),
        ("inherit: !!set {a}", "inherit: expected a string, .* got something else"),
        ("steps: .inf", NOT_FINITE),
        ("steps: 0xffffffffffffffffff", "steps: .* got too large a number"),
        ("disabledTools: [[[[[a]]]]]", "disabledTools: .* got a list nested too deep"),
        ("tools: {1: [a]}", "tools: .* got .* keys that are not strings"),
        ("disabledTools: &a [*a]", "disabledTools: expected at most 5000 values"),
        (LAUGHS, "l.: expected at most 5000 values"),
        (laughs("{a: b}", "l{0}: &l{0} {{<<: [{1}]}}"), "l.: expected at most 5000 values"),
        (f"{LAUGHS}\n? [*l4]\n: &a [*a]", "-: expected at most 5000 values"),
        ("k: v\n" * 6000, "above the text: expected at most 16384 characters"),
        ("model: !!timestamp x", "expected YAML above the text"),
        ("steps: !!int ''", "expected YAML above the text"),
        ("steps: 9.e+999", "steps: .* got a number that is not finite"),
        ("- &a [*a]", "-: expected at most 5000 values"),
        ("mode: subagnt", "a.mode: expected one of primary, subagent, got 'subagnt'"),
        ("varient: high", "varient: unknown key; did you mean variant"),
        ("systemPrompt: ${file:../p.md}", "systemPrompt: no effect here; the system prompt is the"),
        ("description: Use when: x", "something else at line 2 .write a text that contains `: `"),
        ("tools: {byDefault: ask, denny: [a]}", "tools.denny: unknown key; did you mean deny"),
        ("tools: {write: false}", "tools.write: unknown key; expected byDefault, allow, ask, deny"),
        ("permission: {edit: deny}", "permission: no effect here; restrict the agent by `tools`"),
        ("permissionMode: plan", "permissionMode: no effect here; restrict the agent by `tools`"),
        ("mcpToolSearch: {includePattern: 1}", "mcpToolSearch.includePattern: expected a list"),
        ("mcpToolSearch: all", "mcpToolSearch: expected true, false or an object, got a string"),
        ("disallowedTools: Edit", "disallowedTools: unknown key; did you mean disabledTools"),
        ("x" * 70_000, "expected at most 65536 bytes"),
    ],
    ids=range(35),
)
def test_what_is_wrong_with_one_is_reported_and_loosens_nothing(house, yaml, expected):
    path = house.write(house.roots[0] / ".eca" / "agents" / "a.md", f"---\n{yaml}\n---\nx")
    loaded = house.load()
    (problem,) = loaded.problems
    assert problem.source == str(path)
    assert re.search(expected, f"{problem.key}: {problem.message}")
    assert str(path) in report(loaded, ())
    assert verdicts(loaded, "a") == ["ask"]


MANY_VALUES = "\n".join(f"x{n}: [{', '.join('1' * 40)}]" for n in range(60))


@pytest.mark.parametrize(("yaml", "most"), [(MANY_VALUES, 20), ("#" * 15_000, 40)], ids=range(2))
def test_agents_have_one_budget_over_all_files(house, yaml, most):
    for number in range(45):
        house.write(house.user.parent / "agents" / f"a{number}.md", f"---\n{yaml}\n---\ntext")
    loaded = house.load()
    assert 0 < len(loaded.config.behaviors) < most
    assert any("all agents" in problem.message for problem in loaded.problems)


def test_an_agent_begins_with_all_another_one_has_and_its_own_settings_win(house):
    agents = house.user.parent / "agents"
    house.write(agents / "reader.md", READER)
    house.write(agents / "quick.md", "---\ninherit: reader\nmodel: p/quick\n---\n")
    house.write(agents / "child.md", "---\ninherit: quick\ntools: {ask: [eca_grep]}\n---\nMine")
    own = {"inherit": "child", "description": None, "systemPromptFile": "p.md"}
    house.in_root(0, {"behavior": {"last": own}})
    behaviors = house.config().behaviors
    reader, quick, child, last = (behaviors[n] for n in ("reader", "quick", "child", "last"))
    assert (quick.inherit, quick.default_model, quick.mode) == ("reader", "p/quick", ("subagent",))
    assert (quick.description, quick.system_prompt) == ("Reads.", "Read.")
    assert (child.system_prompt, child.default_model) == ("Mine", "p/quick")
    assert set(child.approval.allow) == set(reader.approval.allow) == {"eca_shell_command"}
    assert (set(child.approval.ask), set(last.approval.deny)) == ({"eca_grep"}, {"eca_edit_file"})
    assert (last.description, last.system_prompt) == ("", None)
    assert str(last.system_prompt_file).endswith("p.md")


@pytest.mark.parametrize("base", ["plan", "mine"])
def test_what_begins_with_the_plan_only_reads_whatever_else_it_is(base, house):
    allowed = {"toolCall": {"approval": {"byDefault": "allow", "allow": {"eca_write_file": {}}}}}
    agents = {"mine": {"inherit": "plan"}, "x": {"inherit": base, **allowed}, "y": allowed}
    house.in_user({"agent": agents})
    loaded = house.load()
    assert verdicts(loaded, "x y") == ["deny", "allow"]
    assert instructions(loaded.config.built_in("x"), ()) == instructions("plan", ())
    preview = {"server": "eca", "tool": "preview_file_change", "effect": "read"}
    assert policy_of(loaded.config, "x").withheld(**preview) is None
    assert loaded.config.selectable_behaviors == ("agent", "plan", "mine", "x", "y")


UNSET = {"toolCall": {"approval": None}}
NO_DEFAULT = {"toolCall": {"approval": {"byDefault": None}}}
CYCLE = "expected an agent that does not inherit from this one, got "
NAMES = "expected the name of an agent, one of: agent, plan, other, x"
UNTIL_THEN = " (until this is fixed, each call that no rule of this agent allows needs approval)"
CIRCLE = {"x": {"inherit": "y"}, "y": {"inherit": "z"}, "z": {"inherit": "y"}}
UNKNOWN_BASE = {"x": {**UNSET, "inherit": "y"}, "y": {**NO_DEFAULT, "inherit": "none"}}


@pytest.mark.parametrize(
    ("agents", "at", "message"),
    [
        ({"x": {"inherit": "none"}}, "agent.x.inherit", NAMES),
        ({"x": {"inherit": "gone"}, "gone": None}, "agent.x.inherit", "one of: "),
        ({"x": {"inherit": "x"}}, "agent.x.inherit", f"{CYCLE}x -> x"),
        (CIRCLE, "agent.y.inherit", f"{CYCLE}y -> z -> y"),
        ({"code": {"inherit": "agent"}}, "agent.code.inherit", f"{CYCLE}agent -> agent"),
        (UNKNOWN_BASE, "agent.y.inherit", "one of: "),
    ],
)
def test_an_impossible_base_is_reported_and_loosens_nothing(agents, at, message, house):
    house.in_user({"agent": {"other": {"inherit": "plan", "maxSteps": 3}}})
    path = house.in_root(1, {"toolCall": {"approval": {"byDefault": "allow"}}, "agent": agents})
    loaded = house.load()
    (problem,) = loaded.problems
    assert (problem.level, problem.key) == ("error", at)
    assert (problem.source, problem.line) == (str(path), 1)
    assert problem.message.endswith(UNTIL_THEN)
    assert message in problem.message
    assert loaded.config.behaviors["other"] == Behavior(inherit="plan", max_steps=3)
    for name in {"agent" if name == "code" else name for name, own in agents.items() if own}:
        assert verdicts(loaded, name) == ["ask"], name
    assert verdicts(loaded, "free") == ["allow"]


def test_a_base_that_cannot_be_read_loosens_nothing(house):
    path = house.write(house.roots[0] / ".eca" / "agents" / "a.md", "---\ninherit: b\n---\nMine")
    agents = {"x": {"inherit": ["plan"]}, "y": {"maxSteps": 3}}
    house.in_root(0, {"toolCall": {"approval": {"byDefault": "allow"}}, "agent": agents})
    loaded = house.load()
    of_text, of_file = loaded.problems
    assert (of_text.key, of_text.message) == ("agent.x.inherit", "expected a string, got a list")
    assert (of_file.source, of_file.key) == (str(path), "agent.a.inherit")
    assert loaded.config.behaviors["a"].system_prompt == "Mine"
    assert verdicts(loaded, "x y") == ["ask", "allow"]


def test_a_chain_may_be_long():
    agents: dict[str, Any] = {f"a{n}": {"inherit": f"a{n - 1}"} for n in range(1_200, 0, -1)}
    resolved, errors = resolve_inheritance({**agents, "a0": {"variant": "v"}})
    assert resolved["a1200"] == {"inherit": "a1199", "variant": "v"}
    assert not errors


def test_steps_of_an_agent_are_only_ever_fewer(untrusted):
    agents = {"base": {"maxSteps": 5}, "mid": {"inherit": "base"}, "top": {"inherit": "mid"}}
    untrusted.in_user({"agent": agents})
    for steps, counts in ((5, 5), (3, 3), (6, 5), (0, 5)):
        untrusted.in_root(0, {"agent": {"top": {"maxSteps": steps}}})
        loaded = untrusted.load()
        assert loaded.config.behaviors["top"].max_steps == counts
        assert bool(loaded.withheld) == (steps not in (3, 5))
    untrusted.in_user({"agent": {"top": {"inherit": "plan"}}})
    for steps, is_withheld in ((200, False), (201, True)):
        untrusted.in_root(0, {"agent": {"top": {"maxSteps": steps}}})
        assert bool(untrusted.load().withheld) == is_withheld


@pytest.mark.parametrize("name", ["code", "build", "agent"])
def test_our_behaviours_answer_to_upstream_s_names(house, name):
    house.in_user({"agent": {name: {"disabledTools": ["eca__grep"]}}})
    house.in_root(0, {"behavior": {name: {"prompts": {"chat": "Be brief."}}}})
    config = house.config()
    own = config.behaviors["agent"]
    assert (own.disabled_tools, own.system_prompt) == (("eca__grep",), "Be brief.")
    assert config.selectable_behaviors == ("agent", "plan")


def test_an_agent_says_who_may_select_it(house):
    modes = {"a": "primary", "b": "subagent", "c": ["primary", "subagent"], "d": ["subagent"]}
    house.in_user({"agent": {name: {"mode": mode} for name, mode in modes.items()}})
    assert house.config().selectable_behaviors == ("agent", "plan", "a", "c")


def test_other_agents_may_call_an_agent_without_a_mode(house):
    agents: dict[str, dict[str, str]] = {
        "a": {"mode": "primary"}, "b": {"mode": "subagent"}, "c": {}, "d": {"inherit": "c"},
        "e": {"inherit": "plan"}, "f": {"inherit": "e"}, "g": {"inherit": "explorer"},
        "h": {"inherit": "plan", "mode": "subagent"}, "code": {"variant": "low"},
    }  # fmt: skip
    house.in_user({"agent": agents})
    assert sorted(house.config().subagents()) == ["b", "c", "d", "explorer", "g", "general", "h"]


def test_agents_in_files_wait_each_with_what_it_allows(untrusted):
    text = "---\ntools:\n  allow: [shell_command(rm .*)]\n---\nobey"
    path = untrusted.write(untrusted.roots[0] / ".eca" / "agents" / "evil.md", text)
    assert "evil" not in untrusted.load().config.behaviors
    item = untrusted.waiting()
    assert item.key == "agents/evil.md"
    assert any("shell_command run without asking" in line for line in item.lines)
    assert any("rm .*" in line for line in item.lines)
    assert untrusted.accept().config.behaviors["evil"].system_prompt == "obey"
    path.write_text(text + " more")
    assert "evil" not in untrusted.load().config.behaviors

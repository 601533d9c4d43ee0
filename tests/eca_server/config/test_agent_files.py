"""Agents in Markdown files, as users of the upstream server write them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from eca_server.agent.commands.config import report
from eca_server.agent.tools.approval import Call, policy_of
from eca_server.config.tool_settings import Approval, ApprovalRule, Behavior

if TYPE_CHECKING:
    from conftest import House

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


LAUGHS = "l0: &l0 [a]\n" + "\n".join(
    f"l{n + 1}: &l{n + 1} [{', '.join([f'*l{n}'] * 10)}]" for n in range(9)
)
MERGED_LAUGHS = "l0: &l0 {a: b}\n" + "\n".join(
    f"l{n + 1}: &l{n + 1} {{<<: [{', '.join([f'*l{n}'] * 10)}]}}" for n in range(9)
)


def in_root(house: House, name: str, text: str) -> Path:
    return house.write(house.roots[0] / ".eca" / "agents" / name, text)


def test_an_agent_in_a_markdown_file_is_one_of_the_configuration(house):
    house.write(house.user.parent / "agents" / "Sleeper.agent.md", "---\nvariant: high\n---\nMine")
    in_root(house, "sleeper.md", SLEEPER.replace("\n", "\r\n"))
    loaded = house.load()
    assert loaded.problems == ()
    sleeper = loaded.config.behaviors["sleeper"]
    assert sleeper == Behavior(
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
            allow={
                "eca__shell_command": ApprovalRule(args_matchers={"command": ("sleep .*", "true")}),
                "eca_grep": ApprovalRule(),
            },
        ),
    )
    assert loaded.is_current()
    in_root(house, "new.md", "---\nname: Other\ntools: [eca_grep]\n---\n")
    assert not loaded.is_current()
    other = house.config().behaviors["other"].approval
    assert (other.by_default, dict(other.allow)) == ("ask", {"eca_grep": ApprovalRule()})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("---\na: [\n---\nx", "expected YAML above the text, got something else at line 3"),
        ("---\n- a\n---\nx", "expected `key: value` lines above the text"),
        ("---\ntools: all\n---\nx", "tools: expected a list, or rules under"),
        ("---\ntools: {deny: eca}\n---\nx", "tools.deny: expected a list of names"),
        ("---\ntools: ['eca_grep(x)']\n---\nx", "expected a pattern only for shell_command"),
        ("---\nmode: subagent\nsteps: many\n---\nx", "maxSteps"),
        ("x" * 70_000, "expected at most 65536 bytes"),
        ("---\ndescription: 2024-01-01\n---\nx", "description: expected a string, .* got a date"),
        ("---\nmode: 2001-12-14t21:59:43.10-05:00\n---\nx", "mode: expected .* got a time"),
        ("---\nmodel: !!binary aGk=\n---\nx", "model: expected a string, .* got bytes"),
        ("---\ninherit: !!set {a}\n---\nx", "inherit: expected a string, .* got something else"),
        (
            "---\nsteps: .inf\n---\nx",
            "steps: expected a string, .* got a number that is not finite",
        ),
        (
            "---\nsteps: .nan\n---\nx",
            "steps: expected a string, .* got a number that is not finite",
        ),
        ("---\nsteps: 0xffffffffffffffffff\n---\nx", "steps: .* got too large a number"),
        ("---\ndisabledTools: [[[[[a]]]]]\n---\nx", "disabledTools: .* got a list nested too deep"),
        ("---\ntools: {1: [a]}\n---\nx", "tools: .* got .* keys that are not strings"),
        ("---\ndisabledTools: &a [*a]\n---\nx", "disabledTools: expected at most 5000 values"),
        ("---\ntools: {allow: &b [*b]}\n---\nx", "tools: expected at most 5000 values"),
        (f"---\n{LAUGHS}\n---\nx", "l.: expected at most 5000 values"),
        (f"---\n{MERGED_LAUGHS}\n---\nx", "l.: expected at most 5000 values"),
        (f"---\n{LAUGHS}\n? [*l4]\n: &a [*a]\n---\nx", "-: expected at most 5000 values"),
        ("---\n" + "k: v\n" * 6000 + "---\nx", "above the text: expected at most 16384 characters"),
        ("---\nmodel: !!timestamp x\n---\nx", "expected YAML above the text"),
        ("---\nmodel: !!bool x\n---\nx", "expected YAML above the text"),
        ("---\nsteps: !!int ''\n---\nx", "expected YAML above the text"),
        ("---\nsteps: 9.e+999\n---\nx", "steps: .* got a number that is not finite"),
        ("---\n- &a [*a]\n---\nx", "-: expected at most 5000 values"),
    ],
)
def test_what_is_wrong_with_one_is_reported_and_loosens_nothing(house, text, expected):
    path = in_root(house, "a.md", text)
    (problem,) = house.load().problems
    assert problem.source == str(path)
    assert re.search(expected, f"{problem.key}: {problem.message}")
    assert str(path) in report(house.load(), ())
    call = Call(tool="write_file", effect="write")
    assert policy_of(house.load().config, "a").decide(call).verdict == "ask"

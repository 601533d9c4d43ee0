"""Agents that inherit another agent's settings (`inherit`), in JSON and in Markdown files."""

from __future__ import annotations

from typing import Any

import pytest

from eca_server.agent.chat.instructions import instructions
from eca_server.agent.tools.approval import Call, policy_of
from eca_server.config.inheritance import resolve_inheritance
from eca_server.config.tool_settings import Behavior

WRITE = Call(tool="write_file", effect="write")
READER = """---
mode: subagent
description: Reads.
model: p/m
tools: {allow: [eca_shell_command], deny: [eca_edit_file]}
---
Read.
"""
UNTIL_THEN = " (until this is fixed, each call that no rule of this agent allows needs approval)"


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
    house.write(house.user, {"agent": agents})
    config = house.config()
    assert [policy_of(config, name).decide(WRITE).verdict for name in "xy"] == ["deny", "allow"]
    assert instructions(config.built_in("x"), ()) == instructions("plan", ())
    preview = {"server": "eca", "tool": "preview_file_change", "effect": "read"}
    assert policy_of(config, "x").withheld(**preview) is None
    assert config.selectable_behaviors == ("agent", "plan", "mine", "x", "y")


UNSET = {"toolCall": {"approval": None}}
NO_DEFAULT = {"toolCall": {"approval": {"byDefault": None}}}
CYCLE = "expected an agent that does not inherit from this one, got "


@pytest.mark.parametrize(
    ("agents", "at", "message"),
    [
        (
            {"x": {"inherit": "none"}},
            "agent.x.inherit",
            "expected the name of an agent, one of: agent, plan, other, x",
        ),
        ({"x": {"inherit": "gone"}, "gone": None}, "agent.x.inherit", "one of: "),
        ({"x": {"inherit": "x"}}, "agent.x.inherit", f"{CYCLE}x -> x"),
        (
            {"x": {"inherit": "y"}, "y": {"inherit": "z"}, "z": {"inherit": "y"}},
            "agent.y.inherit",
            f"{CYCLE}y -> z -> y",
        ),
        ({"code": {"inherit": "agent"}}, "agent.code.inherit", f"{CYCLE}agent -> agent"),
        (
            {"x": {**UNSET, "inherit": "y"}, "y": {**NO_DEFAULT, "inherit": "none"}},
            "agent.y.inherit",
            "one of: ",
        ),
    ],
)
def test_an_impossible_base_is_reported_with_its_place_and_loosens_nothing(
    agents, at, message, house
):
    house.write(house.user, {"agent": {"other": {"inherit": "plan", "maxSteps": 3}}})
    house.in_root(1, {"toolCall": {"approval": {"byDefault": "allow"}}, "agent": agents})
    loaded = house.load()
    (problem,) = loaded.problems
    assert (problem.level, problem.key) == ("error", at)
    assert problem.source == str(house.roots[1] / ".eca" / "config.json")
    assert problem.line == 1
    assert problem.message.endswith(UNTIL_THEN)
    assert message in problem.message
    assert loaded.config.behaviors["other"] == Behavior(inherit="plan", max_steps=3)
    for name in {"agent" if name == "code" else name for name, own in agents.items() if own}:
        assert policy_of(loaded.config, name).decide(WRITE).verdict == "ask", name
    assert policy_of(loaded.config, "free").decide(WRITE).verdict == "allow"


def test_a_base_that_cannot_be_read_loosens_nothing(house):
    agents = {"x": {"inherit": ["plan"]}, "y": {"maxSteps": 3}}
    house.in_root(0, {"toolCall": {"approval": {"byDefault": "allow"}}, "agent": agents})
    loaded = house.load()
    (problem,) = loaded.problems
    assert (problem.key, problem.message) == ("agent.x.inherit", "expected a string, got a list")
    assert [policy_of(loaded.config, name).decide(WRITE).verdict for name in "xy"] == [
        "ask",
        "allow",
    ]


def test_a_markdown_file_with_an_unknown_base_is_named(house):
    path = house.write(house.roots[0] / ".eca" / "agents" / "a.md", "---\ninherit: b\n---\nMine")
    problem = house.problem()
    assert (problem.source, problem.key) == (str(path), "agent.a.inherit")
    assert house.load().config.behaviors["a"].system_prompt == "Mine"


def test_a_chain_may_be_long():
    agents: dict[str, Any] = {f"a{n}": {"inherit": f"a{n - 1}"} for n in range(1_200, 0, -1)}
    resolved, errors = resolve_inheritance({**agents, "a0": {"variant": "v"}})
    assert resolved["a1200"] == {"inherit": "a1199", "variant": "v"}
    assert not errors

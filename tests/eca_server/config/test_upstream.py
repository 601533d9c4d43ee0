"""Migration from the upstream server: each key of its configuration, and its effect here.

The table is `tests/data/upstream_configuration.json`: every key the upstream server has read since
its release 0.64, with a value, under what this server does with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import pytest

from eca_server.config.hook_settings import HookEvent
from eca_server.config.problems import Problem
from eca_server.config.schema import config_schema
from eca_server.config.settings import Config
from eca_server.config.upstream import UPSTREAM_KEYS

if TYPE_CHECKING:
    from conftest import House

TABLE = json.loads((Path(__file__).parents[2] / "data" / "upstream_configuration.json").read_text())


def loaded_alone(house: House, key: str, value: Any) -> tuple[Config, tuple[Problem, ...]]:
    for step in reversed(key.split(".")):
        value = {step: value}
    house.write(house.user, value)
    loaded = house.load()
    return loaded.config, loaded.problems


def test_what_is_read_counts_and_is_complained_of_nowhere(house):
    house.environ["HOME"] = str(house.home)
    plain = Config()
    for key, value in TABLE["read"].items():
        config, problems = loaded_alone(house, key, value)
        assert problems == (), key
        assert (config != plain) or value == [], key


def test_what_has_no_effect_here_is_reported_once_with_what_follows(house):
    for key, value in TABLE["warned"].items():
        _, (problem,) = loaded_alone(house, key, value)
        assert problem.level == "warning", key
        assert problem.source == str(house.user)
        assert f"{key} (" in problem.message
        assert why_of(key) in problem.message


def test_what_follows_from_all_of_a_file_is_one_message(house):
    house.write(house.user, {"remote": {"port": 1}, "chatRetentionDays": 7, "plugins": None})
    problem = house.problem()
    assert problem.message == (
        "no effect in this server: chatRetentionDays (chats are kept until they are deleted), "
        "remote (this server does not listen on the network)"
    )
    house.write(house.user, {"agent": {f"a{n}": {"toolCall": {"editorNav": 1}} for n in range(30)}})
    assert house.problem().message.endswith(", and 10 more")


def test_hooks_are_read_at_each_event_of_upstreams_and_at_no_other(house):
    hooks = {each: {"type": each} for each in (*get_args(HookEvent), "prePrompt", "postPrompt")}
    house.write(house.user, {"hooks": hooks})
    loaded = house.load()
    assert (loaded.problems, len(loaded.config.hooks)) == ((), 15)
    assert loaded.config.hooks["prePrompt"].type == "preRequest"
    house.write(house.user, {"hooks": {"h": {"type": "chatBegin"}, "i": {"matcher": "("}}})
    first, second = house.load().problems
    assert "expected one of sessionStart," in first.message
    assert "the hook runs for every call" in second.message


def test_what_needs_no_message_gets_none(house):
    for key, value in TABLE["needless"].items():
        assert loaded_alone(house, key, value)[1] == (), key


def test_the_table_has_every_documented_key():
    listed = {pattern_of(key) for kind in ("warned", "needless") for key in TABLE[kind]}
    listed |= {key.replace("agent.", "behavior.", 1) for key in listed if key.startswith("agent.")}
    assert listed == set(UPSTREAM_KEYS)
    assert not set(UPSTREAM_KEYS) & set(read_keys(config_schema(), ()))


def why_of(key: str) -> str:
    why = UPSTREAM_KEYS[pattern_of(key)]
    assert why is not None
    return why


def pattern_of(key: str) -> str:
    first, *rest = key.split(".")
    if first in {"agent", "behavior", "providers"}:
        rest[0] = "*"
    return ".".join([first, *rest])


def read_keys(schema: Any, path: tuple[str, ...]) -> Iterator[str]:
    """Return the keys that this server reads itself, from the schema."""
    if "Read by the upstream server" in schema.get("description", ""):
        return
    yield ".".join(path)
    for name, member in schema.get("properties", {}).items():
        yield from read_keys(member, (*path, name))
    inside = schema.get("additionalProperties")
    if isinstance(inside, dict):
        yield from read_keys(inside, (*path, "*"))


@pytest.mark.parametrize("name", ["code", "build", "agent"])
def test_our_behaviours_answer_to_upstream_s_names(house, name):
    house.write(house.user, {"agent": {name: {"disabledTools": ["eca__grep"]}}})
    house.in_root(0, {"behavior": {name: {"prompts": {"chat": "Be brief."}}}})
    config = house.config()
    own = config.behaviors["agent"]
    assert (own.disabled_tools, own.system_prompt) == (("eca__grep",), "Be brief.")
    assert config.selectable_behaviors == ("agent", "plan")


@pytest.mark.parametrize(
    ("mode", "is_selectable"),
    [
        ("primary", True),
        ("subagent", False),
        (["primary", "subagent"], True),
        (["subagent"], False),
    ],
)
def test_a_behaviour_says_who_may_select_it(house, mode, is_selectable):
    house.write(house.user, {"agent": {"review": {"mode": mode}}})
    assert ("review" in house.config().selectable_behaviors) is is_selectable

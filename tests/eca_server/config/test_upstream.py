"""Migration from the upstream server: each key of its configuration, and its effect here.

The table is `tests/data/upstream_configuration.json`: every key the upstream server has read since
its release 0.64, with a value, under what this server does with it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from eca_server.config.hook_settings import HookEvent
from eca_server.config.loading import LoadedConfig
from eca_server.config.schema import config_schema
from eca_server.config.settings import Config
from eca_server.config.upstream import UPSTREAM_KEYS

if TYPE_CHECKING:
    from conftest import House

TABLE = json.loads((Path(__file__).parents[2] / "data" / "upstream_configuration.json").read_text())


def loaded_alone(house: House, key: str, value: Any) -> LoadedConfig:
    for step in reversed(key.split(".")):
        value = {step: value}
    house.in_user(value)
    return house.load()


def test_each_key_has_its_effect_or_is_reported_once_with_what_follows(house):
    house.environ["HOME"] = str(house.home)
    plain = Config()
    for key, value in TABLE["read"].items():
        loaded = loaded_alone(house, key, value)
        assert loaded.problems == (), key
        assert loaded.config != plain or value == [], key
    for key, value in TABLE["needless"].items():
        assert loaded_alone(house, key, value).problems == (), key
    for key, value in TABLE["warned"].items():
        (problem,) = loaded_alone(house, key, value).problems
        assert (problem.level, problem.source) == ("warning", str(house.user)), key
        assert f"{key} (" in problem.message
        why = UPSTREAM_KEYS[pattern_of(key)]
        assert why is not None
        assert why in problem.message


def test_what_follows_from_all_of_a_file_is_one_message(house):
    house.in_user({"remote": {"port": 1}, "chatRetentionDays": 7, "plugins": None})
    problem = house.problem()
    assert problem.message == (
        "no effect in this server: chatRetentionDays (chats are kept until they are deleted), "
        "remote (this server does not listen on the network)"
    )
    house.in_user({"agent": {f"a{n}": {"toolCall": {"editorNav": 1}} for n in range(30)}})
    assert house.problem().message.endswith(", and 10 more")


def test_hooks_are_read_at_each_event_of_upstreams_and_at_no_other(house):
    hooks = {each: {"type": each} for each in (*get_args(HookEvent), "prePrompt", "postPrompt")}
    house.in_user({"hooks": hooks})
    loaded = house.load()
    assert (loaded.problems, len(loaded.config.hooks)) == ((), 15)
    assert loaded.config.hooks["prePrompt"].type == "preRequest"
    house.in_user({"hooks": {"h": {"type": "chatBegin"}, "i": {"matcher": "("}}})
    first, second = house.load().problems
    assert "expected one of sessionStart," in first.message
    assert "the hook runs for every call" in second.message


def test_the_table_has_every_documented_key():
    listed = {pattern_of(key) for kind in ("warned", "needless") for key in TABLE[kind]}
    listed |= {key.replace("agent.", "behavior.", 1) for key in listed if key.startswith("agent.")}
    assert listed == set(UPSTREAM_KEYS)
    assert not set(UPSTREAM_KEYS) & set(read_keys(config_schema(), ()))


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

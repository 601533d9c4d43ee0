"""The schema of the configuration, unknown keys, and the keys of the upstream server.

The table is `tests/data/upstream_configuration.json`: every key the upstream server has read since
its release 0.64, with a value, under what this server does with it.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args

import pytest

import eca_server
from eca_server.cli import main as cli
from eca_server.config.hook_settings import HookEvent
from eca_server.config.loading import LoadedConfig
from eca_server.config.reading import settings_of
from eca_server.config.schema import config_schema
from eca_server.config.settings import Config, Retry
from eca_server.config.unknown import UPSTREAM_KEYS, hint, unknown_keys

SERVER = Path(eca_server.__file__).parent
TYPES: dict[str, dict[str, Any]] = {
    "defaultModel": {"type": ["string", "null"]},
    "chat.title": {"type": ["boolean", "null"]},
    "retry.maxRetries": {"type": ["integer", "null"], "minimum": 0},
    "lspTimeoutSeconds": {"exclusiveMinimum": 0, "maximum": 86_400},
    "disabledTools": {"type": ["array", "null"], "items": {"type": ["string", "null"]}},
    "toolCall.approval.byDefault": {"enum": ["ask", "allow", "deny", None]},
    "toolCall.manualApproval": {"type": ["boolean", "array", "null"]},
    "behavior.*.toolCall.approval.deny.*": {"additionalProperties": False},
}


def test_the_schema_has_the_type_and_the_description_of_each_key(capsys):
    assert cli.run(["config", "schema"]) == 0
    whole = json.loads(capsys.readouterr().out)
    for key, expected in TYPES.items():
        schema = whole
        for step in key.split("."):
            schema = schema["additionalProperties"] if step == "*" else schema["properties"][step]
        assert expected.items() <= schema.items(), key
    keys = whole["properties"]
    assert "provider/model" in keys["defaultModel"]["description"]
    servers = keys["mcpServers"]["additionalProperties"]["properties"]
    assert "null removes one" in servers["env"]["description"]
    assert all(member["description"] for member in keys["retry"]["properties"].values())
    for schema in _schemas(whole):
        if "properties" in schema:
            assert schema["additionalProperties"] is False


def _schemas(schema: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, Mapping):
        yield schema
        for member in (*schema.get("properties", {}).values(), schema.get("additionalProperties")):
            yield from _schemas(member)


def records(cls: type) -> Iterator[type]:
    yield cls
    for setting in settings_of(cls):
        for inner in (setting.reader.record, getattr(setting.reader.members, "record", None)):
            yield from records(inner) if inner is not None else ()


def test_every_setting_is_read_by_the_server():
    text = "".join(path.read_text("utf-8") for path in SERVER.rglob("*.py"))
    names = {each.name for cls in records(Config) if cls is not Retry for each in settings_of(cls)}
    unread = [name for name in sorted(names) if not re.search(rf"\.{name}\b", text)]
    assert not unread, "read it where it takes effect, or remove it"


@pytest.mark.parametrize(
    ("content", "key", "meant"),
    [
        ({"defaultModle": "a/b"}, "defaultModle", "defaultModel"),
        ({"DefaultModel": "a/b"}, "DefaultModel", "defaultModel"),
        ({"toolCall": {"aproval": {}}}, "toolCall.aproval", "approval"),
        ({"toolCall": {"approval": {"byDefaults": "ask"}}}, None, "byDefault"),
        ({"providers": {"p": {"models": {"m": {"limits": {}}}}}}, None, "limit"),
        ({"mcpServers": {"s": {"command": "x", "enviroment": {}}}}, None, None),
        ({"rules": [{"paths": "x"}]}, "rules[0].paths", "path"),
        ({"behavior": {"plan": {"disabledTool": []}}}, None, "disabledTools"),
        ({"zzz": 1}, "zzz", None),
        ({"byDefault": "ask"}, "byDefault", "toolCall.approval.byDefault"),
        ({"agent": {"a": {"toolCall": {"allow": {}}}}}, None, "agent.a.toolCall.approval.allow"),
        ({"agent": {"a": {"mcpServers": {}}}}, "agent.a.mcpServers", "mcpServers"),
        ({"agent": {"a": {"prompts": {"defaultModel": "m"}}}}, None, "agent.a.defaultModel"),
        ({"model": "of completion, rewrite or chat"}, "model", None),
    ],
)
def test_an_unknown_key_is_a_warning_that_names_the_nearest_one(house, content, key, meant):
    house.in_root(0, content)
    problem = house.problem()
    assert (problem.level, problem.line) == ("warning", 1)
    assert key is None or problem.key == key
    if meant is None:
        assert "did you mean" not in str(problem)
    else:
        assert problem.message.endswith(f"did you mean {meant}?")


def test_a_key_written_twice_is_a_warning(house):
    house.in_user('{"retry": {"maxRetries": 1},\n"retry": {}}')
    problem = house.problem()
    assert (problem.level, problem.line, problem.key) == ("warning", 2, "retry")


def test_a_key_inside_what_is_the_users_own_is_not_judged(house):
    assert hint("DEFAULTMODEL", ["defaultModel", "retry"]).endswith("did you mean defaultModel?")
    unknown = unknown_keys({"chat": {"title": 1, "titel": 2}}, config_schema())
    assert [path for path, _ in unknown] == [("chat", "titel")]
    house.options = {"someEditorsSetting": True}
    model = {"extraPayload": {"temprature": 1}, "extraHeaders": {"X-Y": "z"}}
    tool = {"command": "c", "schema": {"propertees": {}}}
    house.in_root(0, {"providers": {"p": {"models": {"m": model}}}, "customTools": {"t": tool}})
    assert house.load().problems == ()


def test_a_thousand_mistakes_are_not_a_thousand_messages(house):
    for content, level in (
        ({f"key{n}": 1 for n in range(1000)}, "warning"),
        ({"providers": {f"p{n}": 1 for n in range(1000)}}, "error"),
    ):
        house.in_user(content)
        problems = house.load().problems
        assert len(problems) == 21
        assert {problem.level for problem in problems[:20]} == {level}
        assert "980" in problems[-1].message


TABLE = json.loads((Path(__file__).parents[2] / "data" / "upstream_configuration.json").read_text())


def loaded_alone(house, key: str, value: Any) -> LoadedConfig:
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
        assert why in problem.message


def test_what_follows_from_all_of_a_file_is_one_message(house):
    house.in_user({"remote": {"port": 1}, "chatRetentionDays": 7, "plugins": None})
    problem = house.problem()
    assert problem.message == (
        "no effect in this server: chatRetentionDays (chats are stored until they are deleted), "
        "remote (this server does not listen on the network)"
    )
    house.in_user({"agent": {f"a{n}": {"toolCall": {"editorNav": 1}} for n in range(30)}})
    assert house.problem().message.endswith(", and 10 more")


def test_hooks_are_read_at_each_event_of_upstreams_and_at_no_other(house):
    hooks = {each: {"type": each} for each in (*get_args(HookEvent), "prePrompt", "postPrompt")}
    house.in_user({"hooks": hooks})
    loaded = house.load()
    assert (loaded.problems, loaded.config.hooks.keys()) == ((), hooks.keys())
    assert loaded.config.hooks["prePrompt"].type == "preRequest"
    house.in_user({"hooks": {"h": {"type": "chatBegin"}, "i": {"matcher": "("}}})
    first, second = house.load().problems
    assert "expected one of sessionStart," in first.message
    assert "the hook runs for every call" in second.message
    house.in_user({"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": []}]}})
    assert house.problem().message == (
        "expected an object with `type`, `matcher` and `actions`, got a list, as in the "
        "settings of other programs"
    )


def test_the_table_has_every_documented_key():
    listed = {pattern_of(key) for kind in ("warned", "needless") for key in TABLE[kind]}
    listed |= {key.replace("agent.", "behavior.", 1) for key in listed if key.startswith("agent.")}
    assert listed == set(UPSTREAM_KEYS)
    assert not set(UPSTREAM_KEYS) & set(read_keys(config_schema(), ()))


def pattern_of(key: str) -> str:
    first, *rest = key.split(".")
    if first in {"agent", "behavior", "providers"}:
        rest[0] = "*"
    if rest[1:2] == ["models"]:
        rest[2] = "*"
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

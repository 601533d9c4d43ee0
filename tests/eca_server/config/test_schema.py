"""The schema of the configuration, and keys that it does not know."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from eca_server.cli import main as cli
from eca_server.config.schema import config_schema
from eca_server.config.unknown import hint, unknown_keys


def test_the_command_prints_the_schema_as_json(capsys):
    assert cli.run(["config", "schema"]) == 0
    assert json.loads(capsys.readouterr().out) == config_schema()


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        ("defaultModel", {"type": ["string", "null"]}),
        ("chat.title", {"type": ["boolean", "null"]}),
        ("retry.maxRetries", {"type": ["integer", "null"], "minimum": 0}),
        ("lspTimeoutSeconds", {"exclusiveMinimum": 0, "maximum": 86_400}),
        ("disabledTools", {"type": ["array", "null"], "items": {"type": ["string", "null"]}}),
        ("toolCall.approval.byDefault", {"enum": ["ask", "allow", "deny", None]}),
        ("toolCall.manualApproval", {"type": ["boolean", "array", "null"]}),
        ("providers.*.models.*.limit.context", {"type": ["integer", "null"]}),
        ("behavior.*.toolCall.approval.deny.*", {"additionalProperties": False}),
        ("agent.*.disabledTools", {"type": ["array", "null"]}),
        ("mcpServers.*.command", {"type": ["string", "null"]}),
    ],
)
def test_each_key_has_the_type_it_is_read_with(key, expected):
    schema = config_schema()
    for step in key.split("."):
        schema = schema["additionalProperties"] if step == "*" else schema["properties"][step]
    assert expected.items() <= schema.items()


def test_keys_are_described_and_every_object_names_its_keys_or_says_they_are_the_users_own():
    keys = config_schema()["properties"]
    assert "provider/model" in keys["defaultModel"]["description"]
    servers = keys["mcpServers"]["additionalProperties"]["properties"]
    assert "null removes one" in servers["env"]["description"]
    assert all(member["description"] for member in keys["retry"]["properties"].values())
    for schema in _schemas(config_schema()):
        if "properties" in schema:
            assert schema["additionalProperties"] is False


def _schemas(schema: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, Mapping):
        yield schema
        for member in (*schema.get("properties", {}).values(), schema.get("additionalProperties")):
            yield from _schemas(member)


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

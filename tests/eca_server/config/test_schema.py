from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from eca_server.cli import main as cli
from eca_server.config.schema import config_schema
from eca_server.config.unknown import unknown_keys


def test_the_command_prints_the_schema_as_json(capsys: pytest.CaptureFixture[str]) -> None:
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
    ],
)
def test_each_key_has_the_type_it_is_read_with(key: str, expected: Mapping[str, Any]) -> None:
    schema = config_schema()
    for step in key.split("."):
        schema = schema["additionalProperties"] if step == "*" else schema["properties"][step]
    assert expected.items() <= schema.items()


def test_what_the_classes_say_of_a_key_describes_it() -> None:
    assert "provider/model" in config_schema()["properties"]["defaultModel"]["description"]
    retry = config_schema()["properties"]["retry"]["properties"]
    assert all(member["description"] for member in retry.values())


def test_every_object_names_its_keys_or_says_they_are_the_users_own() -> None:
    for schema in _schemas(config_schema()):
        if "properties" in schema:
            assert schema["additionalProperties"] is False


def test_the_schema_knows_no_key_it_does_not_list() -> None:
    known = config_schema()
    assert [path for path, _ in unknown_keys({"chat": {"title": 1, "titel": 2}}, known)] == [
        ("chat", "titel")
    ]


def _schemas(schema: object) -> Iterator[Mapping[str, Any]]:
    if isinstance(schema, Mapping):
        yield schema
        for member in (*schema.get("properties", {}).values(), schema.get("additionalProperties")):
            yield from _schemas(member)

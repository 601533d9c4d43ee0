"""Tools' schemas in OpenAPI's subset, for endpoints that accept nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.google.schema import openapi_schema, takes_nothing

KEYS = {
    *("anyOf", "description", "enum", "format", "items", "maxItems", "maxLength", "maximum"),
    *("minItems", "minLength", "minimum", "nullable", "pattern", "properties", "required"),
    *("title", "type"),
}


STRING, INTEGER, OBJECT = ({"type": name} for name in ("STRING", "INTEGER", "OBJECT"))


def prop(schema, **root) -> dict:
    return openapi_schema({**root, "properties": {"p": schema}})["properties"]["p"]


@pytest.mark.parametrize(
    ("schema", "converted"),
    [
        ({"type": "string"}, STRING),
        ({"type": ["string", "null"]}, {**STRING, "nullable": True}),
        ({"type": ["string", "integer"]}, {"anyOf": [STRING, INTEGER]}),
        ({"type": ["string"], "description": "d"}, {**STRING, "description": "d"}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {**INTEGER, "nullable": True}),
        ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, {"anyOf": [INTEGER, STRING]}),
        ({"const": "a"}, {**STRING, "enum": ["a"]}),
        ({"enum": ["a", "b", "a"]}, {**STRING, "enum": ["a", "b"]}),
        ({"type": "integer", "enum": [1, 2]}, INTEGER),
        ({"type": "string", "enum": ["", "a"]}, STRING),
        ({"type": "array"}, {"type": "ARRAY", "items": STRING}),
        ({"items": {"type": "integer"}}, {"type": "ARRAY", "items": INTEGER}),
        ({"type": "object", "additionalProperties": True}, OBJECT),
        ({"type": "string", "format": "uri"}, STRING),
        ({"minimum": 0, "exclusiveMaximum": 9, "type": "integer"}, {**INTEGER, "minimum": 0}),
        ({"$ref": "#/$defs/D"}, {"type": "BOOLEAN", "description": "of all"}),
        ({"$ref": "#/$defs/D", "description": "own"}, {"type": "BOOLEAN", "description": "own"}),
        ({"$ref": "#/$defs/a~1b"}, {"type": "NUMBER"}),
        ({"$ref": "http://elsewhere/schema"}, STRING),
        (
            {"allOf": [{"properties": {"a": {}}, "required": ["a"]}, {"description": "d"}]},
            {"description": "d", "type": "OBJECT", "properties": {"a": STRING}, "required": ["a"]},
        ),
        (
            {"type": "object", "properties": {"a": {}}, "required": ["a", "b"]},
            {"type": "OBJECT", "properties": {"a": STRING}, "required": ["a"]},
        ),
        (True, STRING),
    ],
    ids=str,
)
def test_a_schema_says_in_openapi_what_can_be_expressed(schema, converted):
    defs = {"D": {"type": "boolean", "description": "of all"}, "a/b": {"type": "number"}}
    assert prop(schema, **{"$defs": defs}) == converted


def test_a_schema_that_holds_itself_ends():
    branches = {name: {"$ref": "#/$defs/T"} for name in "abcdefgh"}
    tree = {"type": "object", "properties": branches}
    assert prop({"$ref": "#/$defs/T"}, **{"$defs": {"T": tree}}) == {
        "type": "OBJECT",
        "properties": dict.fromkeys(branches, OBJECT),
    }
    assert openapi_schema({"$ref": "#"}) == OBJECT
    assert openapi_schema({"allOf": [{"$ref": "#"}, {"$ref": "#"}]}) == OBJECT


def test_a_schema_that_grows_without_end_is_cut():
    defs = {
        f"d{level}": {"properties": {name: {"$ref": f"#/$defs/d{level + 1}"} for name in "abcdef"}}
        for level in range(40)
    }
    made = prop({"$ref": "#/$defs/d0"}, **{"$defs": defs})
    check(made)
    assert len(str(made)) < 1_000_000


def test_the_schema_of_a_tool_is_that_of_an_object_with_its_alternatives_put_together():
    assert openapi_schema({}) == openapi_schema({"anyOf": [{"type": "string"}]}) == OBJECT
    one, two = ({"properties": {name: {}}, "required": [name]} for name in "ab")
    assert openapi_schema({"anyOf": [one, two], "description": "d"}) == {
        "description": "d",
        "type": "OBJECT",
        "properties": {"a": STRING, "b": STRING},
    }


def test_a_tool_takes_nothing_only_if_nothing_can_be_given():
    assert takes_nothing({})
    assert takes_nothing({"type": "object", "properties": {}, "additionalProperties": False})
    assert not takes_nothing({"properties": {"a": {}}})
    assert not takes_nothing({"type": "object", "additionalProperties": {}})
    assert not takes_nothing({"$ref": "#/$defs/X"})


names = st.sampled_from(
    [
        *("type", "properties", "items", "anyOf", "oneOf", "allOf", "$ref", "$defs", "required"),
        *("enum", "const", "minimum", "maxItems", "description", "format", "pattern", "nullable"),
        *("additionalProperties", "not", "prefixItems", "a"),
    ]
)
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-1, 2)
    | st.sampled_from(["string", "object", "array", "null", "#", "#/$defs/a", "x"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=4),
    max_leaves=12,
)
schemas = st.dictionaries(names, values, max_size=5)


@given(schemas)
def test_any_schema_becomes_one_that_is_taken(schema):
    check(openapi_schema(schema))


def check(schema: dict) -> None:
    assert schema.keys() <= KEYS
    if "anyOf" in schema:
        assert schema["anyOf"]
    else:
        assert schema["type"] in {"ARRAY", "BOOLEAN", "INTEGER", "NUMBER", "OBJECT", "STRING"}
    assert ("items" in schema) == (schema.get("type") == "ARRAY")
    assert all(isinstance(value, str) and value for value in schema.get("enum", ()))
    assert set(schema.get("required", ())) <= schema.get("properties", {}).keys()
    for each in (*schema.get("anyOf", ()), *schema.get("properties", {}).values()):
        check(each)
    if "items" in schema:
        check(schema["items"])

import re
import time
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol import json
from eca_server.agent.mcp.schemas import clean_schema, is_presentable
from tests.lazy import LazyModule

jsonschema = LazyModule("jsonschema", without="rfc3987_syntax")

STRING = {"type": "string"}
KEYWORDS = st.sampled_from(
    ["type", "properties", "required", "items", "anyOf", "oneOf", "allOf", "$ref", "$defs", "enum",
     "not", "additionalProperties", "description", "a", "#/$defs/a", "#", "object", "array",
     "string", "prefixItems", "patternProperties", "default", "", "a b", "$", "minimum",
     "exclusiveMinimum", "multipleOf", "pattern", "(", "minLength", "uniqueItems", "examples",
     "dependentRequired", "$dynamicRef", "dependencies", "unevaluatedItems", "contentSchema"]
)  # fmt: skip
JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | KEYWORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=5),
    max_leaves=25,
)


def schema_of(schema: Mapping[str, Any]) -> dict[str, Any]:
    return clean_schema(schema).schema


ARRAY = {"type": "array", "items": {}}
OPTIONAL = {"type": ["string", "null"]}
NEEDS_X = {"type": "object", "required": ["x"]}
EMPTY = {"type": "object", "properties": {}}


@pytest.mark.parametrize(
    ("raw_schema", "properties", "required"),
    [
        ({}, {}, []),
        ({"type": "object"}, {}, []),
        ({"type": "string"}, {}, []),
        ({"properties": 3, "required": None}, {}, []),
        ({"properties": {"a": STRING, "b": 3}, "required": ["a", "b", "c"]}, {"a": STRING}, ["a"]),
        ({"$schema": "x", "$id": "y", "properties": {"a": True}}, {"a": True}, []),
        ({"properties": {"a": {"type": "array"}, "b": OPTIONAL}}, {"a": ARRAY, "b": OPTIONAL}, []),
        (
            {"properties": {"a": {"enum": []}, "b": {"enum": ["x"]}}},
            {"a": {}, "b": {"enum": ["x"]}},
            [],
        ),
        ({"properties": {"c": {"type": "any"}}}, {"c": {}}, []),
        ({"properties": {"a": NEEDS_X}}, {"a": EMPTY}, []),
        ({"properties": {"a": {"description": "x" * 200_000}}}, {}, []),
    ],
    ids=range(11),
)
def test_invalid_parts_of_a_schema_are_fixed_and_of_a_large_one_anything_is_allowed(
    raw_schema, properties, required
):
    expected = {"type": "object", "properties": properties}
    assert schema_of(raw_schema) == expected | ({"required": required} if required else {})


@pytest.mark.parametrize(
    ("raw_schema", "made"),
    [
        ({"minimum": 0, "exclusiveMinimum": True}, {"exclusiveMinimum": 0}),
        ({"maximum": 9, "exclusiveMaximum": True}, {"exclusiveMaximum": 9}),
        ({"maximum": 9, "exclusiveMaximum": False}, {"maximum": 9}),
        ({"exclusiveMinimum": True}, {}),
        ({"minimum": "1", "exclusiveMinimum": True}, {}),
        ({"exclusiveMinimum": 1.5, "maximum": 2}, {"exclusiveMinimum": 1.5, "maximum": 2}),
        ({"minimum": True, "multipleOf": 0, "maximum": None}, {}),
        ({"multipleOf": 0.5}, {"multipleOf": 0.5}),
        ({"description": None, "title": 5, "format": []}, {}),
        ({"pattern": "(?<x", "minLength": "1", "maxLength": -1}, {}),
        ({"pattern": "a{99999999999999999999}"}, {}),
        ({"pattern": "[[a]^a+$", "minLength": 1.0}, {"pattern": "[[a]^a+$", "minLength": 1.0}),
        ({"minItems": 1.5, "uniqueItems": "true", "examples": "x"}, {}),
        ({"readOnly": "no", "deprecated": True}, {"deprecated": True}),
        ({"dependentRequired": {"a": "b"}}, {}),
        ({"dependentRequired": {"a": ["b", "b"]}}, {}),
        ({"dependentRequired": {"a": ["b"]}}, {"dependentRequired": {"a": ["b"]}}),
        ({"$dynamicRef": 5, "dependencies": {"a": 3}, "additionalItems": 5}, {}),
        ({"unevaluatedProperties": "no", "unevaluatedItems": False}, {"unevaluatedItems": False}),
        ({"patternProperties": {"(": {}}, "additionalProperties": False}, {}),
        ({"type": ["string", "string"]}, {"type": "string"}),
        ({"not": {"pattern": "("}, "if": {"required": ["a"]}}, {}),
        ({"not": {"const": 1}}, {"not": {"const": 1}}),
        ({"nullable": True}, {"nullable": True}),
    ],
)
def test_a_keyword_with_an_invalid_value_is_left_out(raw_schema, made):
    schema = schema_of({"properties": {"a": raw_schema}})
    assert schema["properties"]["a"] == made
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.Draft202012Validator.check_schema(schema_of(raw_schema))


def test_internal_references_are_resolved_and_others_never_fetched():
    schema = {
        "$defs": {
            "point": {"type": "object", "properties": {"x": {"type": "integer"}}},
            "node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}},
        },
        "properties": {
            "c": {"$ref": "#/$defs/node"},
            "a": {"$ref": "#/$defs/point", "description": "where"},
            "b": {"$ref": "https://example.invalid/schema.json"},
        },
    }
    assert schema_of(schema)["properties"] == {
        "a": {"type": "object", "properties": {"x": {"type": "integer"}}, "description": "where"},
        "b": {},
        "c": {"type": "object", "properties": {"next": {"type": "object"}}},  # it holds itself
    }


def test_alternatives_at_the_top_are_put_together():
    schema = {
        "type": "object",
        "anyOf": [
            {"properties": {"id": STRING, "k": {"const": "a"}}, "required": ["id", "k"]},
            {"properties": {"name": STRING, "k": {"const": "b"}}, "required": ["name", "k"]},
        ],
    }
    assert schema_of(schema) == {
        "type": "object",
        "properties": {
            "id": STRING,
            "k": {"anyOf": [{"const": "a"}, {"const": "b"}]},
            "name": STRING,
        },
        "required": ["k"],
    }


@pytest.mark.parametrize("open_branch", [{}, True, {"description": "anything"}])
def test_an_alternative_that_allows_anything_leaves_what_others_name_free(open_branch):
    named = {"properties": {"a": STRING}, "required": ["a"]}
    schema = {"type": "object", "properties": {"b": STRING}, "anyOf": [open_branch, named]}
    made = schema_of(schema)
    assert (made["properties"], made.get("required", [])) == ({"b": STRING}, [])


def test_names_of_properties_that_are_illegal_are_renamed_and_mapped_back():
    cleaned_schema = clean_schema(
        {"properties": {"a b": STRING, "a_b": STRING, "ä" * 70: STRING}, "required": ["a b"]}
    )
    assert list(cleaned_schema.schema["properties"]) == ["a_b", "a_b2", "_" * 60]
    assert cleaned_schema.schema["required"] == ["a_b2"]
    arguments = {"a_b": 1, "a_b2": 2, "_" * 60: 3, "more": 4}
    assert cleaned_schema.arguments(arguments) == {"a_b": 1, "a b": 2, "ä" * 70: 3, "more": 4}


CLASHES = {f"p!{chr(0x4E00 + number)}": {} for number in range(20_000)}


@pytest.mark.parametrize(
    "properties",
    [
        CLASHES,
        {f"p__{number}": {} for number in range(2, 8000)} | CLASHES,
        {"a": {"type": "string", "pattern": "(?:a|b)" * 50_000}},
        {f"a{number}": {"description": "d" * 1000} for number in range(2000)},
    ],
    ids=("clashes", "numbers", "pattern", "large"),
)
@pytest.mark.parametrize("alternatives", [0, 20_000])
def test_a_hostile_schema_takes_little_time(properties, alternatives):
    branches = [{"properties": {"a": {"const": number}}} for number in range(alternatives)]
    begun = time.process_time()
    made = schema_of({"type": "object", "properties": properties, "anyOf": branches})
    assert time.process_time() - begun < 1
    assert is_presentable(made)
    assert "pattern" not in str(made)


def test_a_long_chain_of_references_and_a_wide_tree_end():
    chain = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}]} for n in range(5_000)}
    wide = {f"w{n}": {"anyOf": [{"$ref": f"#/$defs/w{n + 1}"}] * 4} for n in range(40)}
    schema = {
        "$defs": {**chain, **wide},
        "properties": {"a": {"$ref": "#/$defs/d0"}, "b": {"$ref": "#/$defs/w0"}},
    }
    assert is_presentable(schema_of(schema))


@given(JUNK)
def test_every_cleaned_schema_is_valid_for_apis(junk):
    schema = {"properties": {"a": junk}, "$defs": {"a": junk}, "anyOf": [junk]}
    if isinstance(junk, Mapping):
        schema = {**junk, **schema}
    made = schema_of(schema)
    assert made["type"] == "object"
    assert isinstance(made["properties"], Mapping)
    assert not {"anyOf", "oneOf", "allOf", "enum", "not", "$ref"} & made.keys()
    assert set(made.get("required", ())) <= set(made["properties"])
    assert all(re.fullmatch(r"[A-Za-z0-9_.-]{1,64}", name) for name in made["properties"])
    for each in schemas(made):
        assert "$ref" not in each
        assert "allOf" not in each
        if each.get("type") == "array":
            assert "items" in each
        if each.get("type") == "object" and each is not made:
            assert isinstance(each.get("properties", {}), Mapping)
    json.dumps(made)
    jsonschema.Draft202012Validator.check_schema(made)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from(["x", "y"]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=5,
)
SIMPLE = st.recursive(
    st.sampled_from(
        [{}, True, {"type": "string"}, {"type": "integer", "minimum": 0}, {"const": "x"},
         {"type": ["string", "null"]}, {"enum": ["x", 1]}, {"$ref": "#/$defs/d"}]
    ),
    lambda inner: st.one_of(
        st.builds(lambda each: {"type": "array", "items": each}, inner),
        st.builds(
            lambda a, b, need: {"type": "object", "properties": {"a": a, "b": b}, "required": need},
            inner, inner, st.sampled_from([[], ["a"], ["a", "b"]]),
        ),
        st.builds(lambda many: {"anyOf": many}, st.lists(inner, min_size=1, max_size=2)),
        st.builds(lambda many: {"allOf": many}, st.lists(inner, min_size=1, max_size=2)),
    ),
    max_leaves=6,
)  # fmt: skip
OBJECTS = st.builds(
    lambda properties, parts, need, d: {
        "type": "object",
        "properties": properties,
        "required": need,
        "$defs": {"d": d},
        **({"allOf": parts} if parts else {}),
    },
    st.dictionaries(st.sampled_from("ab"), SIMPLE),
    st.lists(SIMPLE, max_size=2),
    st.sampled_from([[], ["a"]]),
    SIMPLE,
)


@given(OBJECTS, st.dictionaries(st.sampled_from("ab"), VALUES))
def test_a_cleaned_schema_allows_all_that_the_servers_own_allows(schema, arguments):
    try:
        is_valid = jsonschema.Draft202012Validator(schema).is_valid(arguments)
    except RecursionError:  # a reference to itself, which allows nothing that ends
        return
    if is_valid:
        jsonschema.validate(arguments, schema_of(schema))


def schemas(schema: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(schema, Mapping):
        return
    yield schema
    for name in ("properties", "patternProperties", "dependentSchemas"):
        for each in schema.get(name, {}).values():
            yield from schemas(each)
    for name in ("anyOf", "oneOf", "prefixItems"):
        for each in schema.get(name, ()):
            yield from schemas(each)
    for name in ("items", "additionalProperties", "not"):
        yield from schemas(schema.get(name))

"""The models of ACP: against the published names and types, and through the codec."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, ValidationError

from eca_protocol.acp import ACP, ACP_CODEC, messages
from eca_protocol.errors import DecodeError
from eca_protocol.messages import shapes
from eca_protocol.revisions import Revision
from eca_protocol.schema import json_schema
from eca_protocol.testing.strategies import from_model

PUBLISHED = json.loads(Path(__file__).with_name("messages.json").read_text(encoding="utf-8"))
VALIDATOR = Draft202012Validator(json_schema(Revision.CURRENT, ACP))
METHODS = [method for method in ACP if method.params is not None]


def _json_types(shape: shapes.Shape) -> set[str]:
    match shape:
        case shapes.Nullable(inner):
            return _json_types(inner)
        case shapes.Scalar(names):
            return set(names)
        case shapes.Choice():
            return {"string"}
        case shapes.Array():
            return {"array"}
        case shapes.Anything():
            return {"any"}
        case _:
            return {"object"}


def _described(cls: Any) -> dict[str, str]:
    described = {}
    for field in shapes.fields_of(cls):
        mark = "" if field.has_default else "!"
        if field.wire != "_meta":
            described[field.wire + mark] = " ".join(sorted(_json_types(field.shape)))
    return described


@pytest.mark.parametrize("name", sorted(PUBLISHED["models"]))
def test_a_model_has_the_published_members(name: str) -> None:
    assert _described(getattr(messages, name)) == PUBLISHED["models"][name]


@pytest.mark.parametrize("name", sorted(PUBLISHED["unions"]))
def test_a_union_has_the_published_tags(name: str) -> None:
    shape = shapes.shape_of(getattr(messages, name))
    assert isinstance(shape, shapes.Tagged)
    assert {"key": shape.key, "tags": sorted(shape.members)} == PUBLISHED["unions"][name]


@pytest.mark.parametrize("name", sorted(PUBLISHED["values"]))
def test_an_enumeration_has_the_published_values(name: str) -> None:
    shape = shapes.shape_of(getattr(messages, name))
    assert isinstance(shape, shapes.Choice)
    assert sorted(shape.values) == PUBLISHED["values"][name]


def test_the_table_has_the_published_methods() -> None:
    assert set(ACP.received_by("server")) == set(PUBLISHED["agent"])
    assert set(ACP.received_by("client")) == set(PUBLISHED["client"])


@given(st.data())
def test_params_survive_a_round_trip(data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(METHODS))
    params = data.draw(from_model(method.params))
    raw = json.loads(json.dumps(ACP_CODEC.encode_params(method.name, params)))
    assert ACP_CODEC.decode_params(method.name, raw) == params


@given(st.data())
def test_messages_match_the_derived_schema(data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(METHODS))
    params = ACP_CODEC.encode_params(
        method.name, data.draw(from_model(method.params, unknown=False))
    )
    message = {"jsonrpc": "2.0", "method": method.name, "params": params}
    if method.kind == "request":
        message["id"] = 1
    VALIDATOR.validate(message)
    with pytest.raises(ValidationError):
        VALIDATOR.validate({**message, "params": 5})


@given(st.data())
def test_results_survive_a_round_trip(data: st.DataObject) -> None:
    method = data.draw(st.sampled_from([each for each in ACP if each.kind == "request"]))
    result = data.draw(from_model(method.result))
    raw = json.loads(json.dumps(ACP_CODEC.encode_result(method.name, result)))
    assert ACP_CODEC.decode_result(method.name, raw) == result


def test_an_update_is_written_with_its_own_tag() -> None:
    update = messages.AgentMessageChunk(content=messages.TextContent(text="hi"))
    params = messages.SessionNotification(session_id="s", update=update)
    assert ACP_CODEC.encode_params("session/update", params) == {
        "sessionId": "s",
        "update": {
            "sessionUpdate": "agent_message_chunk",
            "content": {"type": "text", "text": "hi"},
        },
    }


def test_a_wrong_type_is_refused_with_its_path() -> None:
    raw = {"sessionId": "s", "update": {"sessionUpdate": "plan", "entries": 3}}
    with pytest.raises(DecodeError, match="entries"):
        ACP_CODEC.decode_params("session/update", raw)

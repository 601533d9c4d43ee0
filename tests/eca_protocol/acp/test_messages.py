"""ACP: its models against the published names and types, and a conversation of two peers."""

import json
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol import memory_pair
from eca_protocol.acp import ACP, ACP_CODEC, open_peer
from eca_protocol.acp import messages as m
from eca_protocol.errors import DecodeError
from eca_protocol.jsonrpc import ErrorCode
from eca_protocol.messages import shapes
from eca_protocol.revisions import Revision
from eca_protocol.schema import json_schema
from eca_protocol.testing.strategies import from_model
from tests.lazy import LazyModule

jsonschema = LazyModule("jsonschema", without="rfc3987_syntax")

pytestmark = pytest.mark.anyio

PUBLISHED = json.loads(Path(__file__).with_name("messages.json").read_text(encoding="utf-8"))
METHODS = [method for method in ACP if method.params is not None]


@cache
def _validator() -> Any:
    return jsonschema.Draft202012Validator(json_schema(Revision.CURRENT, ACP))


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


def test_models_unions_values_and_methods_are_the_published_ones() -> None:
    for name, members in PUBLISHED["models"].items():
        assert _described(getattr(m, name)) == members, name
    for name, union in PUBLISHED["unions"].items():
        shape = shapes.shape_of(getattr(m, name))
        assert {"key": shape.key, "tags": sorted(shape.members)} == union, name
    for name, values in PUBLISHED["values"].items():
        shape = shapes.shape_of(getattr(m, name))
        assert sorted(shape.values) == values, name
    assert set(ACP.received_by("server")) == set(PUBLISHED["agent"])
    assert set(ACP.received_by("client")) == set(PUBLISHED["client"])


@pytest.mark.long
@given(st.data())
def test_params_and_results_survive_a_round_trip(data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(METHODS))
    params = data.draw(from_model(method.params))
    raw = json.loads(json.dumps(ACP_CODEC.encode_params(method.name, params)))
    assert ACP_CODEC.decode_params(method.name, raw) == params
    if method.kind == "request":
        result = data.draw(from_model(method.result))
        raw = json.loads(json.dumps(ACP_CODEC.encode_result(method.name, result)))
        assert ACP_CODEC.decode_result(method.name, raw) == result


@given(st.data())
def test_messages_match_the_derived_schema(data: st.DataObject) -> None:
    method = data.draw(st.sampled_from(METHODS))
    params = ACP_CODEC.encode_params(
        method.name, data.draw(from_model(method.params, unknown=False))
    )
    message = {"jsonrpc": "2.0", "method": method.name, "params": params}
    if method.kind == "request":
        message["id"] = 1
    _validator().validate(message)
    with pytest.raises(jsonschema.ValidationError):
        _validator().validate({**message, "params": 5})


def test_an_update_is_written_with_its_own_tag() -> None:
    update = m.AgentMessageChunk(content=m.TextContent(text="hi"))
    params = m.SessionNotification(session_id="s", update=update)
    chunk = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hi"}}
    raw = ACP_CODEC.encode_params("session/update", params)
    assert raw == {"sessionId": "s", "update": chunk}


def test_a_wrong_type_is_refused_with_its_path() -> None:
    raw = {"sessionId": "s", "update": {"sessionUpdate": "plan", "entries": 3}}
    with pytest.raises(DecodeError, match="entries"):
        ACP_CODEC.decode_params("session/update", raw)


async def test_a_cancelled_request_is_answered_with_its_error_code() -> None:
    here, there = memory_pair()
    is_running = anyio.Event()

    async def never(_: object) -> m.ListSessionsResponse:
        is_running.set()
        await anyio.sleep_forever()
        raise AssertionError

    async with open_peer(there, side="server", handlers={"session/list": never}) as agent:
        agent.start_soon(agent.serve)
        await here.send(b'{"jsonrpc":"2.0","id":7,"method":"session/list","params":{}}\n')
        with anyio.fail_after(5):
            await is_running.wait()
            cancel = {"jsonrpc": "2.0", "method": "$/cancel_request", "params": {"requestId": 7}}
            await here.send(json.dumps(cancel).encode() + b"\n")
            answer = json.loads(await here.receive())
        assert answer["id"] == 7
        assert answer["error"]["code"] == ErrorCode.REQUEST_CANCELLED == -32800

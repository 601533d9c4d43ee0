"""Anthropic's own types as oracles, for the events of our tests and for our requests."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from eca_server.models.anthropic.models import read_model
from eca_server.models.anthropic.thinking import thinking_support
from eca_server.models.backend import Request, Tool
from eca_server.models.events import (
    Finished,
    ReasoningDelta,
    ReasoningFinished,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
)
from eca_server.models.facts import Capabilities, ModelFacts
from tests.eca_server.models.anthropic.scripted import (
    answer,
    citation,
    redacted,
    search,
    search_result,
    text,
    thinking,
    tool_use,
)
from tests.eca_server.models.anthropic.test_decoder import decoder, items
from tests.eca_server.models.anthropic.test_request import histories, write
from tests.lazy import LazyModule

pydantic = LazyModule("pydantic")
streaming = LazyModule("anthropic.lib.streaming._messages")
types = LazyModule("anthropic.types")
params = LazyModule("anthropic.types.message_create_params")


@functools.cache
def event_type() -> Any:
    return pydantic.TypeAdapter(types.RawMessageStreamEvent)


@functools.cache
def request_type() -> Any:
    return pydantic.TypeAdapter(params.MessageCreateParamsStreaming)


def walked(value: Any) -> Any:
    """Return all of a value: members of an `Iterable` are checked only when they are read.

    Blocks of an answer, which a request may contain, too, are read as objects.
    """
    if isinstance(value, pydantic.BaseModel):
        return value.model_dump(exclude_unset=True)
    if isinstance(value, Mapping):
        return {name: walked(member) for name, member in value.items()}
    if isinstance(value, list | tuple | Iterator) or type(value).__name__ == "ValidatorIterator":
        return [walked(member) for member in value]
    return value


def read_by_the_sdk(stream: list[dict]) -> Any:
    snapshot = None
    buffers: dict[int, bytes] = {}
    for event in stream:
        if event["type"] != "ping":
            checked = event_type().validate_python(event)
            snapshot = streaming.accumulate_event(
                event=checked, current_snapshot=snapshot, json_bufs=buffers
            )
    return snapshot


def check_that_both_read_the_same(stream: list[dict]) -> None:
    theirs = read_by_the_sdk(stream)
    decoding = decoder(may_be_empty=True)
    ours = [event for each in stream for event in decoding.feed_object(each)]
    blocks = theirs.content
    assert "".join(e.text for e in ours if isinstance(e, TextDelta)) == "".join(
        block.text for block in blocks if block.type == "text"
    )
    assert "".join(e.text for e in ours if isinstance(e, ReasoningDelta)) == "".join(
        block.thinking for block in blocks if block.type == "thinking"
    )
    assert [
        e.opaque["signature"] for e in ours if isinstance(e, ReasoningFinished) and not e.redacted
    ] == [block.signature for block in blocks if block.type == "thinking"]
    names = {e.key: (e.name, e.provider_id) for e in ours if isinstance(e, ToolCallStarted)}
    assert [(*names[e.key], e.arguments) for e in ours if isinstance(e, ToolCallFinished)] == [
        (block.name, block.id, block.input) for block in blocks if block.type == "tool_use"
    ]
    [*_, counts] = [e for e in ours if isinstance(e, Usage)]
    assert counts == Usage(
        input=theirs.usage.input_tokens,
        cache_read=theirs.usage.cache_read_input_tokens,
        cache_write=theirs.usage.cache_creation_input_tokens,
        output=theirs.usage.output_tokens,
    )
    assert ours[-1] == Finished(reason=ours[-1].reason, raw_reason=theirs.stop_reason)


def test_a_scripted_answer_is_what_the_sdk_reads_and_read_as_it_reads_it():
    cited = text("As", " A", cites=[citation("https://a.example", "A")])
    blocks = [
        thinking("Hm", "m"),
        redacted(),
        thinking(),
        text("I ", "look."),
        search("q"),
        search_result("https://a.example"),
        cited,
        tool_use("f", "", '{"n"', ": 1}", call_id="toolu_1"),
        tool_use("g", call_id="toolu_2"),
    ]
    check_that_both_read_the_same(answer(*blocks, stop="tool_use"))
    details = {"type": "refusal", "category": "bio", "explanation": "No."}
    check_that_both_read_the_same(answer(text("W"), stop="refusal", stop_details=details))
    for stop in ("max_tokens", "pause_turn", "model_context_window_exceeded", "stop_sequence"):
        check_that_both_read_the_same(answer(text("a"), stop=stop))


@given(
    histories,
    st.booleans(),
    st.sampled_from(["claude-opus-4-7", "claude-haiku-4-5", "claude-opus-5-5"]),
    st.sampled_from([None, "none", "low", "xhigh"]),
    st.sampled_from(["auto", "none", "required"]),
)
def test_the_sdk_takes_every_request_that_we_write(history, search_too, model, effort, choice):
    request = Request(
        system="s",
        messages=history,
        tools=[Tool(name="f", description="d", parameters={"type": "object"})],
        tool_choice=choice,
        reasoning_effort=effort,
    )
    known = thinking_support(model, Capabilities())
    payload = write(request, known=known, web_search=search_too)
    assert walked(request_type().validate_python(payload)) == payload


def test_a_call_without_an_id_is_refused_so_that_the_oracle_is_one():
    block = {"type": "tool_use", "name": "f", "input": {}}
    payload = {
        "model": "m",
        "max_tokens": 1,
        "stream": True,
        "messages": [{"role": "assistant", "content": [block]}],
    }
    with pytest.raises(pydantic.ValidationError):
        walked(request_type().validate_python(payload))


def test_a_listed_model_is_read_as_the_sdk_reads_it():
    can = {"supported": True}
    cannot = {"supported": False}
    modes = {"adaptive": can, "between_tools": cannot, "disabled": can, "enabled": cannot}
    efforts = {"low": can, "medium": can, "high": can, "max": can, "xhigh": None}
    capabilities = {
        "batch": can,
        "citations": can,
        "code_execution": can,
        "context_management": {"supported": False},
        "effort": {"supported": True, **efforts},
        "image_input": can,
        "pdf_input": can,
        "server_tools": {"supported": True, "code_execution": can, "web_search": can},
        "structured_outputs": can,
        "thinking": {"supported": True, "types": modes},
    }
    listed = {
        "id": "claude-a",
        "type": "model",
        "display_name": "A",
        "created_at": "2026-01-01T00:00:00Z",
        "lifecycle": "active",
        "max_input_tokens": 200_000,
        "max_tokens": 64_000,
        "capabilities": capabilities,
    }
    theirs = types.ModelInfo.model_validate(listed)
    ours = read_model(listed)
    assert ours.name == theirs.id
    assert ours.facts == ModelFacts(
        images=True,
        reasoning=True,
        context=theirs.max_input_tokens,
        output=theirs.max_tokens,
        thinking=frozenset({"adaptive", "disabled"}),
        efforts=("low", "medium", "high", "max"),
    )


@given(items)
def test_both_read_the_same_in_every_answer_that_is_well_formed(blocks):
    stream = answer(*blocks)
    assume(all(is_readable(stream, index) for index in range(len(blocks))))
    check_that_both_read_the_same(stream)


def is_readable(stream: list[dict], index: int) -> bool:
    """Return whether a call's input is empty or an object; the SDK raises for others."""
    own = [event for event in stream if event.get("index") == index]
    if own[0]["content_block"]["type"] != "tool_use":
        return True
    raw = "".join(event["delta"]["partial_json"] for event in own[1:-1])
    return raw in ("", "{}")

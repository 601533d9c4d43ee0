"""Anthropic's own types as oracles, for the events of our tests and for our requests."""

import functools
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from eca_server.models.anthropic.decoder import MessagesDecoder
from eca_server.models.anthropic.models import read_model
from eca_server.models.anthropic.thinking import thinking_support
from eca_server.models.backend import Request
from eca_server.models.events import (
    Finished,
    ReasoningFinished,
    ToolCallFinished,
    ToolCallStarted,
    Usage,
)
from eca_server.models.facts import Capabilities
from tests.eca_server.models.anthropic.scripted import EVERYTHING, LISTED, answer, text
from tests.eca_server.models.anthropic.test_request import histories, write
from tests.eca_server.models.reading import (
    TOOL,
    only,
    play_objects,
    text_of,
    thoughts_of,
    walked,
)
from tests.eca_server.models.test_streams import anthropic_blocks
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
    ours = play_objects(MessagesDecoder(may_be_empty=True), stream)

    def blocks(kind: str) -> list[Any]:
        return [block for block in theirs.content if block.type == kind]

    assert text_of(ours) == "".join(block.text for block in blocks("text"))
    assert thoughts_of(ours) == "".join(block.thinking for block in blocks("thinking"))
    thoughts = [e for e in only(ReasoningFinished, ours) if not e.redacted]
    signatures = [block.signature for block in blocks("thinking")]
    assert [e.opaque["signature"] for e in thoughts] == signatures
    names = {e.key: (e.name, e.provider_id) for e in only(ToolCallStarted, ours)}
    assert [(*names[e.key], e.arguments) for e in only(ToolCallFinished, ours)] == [
        (block.name, block.id, block.input) for block in blocks("tool_use")
    ]
    assert only(Usage, ours)[-1] == Usage(
        input=theirs.usage.input_tokens,
        cache_read=theirs.usage.cache_read_input_tokens,
        cache_write=theirs.usage.cache_creation_input_tokens,
        output=theirs.usage.output_tokens,
    )
    assert ours[-1] == Finished(reason=ours[-1].reason, raw_reason=theirs.stop_reason)


REFUSAL = {"type": "refusal", "category": "bio", "explanation": "No."}


@pytest.mark.parametrize(
    "stream",
    [
        EVERYTHING,
        answer(text("W"), stop="refusal", stop_details=REFUSAL),
        *(
            answer(text("a"), stop=stop)
            for stop in ("max_tokens", "pause_turn", "model_context_window_exceeded")
        ),
    ],
)
def test_a_scripted_answer_is_what_the_sdk_reads_and_read_as_it_reads_it(stream):
    check_that_both_read_the_same(stream)


@given(
    histories,
    st.booleans(),
    st.sampled_from(["claude-opus-4-7", "claude-haiku-4-5", "claude-opus-5-5"]),
    st.sampled_from([None, "none", "low", "xhigh"]),
    st.sampled_from(["auto", "none", "required"]),
)
def test_the_sdk_takes_every_request_that_we_write(history, search_too, name, effort, choice):
    request = Request(
        system="s",
        messages=history,
        tools=[TOOL],
        tool_choice=choice,
        reasoning_effort=effort,
    )
    known = thinking_support(name, Capabilities())
    payload = write(request, known=known, web_search=search_too)
    assert walked(request_type().validate_python(payload)) == payload


def test_a_call_without_an_id_is_refused_so_that_the_oracle_is_one():
    block = {"type": "tool_use", "name": "f", "input": {}}
    messages = [{"role": "assistant", "content": [block]}]
    payload = {"model": "m", "max_tokens": 1, "stream": True, "messages": messages}
    with pytest.raises(pydantic.ValidationError):
        walked(request_type().validate_python(payload))


def test_a_listed_model_is_one_of_the_sdk_s():
    theirs = types.ModelInfo.model_validate(LISTED)
    facts = read_model(LISTED).facts
    assert (facts.context, facts.output) == (theirs.max_input_tokens, theirs.max_tokens)
    assert facts.images == theirs.capabilities.image_input.supported
    assert ("adaptive" in facts.thinking) == theirs.capabilities.thinking.types.adaptive.supported
    assert ("max" in facts.efforts) == theirs.capabilities.effort.max.supported


@given(anthropic_blocks)
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
    return raw in ("", "{}", '{"n":1}')

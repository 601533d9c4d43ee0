"""Google's own types as oracles, for the events of our tests and for our requests."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from eca_server.models.backend import Tool
from eca_server.models.events import Finished
from eca_server.models.google.decoder import GeminiDecoder
from eca_server.models.google.schema import openapi_schema
from tests.eca_server.models.google.scripted import COUNTS, answer, call, grounding
from tests.eca_server.models.google.test_request import (
    PARTS,
    TOOL,
    histories,
    request_fields,
    written,
)
from tests.eca_server.models.google.test_schema import schemas
from tests.eca_server.models.reading import play_objects, read
from tests.lazy import LazyModule

types = LazyModule("google.genai.types")


def check(kind: type, value: object) -> object:
    return kind.model_validate_json(json.dumps(value))


def test_what_our_scripts_send_is_what_the_official_client_reads():
    events = answer(*PARTS, groundingMetadata=grounding("http://a", text="x"))
    responses = [check(types.GenerateContentResponse, each) for each in events]
    parts = [part for each in responses for part in each.candidates[0].content.parts]
    theirs, ours = responses[-1], read(play_objects(GeminiDecoder(), events))
    theirs.candidates[0].content.parts = parts
    assert ours.text == theirs.text
    assert [each.arguments for each in ours.calls] == [each.args for each in theirs.function_calls]
    counts = theirs.usage_metadata
    assert ours.usage.output == counts.candidates_token_count + counts.thoughts_token_count
    cached = counts.cached_content_token_count
    assert ours.usage.input + ours.usage.cache_read == counts.prompt_token_count
    assert ours.usage.cache_read == cached == COUNTS["cachedContentTokenCount"]
    assert theirs.candidates[0].grounding_metadata.grounding_chunks[0].web.uri == "http://a"


def test_every_reason_the_official_client_knows_ends_an_answer():
    for reason in [each.value for each in types.FinishReason][1:]:
        events = play_objects(GeminiDecoder(), answer(call("f", {}), finish=reason))
        assert isinstance(events[-1], Finished), reason


@given(histories)
def test_every_history_is_content_of_the_official_types(history):
    for content in written(history):
        check(types.Content, content)


@pytest.mark.parametrize("name", ["gemini-3.1-pro", "gemini-2.5-flash"])
@pytest.mark.parametrize("without", [(), ("JSON Schema",)])
def test_a_request_is_made_of_the_official_types(name, without):
    payload = request_fields(
        name,
        search=True,
        without=without,
        system="Be.",
        tools=[TOOL, Tool(name="g", description="", parameters={})],
        tool_choice="required",
        max_output_tokens=9,
        reasoning_effort="high",
    )
    check(types.Content, payload.pop("systemInstruction"))
    check(types.ToolConfig, payload.pop("toolConfig"))
    check(types.GenerationConfig, payload.pop("generationConfig"))
    for name, kind in (("tools", types.Tool), ("contents", types.Content)):
        for each in payload.pop(name):
            check(kind, each)
    assert not payload


@given(schemas)
def test_every_converted_schema_is_one_of_the_official_types(schema):
    types.Schema.model_validate(openapi_schema(schema))

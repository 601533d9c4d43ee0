"""Google's own types as oracles, for the events of our tests and for our requests."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from eca_server.models.answer import Answer
from eca_server.models.backend import Request, Tool
from eca_server.models.encoding import HistoryEncoder, encoded
from eca_server.models.events import Finished
from eca_server.models.facts import Capabilities
from eca_server.models.google.decoder import GeminiDecoder
from eca_server.models.google.generations import generation_of
from eca_server.models.google.messages import ContentWriter
from eca_server.models.google.request import write_request
from eca_server.models.google.schema import openapi_schema
from eca_server.models.history import Message, TextPart
from tests.eca_server.models.google.scripted import (
    COUNTS,
    answer,
    call,
    grounding,
    text_part,
    thought,
)
from tests.eca_server.models.google.test_request import PARTS, TOOL, histories
from tests.eca_server.models.google.test_schema import schemas
from tests.eca_server.models.histories import OURS
from tests.lazy import LazyModule

types = LazyModule("google.genai.types")
NEW = generation_of("gemini-3.1-pro", Capabilities())


def read(events) -> types.GenerateContentResponse:
    """Return the events as one response of the official types, which allow no other fields."""
    result = [
        types.GenerateContentResponse.model_validate_json(json.dumps(each)) for each in events
    ]
    parts = [part for each in result for part in each.candidates[0].content.parts]
    result[-1].candidates[0].content.parts = parts
    return result[-1]


def test_what_our_scripts_send_is_what_the_official_client_reads():
    sources = grounding("http://a", text="x")
    events = answer(*PARTS, groundingMetadata=sources)
    theirs, ours = read(events), Answer()
    decoder = GeminiDecoder()
    for event in [*(each for one in events for each in decoder.feed_object(one)), *decoder.close()]:
        ours.feed(event)
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
        decoder = GeminiDecoder()
        events = answer(call("f", {}), finish=reason)
        result = [each for event in events for each in decoder.feed_object(event)]
        assert isinstance([*result, *decoder.close()][-1], Finished), reason


@given(histories)
def test_every_history_is_content_of_the_official_types(history):
    pieces = HistoryEncoder(ContentWriter(OURS, NEW)).written(history).pieces
    for content in json.loads(b"".join(pieces)):
        types.Content.model_validate_json(json.dumps(content))


@pytest.mark.parametrize("model", ["gemini-3.1-pro", "gemini-2.5-flash"])
@pytest.mark.parametrize("without", [(), ("JSON Schema",)])
def test_a_request_is_made_of_the_official_types(model, without):
    known = generation_of(model, Capabilities())
    request = Request(
        system="Be.",
        messages=[Message(role="user", parts=(TextPart("Hello"),))],
        tools=[TOOL, Tool(name="g", description="", parameters={})],
        tool_choice="required",
        max_output_tokens=9,
        reasoning_effort="high",
    )
    payload = json.loads(
        encoded(
            write_request(
                request,
                generation=known,
                capabilities=Capabilities(web_search=True),
                histories=HistoryEncoder(ContentWriter(OURS, known)),
                without=without,
            )
        )
    )
    fields = {
        "systemInstruction": types.Content,
        "toolConfig": types.ToolConfig,
        "generationConfig": types.GenerationConfig,
    }
    for name, kind in fields.items():
        kind.model_validate_json(json.dumps(payload.pop(name)))
    for name, kind in (("tools", types.Tool), ("contents", types.Content)):
        for each in payload.pop(name):
            kind.model_validate_json(json.dumps(each))
    assert not payload


@given(schemas)
def test_every_converted_schema_is_one_of_the_official_types(schema):
    types.Schema.model_validate(openapi_schema(schema))


def test_thoughts_are_no_text_to_the_official_client_either():
    assert read(answer(thought("hm"), text_part("x"))).text == "x"

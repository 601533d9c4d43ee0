"""OpenAI's own types as oracles, for the events of our tests and for our requests."""

import functools
from typing import Any

import pytest
from hypothesis import example, given

from eca_server.models.backend import Request
from eca_server.models.facts import Capabilities
from tests.eca_server.models.histories import file, user
from tests.eca_server.models.openai_responses.scripted import (
    EVERYTHING,
    answer,
    cut,
    message,
    refusal,
)
from tests.eca_server.models.openai_responses.test_decoder import play, text_of
from tests.eca_server.models.openai_responses.test_request import histories, write
from tests.eca_server.models.reading import TOOL, walked
from tests.lazy import LazyModule

pydantic = LazyModule("pydantic")
types = LazyModule("openai.types.responses")
params = LazyModule("openai.types.responses.response_create_params")


@functools.cache
def event_type() -> Any:
    return pydantic.TypeAdapter(types.ResponseStreamEvent)


@functools.cache
def request_type() -> Any:
    return pydantic.TypeAdapter(params.ResponseCreateParamsStreaming)


def test_the_scripted_answers_are_what_the_sdk_reads_and_read_as_it_reads_them():
    said = message("He", "llo", phase="commentary")
    for stream in (EVERYTHING, answer(said, message(" there")), cut(said), answer(refusal("no"))):
        *_, last = [event_type().validate_python(event) for event in stream]
        messages = [item for item in last.response.output if item.type == "message"]
        content = [getattr(part, "text", "") for each in messages for part in each.content]
        assert text_of(play(stream)) == "\n\n".join(content)


FILE = file("a.pdf", "application/pdf", b"%PDF")


@given(histories)
@example([user("See", FILE)])
def test_the_sdk_takes_every_request_that_we_write(history):
    request = Request(
        system="s",
        messages=history,
        tools=[TOOL],
        tool_choice="required",
        max_output_tokens=100,
        reasoning_effort="high",
        cache_key="chat",
    )
    payload = write(request)
    payload["input"] = [item for item in payload["input"] if item.get("type") != "program"]
    for item in payload["input"]:
        if item.get("type") == "web_search_call":
            item |= {"status": "completed", "action": {"type": "search", "query": "q"}}
    assert walked(request_type().validate_python(payload)) == payload


def test_the_sdk_takes_the_search():
    payload = write(Request(messages=[user()]), capabilities=Capabilities(web_search=True))
    assert walked(request_type().validate_python(payload)) == payload


def test_the_oracle_refuses_what_is_wrong():
    payload = {"model": "m", "stream": True, "input": [{"type": "function_call", "name": "f"}]}
    with pytest.raises(pydantic.ValidationError):
        walked(request_type().validate_python(payload))

"""OpenAI's own types as oracles, for the events of our tests and for our requests."""

import functools
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given

from eca_server.models.backend import Request, Tool
from eca_server.models.facts import Capabilities
from eca_server.models.history import FilePart, Message, TextPart
from tests.eca_server.models.openai_responses.scripted import (
    answer,
    call,
    citation,
    cut,
    message,
    reasoning,
    refusal,
    search,
)
from tests.eca_server.models.openai_responses.test_decoder import play, text_of
from tests.eca_server.models.openai_responses.test_request import histories, write
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


def walked(value: Any) -> Any:
    """Return all of a value: members of an `Iterable` are checked only when they are read."""
    if isinstance(value, Mapping):
        return {name: walked(member) for name, member in value.items()}
    if isinstance(value, list | tuple | Iterator) or type(value).__name__ == "ValidatorIterator":
        return [walked(member) for member in value]
    return value


def test_the_scripted_answers_are_what_the_sdk_reads_and_read_as_it_reads_them():
    stream = answer(
        reasoning("a", "b"),
        search("q", "http://u"),
        message("He", "llo", phase="commentary", cites=[citation("http://u", "U", 0, 2)]),
        message(" there"),
        call("f", '{"n": 1}'),
    )
    events = [event_type().validate_python(event) for event in stream]
    assert all(type(event).__name__ != "dict" for event in events)
    content = [part.text for item in events[-1].response.output if item.type == "message"
            for part in item.content]  # fmt: skip
    assert text_of(play(stream)) == "\n\n".join(content)
    for event in (*answer(refusal("no")), *cut(message("a"))):
        event_type().validate_python(event)


@given(histories)
def test_the_sdk_takes_every_request_that_we_write(history):
    request = Request(
        system="s",
        messages=history,
        tools=[Tool(name="f", description="d", parameters={"type": "object"})],
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


def test_the_sdk_takes_files_and_the_search():
    file = FilePart(name="a.pdf", media_type="application/pdf", data=b"%PDF")
    request = Request(messages=[Message(role="user", parts=(TextPart("See"), file))])
    payload = write(request, capabilities=Capabilities(web_search=True))
    assert walked(request_type().validate_python(payload)) == payload


def test_the_oracle_refuses_what_is_wrong():
    payload = {"model": "m", "stream": True, "input": [{"type": "function_call", "name": "f"}]}
    with pytest.raises(pydantic.ValidationError):
        walked(request_type().validate_python(payload))

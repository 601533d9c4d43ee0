"""Ollama's own types as oracles, for the objects of our tests and for our requests."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eca_server.models.backend import Request, Tool
from eca_server.models.events import Finished, ToolCallFinished, Usage
from eca_server.models.ollama.decoder import OllamaDecoder
from eca_server.models.ollama.models import read_details, read_installed
from tests.eca_server.models.histories import histories
from tests.eca_server.models.ollama.scripted import (
    answer,
    call,
    calls,
    installed,
    shown,
    text,
    thinking,
)
from tests.eca_server.models.ollama.test_request import payload
from tests.eca_server.models.reading import only, play_objects, text_of, thoughts_of
from tests.eca_server.models.test_streams import ollama_objects
from tests.lazy import LazyModule

pydantic = LazyModule("pydantic")
types = LazyModule("ollama._types")
NUMBER = {"n": {"type": "integer", "description": "how many"}}
PARAMETERS = {"type": "object", "properties": NUMBER, "required": ["n"]}
TOOL = Tool(name="f", description="d", parameters=PARAMETERS)


def read_back(message: dict) -> dict:
    """Return a message with its images in the SDK's form before encoding."""
    pictures = message.get("images")
    return {**message, "images": [{"value": each} for each in pictures]} if pictures else message


@given(histories, st.sampled_from([None, True, "high"]), st.booleans())
def test_the_sdk_takes_every_request_that_we_write(history, think, tools):
    request = Request(messages=history, tools=[TOOL] if tools else [])
    sent = payload(request, think=think, options={"temperature": 0.5})
    taken = types.ChatRequest.model_validate(sent)
    assert taken.options["num_ctx"] == 16_384
    messages = [types.Message.model_validate(read_back(message)) for message in taken.messages]
    for message, ours in zip(messages, sent["messages"], strict=True):
        assert (message.role, message.content) == (ours["role"], ours["content"])
        assert message.tool_name == ours.get("tool_name")
        assert [each.model_dump() for each in message.images or ()] == ours.get("images", [])
        assert [each.function.arguments for each in message.tool_calls or ()] == [
            each["function"]["arguments"] for each in ours.get("tool_calls", ())
        ]


def test_arguments_as_text_are_refused_so_that_the_oracle_is_one():
    call_ = {"function": {"name": "f", "arguments": "{}"}}
    with pytest.raises(pydantic.ValidationError):
        types.Message.model_validate({"role": "assistant", "tool_calls": [call_]})


ALL = [thinking("Hm"), text("So"), calls(call("f", {"n": 1}), call("g")), calls(call("h"))]


@given(
    ollama_objects.filter(lambda made: "<" not in str(made)),
    st.sampled_from([None, {"eval_count": 3}, {"eval_count": 3, "prompt_eval_count": 4}]),
)
@example(ALL, {"eval_count": 3, "prompt_eval_count": 4})
def test_both_read_the_same_in_every_answer(made, counts):
    stream = answer(*made, counts=counts)
    theirs = [types.ChatResponse.model_validate(each) for each in stream]
    ours = play_objects(OllamaDecoder(may_be_empty=True), stream)
    assert text_of(ours) == "".join(each.message.content or "" for each in theirs)
    assert thoughts_of(ours) == "".join(each.message.thinking or "" for each in theirs)
    assert [e.arguments for e in only(ToolCallFinished, ours)] == [
        each.function.arguments for part in theirs for each in part.message.tool_calls or ()
    ]
    last = theirs[-1]
    counted = Usage(input=last.prompt_eval_count, output=last.eval_count)
    assert [*only(Usage, ours), Usage()][0] == counted
    assert isinstance(ours[-1], Finished)
    assert ours[-1].raw_reason == last.done_reason
    assert last.done


def test_a_listed_and_a_shown_model_are_read_as_the_sdk_reads_them():
    listed = {"models": [installed("qwen3:8b", "completion"), installed("old:latest")]}
    theirs = types.ListResponse.model_validate(listed)
    assert [each.name for each in read_installed(listed)] == [each.model for each in theirs.models]
    details = shown("completion", "tools", context=40_960)
    theirs = types.ShowResponse.model_validate(details)
    ours = read_details(details)
    assert ours.tools == ("tools" in theirs.capabilities)
    assert ours.images == ("vision" in theirs.capabilities)
    assert ours.most == theirs.modelinfo["qwen3.context_length"]

"""Ollama's own types as oracles, for the objects of our tests and for our requests."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.backend import Request, Tool
from eca_server.models.encoding import HistoryEncoder, encoded
from eca_server.models.events import Finished, ReasoningDelta, TextDelta, ToolCallFinished, Usage
from eca_server.models.ollama.messages import OllamaWriter
from eca_server.models.ollama.models import read_details, read_installed
from eca_server.models.ollama.request import write_request
from tests.eca_server.models.histories import OURS as US
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
from tests.eca_server.models.ollama.test_decoder import objects, play
from tests.lazy import LazyModule

pydantic = LazyModule("pydantic")
types = LazyModule("ollama._types")
TOOL = Tool(
    name="f",
    description="d",
    parameters={
        "type": "object",
        "properties": {"n": {"type": "integer", "description": "how many"}},
        "required": ["n"],
    },
)


def read_back(message: dict) -> dict:
    """Return a message with its images in the SDK's form before encoding."""
    pictures = message.get("images")
    return {**message, "images": [{"value": each} for each in pictures]} if pictures else message


@given(histories, st.sampled_from([None, True, "high"]), st.booleans())
def test_the_sdk_takes_every_request_that_we_write(history, think, tools):
    made = write_request(
        Request(messages=history, tools=[TOOL] if tools else []),
        messages=HistoryEncoder(OllamaWriter(US)).written(history),
        wire_model="m",
        think=think,
        context=16_384,
        options={"temperature": 0.5},
    )
    sent = json.loads(encoded(made))
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


def check_that_both_read_the_same(stream: list[dict]) -> None:
    theirs = [types.ChatResponse.model_validate(each) for each in stream]
    ours = play(stream, may_be_empty=True)
    content = "".join(each.message.content or "" for each in theirs)
    thought = "".join(each.message.thinking or "" for each in theirs)
    assert "".join(e.text for e in ours if isinstance(e, TextDelta)) == content
    assert "".join(e.text for e in ours if isinstance(e, ReasoningDelta)) == thought
    assert [e.arguments for e in ours if isinstance(e, ToolCallFinished)] == [
        each.function.arguments for part in theirs for each in part.message.tool_calls or ()
    ]
    last = theirs[-1]
    counted = Usage(input=last.prompt_eval_count, output=last.eval_count)
    assert next((e for e in ours if isinstance(e, Usage)), Usage()) == counted
    assert isinstance(ours[-1], Finished)
    assert ours[-1].raw_reason == last.done_reason
    assert last.done


def test_a_scripted_answer_is_what_the_sdk_reads_and_read_as_it_reads_it():
    parts = [thinking("Hm"), text("So"), calls(call("f", {"n": 1}), call("g")), calls(call("h"))]
    for counts in (None, {"eval_count": 3}, {"eval_count": 3, "prompt_eval_count": 4}):
        check_that_both_read_the_same(answer(*parts, counts=counts))


@given(objects.filter(lambda made: "<" not in str(made)))
def test_both_read_the_same_in_every_answer(made):
    check_that_both_read_the_same(answer(*made))


def test_a_listed_model_is_read_as_the_sdk_reads_it():
    listed = {"models": [installed("qwen3:8b", "completion"), installed("old:latest")]}
    theirs = types.ListResponse.model_validate(listed)
    assert [each.name for each in read_installed(listed)] == [each.model for each in theirs.models]


def test_a_shown_model_is_read_as_the_sdk_reads_it():
    details = shown("completion", "tools", context=40_960)
    theirs = types.ShowResponse.model_validate(details)
    ours = read_details(details)
    assert ours.tools == ("tools" in theirs.capabilities)
    assert ours.images == ("vision" in theirs.capabilities)
    assert ours.most == theirs.modelinfo["qwen3.context_length"]

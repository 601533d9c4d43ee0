"""The providers' own types as oracles, for the answers of our tests and for our requests."""

import functools
import json
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from eca_server.models import events as ev
from eca_server.models.anthropic.backend import read_model
from eca_server.models.backend import Tool
from eca_server.models.google.schema import openapi_schema
from eca_server.models.ollama.models import read_details, read_installed
from tests.eca_server.models.anthropic import scripted as anthropic
from tests.eca_server.models.every_api import API
from tests.eca_server.models.google import scripted as google
from tests.eca_server.models.google.test_google import PARTS
from tests.eca_server.models.google.test_schema import schemas
from tests.eca_server.models.histories import file, user
from tests.eca_server.models.ollama import scripted as ollama
from tests.eca_server.models.openai_responses import scripted as responses
from tests.eca_server.models.reading import only, read, text_of, thoughts_of, write
from tests.eca_server.models.test_requests import HISTORIES
from tests.eca_server.models.test_streams import anthropic_blocks, ollama_objects
from tests.lazy import LazyModule

slow_import = pytest.mark.long  # the packages take seconds; our own checkers run always

pydantic = LazyModule("pydantic")
anthropic_types = LazyModule("anthropic.types")
anthropic_params = LazyModule("anthropic.types.message_create_params")
anthropic_streaming = LazyModule("anthropic.lib.streaming._messages")
google_types = LazyModule("google.genai.types")
ollama_types = LazyModule("ollama._types")
openai_types = LazyModule("openai.types.responses")
openai_params = LazyModule("openai.types.responses.response_create_params")


@functools.cache
def adapter(module: LazyModule, name: str) -> Any:
    return pydantic.TypeAdapter(getattr(module, name))


def is_taken(payload: Any, module: LazyModule, name: str) -> bool:
    return walked(adapter(module, name).validate_python(payload)) == payload


def walked(value: Any) -> Any:
    """Return all of a value: an SDK checks members of an `Iterable` only when they are read.

    Blocks of an answer, which a request may contain, too, are read as objects.
    """
    if hasattr(value, "model_dump"):
        return value.model_dump(exclude_unset=True)
    if isinstance(value, dict):
        return {name: walked(member) for name, member in value.items()}
    if isinstance(value, list | tuple) or hasattr(value, "__next__"):
        return [walked(member) for member in value]
    return value


def check(kind: type, value: Any) -> Any:
    return kind.model_validate_json(json.dumps(value))


WRONG_ITEM = {"type": "function_call", "name": "f"}
WRONG_CALL = {"function": {"name": "f", "arguments": "{}"}}


@slow_import
def test_the_oracles_refuse_what_is_wrong():
    payload = {"model": "m", "stream": True, "input": [WRONG_ITEM]}
    with pytest.raises(pydantic.ValidationError):
        is_taken(payload, openai_params, "ResponseCreateParamsStreaming")
    with pytest.raises(pydantic.ValidationError):
        ollama_types.Message.model_validate({"role": "assistant", "tool_calls": [WRONG_CALL]})
    block = {"type": "tool_use", "name": "f", "input": {}}
    messages = [{"role": "assistant", "content": [block]}]
    payload = {"model": "m", "max_tokens": 1, "stream": True, "messages": messages}
    with pytest.raises(pydantic.ValidationError):
        is_taken(payload, anthropic_params, "MessageCreateParamsStreaming")


def taken_by_openai(payload: dict[str, Any]) -> None:
    payload["input"] = [item for item in payload["input"] if item.get("type") != "program"]
    for item in payload["input"]:
        if item.get("type") == "web_search_call":
            item |= {"status": "completed", "action": {"type": "search", "query": "q"}}
    assert is_taken(payload, openai_params, "ResponseCreateParamsStreaming")


def taken_by_google(payload: dict[str, Any]) -> None:
    check(google_types.Content, payload.pop("systemInstruction"))
    check(google_types.ToolConfig, payload.pop("toolConfig", {}))
    check(google_types.GenerationConfig, payload.pop("generationConfig"))
    for member, kind in (("tools", google_types.Tool), ("contents", google_types.Content)):
        for each in payload.pop(member):
            check(kind, each)
    assert not payload


def taken_by_ollama(payload: dict[str, Any]) -> None:
    for message in payload["messages"]:
        if pictures := message.get("images"):
            message["images"] = [{"value": each} for each in pictures]
        theirs = ollama_types.Message.model_validate(message)
        called = [each.function.arguments for each in theirs.tool_calls or ()]
        assert called == [each["function"]["arguments"] for each in message.get("tool_calls", ())]
        assert theirs.tool_name == message.get("tool_name")
    assert ollama_types.ChatRequest.model_validate(payload).options["num_ctx"] == 16_384


TAKERS = {
    "anthropic": lambda payload: is_taken(
        payload, anthropic_params, "MessageCreateParamsStreaming"
    ),
    "openai-responses": taken_by_openai,
    "google": taken_by_google,
    "ollama": taken_by_ollama,
}
MODELS = {
    "anthropic": ["claude-opus-4-7", "claude-haiku-4-5", "claude-opus-5-5"],
    "google": ["gemini-3.1-pro", "gemini-2.5-flash"],
}
COUNTING = Tool(
    name="f",
    description="d",
    parameters={"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]},
)


@pytest.mark.long
@pytest.mark.parametrize(
    "api", [pytest.param(api, marks=() if api == "ollama" else slow_import) for api in TAKERS]
)
@given(st.data())
def test_the_provider_s_types_take_every_request_that_we_write(api, data):
    payload = write(
        api,
        *data.draw(HISTORIES[api] | st.just([user(file("a.pdf", "application/pdf", b"%PDF"))])),
        model=data.draw(st.sampled_from(MODELS.get(api, ["m"]))),
        system="s",
        tools=[COUNTING, Tool(name="g", description="", parameters={})],
        reasoning_effort=data.draw(st.sampled_from([None, "none", "high"])),
        max_output_tokens=data.draw(st.sampled_from([None, 9_000])),
        cache_key="chat",
        web_search=data.draw(st.booleans()),
        server="openai" if api == "openai-responses" else None,
    )
    assert TAKERS[api](payload) is not False


def read_by_anthropic(stream: list[dict]) -> Any:
    snapshot = None
    buffers: dict[int, bytes] = {}
    for event in stream:
        if event["type"] != "ping":
            checked = adapter(anthropic_types, "RawMessageStreamEvent").validate_python(event)
            snapshot = anthropic_streaming.accumulate_event(
                event=checked, current_snapshot=snapshot, json_bufs=buffers
            )
    return snapshot


def check_that_anthropic_reads_the_same(stream: list[dict]) -> None:
    theirs = read_by_anthropic(stream)
    ours = API["anthropic"].play(stream, may_be_empty=True)

    def blocks(kind: str) -> list[Any]:
        return [block for block in theirs.content if block.type == kind]

    assert text_of(ours) == "".join(block.text for block in blocks("text"))
    assert thoughts_of(ours) == "".join(block.thinking for block in blocks("thinking"))
    thoughts = [e for e in only(ev.ReasoningFinished, ours) if not e.redacted]
    signatures = [block.signature for block in blocks("thinking")]
    assert [e.opaque["signature"] for e in thoughts] == signatures
    names = {e.key: (e.name, e.provider_id) for e in only(ev.ToolCallStarted, ours)}
    assert [(*names[e.key], e.arguments) for e in only(ev.ToolCallFinished, ours)] == [
        (block.name, block.id, block.input) for block in blocks("tool_use")
    ]
    assert only(ev.Usage, ours)[-1] == ev.Usage(
        input=theirs.usage.input_tokens,
        cache_read=theirs.usage.cache_read_input_tokens,
        cache_write=theirs.usage.cache_creation_input_tokens,
        output=theirs.usage.output_tokens,
    )
    assert ours[-1] == ev.Finished(reason=ours[-1].reason)


@slow_import
@pytest.mark.parametrize("stop", ["tool_use", "refusal", "max_tokens", "pause_turn"])
def test_anthropic_reads_scripted_answers_as_we_do(stop):
    details = {"type": "refusal", "category": "bio", "explanation": "No."}
    more = {"stop_details": details} if stop == "refusal" else {}
    blocks = anthropic.ITEMS if stop == "tool_use" else anthropic.ITEMS[:-2]
    check_that_anthropic_reads_the_same(anthropic.answer(*blocks, stop=stop, **more))


@slow_import
@given(anthropic_blocks)
def test_anthropic_reads_every_well_formed_answer_as_we_do(blocks):
    stream = anthropic.answer(*blocks)
    assume(all(is_readable(stream, index) for index in range(len(blocks))))
    check_that_anthropic_reads_the_same(stream)


def is_readable(stream: list[dict], index: int) -> bool:
    """Return whether a call's input is empty or an object; the SDK raises for others."""
    own = [event for event in stream if event.get("index") == index]
    if own[0]["content_block"]["type"] != "tool_use":
        return True
    raw = "".join(event["delta"]["partial_json"] for event in own[1:-1])
    return raw in ("", "{}", '{"n":1}')


@slow_import
def test_a_listed_model_is_one_of_anthropic_s():
    theirs = anthropic_types.ModelInfo.model_validate(anthropic.LISTED)
    facts = read_model(anthropic.LISTED).facts
    assert (facts.context, facts.output) == (theirs.max_input_tokens, theirs.max_tokens)
    assert facts.images == theirs.capabilities.image_input.supported
    assert ("adaptive" in facts.thinking) == theirs.capabilities.thinking.types.adaptive.supported
    assert ("max" in facts.efforts) == theirs.capabilities.effort.max.supported


@slow_import
def test_openai_reads_scripted_answers_as_we_do():
    first = responses.message("He", "llo", phase="commentary")
    two = responses.answer(first, responses.message(" there"))
    refused = responses.answer(responses.refusal("no"))
    for stream in (responses.EVERYTHING, two, responses.cut(first), refused):
        event_type = adapter(openai_types, "ResponseStreamEvent")
        *_, last = [event_type.validate_python(event) for event in stream]
        messages = [item for item in last.response.output if item.type == "message"]
        content = [getattr(part, "text", "") for each in messages for part in each.content]
        assert text_of(API["openai-responses"].play(stream)) == "\n\n".join(content)


@slow_import
def test_google_reads_a_scripted_answer_as_we_do():
    sources = google.grounding("http://a", text="x")
    events = google.answer(*PARTS, groundingMetadata=sources)
    replies = [check(google_types.GenerateContentResponse, each) for each in events]
    parts = [part for each in replies for part in each.candidates[0].content.parts]
    theirs, ours = replies[-1], read(API["google"].play(events))
    theirs.candidates[0].content.parts = parts
    assert ours.text == theirs.text
    assert [each.arguments for each in ours.calls] == [each.args for each in theirs.function_calls]
    counts = theirs.usage_metadata
    assert ours.usage.output == counts.candidates_token_count + counts.thoughts_token_count
    assert ours.usage.input + ours.usage.cache_read == counts.prompt_token_count
    assert ours.usage.cache_read == counts.cached_content_token_count
    assert theirs.candidates[0].grounding_metadata.grounding_chunks[0].web.uri == "http://a"


@slow_import
def test_every_reason_that_google_knows_ends_an_answer():
    for reason in [each.value for each in google_types.FinishReason][1:]:
        answer = google.answer(google.call("f", {}), finish=reason)
        assert isinstance(API["google"].play(answer)[-1], ev.Finished), reason


@slow_import
@given(schemas)
def test_every_converted_schema_is_one_of_google_s_types(schema):
    google_types.Schema.model_validate(openapi_schema(schema))


@given(
    ollama_objects.filter(lambda made: "<" not in str(made)),
    st.sampled_from([None, {"eval_count": 3}, {"eval_count": 3, "prompt_eval_count": 4}]),
)
def test_ollama_reads_every_answer_as_we_do(made, counts):
    stream = ollama.answer(*made, counts=counts)
    theirs = [ollama_types.ChatResponse.model_validate(each) for each in stream]
    ours = API["ollama"].play(stream, may_be_empty=True)
    assert text_of(ours) == "".join(each.message.content or "" for each in theirs)
    assert thoughts_of(ours) == "".join(each.message.thinking or "" for each in theirs)
    assert [e.arguments for e in only(ev.ToolCallFinished, ours)] == [
        each.function.arguments for part in theirs for each in part.message.tool_calls or ()
    ]
    last = theirs[-1]
    counted = ev.Usage(input=last.prompt_eval_count, output=last.eval_count)
    assert [*only(ev.Usage, ours), ev.Usage()][0] == counted
    assert isinstance(ours[-1], ev.Finished)
    assert last.done


def test_a_listed_and_a_shown_model_are_read_as_ollama_reads_them():
    models = [ollama.installed("qwen3:8b", "completion"), ollama.installed("old:latest")]
    theirs = ollama_types.ListResponse.model_validate({"models": models})
    names = [each.model for each in theirs.models]
    assert [each.name for each in read_installed({"models": models})] == names
    details = ollama.shown("completion", "tools", context=40_960)
    theirs = ollama_types.ShowResponse.model_validate(details)
    ours = read_details(details)
    assert ours.tools == ("tools" in theirs.capabilities)
    assert ours.images == ("vision" in theirs.capabilities)
    assert ours.most == theirs.modelinfo["qwen3.context_length"]

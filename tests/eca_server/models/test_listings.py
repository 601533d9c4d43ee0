"""Lists of models: the offered ones, their capabilities in each spelling, and the cache."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.backend import ModelInfo
from eca_server.models.facts import ModelFacts
from eca_server.models.listings import (
    MAX_MODELS,
    Listing,
    chat_models,
    listing_from_json,
    listing_to_json,
    read_models,
)
from tests.eca_server.models.reading import odd_values


def names(*listed: str) -> list[str]:
    return [model.name for model in chat_models(ModelInfo(name=name) for name in listed)]


NOT_FOR_CHATS = """
text-embedding-3-large nomic-embed-text:latest mistral-ocr-latest gpt-image-1
gpt-4o-realtime-preview gpt-4o-mini-tts whisper-large-v3 omni-moderation-latest dall-e-3
meta-llama/llama-guard-4-12b /models/nomic-embed.gguf gemini-2.5-flash-live imagen-4 babbage-002
"""
FOR_CHATS = [
    "/srv/audio/gemma.gguf",
    "C:\\voice\\a.gguf",
    "gpt-6.1-sol",
    "qwen3:8b",
    "olive-7b",
    "a/b",
    "imaginary",
    "o3",
    "devoted-2",
    "ttsx",
]


def test_what_may_be_for_chats_is_offered_once():
    assert names(*NOT_FOR_CHATS.split(), "") == []
    assert names(*FOR_CHATS, *FOR_CHATS) == FOR_CHATS


def test_of_a_long_list_the_first_are_offered_in_its_order():
    listed = [f"m{number}" for number in range(MAX_MODELS + 5)]
    assert names(*listed) == listed[:MAX_MODELS]


ROUTED = {
    "context_length": 9,
    "top_provider": {"max_completion_tokens": 5, "context_length": 8},
    "architecture": {"input_modalities": ["text"], "output_modalities": ["text"]},
    "supported_parameters": ["max_tokens", "reasoning"],
}
ABLE = {"completion_chat": True, "function_calling": False, "vision": False}


@pytest.mark.parametrize(
    ("listed", "facts"),
    [
        ({"object": "model"}, {}),
        (ROUTED, {"context": 9, "output": 5, "images": False, "tools": False, "reasoning": True}),
        (
            {"max_context_length": 7, "capabilities": ABLE},
            {"context": 7, "tools": False, "images": False},
        ),
        ({"context_window": 6, "max_completion_tokens": 3}, {"context": 6, "output": 3}),
        ({"max_model_len": 4, "active": True}, {"context": 4}),
        ({"max_input_tokens": 7, "max_output_tokens": 2}, {"context": 7, "output": 2}),
        ({"type": "llm", "max_context_length": 4}, {"context": 4}),
        ({"meta": {"n_ctx": 8192, "n_ctx_train": 32768}}, {"context": 8192}),
        ({"meta": {"n_ctx_train": 32768}}, {"context": 32768}),
        ({"context_length": 5, "meta": {"n_ctx": 9}}, {"context": 5}),
        ({"context_length": 9, "meta": {"n_ctx": 5, "n_ctx_train": 9}}, {"context": 5}),
        (
            {"reasoning": {"supported_efforts": ["low", "high", "high", 3, "A b"]}},
            {"reasoning": True, "efforts": ("low", "high")},
        ),
        (
            {"supported_reasoning_efforts": ["none", "max"]},
            {"reasoning": True, "efforts": ("none", "max")},
        ),
        ({"reasoning": {"supported_efforts": None}}, {}),
        ({"context_length": None, "architecture": None}, {}),
        ({"context_length": "9", "capabilities": ["x"]}, {}),
    ],
)
def test_what_each_server_lists_of_its_models_is_read(listed, facts):
    data = [{"id": "m", **listed}]
    model = ModelInfo(name="m", facts=ModelFacts(**facts))
    assert read_models({"data": data}) == read_models(data) == [model]


@pytest.mark.parametrize(
    "more",
    [
        {"type": "embedding"},
        {"type": "image"},
        {"mode": "audio_transcription"},
        {"active": False},
        {"capabilities": {"completion_chat": False}},
        {"architecture": {"output_modalities": ["image"]}},
    ],
)
def test_a_model_of_which_the_server_says_that_it_does_not_chat_is_left_out(more):
    assert read_models({"data": [{"id": "m", **more}, {"id": "n"}]}) == [ModelInfo(name="n")]


words = st.lists(st.text(max_size=4), max_size=3)
counts = st.none() | st.integers(1, 10**7)
infos = st.builds(
    ModelInfo,
    name=st.text(min_size=1, max_size=8),
    api=st.none() | st.just("anthropic"),
    facts=st.builds(
        ModelFacts,
        tools=st.booleans(),
        images=st.booleans(),
        reasoning=st.booleans(),
        context=counts,
        output=counts,
        thinking=st.none() | words.map(frozenset),
        efforts=st.none() | words.map(tuple),
        web_search=st.booleans(),
    ),
)


@given(st.lists(infos, max_size=4), st.floats(0, 1e12))
def test_a_stored_listing_is_the_same_after_a_restart(models, at):
    listing = Listing(models=chat_models(models), at=at)
    assert listing_from_json(listing_to_json(listing)) == listing


KEYS = ("at", "models", "name", "context", "thinking", "tools")


@given(odd_values(KEYS, st.integers() | st.text(max_size=3)))
def test_whatever_is_stored_breaks_nothing(value):
    for rest in (value, {"at": 1, "models": value}, {"at": 1, "models": [value]}):
        listing = listing_from_json(rest)
        assert listing is None or isinstance(listing, Listing)

"""Requests in the format of Ollama's own API; its models, and the size of their context."""

import pytest

from eca_server.models.backend import ModelInfo
from eca_server.models.facts import ModelFacts
from eca_server.models.history import Message, Origin, ReasoningPart
from eca_server.models.ollama.address import address_of
from eca_server.models.ollama.context import FIRST, MOST, ContextSize
from eca_server.models.ollama.models import (
    ModelDetails,
    loaded_context,
    read_details,
    read_installed,
)
from eca_server.models.ollama.request import think_value
from tests.eca_server.models.histories import (
    OURS,
    THEIRS,
    model,
    tool,
    tool_call,
    tool_result,
    user,
)
from tests.eca_server.models.ollama.scripted import installed, running, shown
from tests.eca_server.models.written import write, write_history

ONE = {"raw": '{"n":1}', "arguments": {"n": 1}}


def called(origin: Origin = OURS) -> Message:
    return model(ReasoningPart(text="Hm"), tool_call("a", "tool_a", **ONE), origin=origin)


def test_thoughts_go_back_to_the_very_model_that_had_them():
    ours, theirs = (
        write_history("ollama", user(), called(origin), tool(tool_result("a")))[1]
        for origin in (OURS, THEIRS)
    )
    assert ours["thinking"] == "Hm"
    assert "thinking" not in theirs
    assert theirs["tool_calls"], "but its calls are kept"


def test_a_model_that_calls_no_tools_reads_of_calls_as_text():
    history = [user(), called(THEIRS), tool(tool_result("a", is_error=True)), user("And?")]
    assert write_history("ollama", *history, calls_tools=False) == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": '[called tool_a with {"n":1}]'},
        {"role": "user", "content": "[result of tool_a]\n\nError:\n\nr"},
        {"role": "user", "content": "And?"},
    ]


def test_options_of_the_user_replace_ours_and_a_null_removes_one():
    options = {"temperature": 0, "num_ctx": None, "num_predict": 5}
    payload = write("ollama", user(), extra_payload={"options": options}, max_output_tokens=9)
    assert payload["options"] == {"temperature": 0, "num_predict": 5}


LEVELS = ("low", "medium", "high")


@pytest.mark.parametrize(
    ("effort", "thinks", "efforts", "value"),
    [
        ("high", False, (), None),
        ("high", True, LEVELS, "high"),
        ("max", True, LEVELS, "high"),
        ("minimal", True, LEVELS, "low"),
        ("none", True, LEVELS, "low"),
        ("own word", True, ("low",), "own word"),
    ],
)
def test_an_effort_is_asked_for_as_the_server_says_that_the_model_takes_it(
    effort, thinks, efforts, value
):
    assert think_value(effort, thinks=thinks, efforts=efforts) == value


NAMED = {"values": ["max", "low", "off", True], "default": "low"}


@pytest.mark.parametrize(
    ("details", "facts"),
    [
        (
            shown("completion", "tools", "thinking", context=40_960),
            {"tools": True, "images": False, "thinking": True, "most": 40_960},
        ),
        (
            shown("completion", parameters='stop    "<|im_end|>"\nnum_ctx      8192\n'),
            {"chosen": 8_192},
        ),
        (shown("thinking", thinking=NAMED), {"efforts": ("low", "max")}),
        (shown("thinking", architecture="gptoss"), {"efforts": LEVELS}),
        (shown("thinking"), {"efforts": (), "hosted": False, "chosen": None}),
        (shown("tools", remote_host="https://ollama.com:443"), {"hosted": True}),
    ],
)
def test_abilities_sizes_and_levels_are_read(details, facts):
    result = read_details(details)
    assert {name: getattr(result, name) for name in facts} == facts


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        {},
        {"capabilities": None, "model_info": None},
        {"model_info": {"x": 1}},
        {"thinking": 5, "parameters": None, "details": 3},
    ],
)
def test_what_is_odd_is_unknown(odd):
    assert read_details(odd) == ModelDetails()


def test_installed_models_are_listed_with_what_they_can_do():
    listed = [
        installed("qwen3:8b", "completion", "tools", "thinking"),
        installed("llava:7b", "completion", "vision"),
        installed("embeddinggemma:latest", "embedding"),
        installed("nomic-embed-text:latest", family="nomic-bert"),
        installed("old:latest"),
    ]
    assert list(read_installed({"models": listed})) == [
        ModelInfo(name="qwen3:8b", facts=ModelFacts(tools=True, images=False, reasoning=True)),
        ModelInfo(name="llava:7b", facts=ModelFacts(tools=False, images=True)),
        ModelInfo(name="old:latest", facts=ModelFacts()),
    ]


def test_the_size_in_memory_is_found_by_the_full_name():
    assert loaded_context(running("qwen3:8b", 32_768), "qwen3:8b") == 32_768
    assert loaded_context(running("qwen3:latest", 1), "qwen3") == 1
    assert loaded_context(running("hf.co:443/a/b:latest", 1), "hf.co:443/a/b") == 1
    assert loaded_context(running("qwen3:8b", 0), "qwen3:8b") == 0
    assert loaded_context(running("qwen3:8b", 1), "qwen3:4b") is None
    assert loaded_context({"models": None}, "m") is None


def window(limit=None, loaded=None, **details) -> ContextSize:
    return ContextSize(ModelDetails(**details), limit=limit, loaded=loaded)


@pytest.mark.parametrize(
    ("context", "size", "limit", "grown"),
    [
        (window(most=100_000), FIRST, MOST, MOST),
        (window(limit=200_000), FIRST, 200_000, 200_000),
        (window(limit=4_096), 4_096, 4_096, 4_096),
        (window(most=8_192), 8_192, 8_192, 8_192),
        (window(most=262_144, loaded=131_072), 131_072, 131_072, 131_072),
        (window(most=131_072, chosen=24_000), 24_000, 24_000, 24_000),
        (window(most=262_144, hosted=True), None, 262_144, None),
    ],
)
def test_a_window_begins_small_and_grows_to_its_limit(context, size, limit, grown):
    assert (context.size, context.limit) == (size, limit)
    context.fit(10**6, None)
    assert context.size == grown


def test_a_window_doubles_until_the_request_and_its_answer_fit_and_never_shrinks():
    context = window(most=100_000)
    sizes = []
    while context.grow():
        sizes.append(context.size)
    assert sizes == [32_768, 65_536]
    context = window(limit=200_000, most=200_000)
    for tokens, size in ((1_000, FIRST), (30_000, 65_536), (10, 65_536)):
        context.fit(tokens, None)
        assert context.size == size
    context = window()
    context.fit(10_000, 10_000)
    assert context.size == 32_768


def test_an_estimate_that_was_too_low_is_corrected():
    context = window()
    context.record(10, 1_000)
    context.fit(8_000, None)
    assert context.size == FIRST, "of a few words nothing is learned"
    context.record(2_000, 4_000)
    context.fit(8_000, None)
    assert context.size == 32_768


@pytest.mark.parametrize(
    ("host", "base"),
    [
        ("", None),
        (" ", None),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:11500", "http://127.0.0.1:11500"),
        (":11500", "http://127.0.0.1:11500"),
        ("localhost", "http://localhost:11434"),
        ("box.lan:8000", "http://box.lan:8000"),
        ("http://box.lan", "http://box.lan:80"),
        ("https://box.lan", "https://box.lan:443"),
        ("https://box.lan/ollama/", "https://box.lan:443/ollama"),
        ("http://0.0.0.0:11434/", "http://127.0.0.1:11434"),
        ("'10.0.0.5'", "http://10.0.0.5:11434"),
        ("::", "http://[::1]:11434"),
        ("[::]:11500", "http://[::1]:11500"),
        ("[fe80::1]", "http://[fe80::1]:11434"),
        ("ollama.com", "https://ollama.com:443"),
        ("box.lan:port", None),
        ("[::1", None),
        ("ftp://box.lan", None),
    ],
)
def test_the_variable_is_read_as_ollama_reads_it(host, base):
    assert address_of(host) == base

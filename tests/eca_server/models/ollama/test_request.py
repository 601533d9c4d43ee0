"""Histories and requests in the format of Ollama's own API, and the size of its context."""

import base64
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.backend import ModelInfo, Request, Tool
from eca_server.models.encoding import HistoryEncoder, encoded
from eca_server.models.facts import ModelFacts
from eca_server.models.history import (
    FilePart,
    ImagePart,
    Message,
    Origin,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    repair,
)
from eca_server.models.ollama.address import address_of
from eca_server.models.ollama.context import FIRST, MOST, ContextSize
from eca_server.models.ollama.messages import OllamaWriter
from eca_server.models.ollama.models import (
    ModelDetails,
    loaded_context,
    read_details,
    read_installed,
)
from eca_server.models.ollama.request import think_value, write_request
from tests.eca_server.models.histories import OURS as US
from tests.eca_server.models.histories import histories
from tests.eca_server.models.ollama.scripted import installed, running, shown
from tests.eca_server.models.reading import growth_test

THEM = Origin(api="anthropic", provider="a", model="c")
PNG = ImagePart(media_type="image/png", data=b"\x89PNG")
DONE = (TextPart("done"),)
TOOL = Tool(name="f", description="d", parameters={"type": "object"})


def user(*parts) -> Message:
    return Message(role="user", parts=parts or (TextPart("Hello"),))


def called(*ids: str, origin: Origin = US, thought: str = "") -> Message:
    parts = tuple(
        ToolCallPart(id=each, name=f"tool_{each}", raw='{"n":1}', arguments={"n": 1})
        for each in ids
    )
    thoughts = (ReasoningPart(text=thought),) if thought else ()
    return Message(role="assistant", parts=(*thoughts, *parts), origin=origin)


def results(*ids: str, parts=DONE, is_error: bool = False) -> Message:
    each = (ToolResultPart(call_id=i, parts=parts, is_error=is_error) for i in ids)
    return Message(role="tool", parts=tuple(each))


def written(messages, **abilities) -> list[dict]:
    writer = OllamaWriter(US, **abilities)
    made, waiting = writer.write(repair(messages), [])
    return [*made, *writer.end(waiting)]


def payload(request: Request, **fields) -> dict:
    """Return the request as parsed JSON."""
    made = write_request(
        request,
        messages=HistoryEncoder(OllamaWriter(US)).written(request.messages),
        wire_model="m",
        **{"think": None, "context": 16_384, "options": {}, **fields},
    )
    return json.loads(encoded(made))


def test_calls_and_results_are_in_order_with_their_names():
    history = [user(), called("a", "b"), results("b", "a"), Message(role="assistant", parts=())]
    _, answer, first, second = written(history)
    assert answer == {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": "a", "function": {"index": 0, "name": "tool_a", "arguments": {"n": 1}}},
            {"id": "b", "function": {"index": 1, "name": "tool_b", "arguments": {"n": 1}}},
        ],
    }
    assert first == {"role": "tool", "content": "done", "tool_name": "tool_a", "tool_call_id": "a"}
    assert (second["tool_name"], second["tool_call_id"]) == ("tool_b", "b")


def test_a_failed_call_says_so():
    [*_, result] = written([user(), called("a"), results("a", is_error=True)])
    assert result["content"] == "Error:\n\ndone"


def test_thoughts_go_back_to_the_very_model_that_had_them():
    ours = [user(), called("a", thought="Hm"), results("a")]
    assert written(ours)[1]["thinking"] == "Hm"
    theirs = [user(), called("a", thought="Hm", origin=THEM), results("a")]
    assert "thinking" not in written(theirs)[1]
    assert written(theirs)[1]["tool_calls"], "but its calls are kept"


def test_pictures_are_beside_the_text_of_clients_that_show_them():
    history = [user(TextPart("Look"), PNG), called("a"), results("a", parts=(PNG, PNG))]
    data = base64.b64encode(PNG.data).decode()
    content, _, result = written(history)
    assert content == {"role": "user", "content": "Look", "images": [data]}
    assert (result["content"], result["images"]) == ("", [data, data])


def test_a_model_that_calls_no_tools_reads_of_calls_as_text():
    history = [user(), called("a"), results("a", is_error=True), user(TextPart("And?"))]
    assert written(history, tools=False) == [
        {"role": "user", "content": "Hello"},
        {"role": "assistant", "content": '[called tool_a with {"n":1}]'},
        {"role": "user", "content": "[result of tool_a]\n\nError:\n\ndone"},
        {"role": "user", "content": "And?"},
    ]


def test_files_are_text_or_a_note():
    files = (
        FilePart(name="a.md", media_type="text/markdown", data=b"# A"),
        FilePart(name="b.pdf", media_type="application/pdf", data=b"%PDF"),
    )
    [content] = written([user(*files)])
    assert "a.md:\n\n# A" in content["content"]
    assert "b.pdf omitted" in content["content"]


def check_messages(messages: list[dict], *, tools: bool, images: bool) -> None:
    """Check messages by the rules of API and templates, independently of the writer."""
    due: list[tuple[str, str]] = []
    for message in messages:
        allowed = {"role", "content", "images", "thinking", "tool_calls", "tool_name"}
        assert set(message) <= allowed | {"tool_call_id"}
        assert isinstance(message["content"], str)
        if message["role"] == "tool":
            assert (message["tool_call_id"], message["tool_name"]) == due.pop(0)
        else:
            assert not due, "every call is answered before anything else is said"
        for picture in message.get("images", ()):
            assert images
            base64.b64decode(picture, validate=True)
        for index, each in enumerate(message.get("tool_calls", ())):
            assert tools
            assert message["role"] == "assistant"
            function = each["function"]
            assert function["index"] == index
            assert isinstance(function["arguments"], dict)
            due.append((each["id"], function["name"]))
        if message["role"] == "user":
            assert message["content"] or message.get("images")
        assert message["role"] in ("user", "assistant", "tool")
    assert not due
    assert messages[0]["role"] == "user"
    assert messages[-1]["role"] in ("user", "tool")


@given(histories, st.booleans(), st.booleans())
def test_any_history_becomes_messages_that_the_api_takes(history, tools, images):
    check_messages(written(history, tools=tools, images=images), tools=tools, images=images)


test_a_longer_history_is_written_as_if_new = growth_test(
    histories, lambda: HistoryEncoder(OllamaWriter(US))
)


def test_a_request_has_all_that_keeps_ollama_from_cutting_silently():
    made = payload(Request(messages=[user()], tools=[TOOL], max_output_tokens=9))
    assert made == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "truncate": False,
        "shift": False,
        "options": {"num_ctx": 16_384, "num_predict": 9},
        "tools": [
            {
                "type": "function",
                "function": {"name": "f", "description": "d", "parameters": {"type": "object"}},
            }
        ],
    }


def test_the_users_options_are_added_and_a_null_removes_ours():
    options = {"temperature": 0, "num_ctx": None, "num_predict": 5}
    made = payload(Request(messages=[user()], max_output_tokens=9), options=options)
    assert made["options"] == {"temperature": 0, "num_predict": 5}


def test_a_model_that_must_not_call_gets_no_tools():
    made = payload(Request(messages=[user()], tools=[TOOL], tool_choice="none"))
    assert "tools" not in made


@pytest.mark.parametrize(
    ("effort", "thinks", "efforts", "value"),
    [
        (None, True, ("low",), None),
        ("high", False, (), None),
        ("high", None, (), True),
        ("none", True, (), False),
        ("high", True, ("low", "medium", "high"), "high"),
        ("max", True, ("low", "medium", "high"), "high"),
        ("minimal", True, ("low", "medium", "high"), "low"),
        ("none", True, ("low", "medium", "high"), "low"),
        ("own word", True, ("low",), "own word"),
    ],
)
def test_an_effort_is_asked_for_as_the_model_takes_it(effort, thinks, efforts, value):
    assert think_value(effort, thinks=thinks, efforts=efforts) is value or (
        think_value(effort, thinks=thinks, efforts=efforts) == value
    )
    made = payload(Request(messages=[user()]), think=value)
    assert made.get("think") == value


class TestShown:
    def test_abilities_and_sizes_are_read(self):
        details = shown("completion", "tools", "thinking", context=40_960)
        assert read_details(details) == ModelDetails(
            tools=True, images=False, thinking=True, most=40_960
        )

    def test_the_size_its_maker_chose_is_read(self):
        details = shown("completion", parameters='stop    "<|im_end|>"\nnum_ctx      8192\n')
        assert read_details(details).chosen == 8_192

    def test_levels_are_those_it_names_else_those_of_its_architecture(self):
        named = {"values": ["max", "low", "off", True], "default": "low"}
        assert read_details(shown("thinking", thinking=named)).efforts == ("low", "max")
        assert read_details(shown("thinking", architecture="gptoss")).efforts == (
            "low",
            "medium",
            "high",
        )
        assert read_details(shown("thinking")).efforts == ()

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
    def test_what_is_odd_is_unknown(self, odd):
        assert read_details(odd) == ModelDetails()

    def test_a_model_that_runs_elsewhere_is_known_by_its_host(self):
        assert read_details(shown("tools", remote_host="https://ollama.com:443")).hosted


def test_installed_models_are_listed_with_what_they_can_do():
    listed = {
        "models": [
            installed("qwen3:8b", "completion", "tools", "thinking"),
            installed("llava:7b", "completion", "vision"),
            installed("embeddinggemma:latest", "embedding"),
            installed("nomic-embed-text:latest", family="nomic-bert"),
            installed("old:latest"),
        ]
    }
    assert list(read_installed(listed)) == [
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


class TestContextSize:
    def test_it_begins_small_and_doubles_to_its_limit(self):
        context = ContextSize(ModelDetails(most=100_000), limit=None, loaded=None)
        assert (context.size, context.limit) == (FIRST, MOST)
        sizes = []
        while context.grow():
            sizes.append(context.size)
        assert sizes == [32_768, 65_536]

    def test_it_grows_until_the_request_fits_and_never_shrinks(self):
        context = ContextSize(ModelDetails(most=200_000), limit=200_000, loaded=None)
        context.fit(1_000, None)
        assert context.size == FIRST
        context.fit(30_000, None)
        assert context.size == 65_536
        context.fit(10, None)
        assert context.size == 65_536
        context.fit(10**6, None)
        assert context.size == 200_000

    def test_space_for_the_answer_counts(self):
        context = ContextSize(ModelDetails(), limit=None, loaded=None)
        context.fit(10_000, 10_000)
        assert context.size == 32_768

    def test_what_is_in_memory_is_retained(self):
        context = ContextSize(ModelDetails(most=262_144), limit=None, loaded=131_072)
        assert (context.size, context.limit) == (131_072, 131_072)

    def test_a_small_model_has_no_more_than_it_can(self):
        context = ContextSize(ModelDetails(most=8_192), limit=None, loaded=None)
        assert (context.size, context.limit) == (8_192, 8_192)

    def test_the_user_says_how_much_it_may_be(self):
        assert ContextSize(ModelDetails(), limit=200_000, loaded=None).limit == 200_000
        assert ContextSize(ModelDetails(), limit=4_096, loaded=None).size == 4_096

    def test_what_its_maker_chose_stays(self):
        context = ContextSize(ModelDetails(most=131_072, chosen=24_000), limit=None, loaded=None)
        context.fit(10**6, None)
        assert (context.size, context.limit) == (24_000, 24_000)

    def test_of_a_model_elsewhere_it_is_not_ours_to_say(self):
        context = ContextSize(ModelDetails(most=262_144, hosted=True), limit=None, loaded=None)
        context.fit(10**6, None)
        assert (context.size, context.limit) == (None, 262_144)

    def test_an_estimate_that_was_too_low_is_corrected(self):
        context = ContextSize(ModelDetails(), limit=None, loaded=None)
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

"""Requests of Responses: the accepted form, and the parts of a history that go back."""

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.answer import Answer
from eca_server.models.backend import Request, Tool
from eca_server.models.encoding import HistoryEncoder, encoded
from eca_server.models.facts import Capabilities
from eca_server.models.history import (
    BlockPart,
    FilePart,
    ImagePart,
    Message,
    Origin,
    ReasoningPart,
    RefusalPart,
    ServerToolPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from eca_server.models.openai_responses.decoder import ResponsesDecoder
from eca_server.models.openai_responses.input_items import ResponsesWriter
from eca_server.models.openai_responses.profiles import PROFILES, Profile
from eca_server.models.openai_responses.request import write_request
from tests.eca_server.models.histories import OURS, THEIRS, calls, histories_with
from tests.eca_server.models.openai_responses.checker import check_input
from tests.eca_server.models.openai_responses.scripted import (
    answer,
    call,
    citation,
    message,
    other,
    reasoning,
    search,
)
from tests.eca_server.models.reading import growth_test

OPENAI = PROFILES["openai"]
PNG = ImagePart(media_type="image/png", data=b"i")
USER = Message(role="user", parts=(TextPart("Hello"),))
CALL_B = f"call_{hashlib.sha256(b'b').hexdigest()[:24]}"
READ = Tool(name="read", description="Reads.", parameters={"type": "object"})

thoughts = st.builds(
    lambda number, secret: ReasoningPart(
        opaque={"type": "reasoning", "id": f"rs_{number}", "summary": [], **secret}
    ),
    st.integers(0, 3),
    st.sampled_from([{"encrypted_content": "secret"}, {}, {"encrypted_content": ""}]),
)
blocks = st.sampled_from(
    [
        BlockPart(raw={"type": "message", "phase": "commentary"}),
        BlockPart(raw={"type": "message"}),
        BlockPart(raw={"type": "program", "id": "p", "code": "secret"}),
        ServerToolPart(kind="web_search", raw={"type": "web_search_call", "id": "secret"}),
        ServerToolPart(kind="web_search", raw=None),
    ]
)
provider_ids = st.sampled_from([None, "", "call_1", "call_1", "a", "x" * 65, "functions.f:0"])
their_calls = st.builds(
    lambda part, provider_id: ToolCallPart(
        id=part.id, name=part.name, raw=part.raw, arguments=part.arguments, provider_id=provider_id
    ),
    calls,
    provider_ids,
)
histories = histories_with(their_calls | thoughts | blocks | st.just(RefusalPart("no")))


def write(
    request: Request,
    *,
    profile: Profile = OPENAI,
    origin: Origin = OURS,
    capabilities: Capabilities | None = None,
    refused: frozenset[str] = frozenset(),
) -> dict:
    """Return the request as the server parses it."""
    known = capabilities or Capabilities()
    writer = ResponsesWriter(origin, profile, images=known.images, refused=refused)
    payload = write_request(
        request,
        wire_model="wire",
        profile=profile,
        histories=HistoryEncoder(writer),
        capabilities=known,
    )
    return json.loads(encoded(payload))


def sent(*history: Message, **options) -> list[dict]:
    return write(Request(messages=history), **options)["input"]


@given(histories, st.sampled_from([Profile(), *PROFILES.values()]), st.booleans())
def test_every_history_is_written_as_a_strict_server_wants_it(history, profile, images_read):
    items = sent(*history, profile=profile, capabilities=Capabilities(images=images_read))
    check_input(items)
    written = json.dumps(items)
    if not any(each.origin == OURS for each in history):
        assert "secret" not in written
    if not images_read:
        assert "input_image" not in written
    if not profile.images_in_results:
        outputs = [item["output"] for item in items if "output" in item]
        assert all(isinstance(output, str) for output in outputs)


test_a_longer_history_is_written_as_if_new = growth_test(
    histories, lambda: HistoryEncoder(ResponsesWriter(OURS, OPENAI))
)


def replayed(*items, follow=(), **options) -> list[dict]:
    """Return the input items for an answer made of these items."""
    decoder, read = ResponsesDecoder(), Answer()
    for event in answer(*items):
        for result in decoder.feed_object(event):
            read.feed(result)
    return sent(USER, read.message(OURS), *follow, **options)[1:]


def test_items_go_back_in_their_order_with_what_the_model_wants_of_them():
    hit = ToolResultPart(call_id="", parts=(TextPart("text"),))
    decoder, read = ResponsesDecoder(new_key=lambda: ""), Answer()
    for event in answer(
        reasoning("why", encrypted="gAAA"),
        message("I look.", phase="commentary"),
        reasoning(encrypted="gBBB"),
        call("read", '{"path": "a"}', call_id="call_theirs"),
    ):
        for result in decoder.feed_object(event):
            read.feed(result)
    items = sent(USER, read.message(OURS), Message(role="tool", parts=(hit,)))
    summary = [{"type": "summary_text", "text": "why"}]
    assert items[1:] == [
        {"type": "reasoning", "id": "rs_0", "summary": summary, "encrypted_content": "gAAA"},
        {"type": "message", "phase": "commentary", "role": "assistant", "content": "I look."},
        {"type": "reasoning", "id": "rs_2", "summary": [], "encrypted_content": "gBBB"},
        {
            "type": "function_call",
            "call_id": "call_theirs",
            "name": "read",
            "arguments": '{"path": "a"}',
        },
        {"type": "function_call_output", "call_id": "call_theirs", "output": "text"},
    ]


def test_a_phase_goes_back_only_to_who_sent_one():
    [content, _] = replayed(message("a"))
    assert content == {"type": "message", "role": "assistant", "content": "a"}


def test_two_messages_go_back_as_two_and_as_they_were():
    cites = [citation("http://u", "U", 0, 1)]
    items = replayed(message("a", cites=cites), message("\n\nb", phase="final_answer"))
    assert [item["content"] for item in items[:-1]] == ["a", "\n\nb"]
    assert items[1]["phase"] == "final_answer"


def test_searches_and_unknown_items_go_back_as_they_came():
    odd = {"type": "program", "id": "p", "code": "1"}
    items = replayed(search("q", "http://u"), other(odd), message("a"))
    assert [item["type"] for item in items[:3]] == ["web_search_call", "program", "message"]
    assert items[0]["action"]["queries"] == ["q"]
    assert items[1] == odd


def test_reasoning_without_its_secret_does_not_go_back():
    assert [
        item["type"] for item in replayed(reasoning("x", encrypted=None), message("a"))[:-1]
    ] == ["message"]


def test_reasoning_that_was_refused_does_not_go_back():
    items = replayed(reasoning("x"), message("a"), refused=frozenset({"rs_0"}))
    assert [item["type"] for item in items[:-1]] == ["message"]


def test_reasoning_is_never_sent_without_what_it_led_to():
    own = Message(
        role="assistant",
        parts=(
            TextPart("a"),
            ReasoningPart(opaque={"type": "reasoning", "id": "r", "encrypted_content": "s"}),
        ),
        origin=OURS,
    )
    assert sent(USER, own, USER)[1] == {"role": "assistant", "content": "a"}


def test_what_was_stopped_between_reasoning_and_call_does_not_go_back():
    thought = ReasoningPart(opaque={"type": "reasoning", "id": "r", "encrypted_content": "s"})
    tool_call = ToolCallPart(id="a", name="f", raw="{}", arguments={})
    stopped = Message(role="assistant", parts=(thought, tool_call), origin=OURS, interrupted=True)
    assert sent(USER, stopped, USER) == [{"role": "user", "content": "Hello\n\nHello"}]


def test_an_answer_of_another_model_is_sent_as_plain_text():
    foreign = Message(
        role="assistant",
        parts=(
            ReasoningPart(text="hm", opaque={"type": "reasoning", "encrypted_content": "s"}),
            TextPart("Look: "),
            ServerToolPart(kind="web_search", raw={"secret": 1}),
            BlockPart(raw={"type": "message", "phase": "commentary"}),
            ToolCallPart(id="ours", name="f", raw="{}", arguments={}, provider_id="theirs"),
        ),
        origin=THEIRS,
    )
    result = ToolResultPart(call_id="ours", parts=(TextPart("no"),), is_error=True)
    assert sent(USER, foreign, Message(role="tool", parts=(result,)))[1:] == [
        {"role": "assistant", "content": "Look: [used web_search]"},
        {"type": "function_call", "call_id": "ours", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "ours", "output": "Error: no"},
    ]


@pytest.mark.parametrize(
    ("theirs", "sent_as"),
    [
        (("same", "same"), ["same", "b"]),
        (("x" * 65, "x" * 64), ["a", "x" * 64]),
        (("b", ""), ["b", CALL_B]),
    ],
)
def test_calls_have_their_own_ids_if_these_are_short_and_differ(theirs, sent_as):
    made = [
        ToolCallPart(id=key, name="f", raw="{}", arguments={}, provider_id=provider_id)
        for key, provider_id in zip("ab", theirs, strict=True)
    ]
    given_ = [ToolResultPart(call_id=key, parts=(TextPart(key),)) for key in "ab"]
    items = sent(
        USER,
        Message(role="assistant", parts=tuple(made), origin=OURS),
        Message(role="tool", parts=tuple(given_)),
    )
    assert [item["call_id"] for item in items[1:]] == [*sent_as, *sent_as]


@pytest.mark.parametrize("in_output", [True, False])
def test_a_picture_from_a_tool_is_in_its_output_or_behind_all_of_them(in_output):
    profile = Profile(images_in_results=in_output)
    made = [ToolCallPart(id=key, name="f", raw="{}", arguments={}) for key in "ab"]
    given_ = [ToolResultPart(call_id=key, parts=(TextPart(key), PNG)) for key in "ab"]
    history = (
        USER,
        Message(role="assistant", parts=tuple(made), origin=THEIRS),
        Message(role="tool", parts=tuple(given_)),
    )
    first, second, *rest = sent(*history, profile=profile)[3:]
    picture = {"type": "input_image", "image_url": "data:image/png;base64,aQ==", "detail": "auto"}
    if in_output:
        assert first["output"] == [{"type": "input_text", "text": "a"}, picture]
        assert rest == []
    else:
        assert second["output"] == "b\n\n[shown after the results]"
        assert rest == [{"role": "user", "content": [picture, picture]}]


def test_pictures_and_files_of_the_user():
    file = FilePart(name="a.pdf", media_type="application/pdf", data=b"%PDF")
    user = Message(role="user", parts=(TextPart("See"), PNG, file))
    assert sent(user)[0]["content"] == [
        {"type": "input_text", "text": "See"},
        {"type": "input_image", "image_url": "data:image/png;base64,aQ==", "detail": "auto"},
        {
            "type": "input_file",
            "filename": "a.pdf",
            "file_data": "data:application/pdf;base64,JVBERg==",
        },
    ]


def test_nothing_is_stored_and_nothing_truncated():
    payload = write(Request(system="Be brief.", messages=[USER], tools=[READ]))
    assert payload == {
        "model": "wire",
        "input": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "store": False,
        "instructions": "Be brief.",
        "tools": [
            {
                "type": "function",
                "name": "read",
                "description": "Reads.",
                "parameters": {"type": "object"},
                "strict": False,
            }
        ],
        "truncation": "disabled",
        "stream_options": {"include_obfuscation": False},
    }


def test_a_server_of_which_nothing_is_known_gets_no_more_than_every_one_takes():
    request = Request(messages=[USER], cache_key="chat", reasoning_effort="low")
    payload = write(request, profile=Profile())
    assert payload.keys() == {"model", "input", "stream", "store", "reasoning"}
    assert payload["reasoning"] == {"effort": "low"}


@pytest.mark.parametrize(
    ("thinks", "effort", "reasoning_field"),
    [
        (False, None, None),
        (True, None, {"summary": "auto"}),
        (False, "high", {"effort": "high", "summary": "auto"}),
        (True, "none", {"effort": "none"}),
    ],
)
def test_reasoning_is_asked_for_in_a_form_to_be_sent_back(thinks, effort, reasoning_field):
    payload = write(
        Request(messages=[USER], reasoning_effort=effort),
        capabilities=Capabilities(reasoning=thinks),
    )
    assert payload.get("reasoning") == reasoning_field
    is_requested = payload.get("include") == ["reasoning.encrypted_content"]
    assert is_requested == ("summary" in (reasoning_field or {}))


def test_tools_may_be_required_and_searching_is_one_of_them():
    searching = Capabilities(web_search=True)
    payload = write(Request(messages=[USER], tools=[READ]), capabilities=searching)
    assert payload["tools"][-1] == {"type": "web_search"}
    required = Request(messages=[USER], tools=[READ], tool_choice="required")
    payload = write(required, capabilities=searching)
    assert payload["tool_choice"] == "required"
    assert len(payload["tools"]) == 1
    assert "tool_choice" not in write(Request(messages=[USER], tool_choice="required"))


def test_a_chat_has_one_key_in_the_cache_and_another_chat_another():
    def key(chat: str) -> str:
        return write(Request(messages=[USER], cache_key=chat))["prompt_cache_key"]

    assert key("a") == key("a") != key("b")
    assert len(key("a" * 1000)) <= 64
    assert "prompt_cache_key" not in write(Request(messages=[USER]))

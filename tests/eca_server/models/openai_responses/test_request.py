"""Requests of Responses: the parts of an answer that go back, and the options of servers."""

import hashlib

import pytest

from eca_server.models.history import Message
from eca_server.models.openai_responses.decoder import ResponsesDecoder
from tests.eca_server.models.histories import (
    OURS,
    PICTURE,
    THEIRS,
    model,
    tool,
    tool_call,
    tool_result,
    user,
)
from tests.eca_server.models.openai_responses.scripted import (
    answer,
    call,
    citation,
    message,
    other,
    reasoning,
    search,
)
from tests.eca_server.models.reading import TOOL, new_keys, play_objects, read
from tests.eca_server.models.written import PICTURE_DATA, write


def sent(*history: Message, **options) -> list[dict]:
    return write("openai-responses", *history, **options)["input"]


def replayed(*items, follow) -> list[dict]:
    """Return the input items for an answer made of these items, and of what follows."""
    events = play_objects(ResponsesDecoder(new_key=new_keys()), answer(*items))
    return sent(user(), read(events).message(OURS), follow)[1:]


def test_items_go_back_in_their_order_with_what_the_model_wants_of_them():
    odd = {"type": "program", "id": "p", "code": "1"}
    cites = [citation("http://u", "U", 0, 1)]
    items = replayed(
        reasoning("why", encrypted="gAAA"),
        message("I look.", phase="commentary"),
        search("q", "http://u"),
        other(odd),
        message("\n\nb", cites=cites),
        reasoning(encrypted="gBBB"),
        call("read", '{"path": "a"}', call_id="call_theirs"),
        follow=tool(tool_result("k1", "text")),
    )
    summary = [{"type": "summary_text", "text": "why"}]
    searched = items.pop(2)
    assert (searched["type"], searched["action"]["queries"]) == ("web_search_call", ["q"])
    said = {"type": "message", "role": "assistant"}
    called = {"type": "function_call", "name": "read", "arguments": '{"path": "a"}'}
    assert items == [
        {"type": "reasoning", "id": "rs_0", "summary": summary, "encrypted_content": "gAAA"},
        {**said, "phase": "commentary", "content": "I look."},
        odd,
        {**said, "content": "\n\nb"},
        {"type": "reasoning", "id": "rs_5", "summary": [], "encrypted_content": "gBBB"},
        {**called, "call_id": "call_theirs"},
        {"type": "function_call_output", "call_id": "call_theirs", "output": "text"},
    ]


def test_reasoning_without_its_secret_does_not_go_back():
    items = replayed(reasoning("x", encrypted=None), message("a"), follow=user())
    assert [item.get("type") for item in items] == ["message", None]


@pytest.mark.parametrize(
    ("theirs", "sent_as"),
    [
        (("same", "same"), ["same", "b"]),
        (("x" * 65, "x" * 64), ["a", "x" * 64]),
        (("b", ""), ["b", f"call_{hashlib.sha256(b'b').hexdigest()[:24]}"]),
    ],
)
def test_calls_have_their_own_ids_if_these_are_short_and_differ(theirs, sent_as):
    made = [tool_call(k, provider_id=theirs_) for k, theirs_ in zip("ab", theirs, strict=True)]
    items = sent(user(), model(*made), tool(*map(tool_result, "ab")))
    assert [item["call_id"] for item in items[1:]] == [*sent_as, *sent_as]


def test_openai_takes_a_picture_from_a_tool_in_its_output():
    made, result = model(tool_call(), origin=THEIRS), tool(tool_result("c", "a", PICTURE))
    url = f"data:image/png;base64,{PICTURE_DATA}"
    [output] = sent(user(), made, result, server="openai")[2:]
    assert output["output"] == [
        {"type": "input_text", "text": "a"},
        {"type": "input_image", "image_url": url, "detail": "auto"},
    ]


def test_a_server_gets_the_fields_that_it_is_known_to_take():
    always = {"model", "input", "stream", "store"}
    unknown = write("openai-responses", user(), cache_key="chat")
    openai = write("openai-responses", user(), cache_key="chat", server="openai")
    assert unknown.keys() == always
    assert openai.keys() == always | {"truncation", "stream_options", "prompt_cache_key"}
    assert openai["truncation"] == "disabled"
    assert openai["stream_options"] == {"include_obfuscation": False}


def test_tools_may_be_required_and_searching_is_one_of_them():
    def written(**options) -> dict:
        return write("openai-responses", user(), **options)

    assert written(tools=[TOOL], web_search=True)["tools"][-1] == {"type": "web_search"}
    payload = written(tools=[TOOL], web_search=True, tool_choice="required")
    assert payload["tool_choice"] == "required"
    assert len(payload["tools"]) == 1
    assert "tool_choice" not in written(tool_choice="required")


def test_a_chat_has_one_key_in_the_cache_and_another_chat_another():
    def key(chat: str) -> str:
        payload = write("openai-responses", user(), cache_key=chat, server="openai")
        return payload["prompt_cache_key"]

    assert key("a") == key("a") != key("b")
    assert len(key("a" * 1000)) <= 64

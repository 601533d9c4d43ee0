"""Requests of Responses: the accepted form, and the parts of a history that go back."""

import hashlib
import json

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.backend import Request, Tool
from eca_server.models.encoding import HistoryEncoder, encoded
from eca_server.models.facts import Capabilities
from eca_server.models.history import (
    BlockPart,
    Message,
    ReasoningPart,
    RefusalPart,
    ServerToolPart,
)
from eca_server.models.openai_responses.decoder import ResponsesDecoder
from eca_server.models.openai_responses.input_items import ResponsesWriter
from eca_server.models.openai_responses.profiles import PROFILES, Profile
from eca_server.models.openai_responses.request import write_request
from tests.eca_server.models.histories import (
    OURS,
    PICTURE,
    THEIRS,
    calls,
    file,
    histories_with,
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
from tests.eca_server.models.reading import growth_test, new_keys, play_objects, read

OPENAI = PROFILES["openai"]
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
    lambda part, provider_id: attrs.evolve(part, provider_id=provider_id, opaque=None),
    calls,
    provider_ids,
)
histories = histories_with(their_calls | thoughts | blocks | st.just(RefusalPart("no")))


def new_encoder(profile: Profile = OPENAI, **options) -> HistoryEncoder:
    return HistoryEncoder(ResponsesWriter(OURS, profile, **options))


def write(
    request: Request,
    *,
    profile: Profile = OPENAI,
    capabilities: Capabilities | None = None,
    refused: frozenset[str] = frozenset(),
) -> dict:
    known = capabilities or Capabilities()
    payload = write_request(
        request,
        wire_model="wire",
        profile=profile,
        histories=new_encoder(profile, images=known.images, refused=refused),
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


def check_input(items: list[dict]) -> None:
    """Check input items by the rules of strict servers, independently of the writer.

    Every call has its output after it, before the next message of a user; ids are unique and
    short; reasoning is followed by the item that it led to; no message and no text is empty; only
    reasoning items have ids, since nothing is stored.
    """
    assert items[0].get("role") == "user"
    assert items[-1].get("role") == "user" or items[-1]["type"] == "function_call_output"
    due: set[str] = set()
    ids: set[str] = set()
    after_reasoning = False
    for item in items:
        kind = item.get("type", "message")
        by_us = item.get("role") == "user" or kind == "function_call_output"
        assert not (after_reasoning and by_us), "reasoning that led to nothing"
        after_reasoning = kind == "reasoning"
        if kind == "message":
            assert not (by_us and due), f"calls without an output: {due}"
            check_content(item["content"], role=item["role"])
            assert item.keys() <= {"type", "role", "content", "phase"}
        elif kind == "function_call":
            assert item.keys() == {"type", "call_id", "name", "arguments"}
            assert 0 < len(item["call_id"]) <= 64
            assert item["call_id"] not in ids
            assert isinstance(item["arguments"], str)
            assert item["arguments"]
            ids.add(item["call_id"])
            due.add(item["call_id"])
        elif kind == "function_call_output":
            due.remove(item["call_id"])
            check_content(item["output"], role="tool")
        elif kind == "reasoning":
            assert item["id"]
            assert item["encrypted_content"] or item["content"]
    assert not due
    assert not after_reasoning


def check_content(content: str | list[dict], *, role: str) -> None:
    if isinstance(content, str):
        assert content.strip()
        return
    assert content
    assert role in ("user", "tool")
    for part in content:
        assert part["type"] in ("input_text", "input_image", "input_file")
        assert part["type"] != "input_text" or part["text"].strip()


test_a_longer_history_is_written_as_if_new = growth_test(histories, new_encoder)


def replayed(*items, follow=(), **options) -> list[dict]:
    """Return the input items for an answer made of these items, and of what follows."""
    events = play_objects(ResponsesDecoder(new_key=new_keys()), answer(*items))
    return sent(user(), read(events).message(OURS), *follow, **options)[1:]


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
        follow=[tool(tool_result("k1", "text"))],
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


@pytest.mark.parametrize(
    ("encrypted", "refused"), [(None, frozenset()), ("gAAA", frozenset({"rs_0"}))]
)
def test_reasoning_without_its_secret_or_refused_does_not_go_back(encrypted, refused):
    items = replayed(
        reasoning("x", encrypted=encrypted), message("a"), follow=[user()], refused=refused
    )
    assert [item.get("type") for item in items] == ["message", None]


def test_an_answer_of_another_model_is_sent_as_plain_text():
    foreign = model(
        ReasoningPart(text="hm", opaque={"type": "reasoning", "encrypted_content": "s"}),
        "Look: ",
        ServerToolPart(kind="web_search", raw={"secret": 1}),
        BlockPart(raw={"type": "message", "phase": "commentary"}),
        tool_call("ours", provider_id="theirs"),
        origin=THEIRS,
    )
    assert sent(user(), foreign, tool(tool_result("ours", "no", is_error=True)))[1:] == [
        {"role": "assistant", "content": "Look: [used web_search]"},
        {"type": "function_call", "call_id": "ours", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "ours", "output": "Error: no"},
    ]


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


SHOWN = {"type": "input_image", "image_url": "data:image/png;base64,aQ==", "detail": "auto"}


@pytest.mark.parametrize("in_output", [True, False])
def test_a_picture_from_a_tool_is_in_its_output_or_behind_all_of_them(in_output):
    made = model(*map(tool_call, "ab"), origin=THEIRS)
    results = tool(*[tool_result(key, key, PICTURE) for key in "ab"])
    profile = Profile(images_in_results=in_output)
    first, second, *rest = sent(user(), made, results, profile=profile)[3:]
    if in_output:
        assert first["output"] == [{"type": "input_text", "text": "a"}, SHOWN]
        assert rest == []
    else:
        assert second["output"] == "b\n\n[shown after the results]"
        assert rest == [{"role": "user", "content": [SHOWN, SHOWN]}]


def test_pictures_and_files_of_the_user():
    data = "data:application/pdf;base64,JVBERg=="
    [prompt] = sent(user("See", PICTURE, file("a.pdf", "application/pdf", b"%PDF")))
    assert prompt["content"] == [
        {"type": "input_text", "text": "See"},
        SHOWN,
        {"type": "input_file", "filename": "a.pdf", "file_data": data},
    ]


def test_nothing_is_stored_and_nothing_truncated():
    declared = {"name": "read", "description": "Reads.", "parameters": {"type": "object"}}
    assert write(Request(system="Be brief.", messages=[user()], tools=[READ])) == {
        "model": "wire",
        "input": [{"role": "user", "content": "Hello"}],
        "stream": True,
        "store": False,
        "instructions": "Be brief.",
        "tools": [{"type": "function", "strict": False, **declared}],
        "truncation": "disabled",
        "stream_options": {"include_obfuscation": False},
    }


def test_a_server_of_which_nothing_is_known_gets_no_more_than_every_one_takes():
    request = Request(messages=[user()], cache_key="chat", reasoning_effort="low")
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
    request = Request(messages=[user()], reasoning_effort=effort)
    payload = write(request, capabilities=Capabilities(reasoning=thinks))
    assert payload.get("reasoning") == reasoning_field
    is_requested = payload.get("include") == ["reasoning.encrypted_content"]
    assert is_requested == ("summary" in (reasoning_field or {}))


def test_tools_may_be_required_and_searching_is_one_of_them():
    searching = Capabilities(web_search=True)
    payload = write(Request(messages=[user()], tools=[READ]), capabilities=searching)
    assert payload["tools"][-1] == {"type": "web_search"}
    required = Request(messages=[user()], tools=[READ], tool_choice="required")
    payload = write(required, capabilities=searching)
    assert payload["tool_choice"] == "required"
    assert len(payload["tools"]) == 1
    assert "tool_choice" not in write(Request(messages=[user()], tool_choice="required"))


def test_a_chat_has_one_key_in_the_cache_and_another_chat_another():
    def key(chat: str) -> str:
        return write(Request(messages=[user()], cache_key=chat))["prompt_cache_key"]

    assert key("a") == key("a") != key("b")
    assert len(key("a" * 1000)) <= 64

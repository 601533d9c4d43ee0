"""Any history, however it was interrupted, becomes one that a strict server takes."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.llm.backend import Request, Tool
from eca_server.llm.history import (
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
    repair,
)
from eca_server.llm.openai_chat_history import Histories
from eca_server.llm.openai_chat_profiles import PROFILES, Profile
from eca_server.llm.openai_chat_request import encoded, refused_parameter, write_request

OURS = Origin(api="openai-chat", provider="p", model="m")
THEIRS = Origin(api="other", provider="q", model="n")
SECRET = {"field": "reasoning_content", "details": ["of theirs"]}

texts = st.builds(TextPart, st.sampled_from(["", " ", "a", "b"]))
images = st.just(ImagePart(media_type="image/png", data=b"i"))
ids = st.sampled_from(["", "a", "b", "c d", "x" * 70])
names = st.sampled_from(["f", "", "read file", "\n", "é", "n" * 70])
opaques = st.sampled_from([None, {"extra_content": {"secret": 1}}])
calls = st.builds(
    lambda call_id, name, readable, opaque: ToolCallPart(
        id=call_id,
        name=name,
        raw='{"n":1}' if readable else "{bad",
        arguments={"n": 1} if readable else None,
        opaque=opaque,
    ),
    ids,
    names,
    st.booleans(),
    opaques,
)
results = st.builds(
    lambda call_id, parts, error: ToolResultPart(
        call_id=call_id, parts=tuple(parts), is_error=error
    ),
    ids,
    st.lists(texts | images, max_size=2),
    st.booleans(),
)
thoughts = st.builds(
    lambda text, opaque: ReasoningPart(text=text, opaque=opaque),
    st.sampled_from(["", "hm"]),
    st.sampled_from([None, {"field": "reasoning_content"}, {"field": "content"}, SECRET]),
)
others = st.sampled_from(
    [
        RefusalPart("no"),
        ServerToolPart(kind="web_search", raw={"secret": 1}),
        BlockPart(raw={"secret": 1}),
        FilePart(name="f", media_type="text/plain", data=b"f"),
    ]
)
messages = st.builds(
    lambda role, parts, origin, interrupted: Message(
        role=role,
        parts=tuple(parts),
        origin=origin if role == "assistant" else None,
        interrupted=interrupted,
    ),
    st.sampled_from(["user", "assistant", "assistant", "tool"]),
    st.lists(texts | calls | results | results | thoughts | others, max_size=4),
    st.sampled_from([None, OURS, THEIRS]),
    st.booleans(),
)
histories = st.lists(messages, max_size=8)


@given(histories)
def test_a_repaired_history_keeps_every_rule(history):
    repaired = repair(history)
    assert repaired[0].role == "user"
    assert repaired[-1].role in ("user", "tool")
    seen: set[str] = set()
    expected: list[str] = []
    for before, message in zip((None, *repaired), repaired, strict=False):
        assert message.parts
        assert before is None or before.role != message.role
        assert all(part.text.strip() for part in message.parts if isinstance(part, TextPart))
        made = [part for part in message.parts if isinstance(part, ToolCallPart)]
        given_ = [part for part in message.parts if isinstance(part, ToolResultPart)]
        assert [part.call_id for part in given_] == expected
        expected = [part.id for part in made]
        assert not set(expected) & seen
        assert len(set(expected)) == len(expected)
        seen |= set(expected)
        assert all(json.loads(part.raw) == part.arguments for part in made)
        assert all(re.fullmatch("[A-Za-z0-9_-]{1,64}", part.name) for part in made)
        if message.role != "assistant":
            assert not made
        if message.role != "tool":
            assert not given_
    assert expected == []


@given(histories)
def test_a_repair_of_a_repaired_history_changes_nothing(history):
    repaired = repair(history)
    assert repair(repaired) == repaired


@given(
    st.lists(
        st.tuples(st.text("ab", min_size=1, max_size=3), st.booleans()), min_size=1, max_size=5
    )
)
def test_a_valid_history_is_left_alone(exchanges):
    history: list[Message] = []
    for number, (text, calls_tool) in enumerate(exchanges):
        history.append(Message(role="user", parts=(TextPart(text),)))
        parts: tuple = (ReasoningPart(text="hm"), TextPart(text))
        if calls_tool:
            call = ToolCallPart(id=f"c{number}", name="f", raw='{"n": 1}', arguments={"n": 1})
            result = ToolResultPart(call_id=call.id, parts=(TextPart("r"),))
            history.append(Message(role="assistant", parts=(*parts, call), origin=OURS))
            history.append(Message(role="tool", parts=(result,)))
        history.append(Message(role="assistant", parts=parts, origin=OURS))
    history.append(Message(role="user", parts=(TextPart("last"),)))
    assert repair(history) == tuple(history)


def test_an_interrupted_answer_keeps_its_text_and_nothing_unfinished():
    call = ToolCallPart(id="a", name="f", raw="{}", arguments={})
    parts = (ReasoningPart(text="hm"), TextPart("Hel"), call)
    user = Message(role="user", parts=(TextPart("x"),))
    stopped = Message(role="assistant", parts=parts, origin=OURS, interrupted=True)
    assert repair([user, stopped, user])[1].parts == (TextPart("Hel"),)
    whole = Message(role="assistant", parts=parts, origin=OURS)
    _, answer, results, _ = repair([user, whole, user])
    assert answer.parts == parts
    assert results.parts[0].is_error


def test_a_whole_answer_loses_nothing_to_an_interrupted_one_before_it():
    user = Message(role="user", parts=(TextPart("x"),))
    cut = Message(role="assistant", parts=(TextPart("Hel"),), interrupted=True)
    whole = Message(role="assistant", parts=(TextPart("Hello"), BlockPart(raw={})))
    repaired = repair([user, cut, whole, user])
    assert repaired[1].parts == (*cut.parts, *whole.parts)
    assert repair(repaired) == repaired


@given(
    histories,
    st.sampled_from([Profile(), *PROFILES.values(), Profile(null_content=True)]),
    st.booleans(),
)
def test_every_history_is_written_as_a_strict_server_wants_it(history, profile, images_read):
    histories = Histories(OURS, profile, images=images_read)
    request = Request(system="s", messages=history)
    written = encoded(
        write_request(request, wire_model="m", profile=profile, histories=histories)
    ).decode()
    check_messages(json.loads(written)["messages"], short_ids=profile.short_call_ids)
    if not any(message.origin == OURS for message in history):
        assert "secret" not in written
        assert "theirs" not in written
    if not images_read:
        assert "image_url" not in written


@given(histories, st.lists(histories, min_size=1, max_size=2))
def test_a_history_that_grows_or_forks_is_written_as_if_it_were_new(start, rests):
    kept = Histories(OURS, Profile())
    for rest in (*rests, rests[0]):
        history = start + rest
        for length in range(len(history) + 1):
            again = b"".join(kept.written("s", history[:length]))
            assert again == b"".join(Histories(OURS, Profile()).written("s", history[:length]))


def test_a_turn_writes_what_is_new_and_not_the_whole_history(monkeypatch):
    looked_at: list[str] = []

    def note(parts):
        looked_at.extend(part.text for part in parts)
        return parts

    monkeypatch.setattr("eca_server.llm.history._full", note)
    kept = Histories(OURS, Profile())
    history: list[Message] = []
    for number in range(20):
        history.append(Message(role="user", parts=(TextPart(f"question {number}"),)))
        kept.written("s", history)
        history.append(Message(role="assistant", parts=(TextPart(f"answer {number}"),)))
    assert max(map(looked_at.count, looked_at)) <= 3


def check_messages(written: list[dict], *, short_ids: bool) -> None:
    """The rules of the field's strictest servers, written down apart from the writer."""
    assert written[0]["role"] in ("system", "developer")
    assert written[1]["role"] == "user"
    assert written[-1]["role"] in ("user", "tool")
    due: list[str] = []
    for before, message in zip((None, *written), written, strict=False):
        role, content = message["role"], message.get("content")
        if role == "tool":
            assert message["tool_call_id"] == due.pop(0)
            assert isinstance(content, str)
            continue
        assert not due, "every call is answered before anything else is said"
        if before is not None and role == before["role"]:
            raise AssertionError(f"two neighbours of role {role}")
        if role == "assistant":
            assert content or message.get("tool_calls") or "reasoning_content" in message
            due = [call["id"] for call in message.get("tool_calls", ())]
            assert len(set(due)) == len(due)
            pattern = "[A-Za-z0-9]{9}" if short_ids else "[A-Za-z0-9_-]{1,64}"
            assert all(re.fullmatch(pattern, call_id) for call_id in due)
            for call in message.get("tool_calls", ()):
                assert isinstance(json.loads(call["function"]["arguments"]), dict)
        elif role == "user":
            assert content
            for part in content if isinstance(content, list) else ():
                assert part["type"] in ("text", "image_url", "file")


def written_fields(profile: Profile, **fields) -> dict:
    tool = Tool(name="f", description="d", parameters={"type": "object"})
    request = Request(messages=[], tools=[tool], **fields)
    histories = Histories(OURS, profile)
    payload = write_request(request, wire_model="m", profile=profile, histories=histories)
    return {k: v for k, v in payload.items() if k not in ("model", "messages", "stream", "tools")}


def test_optional_fields_are_written_as_the_profile_says():
    fields = {"tool_choice": "required", "max_output_tokens": 9, "reasoning_effort": "low"}
    usage = {"stream_options": {"include_usage": True}}
    assert written_fields(Profile(), **fields) == {
        **usage,
        "tool_choice": "required",
        "max_tokens": 9,
        "reasoning_effort": "low",
    }
    assert written_fields(PROFILES["z-ai"], **fields) == {"max_tokens": 9, "tool_stream": True}
    assert written_fields(PROFILES["openrouter"], **fields)["reasoning"] == {"effort": "low"}
    assert written_fields(PROFILES["openai"], **fields)["max_completion_tokens"] == 9
    assert "stream_options" not in written_fields(PROFILES["mistral"])


def test_a_picture_from_a_tool_follows_behind_all_results():
    picture = ImagePart(media_type="image/png", data=b"i")
    calls_made = [ToolCallPart(id=name, name="f", raw="{}", arguments={}) for name in "ab"]
    answers = (
        ToolResultPart(call_id="a", parts=(TextPart("one"), picture)),
        ToolResultPart(call_id="b", parts=(TextPart("two"),), is_error=True),
    )
    history = [
        Message(role="user", parts=(TextPart("x"),)),
        Message(role="assistant", parts=tuple(calls_made), origin=OURS),
        Message(role="tool", parts=answers),
    ]
    written = Histories(OURS, Profile()).written("", history)
    _, _, first, second, shown = json.loads(b"".join(written))
    assert first["content"] == "one\n[an image, shown in the next message]"
    assert second["content"] == "Error: two"
    assert shown["content"][0]["image_url"]["url"] == "data:image/png;base64,aQ=="


@pytest.mark.parametrize(
    ("status", "words", "field"),
    [
        (400, "Unsupported parameter: 'max_tokens'", "max_tokens"),
        (422, "body.stream_options: Extra inputs are not permitted", "stream_options"),
        (400, "unknown field messages", None),
        (400, "max_tokens is too large", None),
        (500, "Unsupported parameter: 'max_tokens'", None),
    ],
)
def test_a_refusal_names_the_field_to_drop(status, words, field):
    payload = {"messages": [], "max_tokens": 1, "stream_options": {}}
    assert refused_parameter(status, words, payload) == field

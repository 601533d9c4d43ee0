"""Requests of Chat Completions: accepted by a strict server, encoded once."""

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.models.backend import Request, Tool
from eca_server.models.encoding import HistoryEncoder, encoded
from eca_server.models.history import ImagePart, Message, TextPart, ToolCallPart, ToolResultPart
from eca_server.models.http_backend import refused_parameter
from eca_server.models.openai_chat.messages import ChatWriter
from eca_server.models.openai_chat.profiles import PROFILES, Profile
from eca_server.models.openai_chat.request import DROPPABLE, write_request
from tests.eca_server.models.histories import OURS, histories
from tests.eca_server.models.reading import growth_test


@given(
    histories,
    st.sampled_from([Profile(), *PROFILES.values(), Profile(null_content=True)]),
    st.booleans(),
)
def test_every_history_is_written_as_a_strict_server_wants_it(history, profile, images_read):
    histories = HistoryEncoder(ChatWriter(OURS, profile, images=images_read))
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


test_a_longer_history_is_written_as_if_new = growth_test(
    histories, lambda: HistoryEncoder(ChatWriter(OURS, Profile()))
)


def test_a_turn_writes_what_is_new_and_not_the_whole_history(monkeypatch):
    looked_at: list[str] = []

    def note(parts):
        looked_at.extend(part.text for part in parts)
        return parts

    monkeypatch.setattr("eca_server.models.history._full", note)
    encoder = HistoryEncoder(ChatWriter(OURS, Profile()))
    history: list[Message] = []
    for number in range(20):
        history.append(Message(role="user", parts=(TextPart(f"question {number}"),)))
        encoder.written(history)
        history.append(Message(role="assistant", parts=(TextPart(f"answer {number}"),)))
    assert max(map(looked_at.count, looked_at)) <= 4


def check_messages(written: list[dict], *, short_ids: bool) -> None:
    """Check messages by the rules of the strictest servers, independently of the writer."""
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
    histories = HistoryEncoder(ChatWriter(OURS, profile))
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
    written = HistoryEncoder(ChatWriter(OURS, Profile())).written(history)
    _, _, first, second, shown = json.loads(b"".join(written.pieces))
    assert first["content"] == "one\n[shown in the next message]"
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
    assert refused_parameter(status, words, payload, DROPPABLE) == field


def test_openrouter_hands_the_effort_of_claude_on_as_verbosity() -> None:
    def fields(model: str, effort: str) -> dict[str, object]:
        profile = PROFILES["openrouter"]
        request = Request(messages=(), reasoning_effort=effort)
        histories = HistoryEncoder(ChatWriter(OURS, profile))
        body = write_request(request, wire_model=model, profile=profile, histories=histories)
        return {name: body[name] for name in ("reasoning", "verbosity") if name in body}

    assert fields("anthropic/claude-opus-4.7", "max") == {
        "reasoning": {"enabled": True},
        "verbosity": "max",
    }
    assert fields("anthropic/claude-opus-4.7", "none") == {"reasoning": {"effort": "none"}}
    assert fields("openai/gpt-5.2", "high") == {"reasoning": {"effort": "high"}}

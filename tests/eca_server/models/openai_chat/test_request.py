"""Requests of Chat Completions: accepted by a strict server, encoded once."""

import json
import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from eca_server.models.backend import Request
from eca_server.models.encoding import HistoryEncoder, encoded
from eca_server.models.history import Message
from eca_server.models.http_backend import refused_parameter
from eca_server.models.openai_chat.messages import ChatWriter
from eca_server.models.openai_chat.profiles import PROFILES, Profile
from eca_server.models.openai_chat.request import DROPPABLE, write_request
from tests.eca_server.models.histories import (
    OURS,
    PICTURE,
    histories,
    model,
    tool,
    tool_call,
    tool_result,
    user,
)
from tests.eca_server.models.reading import TOOL, growth_test


def write(request: Request, profile: Profile, *, wire_model: str = "m", images=True) -> dict:
    written = HistoryEncoder(ChatWriter(OURS, profile, images=images))
    payload = write_request(request, wire_model=wire_model, profile=profile, histories=written)
    return json.loads(encoded(payload))


@given(
    histories,
    st.sampled_from([Profile(), *PROFILES.values(), Profile(null_content=True)]),
    st.booleans(),
)
@example([user(), model(tool_call()), tool(tool_result())], PROFILES["mistral"], True)
def test_every_history_is_written_as_a_strict_server_wants_it(history, profile, images_read):
    payload = write(Request(system="s", messages=history), profile, images=images_read)
    check_messages(payload["messages"], short_ids=profile.short_call_ids)
    written = json.dumps(payload)
    if not any(message.origin == OURS for message in history):
        assert "secret" not in written
        assert "theirs" not in written
    if not images_read:
        assert "image_url" not in written


def new_encoder() -> HistoryEncoder:
    return HistoryEncoder(ChatWriter(OURS, Profile()))


test_a_longer_history_is_written_as_if_new = growth_test(histories, new_encoder)


def test_a_turn_writes_what_is_new_and_not_the_whole_history(monkeypatch):
    looked_at: list[str] = []

    def note(parts):
        looked_at.extend(part.text for part in parts)
        return parts

    monkeypatch.setattr("eca_server.models.history._full", note)
    encoder = new_encoder()
    history: list[Message] = []
    for number in range(20):
        history.append(user(f"question {number}"))
        encoder.written(history)
        history.append(model(f"answer {number}", origin=None))
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
        assert before is None or role != before["role"]
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


def test_optional_fields_are_written_as_the_profile_says():
    def written(name: str) -> dict:
        fields = {"tool_choice": "required", "max_output_tokens": 9, "reasoning_effort": "low"}
        payload = write(Request(messages=[], tools=[TOOL], **fields), PROFILES.get(name, Profile()))
        always = ("model", "messages", "stream", "tools")
        return {name: value for name, value in payload.items() if name not in always}

    usage, choice = {"include_usage": True}, {"tool_choice": "required"}
    most = {"stream_options": usage, **choice, "max_tokens": 9, "reasoning_effort": "low"}
    assert written("any") == most
    assert written("z-ai") == {"max_tokens": 9, "tool_stream": True}
    assert written("openrouter")["reasoning"] == {"effort": "low"}
    assert written("openai")["max_completion_tokens"] == 9
    assert "stream_options" not in written("mistral")


def test_a_picture_from_a_tool_follows_behind_all_results():
    error = tool_result("b", "two", is_error=True)
    history = [
        user(),
        model(tool_call("a"), tool_call("b")),
        tool(tool_result("a", "one", PICTURE), error),
    ]
    *_, first, second, shown = write(Request(messages=history), Profile())["messages"]
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


def test_openrouter_hands_the_effort_of_claude_on_as_verbosity():
    def fields(name: str, effort: str) -> dict:
        request = Request(messages=(), reasoning_effort=effort)
        body = write(request, PROFILES["openrouter"], wire_model=name)
        return {key: body[key] for key in ("reasoning", "verbosity") if key in body}

    claude = "anthropic/claude-opus-4.7"
    assert fields(claude, "max") == {"reasoning": {"enabled": True}, "verbosity": "max"}
    assert fields(claude, "none") == {"reasoning": {"effort": "none"}}
    assert fields("openai/gpt-5.2", "high") == {"reasoning": {"effort": "high"}}

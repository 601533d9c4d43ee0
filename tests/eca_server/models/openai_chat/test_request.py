"""Requests of Chat Completions: the options of servers, and the effort of a long chat."""

import pytest

from eca_server.models.backend import Request
from eca_server.models.history import Message
from tests.eca_server.models.histories import model, user
from tests.eca_server.models.reading import TOOL
from tests.eca_server.models.written import backend_of, write


def test_a_turn_writes_what_is_new_and_not_the_whole_history(monkeypatch):
    looked_at: list[str] = []

    def note(parts):
        looked_at.extend(part.text for part in parts)
        return parts

    monkeypatch.setattr("eca_server.models.history._full", note)
    backend = backend_of("openai-chat")
    history: list[Message] = []
    for number in range(20):
        history.append(user(f"question {number}"))
        backend.payload(Request(messages=history))
        history.append(model(f"answer {number}", origin=None))
    assert max(map(looked_at.count, looked_at)) <= 4


@pytest.mark.parametrize(
    ("server", "fields"),
    [
        ("z-ai", {"max_tokens": 9, "tool_stream": True}),
        ("mistral", {"max_tokens": 9, "tool_choice": "required"}),
        (
            "openai",
            {
                "max_completion_tokens": 9,
                "tool_choice": "required",
                "stream_options": {"include_usage": True, "include_obfuscation": False},
            },
        ),
    ],
)
def test_optional_fields_are_written_as_the_profile_says(server, fields):
    chosen = {"tool_choice": "required", "max_output_tokens": 9, "tools": [TOOL]}
    payload = write("openai-chat", user(), server=server, **chosen)
    always = ("model", "messages", "stream", "tools")
    assert {name: value for name, value in payload.items() if name not in always} == fields

"""A conversation as one text, which a model is asked to summarize."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.chat.compaction import transcript
from eca_server.models.history import (
    FilePart,
    ImagePart,
    Message,
    ReasoningPart,
    ServerToolPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from tests.eca_server.models.test_history import histories


def with_result(output: str, raw: str = "{}") -> list[Message]:
    call = ToolCallPart(id="1", name="eca_grep", raw=raw, arguments={})
    result = ToolResultPart(call_id="1", parts=(TextPart(output),))
    return [Message(role="assistant", parts=(call,)), Message(role="tool", parts=(result,))]


def test_it_names_the_author_of_each_message_and_the_results_of_calls() -> None:
    messages = [
        Message(
            role="user",
            parts=(
                TextPart("Find it."),
                ImagePart(media_type="image/png", data=b"x"),
                FilePart(name="a.pdf", media_type="application/pdf", data=b"x"),
            ),
        ),
        Message(
            role="assistant",
            parts=(
                ReasoningPart(text="a secret thought"),
                TextPart("I look."),
                ServerToolPart(kind="web_search", raw={}),
            ),
        ),
        *with_result("found", '{"pattern": "it"}'),
    ]
    assert transcript(messages, 10_000) == (
        "user:\nFind it.\n[image]\n[file a.pdf]\n\n"
        "assistant:\nI look.\n[used web_search]\n\n"
        'assistant:\n[called eca_grep with {"pattern": "it"}]\n\n'
        "tool:\n[eca_grep returned:]\nfound"
    )


def test_a_long_output_is_cut_before_what_people_say() -> None:
    messages = [Message(role="user", parts=(TextPart("w" * 20_000),)), *with_result("o" * 20_000)]
    told = transcript(messages, 100_000)
    assert told.count("w") >= 20_000
    assert told.count("o") < 5000
    assert "bytes left out" in told


def test_of_a_conversation_that_is_too_long_beginning_and_end_stay() -> None:
    texts = [f"prompt {number} {'-' * 100}" for number in range(1000)]
    told = transcript([Message(role="user", parts=(TextPart(text),)) for text in texts], 10_000)
    assert len(told) < 10_100
    assert "prompt 0 " in told
    assert "prompt 999 " in told
    assert "prompt 500 " not in told


@given(histories, st.integers(1, 2000))
def test_any_conversation_is_one_bounded_text(messages: Sequence[Message], size: int) -> None:
    assert len(transcript(messages, size).encode()) <= size + 100

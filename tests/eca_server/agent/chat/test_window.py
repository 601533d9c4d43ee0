"""The part of a model's context that a chat takes: a count, and an estimate of the rest."""

from __future__ import annotations

import pytest

from eca_server.agent.chat.history import History
from eca_server.models.backend import Request, Tool
from eca_server.models.estimate import (
    BYTES_PER_TOKEN,
    TOKENS_PER_IMAGE,
    TOKENS_PER_MESSAGE,
    tokens_in,
)
from eca_server.models.events import Usage
from eca_server.models.history import (
    CompactionPart,
    ImagePart,
    Message,
    TextPart,
    effective_history,
)


def user(text: str) -> Message:
    return Message(role="user", parts=(TextPart(text),))


def test_a_token_is_four_bytes() -> None:
    assert tokens_in([user("a" * 400)]) == 100 + TOKENS_PER_MESSAGE
    assert tokens_in([user("語" * 400)]) == 300 + TOKENS_PER_MESSAGE
    picture = ImagePart(media_type="image/png", data=b"x" * 10**6)
    assert tokens_in([Message(role="user", parts=(picture,))]) < TOKENS_PER_IMAGE + 20
    assert tokens_in([]) == 0


def test_without_a_count_instructions_and_tools_are_estimated_too() -> None:
    tool = Tool(name="t", description="d" * 4000, parameters={"type": "object"})
    bare = History().tokens(Request(messages=[user("hi")]), 1)
    whole = History().tokens(Request(system="s" * 4000, messages=[user("hi")], tools=[tool]), 1)
    assert 2000 <= whole - bare < 2100


def test_what_was_counted_stands_for_all_it_held() -> None:
    window = History()
    window.record(Usage(input=500, cache_read=300, cache_write=200, output=50), 2)
    messages = [user("x" * 10**6), user("y"), user("z" * 40 * BYTES_PER_TOKEN)]
    request = Request(system="s" * 10**6, messages=messages)
    assert window.tokens(request, 3) == 1050 + 40 + TOKENS_PER_MESSAGE


@pytest.mark.parametrize("usage", [Usage(), Usage(output=7), Usage(input=0, output=0)])
def test_a_provider_that_does_not_count_is_not_believed(usage: Usage) -> None:
    window = History()
    window.record(usage, 1)
    assert window.tokens(Request(messages=[user("x" * 4000)]), 1) >= 1000


def test_behind_a_summary_what_was_counted_before_does_not_matter() -> None:
    window = History()
    window.record(Usage(input=10**6, output=1), 2)
    marker = Message(role="user", parts=(CompactionPart("short"), TextPart("prompt")))
    history = [user("a"), user("b"), marker]
    assert window.tokens(Request(messages=effective_history(history)), 3) < 100
    window.record(Usage(input=70, output=7), 4)
    history += [user("answer"), user("c")]
    assert window.tokens(Request(messages=effective_history(history)), 5) == 77 + tokens_in(
        [user("c")]
    )

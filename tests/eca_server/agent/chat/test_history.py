"""The history that a model is sent: append-only, counted, cut, in pages, as one text."""

import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.testing.provider import reply
from eca_server.agent.chat.compaction import transcript
from eca_server.agent.chat.history import History, Page, page_of
from eca_server.models import history as h
from eca_server.models.backend import Request
from eca_server.models.events import Usage
from tests.eca_server.agent.chat.agent_session import conversation, older
from tests.eca_server.models.test_history import histories


@pytest.mark.requirement("ARROW:chat-text-4", "ARROW:chat-text-6", "ARROW:chat-text-8")
async def test_each_request_carries_the_one_before_as_it_was() -> None:
    turns = 5
    async with older(*(reply(f"answer {n}") for n in range(turns))) as (ours, provider):
        for number in range(turns):
            received = await ours.turn(f"prompt {number}\n")
            assert received.answer == f"answer {number}"
        bodies = [request.body["messages"] for request in provider.requests]
    for earlier, later in itertools.pairwise(bodies):
        assert later[: len(earlier)] == earlier
        assert len(later) == len(earlier) + 2
    assert conversation(provider)[-3:] == [
        ("user", f"prompt {turns - 2}\n"),
        ("assistant", f"answer {turns - 2}"),
        ("user", f"prompt {turns - 1}\n"),
    ]


def user(text: str) -> h.Message:
    return h.Message(role="user", parts=(h.TextPart(text),))


@pytest.mark.parametrize(
    "usage", [Usage(), Usage(output=7), Usage(input=0, output=0), Usage(input=0, output=7)]
)
def test_a_provider_that_does_not_count_is_not_believed(usage: Usage) -> None:
    window, running = History(), [user("x")]
    window.record(usage, running)
    assert running == [user("x")]
    assert window.tokens(Request(messages=[user("x" * 4000)]), 1) >= 1000


def test_a_cut_takes_the_messages_that_belong_to_the_prompt_with_it() -> None:
    def prompt(name: str) -> h.Message:
        return h.Message(role="user", parts=(h.TextPart(name),), content_id=name)

    answer = h.Message(role="assistant", parts=(h.TextPart("a"),), origin=h.Origin("a", "p", "m"))
    history = History()
    history.extend([prompt("one"), answer, user("of a server's prompt"), prompt("two"), answer])
    cut = history.cut_at("two")
    assert (cut.place, cut.named_by, cut.earlier) == (2, "two", 1)
    assert (cut.content_ids, cut.last_remaining) == (["two"], "one")
    summary = h.Message(role="user", parts=(h.CompactionPart("summary"),))
    result = h.Message(role="tool", parts=(h.TextPart("of a call"),))
    for before in (summary, result, prompt("another")):
        history = History()
        history.extend([prompt("one"), before, prompt("two")])
        assert history.cut_at("two").place == 2


ANSWERS = st.sampled_from([["assistant"], ["assistant", "tool"], []])
TURNS = st.lists(st.tuples(st.booleans(), st.lists(ANSWERS, max_size=3)), max_size=5)


def history_of(turns: list[tuple[bool, list[list[str]]]]) -> list[h.Message]:
    messages = []
    for is_compacted, answers in turns:
        part = h.CompactionPart("so far") if is_compacted else h.TextPart("hi")
        name = None if is_compacted else f"m{len(messages)}"
        messages.append(h.Message(role="user", parts=(part,), content_id=name))
        roles = [role for answer in answers for role in answer]
        messages += [h.Message(role=role, parts=(h.TextPart("a"),)) for role in roles]
    return messages


@given(turns=TURNS, limit=st.integers(1, 4), backwards=st.booleans())
def test_pages_lose_nothing_and_part_no_call_from_its_result(turns, limit, backwards):
    history = history_of(turns)
    pages: list[Page] = []
    cursor: str | None = None
    while True:
        if backwards:
            page = page_of(history, limit=limit, before=cursor)
            cursor = page.meta.before_cursor
            pages.insert(0, page)
        else:
            page = page_of(history, limit=limit, after=cursor or "lastCompaction")
            cursor = page.meta.after_cursor
            pages.append(page)
        if cursor is None:
            break
    messages = [message for page in pages for message in page.messages]
    compacted = [n for n, each in enumerate(history) if isinstance(each.parts[0], h.CompactionPart)]
    first = 0 if backwards or not compacted else compacted[-1]
    assert messages == history[first:]
    for page in pages:
        own = [message for message in page.messages if message.role != "tool"]
        assert page.meta.returned == len(own) <= limit
        assert page.meta.total == sum(message.role != "tool" for message in history)
        assert (page.meta.compaction_cursor is None) == (not compacted)
        assert not page.messages or page.messages[0].role != "tool"


def with_result(output: str, raw: str = "{}") -> list[h.Message]:
    call = h.ToolCallPart(id="1", name="eca_grep", raw=raw, arguments={})
    result = h.ToolResultPart(call_id="1", parts=(h.TextPart(output),))
    return [h.Message(role="assistant", parts=(call,)), h.Message(role="tool", parts=(result,))]


def test_it_names_the_author_of_each_message_and_the_results_of_calls() -> None:
    messages = [
        h.Message(
            role="user",
            parts=(
                h.TextPart("Find it."),
                h.ImagePart(media_type="image/png", data=b"x"),
                h.FilePart(name="a.pdf", media_type="application/pdf", data=b"x"),
            ),
        ),
        h.Message(
            role="assistant",
            parts=(
                h.ReasoningPart(text="a secret thought"),
                h.TextPart("I look."),
                h.ServerToolPart(kind="web_search", raw={}),
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
    messages = [
        h.Message(role="user", parts=(h.TextPart("w" * 20_000),)),
        *with_result("o" * 20_000),
    ]
    text = transcript(messages, 100_000)
    assert text.count("w") >= 20_000
    assert text.count("o") < 5000
    assert "bytes left out" in text


def test_of_a_conversation_that_is_too_long_beginning_and_end_stay() -> None:
    texts = [f"prompt {number} {'-' * 100}" for number in range(1000)]
    text = transcript([h.Message(role="user", parts=(h.TextPart(text),)) for text in texts], 10_000)
    assert len(text) < 10_100
    assert "prompt 0 " in text
    assert "prompt 999 " in text
    assert "prompt 500 " not in text


@given(histories, st.integers(1, 2000))
def test_any_conversation_is_one_bounded_text(messages: Sequence[h.Message], size: int) -> None:
    assert len(transcript(messages, size).encode()) <= size + 100

"""Pages of any history, joined in either direction, are that history."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.chat.pages import Page, page_of
from eca_server.models.history import CompactionPart, Message, TextPart

ANSWERS = st.sampled_from([["assistant"], ["assistant", "tool"], []])
TURNS = st.lists(st.tuples(st.booleans(), st.lists(ANSWERS, max_size=3)), max_size=5)


def history_of(turns: list[tuple[bool, list[list[str]]]]) -> list[Message]:
    messages = []
    for is_compacted, answers in turns:
        part = CompactionPart("so far") if is_compacted else TextPart("hi")
        name = None if is_compacted else f"m{len(messages)}"
        messages.append(Message(role="user", parts=(part,), content_id=name))
        roles = [role for answer in answers for role in answer]
        messages += [Message(role=role, parts=(TextPart("a"),)) for role in roles]
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
    told = [message for page in pages for message in page.messages]
    compacted = [n for n, each in enumerate(history) if isinstance(each.parts[0], CompactionPart)]
    first = 0 if backwards or not compacted else compacted[-1]
    assert told == history[first:]
    for page in pages:
        own = [message for message in page.messages if message.role != "tool"]
        assert page.meta.returned == len(own) <= limit
        assert page.meta.total == sum(message.role != "tool" for message in history)
        assert (page.meta.compaction_cursor is None) == (not compacted)
        assert not page.messages or page.messages[0].role != "tool"

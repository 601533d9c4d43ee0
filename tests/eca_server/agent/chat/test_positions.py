"""Positions in a history: where a rollback cuts it, and where stored messages are put back."""

from __future__ import annotations

import pytest

from eca_server.agent.chat.history import History, UnknownMessage
from eca_server.models.history import CompactionPart, Message, Origin, Part, TextPart

ORIGIN = Origin(api="a", provider="p", model="m")


def prompt(name: str) -> Message:
    return Message(role="user", parts=(TextPart(name),), content_id=name)


def answer(text: str) -> Message:
    return Message(role="assistant", parts=(TextPart(text),), origin=ORIGIN)


def unsent(*parts: Part) -> Message:
    """Return a message that is no prompt of the user."""
    return Message(role="user", parts=parts)


def history(*messages: Message) -> History:
    made = History()
    made.extend(messages)
    return made


def test_a_cut_takes_the_messages_that_belong_to_the_prompt_with_it() -> None:
    more = [unsent(TextPart("of a server's prompt")), prompt("two"), answer("b")]
    cut = history(prompt("one"), answer("a"), *more).cut_at("two")
    assert (cut.place, cut.named_by, cut.earlier) == (2, "two", 1)
    assert (cut.content_ids, cut.last_remaining) == (["two"], "one")
    summary = unsent(CompactionPart("summary"))
    assert history(prompt("one"), summary, prompt("two")).cut_at("two").place == 2


def test_a_prompt_that_is_not_recorded_is_cut_at_the_next_recorded_one() -> None:
    made = history(prompt("one"), answer("a"))
    made.unrecorded_prompts["command"] = 2
    assert (made.cut_at("command").place, made.cut_at("command").named_by) == (2, None)
    made.extend([prompt("two"), answer("b")])
    cut = made.cut_at("command")
    assert (cut.place, cut.named_by, cut.earlier) == (2, "two", 0)
    with pytest.raises(UnknownMessage):
        made.cut_at("nobody's")


def test_stored_messages_go_before_those_since_and_none_comes_twice() -> None:
    stored = [prompt("one"), answer("a"), prompt("two"), answer("b")]
    made = history(prompt("two"), answer("b"), prompt("three"))
    made.unrecorded_prompts["command"] = 2
    made.restore(stored, running=[prompt("four")])
    assert [each.content_id for each in made] == ["one", None, "two", None, "three"]
    assert made.unrecorded_prompts == {"command": 4}
    assert made.model_context == tuple(made)


def test_a_cut_history_has_no_prompts_that_only_the_client_knew() -> None:
    made = history(prompt("one"), answer("a"), prompt("two"))
    made.unrecorded_prompts["command"] = 3
    made.truncate(2)
    assert [*made] == [prompt("one"), answer("a")]
    assert made.model_context == tuple(made)
    assert not made.unrecorded_prompts

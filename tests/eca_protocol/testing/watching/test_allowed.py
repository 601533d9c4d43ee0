"""Behaviour that a server may choose is not reported."""

from typing import Any

import pytest

from tests.eca_protocol.testing.watching.session import (
    Change,
    after,
    answers,
    asks,
    both,
    content,
    finished,
    good_session,
    params,
    prompted,
    refuses,
    result,
    running,
    says,
    tells,
    without,
)
from tests.eca_protocol.testing.watching.test_watcher import (
    ANSWERED_FIRST,
    LEAVING,
    MORE,
    OTHER,
    rows,
    watch,
)

PREPARED_IN_C, ANNOUNCED, RUNS = (
    says("c", "assistant", kind, **members, **OTHER)
    for kind, members in (
        ("toolCallPrepare", {"argumentsText": "{}"}),
        ("toolCallRun", {"arguments": {}, "manualApproval": True}),
        ("toolCallRunning", {"arguments": {}}),
    )
)
RAN = says(
    "c", "assistant", "toolCalled", arguments={}, error=False, totalTimeMs=1, outputs=[], **OTHER
)


def nameless(*first: tuple[int, str, str], echoes: dict[str, str]) -> Change:
    """Return two prompts without an id, then the turn of each chat and its response."""
    entries = [asks(id_, "chat/prompt", {"message": message}) for id_, message, _ in first]
    chats = {chat: id_ for id_, _, chat in first}
    turns = [
        (*turn_start(chat, text), answers(chats[chat], prompted(chat)), finished(chat))
        for chat, text in echoes.items()
    ]
    return after("finished", *entries, *(entry for turn in turns for entry in turn))


def turn_start(chat: str, text: str) -> tuple[Any, ...]:
    """Return the messages that start a turn."""
    return running(chat), says(chat, "user", "text", text=text, contentId="m")


ALLOWED: dict[str, Change] = {
    "a server that knows no inline prompts": after(
        "finished",
        asks(8, "chat/inlinePrompt", {"chatId": "inline", "message": "Go on."}),
        refuses(8, -32601),
    ),
    "a queued prompt that is answered behind the end of the turn before": both(
        after("finished", *ANSWERED_FIRST[1:]), after("usage", MORE)
    ),
    "the second chat without an id begins first": nameless(
        (8, "one", "A"), (9, "two", "B"), echoes={"B": "two", "A": "one"}
    ),
    "words that begin with all of the words of another chat's": nameless(
        (8, "one and all", "A"), (9, "one", "B"), echoes={"B": "one", "A": "one and all"}
    ),
    "equal words in two chats without an id": both(
        nameless((8, "one", "A"), (9, "one", "B"), echoes={"B": "one", "A": "one"}),
        without(*LEAVING),
    ),
    "an approval for the session that another call has waited for": both(
        params("approve", save="session"),
        both(
            both(after("run", ANNOUNCED), after("prepare more", PREPARED_IN_C)),
            both(after("run runs", RUNS), after("called", RAN)),
        ),
    ),
    "dropped words of several lines, as a quotation": both(
        params("queued", message="And on\n  and on"),
        content("repeated", text="\n\nDropped:\n> And on\n> and on"),
    ),
    "a prompt that is sent with its stop after a stopped turn": both(
        without("queued", "queued prompted", "repeated"),
        after(
            "fenced",
            asks(8, "chat/prompt", {"message": "Again", "chatId": "new"}),
            tells("chat/promptStop", {"chatId": "new"}),
            *turn_start("new", "Again"),
            answers(8, prompted("new")),
            finished("new"),
        ),
    ),
    "the same, with a prompt behind it": both(
        without("queued", "queued prompted", "repeated"),
        after(
            "fenced",
            asks(8, "chat/prompt", {"message": "Again", "chatId": "new"}),
            tells("chat/promptStop", {"chatId": "new"}),
            asks(9, "chat/prompt", {"message": "At last", "chatId": "new"}),
            *turn_start("new", "Again"),
            answers(8, prompted("new")),
            finished("new"),
            *turn_start("new", "At last"),
            answers(9, prompted("new")),
            finished("new"),
        ),
    ),
    "a model without a provider, as it was asked for": both(
        params("prompt", model="gpt"), result("prompted", model="gpt")
    ),
}


@pytest.mark.parametrize("change", ALLOWED.values(), ids=ALLOWED)
def test_allowed_behaviour_is_not_reported(change: Change) -> None:
    assert watch(change(good_session())) == []


def test_an_echo_of_no_prompt_is_reported() -> None:
    twins = nameless((8, "one", "A"), (9, "two", "B"), echoes={"B": "three", "A": "one"})
    assert rows(watch(twins(good_session()))) == ["W-20b"]


def test_an_echo_in_a_wrong_chat_is_reported() -> None:
    twins = nameless((8, "one", "A"), (9, "two", "B"), echoes={"A": "two", "B": "one"})
    assert rows(watch(twins(good_session()))) == ["W-20b", "W-20b"]
    both_begin = after(
        "finished",
        *(asks(id_, "chat/prompt", {"message": message}) for id_, message in ((8, "1"), (9, "2"))),
        *(each for chat, text in (("A", "2"), ("B", "1")) for each in turn_start(chat, text)),
        *(answers(id_, prompted(chat)) for id_, chat in ((8, "A"), (9, "B"))),
        *(finished(chat) for chat in ("A", "B")),
    )
    assert rows(watch(both_begin(good_session()))) == ["W-20b"]

"""The server's own texts stand apart from the model's (W-26)."""

from __future__ import annotations

import pytest

from eca_protocol.messages import ChatProgressContent, ChatTextContent
from eca_protocol.server.texts import Paragraphs, Role
from tests.eca_server.agent.chat.editor import SCRIPT, editor, text

SYSTEM: Role = "system"
MODEL: Role = "assistant"
USER: Role = "user"


@pytest.mark.requirement("W-26d")
@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        ([(SYSTEM, "one")], "one"),
        ([(MODEL, "one"), (MODEL, "two")], "onetwo"),
        ([(MODEL, "one"), (SYSTEM, "two")], "one\n\ntwo"),
        ([(MODEL, "one\n"), (SYSTEM, "two\n")], "one\n\ntwo"),
        ([(MODEL, "one\n\n"), (SYSTEM, "two")], "one\n\ntwo"),
        ([(SYSTEM, "one"), (SYSTEM, "two\n\n"), (SYSTEM, "three")], "one\n\ntwo\n\nthree"),
        ([(SYSTEM, "one"), (MODEL, "two"), (MODEL, " three")], "one\n\ntwo three"),
        ([(SYSTEM, "one"), (MODEL, ""), (MODEL, "two")], "one\n\ntwo"),
        ([(SYSTEM, "one"), (MODEL, "\ntwo")], "one\n\ntwo"),
        ([(SYSTEM, "one"), (SYSTEM, "\n"), (MODEL, "two")], "one\n\ntwo"),
        ([(MODEL, "one"), (USER, "steer"), (SYSTEM, "two")], "onesteertwo"),
    ],
)
def test_a_blank_line_parts_what_clients_append(texts, expected):
    paragraphs = Paragraphs()
    written = []
    for role, words in texts:
        content = paragraphs.spaced(role, ChatTextContent(text=words))
        if isinstance(content, ChatTextContent):
            written.append(content.text)
        progress = ChatProgressContent(state="running", text="Working")
        assert paragraphs.spaced(SYSTEM, progress) is progress
    assert "".join(written) == expected


async def test_what_went_wrong_does_not_stick_to_the_answer():
    async with editor() as ours:
        received = await ours.turn("say Some words here\nfail overloaded", model=SCRIPT)
    assert text(received[2:]).startswith("Some words here\n\nsimulator/script: ")


async def test_dropped_prompts_are_repeated_in_a_paragraph_of_their_own():
    async with editor() as ours:
        await ours.prompt("say Some words\nwait forever", model=SCRIPT)
        await ours.content("text", text=" words")
        await ours.prompt("later")
        await ours.expect_stopped()
        assert text(ours.contents()[2:]).startswith("Some words\n\n")

"""Prompts of MCP servers: their names as commands, and their messages for the model."""

import trio
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.server.texts import named_command
from eca_server.agent.commands.custom import words_of
from eca_server.agent.commands.server_prompts import messages_of, server_prompts
from eca_server.agent.context.limits import Limits
from eca_server.agent.mcp import messages as m
from eca_server.agent.mcp.server import Server
from eca_server.models.history import FilePart, ImagePart, TextPart, repair
from tests.eca_server.agent.mcp.fake import SETTINGS, Place

NAMES = st.text(st.sampled_from("aA:/- \nß*\u202e") | st.characters(), min_size=1, max_size=8)
PNG = b"\x89PNG\r\n\x1a\n"
TEXTS = st.sampled_from(["", " ", "hello", "x" * 300_000])
CONTENTS = st.one_of(
    TEXTS.map(TextPart),
    st.just(ImagePart(data=PNG, media_type="image/png")),
    st.builds(m.ResourceContents, uri=NAMES, text=TEXTS),
    st.sampled_from([PNG, b"%PDF-", b"\0", PNG + bytes(4_000_000)]).map(
        lambda blob: m.ResourceContents(uri="memo://x", blob=blob)
    ),
)


@given(st.lists(st.tuples(NAMES, st.lists(NAMES, max_size=4)), max_size=4))
def test_every_prompt_has_a_name_that_a_user_can_type(offered):
    async def main() -> None:
        async with trio.open_nursery() as nursery:
            servers = [
                Server(name, SETTINGS, connect=Place().connect, nursery=nursery, on_change=print)
                for name, _ in offered
            ]
        for server, (_, names) in zip(servers, offered, strict=True):
            server.prompts = tuple(m.Prompt(name=name) for name in names)
        commands = server_prompts(servers, taken={"a:a"})
        assert [(each.server, each.prompt) for each in commands] == [
            (server, prompt) for server in servers for prompt in server.prompts
        ]
        names = [named_command(f"/{each.name} more") for each in commands]
        assert len({*names, "a:a"}) == len(commands) + 1
        assert names == [each.name.lower() for each in commands]

    trio.run(main)


@given(st.text(st.sampled_from("ab \"'\n")), st.integers(0, 4))
def test_the_last_argument_takes_the_whole_rest(text, limit):
    words, all_words = words_of(text, limit=limit), words_of(text)
    assert len(words) == min(limit, len(all_words))
    if len(all_words) <= limit:
        assert words == all_words
    elif words:
        assert words[:-1] == all_words[: limit - 1]
        assert text.rstrip().endswith(words[-1])


@given(
    st.lists(
        st.builds(m.PromptMessage, role=st.sampled_from(["user", "assistant"]), content=CONTENTS)
    ),
    st.sampled_from(["", "more"]),
)
def test_any_prompt_becomes_a_bounded_history_that_every_api_takes(messages, more):
    history = messages_of(messages, server="s", user_text="/s:p more", extra_text=more)
    if not history:
        return
    assert [each.role for each in history] == [
        ("user", "assistant")[n % 2] for n in range(len(history))
    ]
    assert history[-1].role == "user"
    assert repair(history) == history
    parts = [part for each in history for part in each.parts]
    text_size = sum(len(part.text) for part in parts if isinstance(part, TextPart))
    frames = 500 * (len(messages) + 1)
    assert text_size <= Limits().total + frames
    assert sum(isinstance(part, ImagePart | FilePart) for part in parts) <= Limits().attachments
    assert not more or history[-1].parts[-1] == TextPart(more)


def test_an_empty_prompt_has_no_messages_and_a_note_says_once_that_text_was_left_out():
    blank = m.PromptMessage(role="user", content=TextPart(" \n"))
    assert messages_of([blank], server="s", user_text="/s:p", extra_text="x") == ()
    block = m.PromptMessage(role="user", content=TextPart("x" * Limits().total))
    (history,) = messages_of([block] * 3, server="s", user_text="/s:p")
    first, last = history.parts
    assert (len(first.text), "left out" in last.text) == (Limits().total, True)

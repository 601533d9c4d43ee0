"""What prompts of MCP servers are called, and what becomes of what they say."""

from __future__ import annotations

import trio
from hypothesis import given
from hypothesis import strategies as st

from eca_server.commands import named_command
from eca_server.commands.custom import words_of
from eca_server.commands.given_prompt import messages_of
from eca_server.commands.server_prompts import server_prompts
from eca_server.context.limits import Limits
from eca_server.llm.history import FilePart, ImagePart, TextPart, repair
from eca_server.mcp.messages import (
    EmbeddedResource,
    ImageContent,
    Prompt,
    PromptMessage,
    PromptResult,
    ResourceContents,
    TextContent,
)
from eca_server.mcp.server import Server
from tests.eca_server.mcp.fake import SETTINGS, Place

NAMES = st.text(st.sampled_from("aA:/- \nß*\u202e") | st.characters(), min_size=1, max_size=8)
PNG = b"\x89PNG\r\n\x1a\n"
TEXTS = st.sampled_from(["", " ", "hello", "x" * 300_000])
CONTENTS = st.one_of(
    TEXTS.map(lambda text: TextContent(text=text)),
    st.just(ImageContent(data=PNG, mime_type="image/png")),
    st.builds(ResourceContents, uri=NAMES, text=TEXTS).map(
        lambda each: EmbeddedResource(contents=each)
    ),
    st.sampled_from([PNG, b"%PDF-", b"\0", PNG + bytes(4_000_000)]).map(
        lambda blob: EmbeddedResource(contents=ResourceContents(uri="memo://x", blob=blob))
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
            server.prompts = tuple(Prompt(name=name) for name in names)
        found = server_prompts(servers, taken={"a:a"})
        assert [(each.server, each.prompt) for each in found] == [
            (server, prompt) for server in servers for prompt in server.prompts
        ]
        typed = [named_command(f"/{each.name} more") for each in found]
        assert len({*typed, "a:a"}) == len(found) + 1
        assert typed == [each.name.lower() for each in found]

    trio.run(main)


@given(st.text(st.sampled_from("ab \"'\n")), st.integers(0, 4))
def test_the_last_argument_takes_what_is_left_as_it_is_written(text, most):
    words, all_words = words_of(text, most=most), words_of(text)
    assert len(words) == min(most, len(all_words))
    if len(all_words) <= most:
        assert words == all_words
    elif words:
        assert words[:-1] == all_words[: most - 1]
        assert text.rstrip().endswith(words[-1])


@given(
    st.lists(
        st.builds(PromptMessage, role=st.sampled_from(["user", "assistant"]), content=CONTENTS)
    ),
    st.sampled_from(["", "more"]),
)
def test_whatever_a_server_says_is_a_bounded_history_that_every_api_takes(messages, more):
    result = PromptResult(messages=tuple(messages))
    made = messages_of(result, server="s", typed="/s:p more", more=more)
    if not made:
        return
    assert [each.role for each in made] == [("user", "assistant")[n % 2] for n in range(len(made))]
    assert made[-1].role == "user"
    assert repair(made) == made
    parts = [part for each in made for part in each.parts]
    told = sum(len(part.text) for part in parts if isinstance(part, TextPart))
    frames = 500 * (len(messages) + 1)
    assert told <= Limits().total + frames
    assert sum(isinstance(part, ImagePart | FilePart) for part in parts) <= Limits().attachments
    assert not more or made[-1].parts[-1] == TextPart(more)


def test_a_prompt_that_says_nothing_is_none():
    blank = PromptMessage(role="user", content=TextContent(text=" \n"))
    assert messages_of(PromptResult(messages=(blank,)), server="s", typed="/s:p", more="x") == ()


def test_what_has_no_room_is_said_to_be_left_out_once():
    block = PromptMessage(role="user", content=TextContent(text="x" * Limits().total))
    (made,) = messages_of(PromptResult(messages=(block,) * 3), server="s", typed="/s:p")
    first, last = made.parts
    assert isinstance(first, TextPart)
    assert isinstance(last, TextPart)
    assert (len(first.text), "left out" in last.text) == (Limits().total, True)

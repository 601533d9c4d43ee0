"""Blocks of code that an answer in Markdown leaves open."""

import pytest

from eca_protocol.messages import ChatReasonFinishedContent, ChatTextContent
from eca_server.agent.chat.markdown import OpenCode


@pytest.mark.parametrize(
    ("text", "ending"),
    [
        ("no code, `inline` and ```inline```", None),
        ("```py\nx = 1\n```", None),
        ("~~~\n```\n~~~\n", None),
        ("```py\nx = 1", "\n```\n"),
        ("```py\nx = 1\n", "```\n"),
        ("```", "\n```\n"),
        ("```py\na\n```\nand\n```js\nb\n", "```\n"),
        ("````md\n```py\nx\n```\n", "````\n"),
        ("~~~\nx\n```\n", "~~~\n"),
        ("```py\n```js\n", "```\n"),
        ("- one\n  ```py\n  x\n", "  ```\n"),
        (f"```\n{'x' * 1000}", "\n```\n"),
    ],
)
@pytest.mark.parametrize("step", [1, 3, 10_000])
def test_the_end_of_an_open_block_of_code(text, ending, step):
    code = OpenCode()
    for start in range(0, len(text), step):
        code.read(ChatTextContent(text=text[start : start + step]))
    closing = code.ending
    assert (closing and closing.text) == ending
    if closing is not None:
        code.read(closing)
    assert code.ending is None


def test_a_block_of_code_before_another_content_is_left_as_it_is():
    code = OpenCode()
    code.read(ChatTextContent(text="```py\n"))
    code.read(ChatReasonFinishedContent(id="r", total_time_ms=1))
    assert code.ending is None

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.draft.code_blocks import MAX_BLOCK, CodeBlocks
from eca_protocol.draft.models import CodeBlock


def blocks(*pieces: str) -> list[tuple[str | None, str]]:
    finder = CodeBlocks()
    blocks = [block for piece in pieces for block in finder.feed(piece)]
    return [(block.language, block.code) for block in (*blocks, *finder.close())]


@pytest.mark.requirement("W-50d")
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no code `here`", []),
        ("a\n```python\nx = 1\n\ny\n```\nb", [("python", "x = 1\n\ny")]),
        ("```\nplain\n```", [(None, "plain")]),
        ("```js title=x\r\na\r\n```\r\n", [("js", "a")]),
        ("~~~\n```\n~~~", [(None, "```")]),
        ("````md\n```\nin\n```\n````\n", [("md", "```\nin\n```")]),
        ("- item\n  ```sh\n  ls\n    deep\n  ```", [("sh", "ls\n  deep")]),
        ("```a``` is no fence\n", []),
        ("```py\nnever closed", [("py", "never closed")]),
        ("```\n```\n```x\n1\n```", [(None, ""), ("x", "1")]),
        ("```\n" + "y\n" * MAX_BLOCK + "```", []),
    ],
)
def test_the_fences_of_a_text_are_its_blocks(text: str, expected: list[object]) -> None:
    assert blocks(text) == expected


def test_a_block_is_given_with_the_piece_that_holds_the_last_of_it() -> None:
    finder = CodeBlocks()
    assert [len(finder.feed(piece)) for piece in ("``", "`x\n1", "\n`", "``", "\nafter")] == [
        0, 0, 0, 0, 1,
    ]  # fmt: skip
    assert finder.feed("\n```\nopen") == ()
    assert finder.close() == (CodeBlock(code="open"),)
    assert finder.close() == ()


LINES = st.lists(st.sampled_from(["```", "```py", "~~~~", "  ```", "x", "", "`"]), max_size=8)


@given(LINES.map("\n".join), st.data())
def test_how_a_text_is_cut_does_not_matter(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    assert blocks(text[:cut], text[cut:]) == blocks(*text) == blocks(text)

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.draft.code_blocks import MAX_BLOCK, CodeBlocks
from eca_protocol.draft.file_changes import parse_changes
from eca_protocol.draft.models import Change, CodeBlock, LineRange


def diff(before: Sequence[str], after: Sequence[str], context: int = 3) -> str:
    lines = difflib.unified_diff(before, after, "old", "new", n=context, lineterm="")
    return "\n".join(lines)


def applied(before: Sequence[str], changes: Sequence[Change]) -> str:
    """Apply the changes to a file, as an editor does."""
    text = [f"{line}\n" for line in before]
    for change in reversed(changes):
        if change.range is None:
            assert change.kind == "create"
            assert not before
            text = [change.content or ""]
        else:
            assert (change.kind == "delete") == (change.content is None)
            assert change.range.start_line <= change.range.end_line
            text[change.range.start_line - 1 : change.range.end_line] = [change.content or ""]
    return "".join(text)


TEXTS = st.lists(st.sampled_from("abc"), max_size=12)


@given(TEXTS, TEXTS, st.integers(1, 3))
def test_applying_the_changes_gives_the_new_file(before, after, context):
    changes = parse_changes(diff(before, after, context))
    assert changes is not None
    assert applied(before, changes) == "".join(f"{line}\n" for line in after)


def change(content: str | None, start: int, end: int) -> tuple[Change]:
    kind: Any = "delete" if content is None else "change"
    return (Change(kind=kind, content=content, range=LineRange(start_line=start, end_line=end)),)


NO_NEWLINE = "\\ No newline at end of file"


@pytest.mark.parametrize(
    ("hunks", "expected"),
    [
        ("", ()),
        ("@@ -0,0 +1,2 @@\n+a\n+b", (Change(kind="create", content="a\nb\n"),)),
        (f"@@ -0,0 +1 @@\n+a\n{NO_NEWLINE}", (Change(kind="create", content="a"),)),
        ("@@ -1,2 +0,0 @@\n-a\n-b", change(None, 1, 2)),
        ("@@ -1,3 +1,2 @@\n a\n-b\n c", change(None, 2, 2)),
        ("@@ -4,3 +4,4 @@\n a\n-b\n+x\n+y\n c", change("x\ny\n", 5, 5)),
        ("@@ -1,2 +1,3 @@\n+x\n a\n b", change("x\na\n", 1, 1)),
        (f"@@ -7 +7 @@\n-a\n{NO_NEWLINE}\n+b", change("b\n", 7, 7)),
    ],
)
def test_a_hunk_is_a_change(hunks, expected):
    assert parse_changes(hunks) == expected


@pytest.mark.parametrize(
    "cut",
    [
        "@@ -1,3 +1,3 @@\n a\n-b\n... cut, 10 bytes left out ...",
        "@@ -1 +1 @@\n-a\n+b\n... cut, 99 bytes left out ...",
        "... cut, 99 bytes left out ...",
        "@@ -1,3 +1,3 @@\n a",
        "@@ -1 +1 @@\n-a\n+b\n more",
        "@@ -5,0 +6 @@\n+nothing to hang it on",
        "no diff",
    ],
)
def test_what_is_not_whole_gives_no_changes(cut):
    assert parse_changes(cut) is None


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


FENCES = st.lists(st.sampled_from(["```", "```py", "~~~~", "  ```", "x", "", "`"]), max_size=8)


@given(FENCES.map("\n".join), st.data())
def test_how_a_text_is_cut_does_not_matter(text: str, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(text)))
    assert blocks(text[:cut], text[cut:]) == blocks(*text) == blocks(text)

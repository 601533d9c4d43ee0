"""Edits: only an unambiguous passage is replaced."""

import itertools
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.tools.editing import EditResult, edit
from eca_server.agent.tools.tool import ToolError
from eca_server.workspace.reading import decode

CODE = """\
def one():
    if True:
        return 1


def two():
    return 2
"""


def edited(text: str, original: str, new: str, *, every: bool = False) -> EditResult:
    return edit(decode(text.encode()), original, new, all_occurrences=every)


def refused(text: str, original: str, new: str = "new", *, every: bool = False) -> str:
    with pytest.raises(ToolError) as fault:
        edited(text, original, new, every=every)
    return str(fault.value)


words = st.text(st.sampled_from("ab \n"), max_size=12)


@given(words, words, words)
def test_a_passage_that_is_there_once_is_replaced_and_the_rest_is_not(before, after, new):
    result = edited(f"{before}[here]{after}", "[here]", f"<{new}>")
    assert result == EditResult(text=f"{before}<{new}>{after}", count=1, exact=True)
    assert edited(result.text, f"<{new}>", "[here]").text == f"{before}[here]{after}"


def test_line_ends_of_the_file_are_used_whatever_the_model_writes():
    for newline, given_end in itertools.product(("\n", "\r\n", "\r"), ("\n", "\r\n")):
        text = newline.join(["one", "two", "three", ""])
        result = edited(text, f"one{given_end}two", f"1{given_end}2")
        expected = newline.join(["1", "2", "three", ""])
        assert result == EditResult(text=expected, count=1, exact=True)


@pytest.mark.parametrize("by", ["", "  ", "        ", "\t"])
def test_an_indentation_that_is_off_is_set_right(by):
    original = textwrap.indent("if True:\n    return 1", by)
    new = textwrap.indent("if False:\n\n    return 0\nelse:\n    return 1", by)
    assert edited(CODE, original, new).text == CODE.replace(
        "    if True:\n        return 1",
        "    if False:\n\n        return 0\n    else:\n        return 1",
    )


MIXED = "zero\none\r\ntwo\nthree\r\nfour\n"


@pytest.mark.parametrize(
    ("text", "original", "new", "expected"),
    [
        # Lines that the model left alone keep their line ends in a mixed file.
        (MIXED, "one\ntwo\nthree", "one\n2\nthree", "zero\none\r\n2\nthree\r\nfour\n"),
        (MIXED, "one\ntwo\n", "one\n", "zero\none\r\nthree\r\nfour\n"),
        (MIXED, "two\nthree\n", "two\n3\n", "zero\none\r\ntwo\n3\r\nfour\n"),
        (MIXED, "one\ntwo", "one", "zero\none\r\nthree\r\nfour\n"),
        # Blanks at the ends of lines are forgiven.
        ("one  \ntwo\t\nthree\n", "one\ntwo", "one\n2", "one  \n2\nthree\n"),
        ("one\ntwo\n", "one   \ntwo ", "1\n2", "1\n2\n"),
        # The line ends of a forgiven passage mean what they say.
        ("a\nb\nc", "b \n", "", "a\nc"),
        ("a\nb\nc", "b ", "", "a\n\nc"),
        ("a\nb\nc", "b \n", "x\ny\n", "a\nx\ny\nc"),
        ("a\nb\nc", "b ", "x\n", "a\nx\n\nc"),
        ("a\nb\nc", "c ", "d", "a\nb\nd"),
        ("a\nb\nc", "c \n", "d\ne\n", "a\nb\nd\ne"),
    ],
)
def test_blanks_and_line_ends_are_forgiven_and_preserved(text, original, new, expected):
    result = edited(text, original, new)
    assert result == EditResult(text=expected, count=1, exact=False)


BRANCHES = "if a:\n    go()\nif b:\n  go()\n"


@pytest.mark.parametrize(
    ("text", "original", "new", "words"),
    [
        ("a b a b a", "a", "new", "3 times"),
        ("aaa", "aa", "new", "2 times"),  # they overlap
        (
            CODE,
            "if True:\n  return 1",
            "x",
            "different indentation only",
        ),  # another shape of indentation
        (
            CODE,
            "        if True:\n            return 1",
            "x",
            "indent both texts",
        ),  # cannot move left
        ("a\n\n\nb\n", " \n \n", "new", "not found"),  # blank lines alone are never a guess
        ("\n" * 100_000 + "a\n", "\n" * 80_000 + "b\n", "new", "not found"),  # at once
        (BRANCHES, "\tgo()", "stop()", "2 times"),
        ("f:\n    a\n", "\ta\n", "\tif b:\n\t\ta\n", "lines are 2 to 2:\n    a"),
        ("f:\n\ta\n", "    a\n", "    if b:\n        a\n", "lines are 2 to 2:\n\ta"),
        ("f:\n    a\n    b\n", "a\nb", "if c:\n\ta\nb", "different indentation only"),
        (" a\n a\n a\n", "a\na", "b", "2 times"),
        (CODE, "def two():\n    return 3", "x", "lines are 6 to 7:\ndef two():\n    return 2"),
        (CODE, "%%%%%%%%%%", "x", "No line of the file is similar"),
        ("a", "", "new", "empty"),
        ("a", "a", "a", "nothing would change"),
        ("a\r\nb\r\n", "a\nb", "a\r\nb", "nothing would change"),
    ],
    ids=range(16),
)
def test_an_ambiguous_or_missing_passage_is_refused(text, original, new, words):
    assert words in refused(text, original, new)


@pytest.mark.parametrize(
    ("text", "original", "new", "expected", "count"),
    [
        ("a b a", "a", "c", "c b c", 2),
        ("aaa", "aa", "b", "ba", 1),
        (" a\n a\n a\n", "a\na", "b", " b\n a\n", 1),
        (BRANCHES, "\tgo()", "\tstop()", "if a:\n    stop()\nif b:\n  stop()\n", 2),
    ],
)
def test_all_occurrences_are_replaced_if_asked_for(text, original, new, expected, count):
    result = edited(text, original, new, every=True)
    assert result == EditResult(text=expected, count=count, exact="\n" not in text)


def test_a_stop_is_noticed_while_similar_lines_are_looked_for():
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        edit(decode(b"a\n"), "b", "c", all_occurrences=False, checkpoint=stop)

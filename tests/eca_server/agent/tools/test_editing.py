"""Edits: only an unambiguous passage is replaced."""

from __future__ import annotations

import textwrap

import pytest
from hypothesis import assume, given
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
    result = edited(f"{before}[here]{after}", "[here]", new)
    assert result == EditResult(text=before + new + after, count=1, exact=True)


@given(words, words, st.text(st.sampled_from("xy\n"), min_size=1, max_size=5))
def test_an_edit_and_its_inverse_give_the_text_again(before, after, new):
    text = f"{before}[here]{after}"
    assert edited(edited(text, "[here]", f"<{new}>").text, f"<{new}>", "[here]").text == text


@given(st.text("ab", max_size=12), st.text("ab", min_size=1, max_size=3))
def test_what_is_there_more_than_once_is_refused_even_where_it_overlaps(text, passage):
    places = sum(text.startswith(passage, at) for at in range(len(text)))
    assume(places > 1)
    assert "was found" in refused(text, passage)
    assert edited(text, passage, "new", every=True).text == text.replace(passage, "new")


def test_the_refusal_says_how_often_it_is_there():
    assert "3 times" in refused("a b a b a", "a")


def test_all_occurrences_are_replaced_if_asked_for():
    assert edited("a b a", "a", "c", every=True) == EditResult(text="c b c", count=2, exact=True)


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_of_the_file_are_used_whatever_the_model_writes(newline):
    text = newline.join(["one", "two", "three", ""])
    for given_end in ("\n", "\r\n"):
        result = edited(text, f"one{given_end}two", f"1{given_end}2")
        assert result.text == newline.join(["1", "2", "three", ""])
        assert result.exact


def test_lines_the_model_left_alone_keep_their_line_ends_in_a_mixed_file():
    text = "zero\none\r\ntwo\nthree\r\nfour\n"
    assert (
        edited(text, "one\ntwo\nthree", "one\n2\nthree").text == "zero\none\r\n2\nthree\r\nfour\n"
    )


def test_blanks_at_the_ends_of_lines_are_forgiven():
    text = "one  \ntwo\t\nthree\n"
    assert edited(text, "one\ntwo", "one\n2") == EditResult(
        text="one  \n2\nthree\n", count=1, exact=False
    )
    assert edited("one\ntwo\n", "one   \ntwo ", "1\n2").text == "1\n2\n"


@pytest.mark.parametrize("by", ["", "  ", "        ", "\t"])
def test_an_indentation_that_is_off_is_set_right(by):
    original = textwrap.indent("if True:\n    return 1", by)
    new = textwrap.indent("if False:\n\n    return 0\nelse:\n    return 1", by)
    assert edited(CODE, original, new).text == CODE.replace(
        "    if True:\n        return 1",
        "    if False:\n\n        return 0\n    else:\n        return 1",
    )


def test_another_shape_of_indentation_is_not_guessed():
    assert "not found" in refused(CODE, "if True:\n  return 1", "x")


def test_a_new_line_that_cannot_be_moved_left_is_refused():
    assert "not found" in refused(CODE, "        if True:\n            return 1", "x")


def test_places_that_differ_only_in_blanks_are_not_distinguished():
    text = "if a:\n    go()\nif b:\n  go()\n"
    assert "2 times" in refused(text, "\tgo()", "stop()")
    assert (
        edited(text, "\tgo()", "\tstop()", every=True).text
        == "if a:\n    stop()\nif b:\n  stop()\n"
    )


def test_a_passage_that_overlaps_itself_is_not_meant_for_certain():
    assert "2 times" in refused(" a\n a\n a\n", "a\na", "b")
    assert edited(" a\n a\n a\n", "a\na", "b", every=True) == EditResult(
        text=" b\n a\n", count=1, exact=False
    )
    assert edited("aaa", "aa", "b", every=True) == EditResult(text="ba", count=1, exact=True)


@pytest.mark.parametrize(
    ("original", "new", "expected"),
    [
        ("b \n", "", "a\nc"),
        ("b ", "", "a\n\nc"),
        ("b \n", "x\ny\n", "a\nx\ny\nc"),
        ("b ", "x\n", "a\nx\n\nc"),
        ("c ", "d", "a\nb\nd"),
        ("c \n", "d\ne\n", "a\nb\nd\ne"),
    ],
)
def test_line_ends_of_a_forgiven_passage_mean_what_they_say(original, new, expected):
    assert edited("a\nb\nc", original, new).text == expected


@given(
    st.lists(st.sampled_from(["", "a", " a", "b", "  b", "c "]), min_size=1, max_size=8), st.data()
)
def test_a_forgiven_edit_changes_lines_of_the_passage_only(lines, data):
    start = data.draw(st.integers(0, len(lines) - 1))
    end = data.draw(st.integers(start + 1, len(lines)))
    text = "".join(f"{line}\n" for line in lines)
    passage = "\n".join(line.strip() for line in lines[start:end])
    assume(lines[end - 1].strip())
    try:
        result = edited(text, passage, "new")
    except ToolError:
        return
    if not result.exact:
        edited_lines = result.text.split("\n")
        # The least forgiving reading finds it, which may be at another place than it came from.
        at = next(i for i, line in enumerate(edited_lines) if line.strip() == "new")
        size = end - start
        assert "\n".join(line.strip() for line in lines[at : at + size]) == passage
        assert edited_lines[:at] == lines[:at]
        assert edited_lines[at + 1 : -1] == lines[at + size :]


def test_blank_lines_alone_are_never_a_guess():
    assert "not found" in refused("a\n\n\nb\n", " \n \n")


def test_a_passage_that_is_not_there_is_answered_with_the_lines_most_like_it():
    message = refused(CODE, "def two():\n    return 3")
    assert "lines are 6 to 7:\ndef two():\n    return 2" in message
    assert "No line of the file is similar" in refused(CODE, "%%%%%%%%%%")


def test_an_empty_passage_and_one_that_would_not_change_are_refused():
    assert "empty" in refused("a", "")
    assert "nothing would change" in refused("a", "a", "a")
    assert "nothing would change" in refused("a\r\nb\r\n", "a\nb", "a\r\nb")


def test_a_passage_of_a_megabyte_in_a_file_of_blank_lines_takes_no_time():
    assert "not found" in refused("\n" * 500_000 + "a\n", "\n" * 400_000 + "b\n")


def test_a_stop_is_noticed_while_similar_lines_are_looked_for():
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        edit(decode(b"a\n"), "b", "c", all_occurrences=False, checkpoint=stop)

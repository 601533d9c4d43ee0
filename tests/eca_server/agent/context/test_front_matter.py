"""The front matter of a Markdown file, also of a hostile one."""

from __future__ import annotations

import time

import pytest

from eca_server.agent.context.front_matter import split_front_matter

SIZE = 60_000  # bytes; a file has at most 64 KiB


@pytest.mark.parametrize(
    ("above", "expected"),
    [
        ("a: one", ("one",)),
        ("a:  'one' \t", ("one",)),
        ("a: one\n  two \n\tthree", ("one two three",)),
        ("a: >-\n  one\n  two", ("one two",)),
        ("a: [one, 'two', ]", ("one", "two")),
        ("a: [one,\n two]", ("one", "two")),
        ("a:\n  - one\n -  'two' \n -three", ("one", "two")),
        ("a:", ()),
        ("a: |", ()),
        ("a: one\nb: two\na: three", ("three",)),
        (" one\n- two\na: three\nfour", ("three",)),
    ],
)
def test_a_field_is_a_list_of_words(above, expected):
    fields, text = split_front_matter(f"---\n{above}\n---\nThe text.")
    assert fields["a"] == expected
    assert text == "The text."


@pytest.mark.parametrize(
    "above",
    [
        "a: x" + " " * SIZE + "x",
        "a:\n - x" + " " * SIZE + "x",
        "a: b\n x" + " " * SIZE + "x",
        "a: [x]\n" + " [,]\n" * (SIZE // 5),
    ],
    ids=["value", "item", "further line", "lists"],
)
def test_no_file_takes_long(above):
    # These took 13 to 33 seconds, in which nothing else in the process ran.
    begun = time.process_time()
    split_front_matter(f"---\n{above}\n---\nThe text.")
    assert time.process_time() - begun < 3

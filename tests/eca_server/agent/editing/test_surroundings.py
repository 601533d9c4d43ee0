"""The text around a selection, as it is sent to the model."""

from __future__ import annotations

import pytest

from eca_server.agent.editing.surroundings import Surroundings, around

CONTENT = "".join(f"{number}\nx\n" for number in range(10))


@pytest.mark.parametrize(
    ("content", "line", "most_lines", "expected"),
    [
        (CONTENT, 6, 4, Surroundings("x\n2\n", "3\nx\n")),
        (CONTENT, 99, 2, Surroundings("0\n", "1\n")),
        ("a\nb\nc\nx\n", 4, 3, Surroundings("a\nb\nc\n", "")),
        ("x\na\nb\n", 1, 2, Surroundings("", "a\nb\n")),
        ("changed since", 1, 9, Surroundings()),
    ],
)
def test_a_selection_is_found_where_it_begins(content, line, most_lines, expected):
    assert around(content, "x\n", line=line, most_lines=most_lines) == expected

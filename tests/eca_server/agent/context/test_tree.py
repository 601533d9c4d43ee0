from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.context.tree import draw_tree

PATHS = st.sets(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(
        lambda folders: "/".join([*folders, "file"])
    )
)


MANY = [f"{number:03}" for number in range(200)]
DEEP = [*(f"a/b/{number}" for number in range(9)), "c/d"]


@pytest.mark.parametrize(
    ("paths", "limit", "drawn"),
    [
        (["b", "a/c/d", "a/e"], 10, "a/\n  c/\n    d\n  e\nb"),
        (DEEP, 5, "a/\n  b/ (9 entries left out)\nc/\n  d"),
        (MANY, 3, "000\n001\n002\n... cut, 197 entries left out ..."),
        (["a\nb/\x1b[31m\udcff"], 9, "a\\nb/\n  \\x1b[31m\\xff"),
    ],
    ids=["indented", "upper first", "cut", "one line"],
)
def test_a_tree_is_indented_folders_first_and_cut_with_a_mark(paths, limit, drawn) -> None:
    assert draw_tree(paths, limit=limit) == drawn


@given(PATHS, st.integers(0, 30))
def test_no_tree_has_more_entries_than_it_may_nor_less_than_fit(
    paths: set[str], limit: int
) -> None:
    lines = draw_tree(paths, limit=limit).split("\n")
    shown = [line for line in lines if line and not line.startswith("...")]
    assert len(shown) <= limit
    drawn = draw_tree(paths, limit=1_000)
    assert drawn.count("file") == len(paths)
    assert "left out" not in drawn

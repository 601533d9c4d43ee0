from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.context.tree import draw_tree

PATHS = st.sets(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=4).map(
        lambda folders: "/".join([*folders, "file"])
    )
)


def test_a_tree_is_indented_folders_first() -> None:
    assert draw_tree(["b", "a/c/d", "a/e"], limit=10).split("\n") == [
        "a/",
        "  c/",
        "    d",
        "  e",
        "b",
    ]


def test_upper_folders_are_shown_before_lower_ones() -> None:
    paths = [f"a/b/{number}" for number in range(9)] + ["c/d"]
    assert draw_tree(paths, limit=5).split("\n") == ["a/", "  b/ (9 entries left out)", "c/", "  d"]


def test_a_folder_of_too_many_files_is_cut_with_a_mark() -> None:
    drawn = draw_tree([f"{number:03}" for number in range(200)], limit=3)
    assert drawn == "000\n001\n002\n... cut, 197 entries left out ..."


def test_a_name_is_one_line_whatever_is_in_it() -> None:
    assert draw_tree(["a\nb/\x1b[31m\udcff"], limit=9) == "a\\nb/\n  \\x1b[31m\\xff"


@given(PATHS, st.integers(0, 30))
def test_no_tree_has_more_entries_than_it_may(paths: set[str], limit: int) -> None:
    lines = draw_tree(paths, limit=limit).split("\n")
    shown = [line for line in lines if line and not line.startswith("...")]
    assert len(shown) <= limit


@given(PATHS)
def test_with_space_for_all_nothing_is_left_out(paths: set[str]) -> None:
    drawn = draw_tree(paths, limit=1_000)
    assert drawn.count("file") == len(paths)
    assert "left out" not in drawn

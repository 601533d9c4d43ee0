"""The comparison of two checkouts: the figures of printed tables, and what moved."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent / "benchmarks"))

from comparison import figures_in, moves
from report import print_table


def test_the_figures_of_tables_are_read(capsys):
    print("CPython 3.11.7, trio 0.35.0")
    print_table(
        "20,000 deltas", ("client", "deltas/s", "peak"), [("raw, orjson", "38,829", "+1.5 MiB")]
    )
    print_table("empty", ("what", "ms"), [("no number", "holds")])
    assert figures_in(capsys.readouterr().out) == {
        ("20,000 deltas", "raw, orjson", "deltas/s"): 38829.0,
        ("20,000 deltas", "raw, orjson", "peak"): 1.5,
    }


@pytest.mark.parametrize(
    ("before", "after", "moved"),
    [
        ([100, 101, 102], [100, 101, 102], False),
        ([100, 101, 102], [90, 91, 92], True),
        ([100, 101, 102], [110, 111, 112], True),
        ([100, 105, 110], [99, 98, 97], False),  # the gap is smaller than the noise
        ([100, 100, 100], [98, 98, 98], False),  # less than three percent
        ([0.0, 0.0, 0.0], [5.0, 5.0, 5.0], True),
    ],
)
def test_what_moved_by_more_than_the_noise_is_named(before, after, moved):
    key = ("title", "row", "column")
    significant_moves = moves([{key: value} for value in before], [{key: value} for value in after])
    assert [move.figure for move in significant_moves] == ([key] if moved else [])


def test_a_figure_that_one_side_lacks_is_not_compared():
    assert moves([{("a", "b", "c"): 1.0}], [{}]) == []

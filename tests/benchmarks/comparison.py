"""Two checkouts measured in turns: what moved by more than the noise.

`bench_all.py --compare BASE` runs each benchmark in BASE and here, one after the other, several
times. A figure has moved if all values of one checkout lie beyond all values of the other, by more
than either varies, and by at least three percent. Both checkouts run in this environment.
"""

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import NamedTuple

from report import print_table

ROOT = Path(__file__).parents[2]
LEAST = 0.03
"""The smallest change that is shown, as a part of the figure."""

_CELLS = re.compile(r" {2,}")
_NUMBER = re.compile(r"[-+]?\d[\d,]*(\.\d+)?")

Figures = dict[tuple[str, str, str], float]
"""Figures by the title of their table, their row and their column."""


class Move(NamedTuple):
    """A figure that moved, as the medians before and after."""

    figure: tuple[str, str, str]
    before: float
    after: float


def figures_in(text: str) -> Figures:
    """Return the figures of the tables that `print_table` printed."""
    figures: Figures = {}
    title, head = "", []
    for line in text.splitlines():
        cells = _CELLS.split(line.strip())
        if not line.startswith("  "):
            title, head = line.strip(), []
        elif not head:
            head = cells
        elif len(cells) == len(head):
            for column, cell in zip(head[1:], cells[1:], strict=True):
                if number := _NUMBER.match(cell):
                    value = float(number.group().replace(",", ""))
                    figures[title, cells[0], column] = value
    return figures


def moves(before: Sequence[Figures], after: Sequence[Figures]) -> list[Move]:
    """Return what moved by more than the noise; each sequence has the figures of each round."""
    moved = []
    for figure in before[0]:
        if not all(figure in figures for figures in (*before, *after)):
            continue
        old, new = (sorted(each[figure] for each in rounds) for rounds in (before, after))
        gap = max(new[0] - old[-1], old[0] - new[-1])
        noise = max(old[-1] - old[0], new[-1] - new[0], LEAST * abs(median(old)))
        if gap > noise:
            moved.append(Move(figure, median(old), median(new)))
    return moved


@contextmanager
def checkout(base: str) -> Iterator[Path]:
    """The directory BASE, or a work tree of that revision."""
    if Path(base).is_dir():
        yield Path(base).resolve()
        return
    with tempfile.TemporaryDirectory() as name:
        tree = Path(name) / "base"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(tree), base], check=True)
        try:
            yield tree
        finally:
            subprocess.run([*git, "remove", "--force", str(tree)], check=True)


def measured(root: Path, benchmark: str) -> str | None:
    """Return what a benchmark of a checkout prints; None if it fails there."""
    script = root / "tests/benchmarks/bench_all.py"
    environment = {**os.environ, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, str(script), benchmark],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(f"  {benchmark} fails in {root}: {done.stderr.strip().splitlines()[-1:]}")
        return None
    return done.stdout


def compare_with(base: str, benchmarks: Sequence[str], rounds: int) -> None:
    """Print what moved since BASE, benchmark by benchmark."""
    with checkout(base) as other:
        for benchmark in benchmarks:
            print(f"\n== {benchmark}, {rounds} rounds in turns", flush=True)
            before: list[Figures] = []
            after: list[Figures] = []
            for _ in range(rounds):
                for root, figures in ((other, before), (ROOT, after)):
                    output = measured(root, benchmark)
                    if output is None:
                        break
                    figures.append(figures_in(output))
                else:
                    continue
                break
            else:
                show(moves(before, after))


def show(moved: Sequence[Move]) -> None:
    if not moved:
        print("  nothing moved by more than the noise")
        return
    rows = []
    for (title, row, column), old, new in moved:
        change = f"{new / old:.2f}" if old else ""
        rows.append((f"{title}: {row}, {column}", f"{old:,.6g}", f"{new:,.6g}", change))
    print_table("Moved by more than the noise", ("figure", "before", "after", "x before"), rows)

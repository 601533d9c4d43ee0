"""Side-by-side figures of one run: contenders interleaved, the best round of each, ratios."""

import importlib.metadata
import platform
import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple


def machine(*packages: str) -> str:
    """One line on what the figures were taken with."""
    versions = [f"{name} {importlib.metadata.version(name)}" for name in packages]
    python = f"{platform.python_implementation()} {platform.python_version()}"
    return ", ".join([python, *versions, platform.platform(terse=True), platform.machine()])


def compare(
    title: str,
    contenders: Mapping[str, Callable[[], object]],
    *,
    baseline: str,
    number: int = 1,
    rounds: int = 7,
) -> dict[str, float]:
    """Run every contender once a round, print the table, give the ratios to the baseline.

    Args:
        title: what one operation is.
        contenders: what does all operations of one round, by name.
        baseline: the contender whose time is 1.
        number: how many operations one call does; figures are CPU time of one of them.
        rounds: how often each is called; the fastest call counts.
    """
    best = dict.fromkeys(contenders, float("inf"))
    for _ in range(rounds):
        for name, run in contenders.items():
            start = time.process_time()
            run()
            best[name] = min(best[name], (time.process_time() - start) / number)
    ratios = {name: seconds / best[baseline] for name, seconds in best.items()}
    rows = [(name, f"{best[name] * 1e6:.2f}", f"{ratios[name]:.2f}") for name in contenders]
    print_table(title, ("contender", "us", f"x {baseline}"), rows)
    return ratios


def print_table(title: str, head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> None:
    """A table, its first column to the left and the others to the right."""
    lines = [head, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    print(f"\n{title}")
    for first, *others in lines:
        cells = [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        print("  ".join(["", first.ljust(widths[0]), *cells]))


class Row(NamedTuple):
    """A limit, the measurement, and the verdict."""

    what: str
    bound: str
    measured: str
    holds: bool


def print_rows(rows: Iterable[Row]) -> None:
    """The table of promises; nothing fails by it, since the machine may be busy."""
    print_table(
        "Promised and measured",
        ("what", "bound", "measured", "verdict"),
        [(what, bound, got, "holds" if holds else "MISSED") for what, bound, got, holds in rows],
    )

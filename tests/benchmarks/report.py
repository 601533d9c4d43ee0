"""Side-by-side figures of one run: contenders interleaved, the best round of each, ratios."""

import importlib.metadata
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    timed = {name: cpu_of(run) for name, run in contenders.items()}
    best = {name: min(each) / number for name, each in in_turns(timed, rounds).items()}
    ratios = {name: seconds / best[baseline] for name, seconds in best.items()}
    rows = [(name, f"{best[name] * 1e6:.2f}", f"{ratios[name]:.2f}") for name in contenders]
    print_table(title, ("contender", "us", f"x {baseline}"), rows)
    return ratios


def in_turns(contenders: Mapping[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Measure every contender once a round; return the figures of each."""
    figures: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(rounds):
        for name, measured in contenders.items():
            figures[name].append(measured())
    return figures


def clock_of(run: Callable[[], object]) -> Callable[[], float]:
    """Measure the seconds that a call takes on the clock."""
    return lambda: _seconds(time.perf_counter, run)


def cpu_of(run: Callable[[], object]) -> Callable[[], float]:
    """Measure the seconds of CPU time that a call takes."""
    return lambda: _seconds(time.process_time, run)


def _seconds(clock: Callable[[], float], run: Callable[[], object]) -> float:
    begun = clock()
    run()
    return clock() - begun


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


def at_most(what: str, figure: float, limit: float, unit: str = "x", *, digits: int = 2) -> Row:
    """Promise that a figure is not above a limit."""
    return Row(what, f"<= {limit:,g}{unit}", _cell(figure, digits, unit), figure <= limit)


def at_least(what: str, figure: float, limit: float, unit: str = "x", *, digits: int = 1) -> Row:
    """Promise that a figure is not below a limit."""
    return Row(what, f">= {limit:,g}{unit}", _cell(figure, digits, unit), figure >= limit)


def _cell(figure: float, digits: int, unit: str) -> str:
    """Return a figure with its unit, without what it is compared with."""
    return f"{figure:,.{digits}f}{'x' if unit.startswith('x') else unit.removesuffix(' more')}"


def flat(what: str, growth: float, limit: float) -> Row:
    """Promise that resident memory grows by less than a few MiB."""
    return Row(what, "flat", f"{growth:+.1f} MiB", growth < limit)


def milliseconds(*seconds: float) -> tuple[str, ...]:
    """Return the cells of times."""
    return tuple(f"{each * 1e3:.2f}" for each in seconds)


def print_rows(rows: Sequence[Row]) -> None:
    """The table of promises; nothing fails by it, since the machine may be busy."""
    print_table(
        "Promised and measured",
        ("what", "bound", "measured", "verdict"),
        [(what, bound, got, "holds" if holds else "MISSED") for what, bound, got, holds in rows],
    )

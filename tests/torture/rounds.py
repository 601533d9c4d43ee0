"""Rounds of one torture: seeded, bounded in time or number, and counted for the table at the end.

A failed round does not end its torture: it is counted, and named with its seed. `TORTURE_SEED`
repeats a run; `TORTURE_SEED=SEED:ROUND` repeats one round of it.
"""

import itertools
import os
import random
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import attrs
import pytest

MOST_FAILURES = 20
"""A torture ends after so many failed rounds: more of the same say nothing new."""
LONGEST = 800
"""Characters of a failure's message."""
PROPERTY = "torture"
HEAD = ("torture", "seed", "rounds", "failures", "seconds", "worst", "figures")


@attrs.frozen
class Share:
    """The bound of a torture: a number of rounds, or seconds."""

    rounds: int | None = None
    seconds: float = 60.0


def shares(*, sample: int, seconds: float) -> pytest.MarkDecorator:
    """Run a test with a few rounds in every run, and for so many seconds with `--long`."""
    long = pytest.param(Share(seconds=seconds), marks=pytest.mark.long, id="long")
    return pytest.mark.parametrize("share", [pytest.param(Share(sample), id="sample"), long])


@attrs.define
class Torture:
    """The rounds of one test and what they showed.

    Attributes:
        scene: what the round does, for the message of its failure.
        worst: the longest of the timed waits of each name.
        notes: more figures for the table.
    """

    name: str
    seed: int
    only: int | None = None
    scene: str = ""
    rounds: int = 0
    seconds: float = 0.0
    worst: dict[str, float] = attrs.field(factory=dict)
    notes: dict[str, Any] = attrs.field(factory=dict)
    failures: list[str] = attrs.field(factory=list)

    def run(self, share: Share, play: Callable[[Random], object]) -> None:
        """Play rounds until the share is used up; fail the test if one of them has failed."""
        begun = time.monotonic()
        numbers = itertools.count() if self.only is None else iter([self.only])
        for number in numbers:
            used_up = self.rounds == share.rounds or time.monotonic() - begun > share.seconds
            if used_up or len(self.failures) >= MOST_FAILURES:
                break
            self.rounds += 1
            self.scene = ""
            try:
                play(Random(f"{self.seed}-{number}"))
            except (Exception, pytest.fail.Exception) as failure:  # noqa: BLE001 - counted
                self.failures.append(f"{self.seed}:{number}: {self.scene}: {_described(failure)}")
        self.seconds = time.monotonic() - begun
        assert not self.failures, "\n\n".join(self.failures)

    def count(self, name: str, number: int = 1) -> None:
        """Add to one of the notes."""
        self.notes[name] = self.notes.get(name, 0) + number

    @contextmanager
    def timed(self, name: str, within: float) -> Iterator[None]:
        """Time a wait; fail if it took more seconds than that."""
        begun = time.monotonic()
        yield
        took = time.monotonic() - begun
        self.worst[name] = max(took, self.worst.get(name, 0.0))
        assert took <= within, f"{name} took {took:.2f} s, expected at most {within} s"

    def row(self) -> list[str]:
        """Return the torture's line of the table."""
        figures = (self.seed, self.rounds, len(self.failures), round(self.seconds))
        worst = ", ".join(f"{name} {took:.2f} s" for name, took in self.worst.items())
        notes = ", ".join(f"{name} {value}" for name, value in self.notes.items())
        return [self.name, *map(str, figures), worst, notes]


def _described(failure: BaseException) -> str:
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return f"{type(failure).__name__}: {str(failure)[:LONGEST]}"


@pytest.fixture
def torture(request: pytest.FixtureRequest) -> Iterator[Torture]:
    """Counts rounds; its line of the table goes with the test's report, also to another process."""
    is_long = request.node.get_closest_marker("long") is not None
    seed, _, only = os.environ.get("TORTURE_SEED", "").partition(":")
    drawn = random.SystemRandom().randrange(10**6) if is_long else 19
    counted = Torture(
        request.node.name.removeprefix("test_"), int(seed or drawn), int(only) if only else None
    )
    yield counted
    request.node.user_properties.append((PROPERTY, counted.row()))


def print_table(terminalreporter: Any, reports: Iterable[Any]) -> None:
    """Print one table of all tortures that were run."""
    rows = {
        value[0]: value
        for report in reports
        for name, value in getattr(report, "user_properties", ())
        if name == PROPERTY
    }
    if not rows:
        return
    lines = [HEAD, *(rows[name] for name in sorted(rows))]
    widths = [max(len(line[column]) for line in lines) for column in range(len(HEAD))]
    terminalreporter.section("torture")
    for line in lines:
        padded = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        terminalreporter.write_line("  ".join(padded).rstrip())

"""A part that is made at its first use."""

from __future__ import annotations

import itertools

from eca_server.connection.features.lazy import Lazy


def test_a_part_is_made_once_at_its_first_use_and_anew_after_a_reset() -> None:
    numbers = itertools.count(1)
    part = Lazy(lambda: [next(numbers)])
    assert part.made is None
    made = part.get()
    assert made == [1]
    assert part.get() is part.made is made
    part.reset()
    assert part.made is None
    assert part.get() == [2]


def test_a_part_that_is_false_is_made_once() -> None:
    made: list[list[int]] = []
    part = Lazy(lambda: made.append([]) or made[-1])
    assert part.get() is part.get()
    assert len(made) == 1

"""The seconds that users are promised, measured on a machine that may pause at any moment.

A test that took longer than a promise runs again: it fails if it was too slow `TRIES` times in a
row. Every other failure counts at once. Limits that only end a hanging test are no promises.
"""

import contextlib
import time
from collections.abc import Iterator

TRIES = 3
SHORTEST_LIMIT = 0.5
"""Seconds: a shutdown that fails sooner has waited for nothing that a slow machine delays."""


class TooSlow(AssertionError):
    """A promise that was not kept this time."""


def check(took: float, *, limit: float) -> None:
    """Check that something took less than these real seconds."""
    if took >= limit:
        raise TooSlow(f"it took {took:.2f} s; expected less than {limit} s")


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Check that a block takes less than these real seconds."""
    begun = time.monotonic()
    yield
    check(time.monotonic() - begun, limit=seconds)

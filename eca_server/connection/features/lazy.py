"""A part of a connection that is made, and its modules imported, at its first use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

_T = TypeVar("_T")


class Lazy(Generic[_T]):
    """A part that may never be needed."""

    def __init__(self, make: Callable[[], _T]) -> None:
        self._make = make
        self._made: _T | None = None

    @property
    def made(self) -> _T | None:
        """The part, or None if it was not made yet."""
        return self._made

    def get(self) -> _T:
        """Return the part, made at the first call."""
        if self._made is None:
            self._made = self._make()
        return self._made

    def reset(self) -> None:
        """Make the part anew at its next use."""
        self._made = None

"""The calls of one answer: what each would change, and which of them wait for which.

The rules it keeps: what only reads runs at once, what changes something runs in the model's order.
A call is judged in the world it will find: where an earlier call of the same answer is going to
change that world, it is looked at when that one has run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import trio

from eca_server.chat.tool_call import ToolCall
from eca_server.llm.events import ToolCallFinished
from eca_server.tools.tool import FileChange, PreparedCall

__all__ = ["Step", "ToCome", "in_order"]


class Step:
    """One call of an answer on its way.

    Attributes:
        call: what the client is told of it.
        finished: what the model wrote.
        prepared: what will run, if it may: the very call that was looked at, and no other.
        postponed: it is looked at once the calls it waits for have run.
        changes_something: later calls wait for it.
        done: set at its end.
    """

    def __init__(self, call: ToolCall, finished: ToolCallFinished) -> None:
        self.call = call
        self.finished = finished
        self.prepared: PreparedCall | None = None
        self.postponed = False
        self.changes_something = False
        self.done = trio.Event()

    @property
    def changes(self) -> Sequence[FileChange]:
        """What it would do to files, as far as it was looked at."""
        return () if self.prepared is None else self.prepared.changes


class ToCome:
    """What the calls before one may still change; true if there is anything."""

    def __init__(self) -> None:
        self._anything = False
        self._paths: set[Path] = set()
        self._above: set[Path] = set()

    def __bool__(self) -> bool:
        return self._anything

    def add(self, step: Step) -> None:
        """One more call, if it may still run and changes something."""
        if not step.changes_something or not step.call.is_open:
            return
        self._anything = True
        for path in _paths(step.changes):
            self._paths.add(path)
            self._above.update(path.parents)

    def meets(self, changes: Iterable[FileChange]) -> bool:
        """Whether one of the changes is to what will be changed, or to something in or above it."""
        return any(
            path in self._above or not self._paths.isdisjoint((path, *path.parents))
            for path in _paths(changes)
        )


def _paths(changes: Iterable[FileChange]) -> Iterator[Path]:
    for change in changes:
        yield change.path
        if change.moved_from is not None:
            yield change.moved_from


def in_order(steps: Sequence[Step]) -> Iterator[tuple[Step, Sequence[Step]]]:
    """Each step with those it has to wait for; they have waited for all the others before it."""
    last_change: list[Step] = []
    reads: list[Step] = []
    for step in steps:
        if step.changes_something:
            yield step, [*last_change, *reads]
            last_change, reads = [step], []
        else:
            yield step, last_change
            reads.append(step)

"""The calls of one answer: their planned changes, and their order.

Rules: calls that only read run at once; calls that change something run in the model's order. A
call is prepared against the files it will find: if an earlier call of the same answer is going to
change them, it is prepared after that call has run. A call that is itself postponed before its
changes are known may change every file whose name is in its arguments.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePath
from typing import Final

import trio

from eca_server.agent.chat.tool_call import ToolCall
from eca_server.agent.tools.tool import FileChange, PreparedCall
from eca_server.models.events import ToolCallFinished

_LONGEST_PATH: Final = 4096


class Step:
    """One call of an answer while it is processed.

    Attributes:
        call: the call as shown to the client.
        finished: the call as the model wrote it.
        prepared: the prepared call, which is the one that runs if it may.
        postponed: it is prepared after the calls it waits for have run.
        changes_something: later calls wait for it.
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
        """The planned changes of files; empty before the call is prepared."""
        return () if self.prepared is None else self.prepared.changes


class PendingChanges:
    """The changes that earlier calls may still make; true if there are any."""

    def __init__(self) -> None:
        self._anything = False
        self._names: set[str] = set()
        self._paths: set[Path] = set()
        self._above: set[Path] = set()

    def __bool__(self) -> bool:
        return self._anything

    def add(self, step: Step) -> None:
        """Add a call, if it may still run and changes something."""
        if not step.changes_something or not step.call.is_open:
            return
        self._anything = True
        if step.prepared is None:
            self._names.update(_names(step.finished))
        for path in _paths(step.changes):
            self._paths.add(path)
            self._above.update(path.parents)

    def meets(self, changes: Iterable[FileChange]) -> bool:
        """Return whether a change concerns a pending one's path, or a path in or above it."""
        return any(
            path in self._above
            or not self._paths.isdisjoint((path, *path.parents))
            or not self._names.isdisjoint(path.parts)
            for path in _paths(changes)
        )


def _paths(changes: Iterable[FileChange]) -> Iterator[Path]:
    for change in changes:
        yield change.path
        if change.moved_from is not None:
            yield change.moved_from


def _names(finished: ToolCallFinished) -> Iterator[str]:
    """Yield the last names of the arguments that may be paths."""
    for value in (finished.arguments or {}).values():
        if isinstance(value, str) and len(value) <= _LONGEST_PATH:
            yield PurePath(value).name


def in_order(steps: Sequence[Step]) -> Iterator[tuple[Step, Sequence[Step]]]:
    """Yield each step with the steps it waits for, which wait for all earlier ones."""
    last_change: list[Step] = []
    reads: list[Step] = []
    for step in steps:
        if step.changes_something:
            yield step, [*last_change, *reads]
            last_change, reads = [step], []
        else:
            yield step, last_change
            reads.append(step)

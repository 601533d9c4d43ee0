"""The servers of a run: one for all seats that want the same, one alone for who wants that."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import attrs

from eca_protocol import json
from eca_protocol.testing.conformance.cases import Stuck
from eca_protocol.testing.conformance.target import Folders, Target
from eca_protocol.testing.conformance.wire import Wire

__all__ = ["Servers"]

Greet = Callable[[Wire], Awaitable[None]]


@attrs.define(eq=False)
class _Shared:
    wire: Wire
    ready: anyio.Event = attrs.field(factory=anyio.Event)
    failed: Stuck | None = None


class Servers:
    """Starts servers in a task group, and ends them with it.

    Attributes:
        started: every server of the run.
        introduction_seconds: how long each has to tell of itself once it is initialized.
    """

    def __init__(self, group: anyio.abc.TaskGroup, target: Target, root: Path, *, url: str) -> None:
        self.started: list[Wire] = []
        self.introduction_seconds = 10.0
        self._group = group
        self._target = target
        self._root = root
        self._url = url
        self._numbers = itertools.count(1)
        self._shared: dict[str, _Shared] = {}

    async def alone(self, config: Mapping[str, Any]) -> Wire:
        """A server that nobody else has.

        Raises:
            StartFailed: it cannot be started.
        """
        wire = self._new(config)
        await self._group.start(wire.run)
        return wire

    async def shared(
        self, config: Mapping[str, Any], initialize: Mapping[str, Any], greet: Greet
    ) -> Wire:
        """The server of all who want that; `greet` is called by the first of them.

        Raises:
            StartFailed: it cannot be started.
            Stuck: the greeting is not answered.
        """
        key = json.dumps([config, initialize]).decode()
        entry = self._shared.get(key)
        if entry is not None and entry.wire.alive:
            await entry.ready.wait()
            if entry.failed is not None:
                raise entry.failed
            return entry.wire
        entry = self._shared[key] = _Shared(self._new(config))
        try:
            await self._group.start(entry.wire.run)
            await greet(entry.wire)
        except BaseException as fault:
            unready = Stuck(
                "a server that is ready", "none in the time of the case that started it"
            )
            entry.failed = fault if isinstance(fault, Stuck) else unready
            if self._shared.get(key) is entry:
                del self._shared[key]
            entry.wire.stop()
            raise
        finally:
            entry.ready.set()
        return entry.wire

    async def leave(self) -> None:
        """Shut the shared ones down in order, all at once."""
        async with anyio.create_task_group() as leaving:
            for entry in self._shared.values():
                if entry.wire.alive:
                    leaving.start_soon(entry.wire.leave)

    def _new(self, config: Mapping[str, Any]) -> Wire:
        folders = Folders(root=self._root / f"server-{next(self._numbers)}")
        wire = Wire(self._target, folders, self._url, config)
        self.started.append(wire)
        return wire

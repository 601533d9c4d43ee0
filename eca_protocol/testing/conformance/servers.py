"""The servers of a run: shared ones, and new ones for a single session."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Collection, Mapping
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import attrs

from eca_protocol import json
from eca_protocol.testing.conformance.target import Directories, Target
from eca_protocol.testing.conformance.verdicts import Unmet
from eca_protocol.testing.conformance.wire import Wire

Greet = Callable[[Wire], Awaitable[None]]


@attrs.define(eq=False)
class _Shared:
    wire: Wire
    ready: anyio.Event = attrs.field(factory=anyio.Event)
    failed: Unmet | None = None


class Servers:
    """Starts servers in a task group, and ends them with it.

    Attributes:
        started: the running servers.
        introduction_seconds: time for the announcements after `initialized`.
        start_seconds: the time that the first server needed for its start, rounded.
    """

    def __init__(
        self,
        group: anyio.abc.TaskGroup,
        target: Target,
        root: Path,
        *,
        url: str,
        make_wire: Callable[..., Wire] = Wire,
    ) -> None:
        self.started: list[Wire] = []
        self.introduction_seconds: float = 10.0
        self.start_seconds = 0
        self._group = group
        self._target = target
        self._root = root
        self._url = url
        self._make_wire = make_wire
        self._numbers = itertools.count(1)
        self._shared: dict[str, _Shared] = {}
        self._unexplained: list[Wire] = []

    def new_directories(self) -> Directories:
        """Return directories that no server has."""
        return Directories(root=self._root / f"server-{next(self._numbers)}")

    async def alone(
        self, config: Mapping[str, Any], directories: Directories | None = None
    ) -> Wire:
        """Start a server for one session, in these directories or new ones.

        Raises:
            StartFailed: it cannot be started.
        """
        wire = self._new(config, directories)
        await self._group.start(wire.process.run)
        return wire

    async def shared(
        self, config: Mapping[str, Any], initialize: Mapping[str, Any], greet: Greet
    ) -> Wire:
        """Return the server for this configuration; the first caller performs the handshake.

        A server that has ended, has closed its input, or is out of step is replaced by a new one.

        Raises:
            StartFailed: it cannot be started.
            Unmet: the handshake fails.
        """
        key = json.dumps([config, initialize]).decode()
        entry = self._shared.get(key)
        if entry is not None and entry.wire.process.may_write:
            await entry.ready.wait()
            if entry.failed is not None:
                raise entry.failed
            return entry.wire
        if entry is not None:
            entry.wire.process.stop()
        entry = self._shared[key] = _Shared(self._new(config))
        self._unexplained.append(entry.wire)
        try:
            await self._group.start(entry.wire.process.run)
            await greet(entry.wire)
        except BaseException as error:
            unready = Unmet(
                "a server that is ready", "none within the time of the case that started it"
            )
            entry.failed = error if isinstance(error, Unmet) else unready
            if self._shared.get(key) is entry:
                del self._shared[key]
            entry.wire.process.stop()
            raise
        finally:
            entry.ready.set()
        return entry.wire

    def take_ended(self, judged: Collection[str]) -> list[Wire]:
        """Return the shared servers that have ended, once each, when their cases were judged."""
        ended = [
            wire
            for wire in self._unexplained
            if not wire.process.may_write
            and not wire.recorder.is_out_of_step
            and wire.suspects
            and all(case in judged for case in wire.suspects)
        ]
        self._unexplained = [wire for wire in self._unexplained if wire not in ended]
        return ended

    async def shut_down(self) -> None:
        """Shut all shared servers down at once."""
        async with anyio.create_task_group() as leaving:
            for entry in self._shared.values():
                if entry.wire.process.may_write:
                    leaving.start_soon(entry.wire.shut_down)

    def _new(self, config: Mapping[str, Any], directories: Directories | None = None) -> Wire:
        wire = self._make_wire(
            self._target, directories or self.new_directories(), self._url, config
        )
        wire.introduction_seconds = self.introduction_seconds
        wire.process.start_seconds = self.start_seconds
        self.started.append(wire)
        return wire

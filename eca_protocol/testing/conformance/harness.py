"""The harness of a case: client sessions at the servers of a run, and verdicts."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.abc
import attrs

from eca_protocol import json
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.chat_session import ChatSession
from eca_protocol.testing.conformance.judge import Judge
from eca_protocol.testing.conformance.message_session import MessageSession
from eca_protocol.testing.conformance.model import Model
from eca_protocol.testing.conformance.session import ClientSession
from eca_protocol.testing.conformance.target import Directories, Target
from eca_protocol.testing.conformance.verdicts import OUT_OF_STEP, Transmission, Unmet
from eca_protocol.testing.conformance.wire import Wire

__all__ = ["ChatSession", "ClientSession", "Harness", "Servers"]

Greet = Callable[[Wire], Awaitable[None]]


_SHOWN: Final = 30  # messages of an exchange


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
        model: Model,
        root: Path,
        *,
        make_wire: Callable[..., Wire] = Wire,
    ) -> None:
        self.started: list[Wire] = []
        self.introduction_seconds: float = 10.0
        self.start_seconds = 0
        self.target = target
        self.model = model
        self._group = group
        self._root = root
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
            self.target, self.model, directories or self.new_directories(), config
        )
        wire.introduction_seconds = self.introduction_seconds
        wire.process.start_seconds = self.start_seconds
        self.started.append(wire)
        return wire


class Harness(Judge):
    """The sessions, the scripted model and the verdicts of one case.

    Attributes:
        model: the scripted model of the whole run.
        died: whether a shared server ended while the case ran.
    """

    def __init__(
        self, servers: Servers, *, edition: Revision, case: str = "", alone: bool = False
    ) -> None:
        super().__init__(case)
        self.edition = edition
        self.target = servers.target
        self.model = servers.model
        self.died: bool = False
        self._servers = servers
        self._alone = alone
        self._sessions: list[MessageSession] = []

    def case_session(self, **options: Any) -> AbstractAsyncContextManager[Any]:
        """Open the session of a case."""
        return self.session(**options)

    @asynccontextmanager
    async def session(
        self,
        *,
        fresh: bool = False,
        config: Mapping[str, Any] | None = None,
        initialize: Mapping[str, Any] | None = None,
        handshake: bool = True,
        directories: Directories | None = None,
        tools: Collection[str] = (),
    ) -> AsyncIterator[ClientSession]:
        """Open a client session at a server.

        Args:
            fresh: use a new server, which ends with the session, instead of a shared one.
            config: configuration to merge into the model's, in upstream's form.
            initialize: members merged into the params of `initialize`.
            handshake: perform the handshake and read the announcements; False implies `fresh`.
            directories: the server's home and workspace; implies `fresh`. None: new ones.
            tools: native tools that the server must have.

        Raises:
            NotApplicable: the server has no such tool.
            Unmet: the target cannot provide it.
            StartFailed: the server cannot be started.
        """
        if config and not self.target.takes_config:
            raise Unmet(
                "a target that accepts more configuration", "a target with its own template"
            )
        alone = fresh or self._alone or not handshake or directories is not None
        if alone:
            wire = await self._servers.alone(config or {}, directories)
            wire.case = self.case
        else:
            wire = await self._servers.shared(
                config or {}, initialize or {}, lambda wire: self._greet(wire, initialize)
            )
            wire.enter(self.case)
        session = self._new_session(wire, alone=alone)
        self._sessions.append(session)
        try:
            if alone and handshake:
                await session.handshake(initialize)
            for tool in tools:
                session.tool(tool)
            yield session
        finally:
            if alone:
                with anyio.CancelScope(shield=True):
                    await session.end()
            else:
                self.died = not wire.leave(self.case) or self.died
            session.close()

    async def _greet(self, wire: Wire, initialize: Mapping[str, Any] | None) -> None:
        session = self._new_session(wire, alone=True)
        try:
            await session.handshake(initialize)
        finally:
            session.close()

    def _new_session(self, wire: Wire, *, alone: bool) -> Any:
        return ClientSession(wire, self, self.edition, alone=alone)

    def directories(self) -> Directories:
        """Return new directories, for servers that follow each other or run at once in a home."""
        return self._servers.new_directories()

    def mixes_chats(self, *, of_others: bool = False) -> bool:
        """Return whether a request to the model had messages of several chats.

        Args:
            of_others: count only requests with messages of other cases, too.
        """
        models = [model for session in self._sessions for model in session.models]
        own = {model.marker for model in models} if of_others else set()
        return any(model.companions - own for model in models)

    def excuse(self) -> str:
        """Return the reason why a session saw nothing more: its server is out of step."""
        sessions = [session for session in self._sessions if session.is_open]
        is_lost = any(each.wire.recorder.is_out_of_step for each in sessions or self._sessions[-1:])
        return OUT_OF_STEP if is_lost else ""

    def exchange(self) -> tuple[Transmission, ...]:
        """Return the last messages of the newest session, the model's included."""
        return self._sessions[-1].exchange(_SHOWN) if self._sessions else ()

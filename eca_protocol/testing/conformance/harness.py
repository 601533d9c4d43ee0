"""The harness of a case: client sessions at servers, and verdicts."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final

import anyio

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.chat_session import ChatSession
from eca_protocol.testing.conformance.judge import Judge
from eca_protocol.testing.conformance.message_session import MessageSession
from eca_protocol.testing.conformance.model import Model
from eca_protocol.testing.conformance.servers import Servers
from eca_protocol.testing.conformance.session import ClientSession
from eca_protocol.testing.conformance.target import Directories, Target
from eca_protocol.testing.conformance.verdicts import OUT_OF_STEP, Transmission, Unmet
from eca_protocol.testing.conformance.wire import Wire

__all__ = ["ChatSession", "ClientSession", "Harness"]

_SHOWN: Final = 30  # messages of an exchange


class Harness(Judge):
    """The sessions, the scripted model and the verdicts of one case.

    Attributes:
        model: the scripted model of the whole run.
        died: whether a shared server ended while the case ran.
    """

    def __init__(
        self,
        servers: Servers,
        target: Target,
        model: Model,
        *,
        edition: Revision,
        case: str = "",
        alone: bool = False,
    ) -> None:
        super().__init__(case)
        self.edition = edition
        self.target = target
        self.model = model
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
    ) -> AsyncIterator[ClientSession]:
        """Open a client session at a server.

        Args:
            fresh: use a new server, which ends with the session, instead of a shared one.
            config: configuration to merge into the model's, in upstream's form.
            initialize: members merged into the params of `initialize`.
            handshake: perform the handshake and read the announcements; False implies `fresh`.
            directories: the server's home and workspace; implies `fresh`. None: new ones.

        Raises:
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
        return ClientSession(wire, self, self.target, self.model, self.edition, alone=alone)

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

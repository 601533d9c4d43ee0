"""What a case has in its hands: seats at servers, and the words by which it judges."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import anyio

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import NotApplicable, Stuck
from eca_protocol.testing.conformance.chat_seat import ChatSeat
from eca_protocol.testing.conformance.model import Model
from eca_protocol.testing.conformance.seat import Seat
from eca_protocol.testing.conformance.servers import Servers
from eca_protocol.testing.conformance.target import Target
from eca_protocol.testing.conformance.verdicts import Exchanged, Finding, judgement
from eca_protocol.testing.conformance.wire import Wire

__all__ = ["Bench", "ChatSeat", "NotApplicable", "Seat", "Stuck"]

_SHOWN: Final = 30  # messages of an exchange


class Bench:
    """The surroundings of one case.

    Attributes:
        edition: the edition that is spoken.
        target: what is tested.
        model: the scripted model of the whole run.
        case: the case's name.
        findings: what was judged so far.
        died: whether a server that others sat at, too, ended while the case ran.
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
        self.edition = edition
        self.target = target
        self.model = model
        self.case = case
        self.findings: list[Finding] = []
        self.died = False
        self._servers = servers
        self._alone = alone
        self._seats: list[Seat] = []

    @property
    def introduction_seconds(self) -> float:
        """How long a server has to tell of itself once it is initialized."""
        return self._servers.introduction_seconds

    @asynccontextmanager
    async def seat(
        self,
        *,
        fresh: bool = False,
        config: Mapping[str, Any] | None = None,
        initialize: Mapping[str, Any] | None = None,
        hello: bool = True,
    ) -> AsyncIterator[Seat]:
        """A seat at a server.

        Args:
            fresh: at a server of its own, which ends with the seat; else at one that other cases
                use, too, with chats of one's own.
            config: configuration beside the model's, in upstream's form.
            initialize: members merged into the params of `initialize`.
            hello: `initialize`, `initialized` and what follows are done; without it the server is
                fresh and nothing was said.

        Raises:
            Stuck: it cannot be had.
            StartFailed: the server cannot be started.
        """
        if config and not self.target.takes_config:
            raise Stuck("a target that takes more configuration", "one with a template of its own")
        alone = fresh or self._alone or not hello
        if alone:
            wire = await self._servers.alone(config or {})
            wire.case = self.case
        else:
            wire = await self._servers.shared(
                config or {}, initialize or {}, lambda wire: self._greet(wire, initialize)
            )
        seat = Seat(self, wire, alone=alone)
        self._seats.append(seat)
        try:
            if alone and hello:
                await seat.hello(initialize)
            yield seat
        finally:
            if alone:
                wire.stop()
                with anyio.CancelScope(shield=True):
                    await wire.gone.wait()
            else:
                self.died = self.died or not wire.alive
            seat.leave()

    async def _greet(self, wire: Wire, initialize: Mapping[str, Any] | None) -> None:
        seat = Seat(self, wire, alone=True)
        try:
            await seat.hello(initialize)
        finally:
            seat.leave()

    def initialize_params(self, root: Path) -> dict[str, Any]:
        """What is said in `initialize`, with that workspace."""
        return self.target.initialize_params(root)

    def check(self, id: str, ok: object, *, expected: str, got: object) -> bool:  # noqa: A002
        """Judge a row: whether that is so. It never raises; whether it was so.

        Args:
            id: the row.
            ok: whether it is kept.
            expected: what the row wants.
            got: what came.
        """
        finding = judgement(
            id, ok, case=self.case, expected=expected, got=got, exchange=self._exchange
        )
        self.findings.append(finding)
        return bool(ok)

    def saw(self, *ids: str) -> None:
        """What these rows speak of has happened: they are kept unless the watcher says else."""
        for id_ in ids:
            self.findings.append(
                Finding(id=id_, verdict="pass", case=self.case, got="it happened, as it should")
            )

    def not_applicable(self, id: str, why: str) -> None:  # noqa: A002
        """The row says nothing of this target."""
        self.findings.append(Finding(id=id, verdict="not-applicable", case=self.case, got=why))

    def untestable(self, id: str, why: str) -> None:  # noqa: A002
        """The row could not be judged in this run."""
        self.findings.append(Finding(id=id, verdict="untestable", case=self.case, got=why))

    def _exchange(self) -> tuple[Exchanged, ...]:
        """What passed last at the seat that was taken last, the model's side too."""
        return self._seats[-1].exchange(_SHOWN) if self._seats else ()

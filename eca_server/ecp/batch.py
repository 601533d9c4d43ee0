"""Scenarios that are run one after the other against one target, wherever that happens.

A batch is plain data, so that it can be sent to another process or machine; so are its results.
"""

from __future__ import annotations

import os
import secrets

import attrs

from eca_server.ecp.graders import GraderSettings
from eca_server.ecp.leftovers import MARK
from eca_server.ecp.manifest import Scenario
from eca_server.ecp.target import Target

__all__ = ["Batch", "Planned", "RunLimits"]


@attrs.frozen(kw_only=True)
class RunLimits:
    """How long things may take, in seconds, and how large they may be, in bytes."""

    rpc: float = 30.0
    """For each request: from its first byte to the end of its answer."""
    start: float = 30.0
    """For an agent to be started and to introduce itself."""
    scenario: float | None = None
    run: float | None = None
    max_message: int = 16 * 2**20


@attrs.frozen(kw_only=True)
class Planned:
    """A scenario to be run, its place in the manifest and which repetition it is."""

    scenario: Scenario
    index: int
    repeat: int = 0


@attrs.frozen(kw_only=True)
class Batch:
    """What one worker is given.

    Attributes:
        target: the agent.
        planned: in the order in which they are run.
        hidden: the environment variables that are not the agent's business.
        limits: of each scenario; `limits.run` is what is left for all of them.
        graders: how checks are made.
        reuse_agent: whether one process serves all scenarios, reset in between.
        require_capabilities: whether an agent that lacks one the checks need is not run.
        mark: the run's, by which what its agents started is known.
    """

    target: Target
    planned: tuple[Planned, ...]
    hidden: frozenset[str] = frozenset()
    limits: RunLimits = attrs.field(factory=RunLimits)
    graders: GraderSettings = attrs.field(factory=GraderSettings)
    reuse_agent: bool = False
    require_capabilities: bool = False
    mark: str = attrs.field(factory=lambda: secrets.token_hex(8))

    def environment(self) -> dict[str, str]:
        """The agent's: that of whoever runs the batch, without what is hidden, with the mark."""
        ours = {name: value for name, value in os.environ.items() if name not in self.hidden}
        return ours | {MARK: self.mark}

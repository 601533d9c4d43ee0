"""Batches: scenarios that one worker runs one by one against a target.

A batch is plain data, so that it can be sent to another process or machine; so are its results.
"""

from __future__ import annotations

import os
import secrets

import attrs

from eca_server.ecp.graders import GraderSettings
from eca_server.ecp.leftovers import MARK_VARIABLE
from eca_server.ecp.manifest.model import Scenario
from eca_server.ecp.target import Target


@attrs.frozen(kw_only=True)
class RunLimits:
    """The limits of a run: times in seconds, sizes in bytes."""

    rpc: float = 30.0
    """The time of a request, from its first byte to the end of its answer."""
    start: float = 30.0
    """The time to start an agent and to initialize it."""
    scenario: float | None = None
    run: float | None = None
    max_message: int = 16 * 2**20


@attrs.frozen(kw_only=True)
class PlannedScenario:
    """A scenario to run: its index in the manifest, and the number of its repetition, from 0."""

    scenario: Scenario
    index: int
    repeat: int = 0


@attrs.frozen(kw_only=True)
class Batch:
    """The work of one worker.

    Attributes:
        hidden_variables: environment variables that the agent does not get.
        limits: the limits of each scenario; `limits.run` holds for all of them together.
        reuse_agent: run all scenarios with one process, reset in between.
        require_capabilities: do not run an agent that lacks a capability needed by the checks.
        mark: the run's mark, by which the processes of its agents are found.
    """

    target: Target
    planned: tuple[PlannedScenario, ...]
    hidden_variables: frozenset[str] = frozenset()
    limits: RunLimits = attrs.field(factory=RunLimits)
    graders: GraderSettings = attrs.field(factory=GraderSettings)
    reuse_agent: bool = False
    require_capabilities: bool = False
    mark: str = attrs.field(factory=lambda: secrets.token_hex(8))

    def environment(self) -> dict[str, str]:
        """Return the agent's environment: the worker's, without hidden variables, with the mark."""
        ours = {
            name: value for name, value in os.environ.items() if name not in self.hidden_variables
        }
        return ours | {MARK_VARIABLE: self.mark}

"""Findings of the watcher in a conversation with the plain server."""

from __future__ import annotations

from collections.abc import Iterator

from eca_protocol.testing.conformance.client.scripted_server import ScriptedServer
from eca_protocol.testing.conformance.verdicts import Finding, failing
from eca_protocol.testing.watching import Observation

_CASE = "talking.Plain"
_ALWAYS = ("BASE-10", "BASE-13", "LIFE-1", "LIFE-5", "W-1", "W-2d")
"""Rows that every conversation shows."""

_AROUND = 10  # entries of an exchange, before and behind the breach


def observed_findings(server: ScriptedServer) -> Iterator[Finding]:
    """Yield the watcher's breaches, and a pass for each field and value that occurred."""
    server.recorder.finish()
    for observation in server.recorder.take_observations():
        if observation.side == "client":
            yield _finding(server, observation)
    for row in (*_ALWAYS, *sorted(server.recorder.observed_rows)):
        yield Finding(id=row, verdict="pass", case=_CASE, got="as expected")


def _finding(server: ScriptedServer, observation: Observation) -> Finding:
    place = observation.index
    first = max(0, place - _AROUND)
    return Finding(
        id=observation.requirement,
        verdict=failing(observation.requirement),
        case=_CASE,
        expected=observation.expected,
        got=observation.got,
        exchange=[entry.transmission for entry in server.record[first : place + _AROUND]],
        breach=place - first,
    )

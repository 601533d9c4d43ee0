"""Findings of the watcher in a conversation with the plain server."""

from __future__ import annotations

from collections.abc import Iterator

from eca_protocol.framing import encode_frame
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.client.scripted_server import RecordEntry, ScriptedServer
from eca_protocol.testing.conformance.observed_fields import ObservedFields
from eca_protocol.testing.conformance.verdicts import Finding, failing
from eca_protocol.testing.conformance.wire import id_key
from eca_protocol.testing.watching import Observation, Watcher
from eca_protocol.transcript.splitter import header_of

__all__ = ["observed_findings"]

_CASE = "talking.Plain"
_ALWAYS = ("BASE-10", "BASE-13", "LIFE-1", "LIFE-5", "W-1", "W-2d")
"""Rows that every conversation shows."""

_AROUND = 10  # entries of an exchange, before and behind the breach


def observed_findings(server: ScriptedServer, edition: Revision) -> Iterator[Finding]:
    """Yield the watcher's breaches, and a pass for each field and value that occurred."""
    watcher, fields = Watcher(revision=edition), ObservedFields()
    observations: list[Observation] = []
    for entry in server.record:
        observations += _feed(watcher, entry)
        if entry.message is not None:
            fields.take(entry.side, entry.message, id_key(entry.message.get("id")))
    observations += watcher.finish()
    for observation in observations:
        if observation.side == "client":
            yield _finding(server, observation)
    for row in (*_ALWAYS, *sorted(fields.rows)):
        yield Finding(id=row, verdict="pass", case=_CASE, got="it came, as it should")


def _feed(watcher: Watcher, entry: RecordEntry) -> list[Observation]:
    if entry.message is None or encode_frame(_body(entry.data)) != entry.data:
        return watcher.feed_raw(entry.side, entry.data, at=entry.at)
    return watcher.feed(entry.side, entry.message, at=entry.at)


def _body(frame: bytes) -> bytes:
    header = header_of(frame)
    return frame[header[0] :] if header else frame


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

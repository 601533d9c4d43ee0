"""What a watcher, and the letters, make of a conversation with the plain server."""

from __future__ import annotations

from collections.abc import Iterator

from eca_protocol.framing import encode_frame
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.client.played import PlayedServer, Said
from eca_protocol.testing.conformance.seen import Seen
from eca_protocol.testing.conformance.verdicts import Finding, failing
from eca_protocol.testing.conformance.wire import id_key
from eca_protocol.testing.watching import Observation, Watcher
from eca_protocol.transcript.splitter import header_of

__all__ = ["watched"]

_CASE = "talking.Plain"
_ALWAYS = ("BASE-10", "BASE-13", "LIFE-1", "LIFE-5", "W-1", "W-2d")
"""What every conversation shows."""

_AROUND = 10  # entries of an exchange, before and behind the breach


def watched(server: PlayedServer, edition: Revision) -> Iterator[Finding]:
    """What the client broke, and which fields and values passed as they should."""
    watcher, seen = Watcher(revision=edition), Seen()
    observations: list[Observation] = []
    for said in server.said:
        observations += _feed(watcher, said)
        if said.message is not None:
            seen.take(said.side, said.message, id_key(said.message.get("id")))
    observations += watcher.finish()
    for observation in observations:
        if observation.side == "client":
            yield _finding(server, observation)
    for row in (*_ALWAYS, *sorted(seen.rows)):
        yield Finding(id=row, verdict="pass", case=_CASE, got="it came, as it should")


def _feed(watcher: Watcher, said: Said) -> list[Observation]:
    if said.message is None or encode_frame(_body(said.data)) != said.data:
        return watcher.feed_raw(said.side, said.data, at=said.at)
    return watcher.feed(said.side, said.message, at=said.at)


def _body(frame: bytes) -> bytes:
    header = header_of(frame)
    return frame[header[0] :] if header else frame


def _finding(server: PlayedServer, observation: Observation) -> Finding:
    place = observation.index
    first = max(0, place - _AROUND)
    return Finding(
        id=observation.requirement,
        verdict=failing(observation.requirement),
        case=_CASE,
        expected=observation.expected,
        got=observation.got,
        exchange=[said.exchanged for said in server.said[first : place + _AROUND]],
        breach=place - first,
    )

"""Observations of the watcher at a server, as findings with the messages around them."""

from __future__ import annotations

from typing import Final

from eca_protocol.testing.conformance.verdicts import Finding, failing
from eca_protocol.testing.conformance.wire import Wire
from eca_protocol.testing.watching import Observation

_BEFORE: Final = 20  # entries of an exchange
_AFTER: Final = 5


def finding_of(wire: Wire, observation: Observation) -> Finding:
    """Return the finding for an observation."""
    record = wire.recorder.record
    entry = record[observation.index] if observation.index < len(record) else None
    chat_id = observation.chat_id or (entry.chat_id if entry else "")
    owner = wire.owner_of_chat(chat_id)
    first = max(0, observation.index - 4 * _BEFORE)
    around = [
        recorded.transmission
        for recorded in record[first : observation.index + 4 * _AFTER + 1]
        if not chat_id or recorded.chat_id in ("", chat_id)
    ]
    place = sum(entry is not None and each.at <= entry.at for each in around)
    first = max(0, place - _BEFORE)
    return Finding(
        id=observation.requirement,
        verdict=failing(observation.requirement),
        case=wire.case if owner is None else owner.case,
        expected=observation.expected,
        got=observation.got,
        exchange=around[first : place + _AFTER],
        breach=place - 1 - first if place else None,
    )

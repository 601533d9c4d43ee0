"""Typed messages to JSON values and back, and the departures of raw messages from an edition.

A connection has a `Codec`, which can be replaced after `initialize`. Reading accepts unknown names
and is strict about types; writing follows the revision and the rulings. `explain` lists every
departure of a message from the specification, refused or allowed; its module is imported at the
first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eca_protocol.codec.codec import Codec as Codec
from eca_protocol.codec.codec import MessageCodec as MessageCodec
from eca_protocol.codec.converter import converter as converter
from eca_protocol.lazy import export

if TYPE_CHECKING:
    from eca_protocol.codec.departures import Departure as Departure
    from eca_protocol.codec.departures import DepartureKind as DepartureKind
    from eca_protocol.codec.departures import explain as explain

_NAMES = {"departures": "Departure DepartureKind explain"}
export(globals(), _NAMES, own="Codec MessageCodec converter")

"""Typed messages to JSON values and back, and the departures of raw messages from an edition.

A connection has a `Codec`, which can be replaced after `initialize`. Reading accepts unknown names
and is strict about types; writing follows the revision and the rulings. `departures.explain` lists
every departure of a message from the specification, refused or allowed.
"""

from __future__ import annotations

from eca_protocol.codec.codec import Codec, MessageCodec
from eca_protocol.codec.converter import converter

__all__ = ["Codec", "MessageCodec", "converter"]

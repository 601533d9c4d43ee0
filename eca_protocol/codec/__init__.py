"""Typed messages to JSON values and back, and what a raw message does against the letter.

`Codec` is a value of a connection and can be exchanged after `initialize`. Reading is lenient
about what is unknown and strict about types; writing is exactly the revision plus the rulings.
`explain` is the reader's slow twin: it lists every departure, refused or allowed.
"""

from __future__ import annotations

from eca_protocol.codec.codec import Codec, MessageCodec
from eca_protocol.codec.converter import converter
from eca_protocol.codec.explain import Departure, DepartureKind, explain

__all__ = ["Codec", "Departure", "DepartureKind", "MessageCodec", "converter", "explain"]

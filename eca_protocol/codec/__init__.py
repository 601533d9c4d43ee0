"""Typed messages to JSON values and back, and the departures of raw messages from an edition.

A connection has a `Codec`, which can be replaced after `initialize`. Reading accepts unknown names
and is strict about types; writing follows the revision and the rulings. `explain` lists every
departure of a message from the specification, refused or allowed; its module is imported at the
first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from eca_protocol.codec.codec import Codec, MessageCodec
from eca_protocol.codec.converter import converter

if TYPE_CHECKING:
    from eca_protocol.codec.departures import Departure, DepartureKind, explain

__all__ = ["Codec", "Departure", "DepartureKind", "MessageCodec", "converter", "explain"]


if not TYPE_CHECKING:  # a type checker would take any name

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.departures"), name)

"""Checks of a recorded conversation against the requirements table. No I/O.

`Watcher` takes the conversation entry by entry.
"""

from eca_protocol.testing.watching.observation import Observation, Side
from eca_protocol.testing.watching.watcher import Watcher

__all__ = ["Observation", "Side", "Watcher"]

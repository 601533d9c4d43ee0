"""The suite for agents of the Agent Client Protocol (ACP), as the suite for servers of ECA."""

from typing import Final

CHAPTERS: Final = ("lifecycle", "faults", "sessions", "turns", "cancellation")
"""The chapters in the order of lists."""

"""Mutants of the reference server, each with the one row that it breaks."""

from tests.eca_protocol.testing.conformance.mutants import (
    base,
    chats,
    contexts,
    lifecycle,
    stops,
    tools,
)
from tests.eca_protocol.testing.conformance.mutants.registry import MUTANTS, Mutant

__all__ = ["MUTANTS", "Mutant", "base", "chats", "contexts", "lifecycle", "stops", "tools"]

"""Mutants of the reference server, each with the one row that it breaks."""

from tests.eca_protocol.testing.conformance.mutants import (
    base,
    bodies,
    chats,
    contexts,
    current,
    current_chats,
    decisions,
    lifecycle,
    models,
    rare,
    servers,
    stops,
    tools,
    usage,
)
from tests.eca_protocol.testing.conformance.mutants.registry import MUTANTS, Mutant

__all__ = [
    "MUTANTS",
    "Mutant",
    "base",
    "bodies",
    "chats",
    "contexts",
    "current",
    "current_chats",
    "decisions",
    "lifecycle",
    "models",
    "rare",
    "servers",
    "stops",
    "tools",
    "usage",
]

"""JSON Schemas (2020-12) of ECP's files and values; what is ours beside upstream's has `x-eca`."""

from __future__ import annotations

from typing import Final

__all__ = ["SCHEMAS", "schema_text"]

SCHEMAS: Final = ("manifest", "agent-result", "tool-call", "report", "audit")


def schema_text(name: str) -> str:
    """The schema of that name, as it is shipped.

    Raises:
        KeyError: there is none.
    """
    from importlib.resources import files  # noqa: PLC0415 - slow, and few who know the names read

    if name not in SCHEMAS:
        raise KeyError(f"expected one of {', '.join(SCHEMAS)}, got {name!r}")
    return (files(__package__) / f"{name}.schema.json").read_text("utf-8")

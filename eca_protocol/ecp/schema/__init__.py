"""JSON Schemas (2020-12) of ECP's files and values; additions to upstream's have `x-eca`."""

from __future__ import annotations

from typing import Final

__all__ = ["SCHEMAS", "schema_text"]

SCHEMAS: Final = ("manifest", "agent-result", "tool-call", "report", "audit")


def schema_text(name: str) -> str:
    """Return the text of a schema.

    Raises:
        KeyError: no schema has this name.
    """
    from importlib.resources import files  # noqa: PLC0415 - slow, and rarely needed

    if name not in SCHEMAS:
        raise KeyError(f"expected one of {', '.join(SCHEMAS)}, got {name!r}")
    return (files(__package__) / f"{name}.schema.json").read_text("utf-8")

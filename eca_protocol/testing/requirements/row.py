"""A row of the requirements table, and the values of its columns."""

from __future__ import annotations

import re
from typing import Final, Literal

import attrs

from eca_protocol.revisions import EVER, Revision, Window

__all__ = [
    "LATER",
    "SECTIONS",
    "SINCE_2025_10",
    "SINCE_CURRENT",
    "UNTIL_2025_10",
    "Later",
    "Level",
    "Requirement",
    "Side",
    "row",
]

Side = Literal["server", "client", "both"]
Level = Literal["must", "should", "observed"]
Later = Literal["tools", "providers", "mcp", "editions", "ecp", "kit", "parity"]

LATER: Final = ("tools", "providers", "mcp", "editions", "ecp", "kit", "parity")
"""Names of planned work: rows that name one have no test yet."""

SECTIONS: Final = (
    "ECA Protocol",
    "Header Part",
    "Content Part",
    "JSON-RPC 2.0",
    "Lifecycle Messages",
    "Initialize",
    "Initialized",
    "Shutdown",
    "Exit",
    "Code Assistant Features",
    "Chat Prompt",
    "Chat Content Received",
    "Chat approve tool call",
    "Chat reject tool call",
    "Chat Query Context",
    "Chat Query Commands",
    "Chat stop prompt",
    "Chat delete",
    "Chat selected behavior changed",
    "Editor diagnostics",
    "Config updated",
    "Tool updated",
    "Stop MCP server",
    "Start MCP server",
    "showMessage",
    "CURRENT: lifecycle",
    "CURRENT: chat",
    "CURRENT: editor",
    "CURRENT: completion and rewrite",
    "CURRENT: configuration",
    "CURRENT: tools",
    "CURRENT: providers",
    "CURRENT: jobs",
    "Rulings: base",
    "Rulings: lifecycle",
    "Rulings: chat",
    "Rulings: tools",
    "Rulings: queries, contexts, editor",
    "Rulings: draft",
    "Rulings: reading others",
    "Clients in the field",
)
"""Sections with requirements: of the specification, of its references, and our own."""

_RULING: Final = re.compile(r"W-\d+")

SINCE_2025_10: Final = Window(since=Revision.R2025_10)
SINCE_CURRENT: Final = Window(since=Revision.CURRENT)
UNTIL_2025_10: Final = Window(until=Revision.R2025_10)


@attrs.frozen(kw_only=True)
class Requirement:
    """A requirement that a test can verify.

    Attributes:
        id: the id in markers: `BASE-3`, `W-13a`, `FIELD:ChatPromptParams.message`.
        section: its source, one of `SECTIONS`.
        statement: the requirement as one testable sentence.
        side: the side that has to meet it.
        level: `must` and `should` as usual; `observed`: required by peers in the field, by no
            specification.
        window: the editions that have it.
        ruling: the ruling that states, extends or changes it (`W-13`), if any.
        later: the planned work that implements and tests it; None: it has a test.
    """

    id: str
    section: str
    statement: str
    side: Side
    level: Level = "must"
    window: Window = EVER
    ruling: str | None = None
    later: Later | None = None


def row(
    id: str,  # noqa: A002 - the column's name
    side: Side,
    statement: str,
    *,
    section: str,
    level: Level = "must",
    window: Window = EVER,
    ruling: str | None = None,
    later: Later | None = None,
) -> Requirement:
    """Return a requirement; a row with the id of a ruling (`W-13a`) belongs to that ruling."""
    if ruling is None and (named := _RULING.match(id)):
        ruling = named.group()
    return Requirement(
        id=id,
        section=section,
        statement=statement,
        side=side,
        level=level,
        window=window,
        ruling=ruling,
        later=later,
    )

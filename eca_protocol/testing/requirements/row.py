"""One row of the requirements table, and the words its columns may hold."""

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
"""The later works a row may wait for: what has its name here is not shown by a test yet."""

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
"""The headings that state duties: of the specification, of what it refers to, and our own."""

_RULING: Final = re.compile(r"W-\d+")

SINCE_2025_10: Final = Window(since=Revision.R2025_10)
SINCE_CURRENT: Final = Window(since=Revision.CURRENT)
UNTIL_2025_10: Final = Window(until=Revision.R2025_10)


@attrs.frozen(kw_only=True)
class Requirement:
    """One duty, small enough that a test can show it.

    Attributes:
        id: what tests name, `BASE-3`, `W-13a`, `FIELD:ChatPromptParams.message`.
        section: where it is stated, one of `SECTIONS`.
        duty: what must be so, in our own words.
        side: who has the duty.
        level: `must` and `should` as usual; `observed`: no text asks for it, the peers in the
            field do.
        window: the editions it holds in.
        ruling: the ruling that states, widens or changes it (`W-13`), if one does.
        later: the later work that brings it and its test; None: a test must show it today.
    """

    id: str
    section: str
    duty: str
    side: Side
    level: Level = "must"
    window: Window = EVER
    ruling: str | None = None
    later: Later | None = None


def row(
    id: str,  # noqa: A002 - the column's name
    side: Side,
    duty: str,
    *,
    section: str,
    level: Level = "must",
    window: Window = EVER,
    ruling: str | None = None,
    later: Later | None = None,
) -> Requirement:
    """A `Requirement` in as few words as a table wants; a chapter binds what its rows share.

    A row called after a ruling (`W-13a`) is of that ruling.
    """
    if ruling is None and (named := _RULING.match(id)):
        ruling = named.group()
    return Requirement(
        id=id,
        section=section,
        duty=duty,
        side=side,
        level=level,
        window=window,
        ruling=ruling,
        later=later,
    )

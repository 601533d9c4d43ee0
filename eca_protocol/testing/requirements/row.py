"""A row of the requirements table, and the values of its columns.

The tables are text: `specification.txt` for the specification's prose, `diagrams.txt` for the
arrows of its diagrams, `acp.txt` for agents of the Agent Client Protocol (a section is a page of
its documentation), and `rulings.txt` for the rulings and for what clients in the field need beyond
it: each of these rows was observed in the source or the behaviour of at least one of Emacs, VS
Code, IntelliJ, Neovim, Desktop, the CLI, and the web page that three of these share. See `rows` for
the notation, and `interfaces` for `interfaces.txt` and `interfaces_current.txt`.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final, Literal, cast

import attrs

from eca_protocol.revisions import EVER, Revision, Window

Side = Literal["server", "client", "both"]
Level = Literal["must", "should", "observed"]

_RULING: Final = re.compile(r"W-\d+")
_ROW: Final = re.compile(
    r"(\S+) (server|client|both) "
    r"((?:(?:should|observed|W-\d+|since:\S+|until:\S+) )*)(.+)"
)

SINCE_2025_10: Final = Window(since=Revision.R2025_10)
SINCE_CURRENT: Final = Window(since=Revision.CURRENT)


@attrs.frozen(kw_only=True)
class Requirement:
    """A requirement that a test can verify.

    Attributes:
        id: the id in markers: `BASE-3`, `W-13a`, `FIELD:ChatPromptParams.message`.
        section: its source: a section of the specification, of its references, or our own.
        statement: the requirement as one testable sentence.
        level: `must` and `should` as usual; `observed`: required by peers in the field, by no
            specification.
        ruling: the ruling that states, extends or changes it (`W-13`), if any.
    """

    id: str
    section: str
    statement: str
    side: Side
    level: Level = "must"
    window: Window = EVER
    ruling: str | None = None


def rows(table: str) -> tuple[Requirement, ...]:
    """Read rows from a text.

    A line `# SECTION` begins a section. A row is `ID SIDE [COLUMN ...] STATEMENT`, continued by
    indented lines. Columns are a level, a ruling, and `since:` and `until:` with an edition. A row
    with the id of a ruling (`W-13a`) belongs to that ruling.
    """
    section, result = "", []
    for line in re.sub(r"\n +", " ", table).splitlines():
        if line.startswith("# "):
            section = line.removeprefix("# ")
        elif match := _ROW.fullmatch(line):
            id_, side, columns, statement = match.groups()
            options: dict[str, Any] = dict(map(_option, columns.split()))
            window = Window(
                since=Revision(options.pop("since", Window().since)),
                until=Revision(options.pop("until", Window().until)),
            )
            if ruling := _RULING.match(id_):
                options["ruling"] = ruling.group()
            requirement = Requirement(
                id=id_,
                section=section,
                statement=statement,
                side=cast("Side", side),
                window=window,
                **options,
            )
            result.append(requirement)
        elif line:
            raise ValueError(f"expected a row of requirements, got {line!r}")
    return tuple(result)


def table_text(name: str) -> str:
    """Return the text of a table of this package, such as `rulings.txt`, one item a line."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    return re.sub(r"\n +", " ", text)


def _option(column: str) -> tuple[str, str]:
    if _RULING.fullmatch(column):
        return "ruling", column
    name, colon, value = column.partition(":")
    return (name, value) if colon else ("level", column)

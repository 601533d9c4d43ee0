"""Fields, types and values of every message, checked against the schema of the edition.

A departure that `codec.explain` lists is reported as the row of its field, or as the more specific
row of a ruling.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal

from eca_protocol.codec import Departure, explain
from eca_protocol.draft.methods import DRAFT
from eca_protocol.endpoint import Method
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.testing.members import text_at
from eca_protocol.testing.watching.field_rows import interface_name, row_of_path
from eca_protocol.testing.watching.observation import ObservationLog, Side

Part = Literal["params", "result"]

WIDENED: Final = {"W-10", "W-11", "W-12", "W-20", "W-27", "W-28", "W-30"}
"""Rulings that let an edition contain messages or fields of a later one."""

_SPECIFIC: Final = tuple(
    (re.compile(pattern), row, kinds)
    for pattern, row, *kinds in (
        (r"initialize params\.processId", "LIFE-5"),
        (r"initialize result", "LIFE-3"),
        (r"initialize result\.chatWelcomeMessage", "W-10a"),
        (r"shutdown result", "LIFE-18"),
        (r"chat/delete result.*", "CHAT-36"),
        (r"chat/contentReceived params\.content\.arguments", "W-32a"),
        (r"chat/contentReceived params\.content\.reason", "W-32b"),
        (
            r"chat/contentReceived params\.content\.limit\.(context|output)",
            "W-27c",
            "missing",
            "null",
        ),
        (r"chat/contentReceived params\.content\.messageCost", "W-27d"),
        (r"chat/contentReceived params\.content\.contentId", "W-20b"),
        (r"chat/queryCommands result\.commands\[\d+\]\.arguments\[\d+\]\.required", "W-40d"),
        (r"chat/queryCommands result\.commands\[\d+\]\.type", "W-40c", "other revision"),
        (r"tool/serverUpdated params\.url", "W-36a", "other revision"),
    )
)
"""Patterns of places, the rows of rulings for them, and the kinds of departure they concern."""

_MEANING: Final = re.compile(
    r"params|params\.(chatId|chat|role|type|taskId|name|tools)(\..*)?"
    r"|params\.content(\.(type|id|state|text|argumentsText))?"
)
"""Places whose value is needed to understand a notification."""

_EDITION: Final = {
    Revision.DRAFT: "W-50b",
    Revision.R2025_09: "W-12a",
    Revision.R2025_10: "W-12d",
    Revision.CURRENT: "W-12c",
}
"""The row that decides each edition; a message of other editions violates it."""


class SchemaChecker:
    """Checks the params and the result of each message."""

    def __init__(self, log: ObservationLog) -> None:
        self.client_goes_beyond: bool = False
        """True if the client called methods outside the edition: their notifications may come."""
        self.is_unreadable: bool = False
        """True if the last message cannot be understood."""
        self._log = log

    def check(self, side: Side, name: str, raw: Any, part: Part = "params") -> None:
        """Check the params or the result of a method, written by `side`."""
        self.is_unreadable = False
        revision = self._log.revision
        is_draft = revision is Revision.DRAFT
        table = DRAFT if is_draft and name in DRAFT else ECA
        if name not in table:
            return
        method = table[name]
        if not method.window.written_in(revision):
            if side == "client":
                self.client_goes_beyond = True
            elif part == "params" and not self.client_goes_beyond:
                self._log.report(_EDITION[revision], f"a method of revision {revision.value}", name)
                return
        written_revision = Revision.R2025_10 if is_draft and table is ECA else revision
        departures = explain(name, raw, written_revision, part=part, table=table)
        if raw is None and all(departure.path == part for departure in departures):
            return  # it means the same as an object without members
        for departure in departures:
            if self._counts(side, departure, raw, part):
                if (row := self._row(side, method, departure, raw, part)) is not None:
                    expected = f"{departure.expected} at {departure.path}"
                    chat_id = text_at(raw, "chatId")
                    self._log.note(row, expected, departure.got, side=side, chat_id=chat_id)
                self._log.mark_invalid(departure.path)
                self.is_unreadable = (
                    self.is_unreadable or _MEANING.fullmatch(departure.path) is not None
                )
        self._log.is_ambiguous = self._log.is_ambiguous or self.is_unreadable

    def _counts(self, side: Side, departure: Departure, raw: Any, part: Part) -> bool:
        """Return whether a departure violates a row: rulings on reading do not excuse a writer."""
        if departure.refused:
            return True
        if _is_of_offers(departure, raw) or (departure.path, departure.kind) == ("params", "null"):
            return False
        if departure.kind == "unknown key":
            return side == "server" and self._log.revision is Revision.DRAFT
        if side == "client":
            is_value = departure.kind in {"unknown value", "unknown type"}
            return (is_value and departure.ruling is None) or departure.path == "params.processId"
        if departure.kind == "other revision":
            return departure.path != part and departure.ruling not in WIDENED
        return True

    def _row(
        self, side: Side, method: Method, departure: Departure, raw: Any, part: Part
    ) -> str | None:
        place = f"{method.name} {departure.path}"
        if self._log.revision is Revision.DRAFT:
            return {"client": None, "server": "W-50a" if part == "result" else "W-50b"}[side]
        for pattern, row, kinds in _SPECIFIC:
            if pattern.fullmatch(place) and (not kinds or departure.kind in kinds):
                return row
        hint = method.params if part == "params" else method.result
        is_value = departure.kind == "other revision" and " in revision " not in departure.expected
        path = departure.path.removeprefix(part)
        return (
            row_of_path(interface_name(hint), path, raw, is_value=is_value)
            or _EDITION[self._log.revision]
        )


def _is_of_offers(departure: Departure, raw: Any) -> bool:
    """Return whether `announcements` checks it, which knows the earlier notifications."""
    if departure.kind == "null":
        return departure.path.startswith("params.chat.")
    is_native = isinstance(raw, dict) and raw.get("type") == "native"
    return is_native and departure.path in {"params.name", "params.status"}

"""Fields, types and values of every message against the letter of the conversation's edition.

What `codec.explain` finds becomes the row of the field, or the more specific row of a ruling.
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal

from eca_protocol.codec import Departure, explain
from eca_protocol.draft.methods import DRAFT
from eca_protocol.endpoint import Method
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.testing.watching.observation import Notes, Side
from eca_protocol.testing.watching.places import row_of_place
from eca_protocol.testing.watching.strict import keeper

__all__ = ["WIDENED", "Letters"]

Part = Literal["params", "result"]

WIDENED: Final = {"W-10", "W-11", "W-12", "W-20", "W-27", "W-28", "W-30"}
"""The rulings by which something is written in editions that do not know it."""

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
"""Places, the rulings that say more of them than the rows of their fields, and for which faults."""

_MEANING: Final = re.compile(
    r"params|params\.(chatId|chat|role|type|taskId|name|tools)(\..*)?"
    r"|params\.content(\.(type|id|state|text|argumentsText))?"
)
"""The places without which nobody can tell what a notification is about."""

_EDITION: Final = {
    Revision.DRAFT: "W-50b",
    Revision.R2025_09: "W-12a",
    Revision.R2025_10: "W-12d",
    Revision.CURRENT: "W-12c",
}
"""The row that decided the edition to which a message does not belong."""


class Letters:
    """Judges params and results, one message at a time."""

    def __init__(self, notes: Notes) -> None:
        self.revision = Revision.R2025_10
        self.client_goes_beyond = False
        """Whether the client used methods that the edition lacks; what belongs to them may come."""
        self.has_lost = False
        """Whether the last message cannot be understood for its fault."""
        self._notes = notes

    def take(self, side: Side, name: str, raw: Any, part: Part = "params") -> None:
        """Judge what `side` wrote as the params or the result of a method."""
        self.has_lost = False
        is_draft = self.revision is Revision.DRAFT
        table = DRAFT if is_draft and name in DRAFT else ECA
        if name not in table:
            return
        method = table[name]
        if not self._is_in_window(method):
            if side == "client":
                self.client_goes_beyond = True
            elif part == "params" and not self.client_goes_beyond:
                self._notes.tell(
                    _EDITION[self.revision],
                    expected=f"the methods of revision {self.revision.value}",
                    got=name,
                )
                return
        hint = method.params if part == "params" else method.result
        letter = Revision.R2025_10 if is_draft and table is ECA else self.revision
        if keeper(hint, letter)({} if raw is None and hint else raw):
            return
        for departure in explain(name, raw, letter, part=part, table=table):
            if self._counts(side, departure, raw, part):
                self._tell(side, method, departure, raw, part)
                self._notes.doubt(departure.path)
                self.has_lost = self.has_lost or _MEANING.fullmatch(departure.path) is not None
        self._notes.is_flawed = self._notes.is_flawed or self.has_lost

    def _is_in_window(self, method: Method) -> bool:
        return method.window.written_in(self.revision)

    def _counts(self, side: Side, departure: Departure, raw: Any, part: Part) -> bool:
        """Whether writing so breaks a row: a leniency of the reader's is none of the writer's."""
        if departure.refused:
            return True
        if _is_of_offers(departure, raw) or (departure.path, departure.kind) == ("params", "null"):
            return False
        if departure.kind == "unknown key":
            return side == "server" and self.revision is Revision.DRAFT
        if side == "client":
            is_value = departure.kind in {"unknown value", "unknown type"}
            return (is_value and departure.ruling is None) or departure.path == "params.processId"
        if departure.kind == "other revision":
            return departure.path != part and departure.ruling not in WIDENED
        return True

    def _tell(self, side: Side, method: Method, departure: Departure, raw: Any, part: Part) -> None:
        row = self._row(side, method, departure, raw, part)
        if row is not None:
            expected = f"{departure.expected} at {departure.path}"
            chat_id = raw.get("chatId") if isinstance(raw, dict) else None
            self._notes.tell(
                row,
                side=side,
                expected=expected,
                got=departure.got,
                chat_id=chat_id if isinstance(chat_id, str) else "",
                harms=False,
            )

    def _row(
        self, side: Side, method: Method, departure: Departure, raw: Any, part: Part
    ) -> str | None:
        place = f"{method.name} {departure.path}"
        if self.revision is Revision.DRAFT:
            return {"client": None, "server": "W-50a" if part == "result" else "W-50b"}[side]
        for pattern, row, kinds in _SPECIFIC:
            if pattern.fullmatch(place) and (not kinds or departure.kind in kinds):
                return row
        hint = method.params if part == "params" else method.result
        interface = getattr(hint, "__name__", "ToolServerUpdatedParams")
        is_value = departure.kind == "other revision" and " in revision " not in departure.expected
        path = departure.path.removeprefix(part)
        return row_of_place(interface, path, raw, is_value=is_value) or _EDITION[self.revision]


def _is_of_offers(departure: Departure, raw: Any) -> bool:
    """Whether `offers` judges it, which knows what was told before."""
    if departure.kind == "null":
        return departure.path.startswith("params.chat.")
    is_native = isinstance(raw, dict) and raw.get("type") == "native"
    return is_native and departure.path in {"params.name", "params.status"}

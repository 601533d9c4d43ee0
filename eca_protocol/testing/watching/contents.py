"""Checks of a single content: role, size and numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from eca_protocol.fold.chat import ROLES
from eca_protocol.testing.watching.observation import ObservationLog

_ROLES: Final = {str(vars(cls)["type"]): roles for cls, roles in ROLES.items()}
_COST: Final = re.compile(r"[0-9]+\.[0-9]{2,}")
_COSTS: Final = ("params.content.lastMessageCost", "params.content.messageCost")
_LONGEST_TEXT: Final = 4096
_END: Final = 40  # the number of characters to show on each side of a boundary between two texts


class Contents:
    """Checks each content, and the boundary between two texts of different roles."""

    def __init__(self, log: ObservationLog) -> None:
        self._log = log
        self._texts: dict[str, tuple[str, str]] = {}

    def check(self, chat_id: str, role: str, kind: str, content: Mapping[str, Any]) -> None:
        """Check a content."""
        violation: tuple[str, str, str] | None = None
        roles = _ROLES.get(kind)
        if roles is not None and role not in roles:
            expected = f"`{kind}` with the role {' or '.join(sorted(roles))}"
            self._log.report("W-26a", expected, repr(role), chat_id=chat_id)
        elif kind == "text" and role != "user":
            violation = _violation_of_text(content.get("text")) or self._violation_between(
                chat_id, role, content.get("text")
            )
        elif kind == "usage":
            violation = _violation_of_usage(content)
        if role == "user" or content.get("state") == "finished":
            self._texts.pop(chat_id, None)
        if violation is not None:
            paths = _COSTS if violation[0] == "W-27d" else ()
            self._log.note(*violation, chat_id=chat_id, paths=paths)

    def _violation_between(self, chat_id: str, role: str, text: Any) -> tuple[str, str, str] | None:
        if not isinstance(text, str) or not text:
            return None
        role_before, before = self._texts.get(chat_id, (role, ""))
        if text.isspace():
            self._texts[chat_id] = role_before, (before + text)[-_END:]
            return None
        self._texts[chat_id] = role, text[-_END:]
        gap = before[len(before.rstrip()) :] + text[: len(text) - len(text.lstrip())]
        if role == role_before or gap.count("\n") > 1:
            return None
        return (
            "W-26d",
            f"a blank line between texts of the roles {role_before} and {role}",
            repr(before + text[:_END]),
        )


def _violation_of_text(text: Any) -> tuple[str, str, str] | None:
    if not isinstance(text, str) or len(text) <= _LONGEST_TEXT // 4:
        return None
    size = len(text.encode(errors="replace"))
    if size <= _LONGEST_TEXT:
        return None
    return "W-6a", f"a text of at most {_LONGEST_TEXT} bytes", f"{size} bytes"


def _violation_of_usage(usage: Mapping[str, Any]) -> tuple[str, str, str] | None:
    for key in ("lastMessageCost", "messageCost", "sessionCost"):
        cost = usage.get(key)
        if isinstance(cost, str) and not _COST.fullmatch(cost):
            return "W-27b", f"a `{key}` like 0.01", repr(cost)
    if usage.get("messageCost") != usage.get("lastMessageCost"):
        costs = (usage.get("lastMessageCost"), usage.get("messageCost"))
        return (
            "W-27d",
            "equal `lastMessageCost` and `messageCost`",
            f"{costs[0]!r} and {costs[1]!r}",
        )
    return None

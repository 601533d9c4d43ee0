"""Cases of the edition: the client's announcement decides it.

A server that speaks CURRENT has `variants` in its first `config/updated`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.harness import Harness

_PLAIN: Final = {"chat": True}
_CURRENT: Final = {"chat": True, "chatCapabilities": {}}
_DRAFT: Final = {"chat": True, "doc": True, "edit": True, "fix": True}

_ANNOUNCEMENTS: Final[tuple[tuple[str, Mapping[str, Any], Mapping[str, Any], Revision], ...]] = (
    ("W-12a", _PLAIN, {"protocolRevision": "current"}, Revision.CURRENT),
    ("W-12a", _CURRENT, {"protocolRevision": "2025-10"}, Revision.R2025_10),
    ("W-12a", _CURRENT, {"protocolRevision": "2025-06"}, Revision.DRAFT),
    ("W-12b", _DRAFT, {}, Revision.DRAFT),
    ("W-12c", _CURRENT, {}, Revision.CURRENT),
    ("W-12d", _PLAIN, {}, Revision.R2025_10),
)
"""The requirement, a client's capabilities and options, and the edition that they mean."""


@case("W-12a", "W-12b", "W-12c", "W-12d", since=Revision.DRAFT)
async def what_a_client_says_decides_the_edition(harness: Harness) -> None:
    """Send `initialize` with six capabilities and options, each to a new server."""
    editions = [
        await _edition_for(harness, assistant, options)
        for _, assistant, options, _ in _ANNOUNCEMENTS
    ]
    for (row, _, _, meant), edition in zip(_ANNOUNCEMENTS, editions, strict=True):
        if meant in editions and len(set(editions)) > 1:
            harness.check(row, edition is meant, meant.value, edition.value)
        else:
            harness.not_applicable(row, f"It never speaks {meant.value}, or only that.")


async def _edition_for(
    harness: Harness, assistant: Mapping[str, Any], options: Mapping[str, Any]
) -> Revision:
    async with harness.session(handshake=False) as session:
        answer = await session.initialize(
            capabilities={"codeAssistant": assistant}, initializationOptions=options
        )
        if answer.get("result") == {}:
            return Revision.DRAFT
        await session.notify("initialized", {})
        await session.wait_for("config/updated", expected="the first `config/updated`")
        return Revision.CURRENT if "variants" in session.config else Revision.R2025_10

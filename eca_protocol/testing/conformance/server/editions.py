"""Cases of the edition: the client's announcement decides it.

A server that speaks CURRENT has `variants` in its first `config/updated`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import case
from eca_protocol.testing.conformance.harness import Harness


@attrs.frozen
class Announcement:
    """A client's capabilities and options, the edition that they mean, and the requirement."""

    row: str
    assistant: Mapping[str, Any]
    options: Mapping[str, Any]
    means: Revision


_PLAIN: Final = {"chat": True}
_CURRENT: Final = {"chat": True, "chatCapabilities": {}}
_DRAFT: Final = {"chat": True, "doc": True, "edit": True, "fix": True}

ANNOUNCEMENTS: Final = (
    Announcement("W-12a", _PLAIN, {"protocolRevision": "current"}, Revision.CURRENT),
    Announcement("W-12a", _CURRENT, {"protocolRevision": "2025-10"}, Revision.R2025_10),
    Announcement("W-12a", _CURRENT, {"protocolRevision": "2025-06"}, Revision.DRAFT),
    Announcement("W-12b", _DRAFT, {}, Revision.DRAFT),
    Announcement("W-12c", _CURRENT, {}, Revision.CURRENT),
    Announcement("W-12d", _PLAIN, {}, Revision.R2025_10),
)


@case("W-12a", "W-12b", "W-12c", "W-12d", since=Revision.DRAFT)
async def what_a_client_says_decides_the_edition(harness: Harness) -> None:
    """Send `initialize` with six capabilities and options, each to a new server."""
    editions = [await _edition_for(harness, announcement) for announcement in ANNOUNCEMENTS]
    for announcement, edition in zip(ANNOUNCEMENTS, editions, strict=True):
        if announcement.means in editions and len(set(editions)) > 1:
            harness.check(
                announcement.row,
                edition is announcement.means,
                announcement.means.value,
                edition.value,
            )
        else:
            harness.not_applicable(
                announcement.row, f"It never speaks {announcement.means.value}, or only that."
            )


async def _edition_for(harness: Harness, announcement: Announcement) -> Revision:
    async with harness.session(handshake=False) as session:
        answer = await session.initialize(
            capabilities={"codeAssistant": announcement.assistant},
            initializationOptions=announcement.options,
        )
        if answer.get("result") == {}:
            return Revision.DRAFT
        await session.notify("initialized", {})
        await session.wait_for("config/updated", expected="the first `config/updated`")
        return Revision.CURRENT if "variants" in session.config else Revision.R2025_10

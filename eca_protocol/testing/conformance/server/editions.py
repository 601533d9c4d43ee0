"""Cases of the edition: who says what speaks which.

Servers tell theirs by `variants` in the first `config/updated`, which is CURRENT's alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.bench import Bench
from eca_protocol.testing.conformance.cases import case


@attrs.frozen
class Says:
    """What a client says of itself, the edition that it means, and the row that says so."""

    row: str
    assistant: Mapping[str, Any]
    options: Mapping[str, Any]
    means: Revision


_PLAIN: Final = {"chat": True}
_TODAY: Final = {"chat": True, "chatCapabilities": {}}
_DRAFT: Final = {"chat": True, "doc": True, "edit": True, "fix": True}

SAID: Final = (
    Says("W-12a", _PLAIN, {"protocolRevision": "current"}, Revision.CURRENT),
    Says("W-12a", _TODAY, {"protocolRevision": "2025-10"}, Revision.R2025_10),
    Says("W-12a", _TODAY, {"protocolRevision": "2025-06"}, Revision.DRAFT),
    Says("W-12b", _DRAFT, {}, Revision.DRAFT),
    Says("W-12c", _TODAY, {}, Revision.CURRENT),
    Says("W-12d", _PLAIN, {}, Revision.R2025_10),
)


@case("W-12a", "W-12b", "W-12c", "W-12d", since=Revision.DRAFT)
async def what_a_client_says_decides_the_edition(bench: Bench) -> None:
    """`initialize` with six capabilities and options, each at a server of its own."""
    spoken = [await _spoken(bench, said) for said in SAID]
    for said, speaks in zip(SAID, spoken, strict=True):
        if said.means in spoken and len(set(spoken)) > 1:
            bench.check(said.row, speaks is said.means, expected=said.means.value, got=speaks.value)
        else:
            bench.not_applicable(said.row, f"It never speaks {said.means.value}, or only that.")


async def _spoken(bench: Bench, said: Says) -> Revision:
    async with bench.seat(hello=False) as seat:
        params = {
            **bench.initialize_params(seat.root),
            "capabilities": {"codeAssistant": said.assistant},
            "initializationOptions": said.options,
        }
        answer = await seat.ask("initialize", params, seconds=30)
        if answer.get("result") == {}:
            return Revision.DRAFT
        await seat.tell("initialized", {})
        await seat.until(
            lambda message: message.get("method") == "config/updated",
            expected="the first `config/updated`",
        )
        return Revision.CURRENT if "variants" in seat.config else Revision.R2025_10

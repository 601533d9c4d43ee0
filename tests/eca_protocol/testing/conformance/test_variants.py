"""What the specification and the rulings leave open: servers that do it otherwise break nothing."""

from __future__ import annotations

from typing import Any

import pytest

from eca_protocol.testing.conformance.target import Target
from tests.eca_protocol.testing.conformance.mutants.registry import parts_with
from tests.eca_protocol.testing.conformance.reference.chat import Turn
from tests.eca_protocol.testing.conformance.reference.server import Parts
from tests.eca_protocol.testing.conformance.test_mutants import broken, judged

Message = dict[str, Any]


class KeepsTheModelsIds(Turn):
    """Tells of a call by the id that the model gave it."""

    def take_call(self, piece: Message) -> None:
        index, name = piece["index"], piece.get("function", {}).get("name")
        while len(self.calls) <= index:
            self.calls.append(self.server.parts.tool_call(self, name or "?"))
            self.calls[-1].id = piece["id"]
        super().take_call(piece)


VARIANTS: list[tuple[type[Any], tuple[str, ...]]] = [
    (
        KeepsTheModelsIds,
        (
            "approvals.a_decision_in_the_same_instant_counts",
            "approvals.an_approval_is_saved_for_the_session",
            "tools.a_file_change_is_shown",
        ),
    ),
]
"""One part of the reference server in another way, and the cases that meet it."""


@pytest.mark.parametrize(
    ("variant", "cases"), VARIANTS, ids=[each.__name__ for each, _ in VARIANTS]
)
def test_what_is_left_open_is_no_breach(variant: type[Any], cases: tuple[str, ...]) -> None:
    parts: Parts = parts_with(variant)

    async def serve(transport: Any, config: Message) -> int:
        return await parts.server(transport, config, parts).run()

    run = judged(Target(serve=serve), *cases)
    assert broken(run) == set()
    assert not [
        each for each in run.findings if each.case in cases and each.verdict == "untestable"
    ]
    assert (run.incidents, run.faults) == ((), ())

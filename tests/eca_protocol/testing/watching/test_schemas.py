"""What the quick judgement passes keeps the letter, and what does not keep it has its row."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eca_protocol.codec import explain
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.testing.requirements import REQUIREMENTS
from eca_protocol.testing.strategies import broken, raw_params, raw_results
from eca_protocol.testing.watching import Watcher
from eca_protocol.testing.watching.letters import WIDENED, Letters
from eca_protocol.testing.watching.observation import Notes
from eca_protocol.testing.watching.places import row_of_place
from eca_protocol.testing.watching.strict import keeper
from tests.eca_protocol.testing.watching.session import good_session

pytestmark = pytest.mark.requirement

Part = Literal["params", "result"]
EDITIONS = [Revision.R2025_09, Revision.R2025_10, Revision.CURRENT]


@st.composite
def parts(draw: st.DrawFn) -> tuple[Revision, str, Part, Any]:
    """An edition, a method, and params or a result of it with a fault in some place."""
    revision = draw(st.sampled_from(EDITIONS))
    method = draw(st.sampled_from([row for row in ECA if row.window.holds(revision)]))
    part: Part = draw(st.sampled_from(["params", "result"]))
    made = raw_params if part == "params" else raw_results
    return revision, method.name, part, draw(broken(made(method.name, revision=revision)))


@settings(max_examples=30)
@given(parts())
def test_the_quick_judgement_passes_what_keeps_the_letter_and_the_rest_has_rows(
    drawn: tuple[Revision, str, Part, Any],
) -> None:
    revision, name, part, raw = drawn
    hint = ECA[name].params if part == "params" else ECA[name].result
    if keeper(hint, revision)(raw):
        for departure in explain(name, raw, revision, part=part):
            assert departure.kind == "other revision"
            assert departure.ruling in WIDENED
    notes = Notes()
    letters = Letters(notes)
    letters.revision = revision
    letters.take("server", name, raw, part)
    told = notes.take()
    rows = [each.requirement for each in told]
    assert len(set(rows)) == len(rows)
    assert set(rows) <= REQUIREMENTS.keys()


@settings(max_examples=30)
@given(st.data())
def test_whatever_is_wrong_with_an_entry_it_is_judged_and_nothing_raises(
    data: st.DataObject,
) -> None:
    session = good_session()
    name = data.draw(st.sampled_from(list(session)))
    side, message = session[name]
    session[name] = (
        side,
        data.draw(broken(st.just(message)).filter(lambda it: isinstance(it, dict))),
    )
    watcher = Watcher()
    told = [each for entry in session.values() for each in watcher.feed(*entry)]
    assert {each.requirement for each in (*told, *watcher.finish())} <= REQUIREMENTS.keys()


@pytest.mark.parametrize(
    ("interface", "path", "raw", "row"),
    [
        ("ChatPromptParams", ".message", {}, "FIELD:ChatPromptParams.message"),
        (
            "ChatPromptParams",
            ".contexts[1].linesRange.start",
            {"contexts": [{"type": "web"}, {"type": "file", "linesRange": {}}]},
            "FIELD:LinesRange.start",
        ),
        (
            "ChatPromptParams",
            ".contexts[0].position.start.line",
            {"contexts": [{"type": "cursor", "position": {"start": {}}}]},
            "FIELD:CursorContext.position.start.line",
        ),
        (
            "ChatContentReceivedParams",
            ".content.details.tasks[0].status",
            {"content": {"type": "toolCallRun", "details": {"type": "task", "tasks": [{}]}}},
            "FIELD:TaskItem.status",
        ),
        (
            "ChatContentReceivedParams",
            ".content.type",
            {"content": {"type": "nothing known"}},
            "FIELD:ChatContentReceivedParams.content",
        ),
        ("ChatContentReceivedParams", ".content.x", {"content": {"type": "text"}}, None),
        ("ChatContentReceivedParams", ".content", {}, "FIELD:ChatContentReceivedParams.content"),
    ],
)
def test_a_place_is_the_field_of_its_interface(
    interface: str, path: str, raw: Any, row: str | None
) -> None:
    assert row_of_place(interface, path, raw, is_value=False) == row

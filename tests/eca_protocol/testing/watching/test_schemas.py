"""Each departure of a message from the schema has a row."""

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.testing.requirements import REQUIREMENTS
from eca_protocol.testing.strategies import broken, raw_params, raw_results
from eca_protocol.testing.watching import Watcher
from eca_protocol.testing.watching.field_rows import row_of_path
from eca_protocol.testing.watching.observation import ObservationLog
from eca_protocol.testing.watching.schemas import SchemaChecker
from tests.eca_protocol.testing.watching.session import good_session

Part = Literal["params", "result"]
EDITIONS = [Revision.R2025_09, Revision.R2025_10, Revision.CURRENT]


@st.composite
def parts(draw: st.DrawFn) -> tuple[Revision, str, Part, Any]:
    """Generate an edition, a method, and params or a result of it with one error."""
    revision = draw(st.sampled_from(EDITIONS))
    method = draw(st.sampled_from([row for row in ECA if row.window.holds(revision)]))
    part: Part = draw(st.sampled_from(["params", "result"]))
    made = raw_params if part == "params" else raw_results
    return revision, method.name, part, draw(broken(made(method.name, revision=revision)))


@settings(max_examples=30)
@given(parts())
def test_each_departure_from_the_schema_has_a_row(drawn):
    revision, name, part, raw = drawn
    log = ObservationLog()
    schemas = SchemaChecker(log)
    log.revision = revision
    schemas.check("server", name, raw, part)
    rows = [each.requirement for each in log.drain()]
    assert len(set(rows)) == len(rows)
    assert set(rows) <= REQUIREMENTS.keys()


@settings(max_examples=30)
@given(st.data())
def test_an_entry_with_any_error_is_checked_without_an_exception(data):
    session = good_session()
    name = data.draw(st.sampled_from(list(session)))
    side, message = session[name]
    session[name] = (
        side,
        data.draw(broken(st.just(message)).filter(lambda it: isinstance(it, dict))),
    )
    watcher = Watcher()
    observations = [each for entry in session.values() for each in watcher.feed(*entry)]
    assert {each.requirement for each in (*observations, *watcher.finish())} <= REQUIREMENTS.keys()


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
def test_a_path_is_the_field_of_its_interface(interface, path, raw, row):
    assert row_of_path(interface, path, raw, is_value=False) == row

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_protocol.revisions import EVER, Revision, Window, detect, mark, parse_revision, window_of
from eca_protocol.testing.strategies import json_values


def hello(assistant: Any = None, options: Any = None) -> dict[str, Any]:
    params: dict[str, Any] = {"processId": 1, "workspaceFolders": []}
    if assistant is not None:
        params["capabilities"] = {"codeAssistant": assistant}
    if options is not None:
        params["initializationOptions"] = options
    return params


@pytest.mark.requirement("W-12b")
@pytest.mark.parametrize("capability", ["doc", "edit", "fix"])
def test_a_capability_of_the_draft_means_the_draft(capability):
    assert detect(hello({"chat": True, capability: True})) is Revision.DRAFT
    assert detect(hello({capability: False, "rewrite": True})) is Revision.DRAFT


@pytest.mark.requirement("W-12c")
@pytest.mark.parametrize(
    "params",
    [
        hello({"chatCapabilities": {"askQuestion": True}}),
        hello({"rewrite": True}),
        hello({"editor": {"diagnostics": True, "definition": True}}),
        hello({"editor": {"references": False}}),
        hello({"chat": True}, {"chatAgent": "code"}),
        hello({"chat": True}, {"chatAgent": None}),
    ],
)
def test_what_only_current_clients_say_means_current(params):
    assert detect(params) is Revision.CURRENT


@pytest.mark.requirement("W-12d")
@pytest.mark.parametrize(
    "params",
    [
        hello(),
        hello({}),
        hello({"chat": True, "editor": {"diagnostics": True}}, {"chatBehavior": "plan"}),
        hello(None, {"serverPath": "/usr/bin/eca"}),
        {"capabilities": {"codeAssistant": None}},
        {"capabilities": None, "initializationOptions": None},
        {"capabilities": [], "initializationOptions": "text"},
    ],
)
def test_everything_else_means_october(params):
    assert detect(params) is Revision.R2025_10


@given(json_values())
def test_detection_never_fails_and_never_says_september(params):
    assert detect(params) in {Revision.DRAFT, Revision.R2025_10, Revision.CURRENT}


@pytest.mark.parametrize("revision", Revision)
def test_a_revision_is_found_by_its_name(revision):
    assert parse_revision(revision.value) is revision


def test_an_unknown_name_is_answered_by_the_known_names():
    with pytest.raises(ValueError, match=r"'2024'.*2025-06, 2025-09, 2025-10, current"):
        parse_revision("2024")


def test_revisions_are_ordered_by_age():
    assert sorted(set(Revision)) == list(Revision)
    assert Revision.DRAFT < Revision.R2025_09 < Revision.R2025_10 < Revision.CURRENT


@given(
    since=st.sampled_from(Revision), until=st.sampled_from(Revision), at=st.sampled_from(Revision)
)
def test_a_window_holds_both_of_its_ends_and_a_ruling_opens_it_for_writing(since, until, at):
    window = Window(since=since, until=until)
    assert window.holds(at) == window.written_in(at) == (since <= at <= until)
    assert Window(since=since, until=until, ruling="W-11").written_in(at)


def test_a_field_without_a_mark_exists_for_ever():
    assert window_of({}) is EVER
    assert window_of(mark(since=Revision.CURRENT)) == Window(since=Revision.CURRENT)

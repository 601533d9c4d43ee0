"""The requirements table is well-formed and complete."""

import re
import typing

import attrs
import pytest

from eca_protocol.revisions import Revision
from eca_protocol.testing.requirements import GROUPS, REQUIREMENTS, Requirement, lookup
from eca_protocol.testing.requirements.interfaces import aliases_of, interfaces_of
from eca_protocol.testing.requirements.row import Level, Side, rows

WELL_FORMED = re.compile(
    r"(BASE|LIFE|CHAT|TOOL|CTX|EDIT|CONF|GEN|CLIENT)-[1-9]\d*"
    r"|W-[1-9]\d?[a-z]?"
    r"|FIELD:[A-Za-z]+(\.[A-Za-z0-9]+)+"
    r"|VALUE:[A-Za-z]+(\.[A-Za-z]+)*=[A-Za-z-]+"
    r"|ARROW:[a-z-]+-[1-9]\d*"
)
RULINGS = [
    *range(1, 7),
    *range(10, 17),
    *range(20, 29),
    *range(30, 39),
    *range(40, 45),
    *range(50, 53),
    60,
]
BUILT_IN = {"string", "number", "integer", "boolean", "null", "object", "map", "any"}


def is_well_formed(requirement: Requirement) -> bool:
    return (
        WELL_FORMED.fullmatch(requirement.id) is not None
        and requirement.section != ""
        and requirement.side in typing.get_args(Side)
        and requirement.level in typing.get_args(Level)
        and requirement.statement.endswith(".")
        and requirement.window.since <= requirement.window.until
    )


def test_every_row_is_well_formed() -> None:
    assert [id_ for id_, row in REQUIREMENTS.items() if not is_well_formed(row)] == []


def test_no_two_rows_have_the_same_statement() -> None:
    """Compare within a chapter or a diagram; two diagrams may share an arrow."""
    first_ids: dict[tuple[str, str], str] = {}
    for requirement in REQUIREMENTS.values():
        key = (requirement.id.rpartition("-")[0], requirement.statement)
        assert key not in first_ids, f"{requirement.id} repeats {first_ids.get(key)}"
        first_ids[key] = requirement.id


@pytest.mark.parametrize("prefix", ["BASE", "LIFE", "CHAT", "TOOL", "CTX", "EDIT", "CONF", "GEN"])
def test_a_chapter_is_numbered_without_gaps(prefix: str) -> None:
    numbers = [int(id_.split("-")[1]) for id_ in REQUIREMENTS if id_.startswith(f"{prefix}-")]
    assert numbers == list(range(1, len(numbers) + 1))


def test_every_ruling_has_its_rows_and_no_other_is_named() -> None:
    assert {row.ruling for row in REQUIREMENTS.values() if row.id.startswith("W-")} == {
        f"W-{number}" for number in RULINGS
    }
    assert {row.ruling for row in REQUIREMENTS.values() if row.ruling} <= {
        f"W-{number}" for number in RULINGS
    }


@pytest.mark.parametrize("number", RULINGS)
def test_a_ruling_is_found_by_its_plain_number(number: int) -> None:
    rows = lookup(f"W-{number}")
    assert {row.ruling for row in rows} == {f"W-{number}"}


@pytest.mark.parametrize("group", GROUPS)
def test_the_letters_of_a_ruling_have_no_gaps(group: str) -> None:
    letters = [requirement.id.removeprefix(group) for requirement in GROUPS[group]]
    assert letters == [chr(ord("a") + place) for place in range(len(letters))]
    assert len(letters) > 1
    assert group not in REQUIREMENTS


def test_the_draft_rulings_hold_in_the_draft_alone() -> None:
    for number in (50, 51, 52):
        for requirement in lookup(f"W-{number}"):
            assert requirement.window.holds(Revision.DRAFT)
            assert not requirement.window.holds(Revision.R2025_09)


def test_fields_literals_and_alternatives_become_rows() -> None:
    assert "optional chatId: string" in REQUIREMENTS["FIELD:ChatPromptParams.chatId"].statement
    assert "a message: string" in REQUIREMENTS["FIELD:ChatPromptParams.message"].statement
    assert "FIELD:CursorContext.position.start.line" in REQUIREMENTS
    assert "VALUE:ChatProgressContent.state=running" in REQUIREMENTS
    assert "VALUE:ChatBehavior=plan" in REQUIREMENTS
    assert "VALUE:ChatContent=ChatMetadataContent" in REQUIREMENTS


def test_what_came_with_october_is_outside_september() -> None:
    new = {
        id_
        for id_, requirement in REQUIREMENTS.items()
        if id_.startswith(("FIELD:", "VALUE:"))
        and requirement.window.holds(Revision.R2025_10)
        and not requirement.window.holds(Revision.R2025_09)
    }
    assert {id_ for id_ in new if id_.endswith(".server")} == {
        f"FIELD:ChatToolCall{kind}Content.server"
        for kind in ("Prepare", "Run", "Running", "ed", "Rejected")
    }
    assert len(new) == 5 + 4 + 2
    assert "VALUE:ChatContent=ChatMetadataContent" in new


def test_current_adds_to_what_there_was_and_takes_away() -> None:
    october, current = interfaces_of(Revision.R2025_10), interfaces_of(Revision.CURRENT)
    assert "behavior?:ChatBehavior" in october["ChatPromptParams"]
    assert set(october["ChatPromptParams"]) - set(current["ChatPromptParams"]) == {
        "behavior?:ChatBehavior"
    }
    assert "text?:string" in current["ChatProgressContent"]
    assert not REQUIREMENTS["FIELD:ChatPromptParams.agent"].window.holds(Revision.R2025_10)
    assert REQUIREMENTS["FIELD:ChatProgressContent.text"].window.holds(Revision.R2025_09)
    assert not REQUIREMENTS["VALUE:ChatCommand.type=skill"].window.holds(Revision.R2025_10)


@pytest.mark.parametrize("revision", [Revision.R2025_09, Revision.R2025_10, Revision.CURRENT])
def test_every_type_that_a_field_names_is_in_the_inventory(revision: Revision) -> None:
    interfaces, aliases = interfaces_of(revision), aliases_of(revision)
    known = BUILT_IN | interfaces.keys() | aliases.keys()
    for interface, fields in interfaces.items():
        for field in fields:
            for alternative in field.partition(":")[2].split("|"):
                name = alternative.removesuffix("[]")
                assert name in known or name.startswith("'"), f"{interface}: {field}"
        owner, dot, name = interface.rpartition(".")
        if dot:  # an object without a name belongs to a field that says object
            spelled = {
                text.strip("*").partition(":")[0].strip("?"): text for text in interfaces[owner]
            }
            assert spelled[name].partition(":")[2].removesuffix("[]") == "object"


@pytest.mark.parametrize(
    ("diagram", "arrows"),
    [("initialization", 5), ("shutdown", 3), ("chat-text", 9), ("chat-tool-call", 13)],
)
def test_a_diagram_has_a_row_per_arrow(diagram: str, arrows: int) -> None:
    ids = [id_ for id_ in REQUIREMENTS if re.fullmatch(rf"ARROW:{diagram}-\d+", id_)]
    assert ids == [f"ARROW:{diagram}-{number}" for number in range(1, arrows + 1)]


def test_a_pattern_names_fields_and_values() -> None:
    assert {row.id for row in lookup("FIELD:LinesRange.*")} == {
        "FIELD:LinesRange.start",
        "FIELD:LinesRange.end",
    }
    assert len(lookup("VALUE:MessageType=*")) == 3


@pytest.mark.parametrize("name", ["BASE-*", "W-*", "ARROW:*", "FIELD:Nobody*", "BASE-999", "", "*"])
def test_a_pattern_elsewhere_or_an_unknown_name_is_refused(name: str) -> None:
    with pytest.raises(KeyError):
        lookup(name)


def test_a_row_of_a_ruling_knows_its_ruling() -> None:
    text = "# Shutdown\nW-13a server Something.\nLIFE-1 client should\n    Something."
    ruled, unruled = rows(text)
    assert (ruled.ruling, ruled.level, ruled.section) == ("W-13", "must", "Shutdown")
    assert (unruled.ruling, unruled.level, unruled.statement) == (None, "should", "Something.")


def test_a_line_that_is_no_row_is_refused() -> None:
    with pytest.raises(ValueError, match="expected a row of requirements, got 'W-13a'"):
        rows("W-13a")


def test_rows_cannot_be_changed() -> None:
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        REQUIREMENTS["BASE-1"].statement = "None."  # type: ignore[misc]  # that is the point
    with pytest.raises(TypeError):
        REQUIREMENTS["BASE-1"] = REQUIREMENTS["BASE-2"]  # type: ignore[index]  # that, too

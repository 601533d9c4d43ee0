"""The models against the requirements' inventory of the specification, in both directions.

Each interface has its class, each field its type, optionality and literals. Any other member of a
class has a ruling or a different revision.
"""

from __future__ import annotations

import pytest

from eca_protocol import messages
from eca_protocol.messages.shapes import (
    Anything,
    Array,
    Choice,
    Field,
    JSONObject,
    Model,
    Nullable,
    Scalar,
    Shape,
    Tagged,
    fields_of,
    shape_of,
    window_of_class,
)
from eca_protocol.revisions import Revision
from eca_protocol.testing.requirements.interfaces import aliases_of, interfaces_of
from tests.eca_protocol.messages.inventory import NAMED, spelled_fields

pytestmark = pytest.mark.requirement("FIELD:*", "VALUE:*")

REVISIONS = [Revision.R2025_09, Revision.R2025_10, Revision.CURRENT]
NUMBERS = {"integer", "number"}


def class_of(interface: str) -> type:
    cls = getattr(messages, NAMED.get(interface, interface))
    assert isinstance(cls, type)
    return cls


def alternatives(type_: str, revision: Revision) -> set[str]:
    """Return the alternatives of a type, with aliases resolved and `*` removed."""
    aliases = aliases_of(revision)
    types: set[str] = set()
    for spelled in type_.split("|"):
        plain = spelled.strip("*")
        if plain in aliases:
            types |= alternatives("|".join(aliases[plain]), revision)
        else:
            types.add(plain)
    return types


def assert_fits(
    shape: Shape, type_: str, path: str, revision: Revision, *, beyond: bool = False
) -> None:
    """Check a field's shape; `beyond`: a ruling allows more values than the type."""
    if isinstance(shape, Nullable):
        shape = shape.inner
    spelled = alternatives(type_, revision) - {"null"}
    match shape:
        case Array(item):
            (inner,) = spelled
            assert inner.endswith("[]"), path
            assert_fits(item, inner.removesuffix("[]"), path, revision)
        case Scalar(names):
            assert spelled <= ({*names, *NUMBERS} if NUMBERS & {*names} else {*names}), path
        case Anything():
            assert spelled == {"any"}, path
        case JSONObject():
            assert spelled == {"map"}, path
        case Choice(values):
            known = {
                f"'{value}'"
                for value, within in values.items()
                if within is None or within.holds(revision)
            }
            assert known >= spelled if beyond else known == spelled, path
        case Model(cls):
            (name,) = spelled
            assert cls is class_of(path if name == "object" else name), path
        case Tagged(members):
            expected = {class_of(path if name == "object" else name) for name in spelled}
            known_members = {
                cls for cls in members.values() if window_of_class(cls).holds(revision)
            }
            assert known_members == expected, path


def is_known(field: Field, revision: Revision) -> bool:
    """Return True if the text of the edition has the field; a ruling's fields do not count."""
    known = field.rules.written and not field.rules.rest and field.window.holds(revision)
    return known and field.window.ruling is None


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_class_has_the_fields_of_its_interface(revision: Revision) -> None:
    for interface, spelled in interfaces_of(revision).items():
        cls = class_of(interface)
        fields = {field.wire: field for field in fields_of(cls)}
        tag = getattr(cls, "type", None)
        for name, required, type_ in spelled_fields(spelled):
            if name == "type" and isinstance(tag, str):
                assert type_ == f"'{tag}'"
                assert window_of_class(cls).holds(revision)
            else:
                field = fields.pop(name)
                assert_is_spelled(field, f"{interface}.{name}", type_, revision)
                assert field.rules.required_in(revision) is required, f"{interface}.{name}"
        for field in fields.values():
            assert not is_known(field, revision), f"{interface}.{field.wire}"


def assert_is_spelled(field: Field, path: str, type_: str, revision: Revision) -> None:
    assert field.window.holds(revision), path
    assert field.rules.nullable is ("null" in alternatives(type_, revision)), path
    beyond = field.rules.ruling is not None
    assert_fits(field.shape, type_, path, revision, beyond=beyond)


@pytest.mark.parametrize("revision", REVISIONS)
def test_an_alias_has_its_alternatives(revision: Revision) -> None:
    for alias in aliases_of(revision):
        hint = getattr(messages, alias)
        if alternatives(alias, revision) == {"string"}:
            assert hint is str
        else:
            assert_fits(shape_of(hint), alias, alias, revision)


def test_every_class_is_an_interface() -> None:
    classes = {
        name
        for name in messages.__all__
        if isinstance(getattr(messages, name), type) and not name.startswith("Unknown")
    }
    inventory = {NAMED.get(name, name) for name in interfaces_of(Revision.CURRENT)}
    assert classes - {"ChatModel"} == inventory

"""The models: their common properties, and the inventory of the specification, both ways.

Each interface has its class, each field its type, optionality and literals. Any other member of a
class has a ruling or a different revision.
"""

import copy
import importlib
import pickle
import re
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given

from eca_protocol import messages
from eca_protocol import messages as m
from eca_protocol.messages import shapes
from eca_protocol.revisions import Revision
from eca_protocol.testing import strategies
from eca_protocol.testing.requirements.interfaces import aliases_of, interfaces_of
from tests.eca_protocol.messages.inventory import NAMED, spelled_fields
from tests.lazy import imported_by

of_the_text = pytest.mark.requirement("FIELD:*", "VALUE:*")
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
    shape: shapes.Shape, type_: str, path: str, revision: Revision, *, beyond: bool = False
) -> None:
    """Check a field's shape; `beyond`: a ruling allows more values than the type."""
    if isinstance(shape, shapes.Nullable):
        shape = shape.inner
    spelled = alternatives(type_, revision) - {"null"}
    match shape:
        case shapes.Array(item):
            (inner,) = spelled
            assert inner.endswith("[]"), path
            assert_fits(item, inner.removesuffix("[]"), path, revision)
        case shapes.Scalar(names):
            assert spelled <= ({*names, *NUMBERS} if NUMBERS & {*names} else {*names}), path
        case shapes.Anything():
            assert spelled == {"any"}, path
        case shapes.JSONObject():
            assert spelled == {"map"}, path
        case shapes.Choice(values):
            known = {
                f"'{value}'"
                for value, within in values.items()
                if within is None or within.holds(revision)
            }
            assert known >= spelled if beyond else known == spelled, path
        case shapes.Model(cls):
            (name,) = spelled
            assert cls is class_of(path if name == "object" else name), path
        case shapes.Tagged(members):
            expected = {class_of(path if name == "object" else name) for name in spelled}
            known_members = {
                cls for cls in members.values() if shapes.window_of_class(cls).holds(revision)
            }
            assert known_members == expected, path


def is_known(field: shapes.Field, revision: Revision) -> bool:
    """Return True if the text of the edition has the field; a ruling's fields do not count."""
    known = field.rules.written and not field.rules.rest and field.window.holds(revision)
    return known and field.window.ruling is None


def unlisted(interface: str, field: shapes.Field) -> str:
    return (
        f"{interface}.{field.wire} is in no inventory: add it to a file interfaces*.txt of "
        "eca_protocol/testing/requirements, or give its mark a ruling"
    )


@of_the_text
@pytest.mark.parametrize("revision", REVISIONS)
def test_a_class_has_the_fields_of_its_interface(revision: Revision) -> None:
    for interface, spelled in interfaces_of(revision).items():
        cls = class_of(interface)
        fields = {field.wire: field for field in shapes.fields_of(cls)}
        tag = getattr(cls, "type", None)
        for name, required, type_ in spelled_fields(spelled):
            if name == "type" and isinstance(tag, str):
                assert type_ == f"'{tag}'"
                assert shapes.window_of_class(cls).holds(revision)
            else:
                path = f"{interface}.{name}"
                assert name in fields, f"{cls} has no field for {path}"
                field = fields.pop(name)
                assert field.window.holds(revision), path
                assert field.rules.nullable is ("null" in alternatives(type_, revision)), path
                beyond = field.rules.ruling is not None
                assert_fits(field.shape, type_, path, revision, beyond=beyond)
                assert field.rules.required_in(revision) is required, path
        for field in fields.values():
            assert not is_known(field, revision), unlisted(interface, field)


@of_the_text
@pytest.mark.parametrize("revision", REVISIONS)
def test_an_alias_has_its_alternatives(revision: Revision) -> None:
    for alias in aliases_of(revision):
        hint = getattr(messages, alias)
        if alternatives(alias, revision) == {"string"}:
            assert hint is str
        else:
            assert_fits(shapes.shape_of(hint), alias, alias, revision)


@of_the_text
def test_every_class_is_an_interface() -> None:
    classes = {
        name
        for name in messages.__all__
        if isinstance(getattr(messages, name), type) and not name.startswith("Unknown")
    }
    inventory = {NAMED.get(name, name) for name in interfaces_of(Revision.CURRENT)}
    where = "add the class to a file interfaces*.txt of eca_protocol/testing/requirements"
    assert classes - {"ChatModel"} == inventory, where


CLASSES = [
    value
    for value in (getattr(messages, name) for name in messages.__all__)
    if isinstance(value, type) and attrs.has(value)
]
UNIONS = [
    m.ChatContent,
    m.ChatContext,
    m.RewriteContent,
    m.ToolCallDetails,
    m.ToolCallOutput,
    m.ToolServerUpdatedParams,
]


def test_every_name_of_a_chapter_is_loaded_from_it() -> None:
    for chapter in set(messages._NAMES) - {"marks", ".message_texts"}:
        module = importlib.import_module(f".{chapter}", "eca_protocol.messages")
        source = Path(module.__file__ or "").read_text("utf-8")
        defined = re.findall(r"^(?:class )?([A-Z]\w+)(?: = |[(:])", source, re.MULTILINE)
        assert sorted(messages._NAMES[chapter].split()) == sorted(defined), chapter
    with pytest.raises(AttributeError, match="nonsense"):
        messages.nonsense  # noqa: B018


def test_the_method_table_loads_no_chapter() -> None:
    modules = imported_by("from eca_protocol.methods import ECA; assert len(ECA) > 60")
    assert not [name for name in modules if name.startswith("eca_protocol.messages.")]


def test_a_model_is_frozen_and_takes_keywords_only() -> None:
    for cls in CLASSES:
        assert not hasattr(cls, "__dict__") or "__dict__" not in dir(cls), cls
        assert cls.__setattr__ is not object.__setattr__, cls
        assert all(attribute.kw_only for attribute in attrs.fields(cls)), cls


def test_a_model_has_nothing_that_making_it_from_slots_would_miss() -> None:
    for cls in CLASSES:
        assert not hasattr(cls, "__attrs_post_init__"), cls
        assert not hasattr(cls, "__attrs_pre_init__"), cls
        for attribute in attrs.fields(cls):
            assert (attribute.validator, attribute.converter) == (None, None), (cls, attribute)
            assert attribute.init, (cls, attribute)
        assert shapes.fields_of(cls) is shapes.fields_of(cls), cls


@pytest.mark.parametrize("union", UNIONS, ids=str)
def test_the_members_of_a_union_say_their_type(union: Any) -> None:
    shape = shapes.shape_of(union)
    assert all(cls.type == tag for tag, cls in shape.members.items())
    assert shape.unknown.__name__.startswith("Unknown")
    assert [attribute.name for attribute in attrs.fields(shape.unknown)] == ["type", "raw"]


@given(content=strategies.contents())
def test_models_can_be_copied_and_pickled(content: m.ChatContent) -> None:
    assert pickle.loads(pickle.dumps(content)) == content
    assert copy.deepcopy(content) == content


def test_a_type_that_no_message_needs_has_no_shape() -> None:
    for hint in (list[str], dict[str, int], bytes, tuple[str, int]):
        with pytest.raises(TypeError, match="a model cannot contain"):
            shapes.shape_of(hint)

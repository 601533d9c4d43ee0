"""The models against the requirements' inventory of the specification, both ways.

Each interface has its class, each field its type, optionality and literals; and what a class
has beyond them carries a ruling or came with another revision.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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
from eca_protocol.testing.requirements.interfaces import ALIASES, INTERFACES

pytestmark = pytest.mark.requirement("FIELD:*", "VALUE:*")

NAMED = {
    "InitializeParams.clientInfo": "ClientInfo",
    "InitializeParams.initializationOptions": "InitializationOptions",
    "ClientCapabilities.codeAssistant": "CodeAssistantCapabilities",
    "ClientCapabilities.codeAssistant.editor": "EditorCapabilities",
    "CursorContext.position": "Range",
    "CursorContext.position.start": "Position",
    "CursorContext.position.end": "Position",
    "ChatUsageContent.limit": "UsageLimit",
    "ChatToolCalledContent.outputs": "ToolCallTextOutput",
    "ChatCommand.arguments": "CommandArgument",
    "EditorDiagnostic.range": "Range",
    "EditorDiagnostic.range.start": "Position",
    "EditorDiagnostic.range.end": "Position",
    "ConfigUpdatedParams.chat": "ChatConfig",
}
"""What the specification leaves without a name, and how it is called here."""

OURS = {"ChatSelectedAgentChanged": "W-28", "ProgressParams": "W-11"}
"""Classes of messages that only rulings know."""

NUMBERS = {"integer", "number"}


def class_of(interface: str) -> type:
    cls = getattr(messages, NAMED.get(interface, interface))
    assert isinstance(cls, type)
    return cls


def spelled_fields(interface: str) -> Iterator[tuple[str, bool, bool, str]]:
    for spelled in INTERFACES[interface]:
        match = re.fullmatch(r"(\*?)(\w+)(\??):(.+)", spelled)
        assert match
        yield match[2], not match[3], bool(match[1]), match[4]


def alternatives(type_: str) -> set[str]:
    """What a type may be, its aliases resolved, `*` taken off."""
    found: set[str] = set()
    for spelled in type_.split("|"):
        plain = spelled.strip("*")
        if plain in ALIASES:
            found |= alternatives("|".join(ALIASES[plain]))
        else:
            found.add(plain)
    return found


def assert_fits(shape: Shape, type_: str, path: str, revision: Revision) -> None:
    if isinstance(shape, Nullable):
        shape = shape.inner
    spelled = alternatives(type_) - {"null"}
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
            known = {value for value, late in values.items() if not late or late.since <= revision}
            assert {f"'{value}'" for value in known} == spelled, path
        case Model(cls):
            (name,) = spelled
            assert cls is class_of(path if name == "object" else name), path
        case Tagged(members):
            expected = {class_of(path if name == "object" else name) for name in spelled}
            assert set(members.values()) == expected, path


def is_known(field: Field) -> bool:
    return (
        field.reading.written and not field.reading.rest and field.window.holds(Revision.R2025_10)
    )


@pytest.mark.parametrize("interface", INTERFACES)
def test_a_class_has_the_fields_of_its_interface(interface: str) -> None:
    cls = class_of(interface)
    fields = {field.wire: field for field in fields_of(cls)}
    tag = getattr(cls, "type", None)
    for name, required, new, type_ in spelled_fields(interface):
        if name == "type" and isinstance(tag, str):
            assert type_ == f"'{tag}'"
            assert window_of_class(cls).holds(Revision.R2025_09) is not new
            continue
        field = fields.pop(name)
        path = f"{interface}.{name}"
        assert field.reading.required is required, path
        assert field.window.holds(Revision.R2025_10), path
        if window_of_class(cls).holds(Revision.R2025_09):
            assert field.window.holds(Revision.R2025_09) is not new, path
        assert field.reading.nullable is ("null" in alternatives(type_)), path
        assert_fits(field.shape, type_, path, Revision.R2025_10)
    assert not [name for name, field in fields.items() if is_known(field)]
    for field in fields.values():
        assert field.reading.rest or field.reading.ruling or field.window.ruling, field.wire


@pytest.mark.parametrize("alias", ALIASES)
def test_an_alias_has_its_alternatives(alias: str) -> None:
    hint = getattr(messages, alias)
    if alternatives(alias) == {"string"}:
        assert hint is str
    else:
        assert_fits(shape_of(hint), alias, alias, Revision.R2025_10)


def test_every_class_is_an_interface_or_stands_under_a_ruling() -> None:
    classes = {
        name
        for name in messages.__all__
        if isinstance(getattr(messages, name), type) and not name.startswith("Unknown")
    }
    inventory = {NAMED.get(interface, interface) for interface in INTERFACES}
    assert classes - {"ChatModel"} == inventory | OURS.keys()

"""The codec against the requirements' inventory, which was written independently of the models.

The inventory yields samples of each method in each edition: with and without every optional member,
with every literal and every alternative of a union. A sample must be read without a departure and
round-trip. Without one of its required members, at any depth, it must be a departure.
"""

from collections.abc import Iterator
from typing import Any, Literal, get_args

import pytest

from eca_protocol.codec import Codec, explain
from eca_protocol.messages import shapes
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision
from eca_protocol.testing.requirements.interfaces import aliases_of, interfaces_of
from tests.eca_protocol.messages.inventory import spelled_fields

pytestmark = pytest.mark.requirement("FIELD:*", "VALUE:*")

Part = Literal["params", "result"]

REVISIONS = [Revision.R2025_09, Revision.R2025_10, Revision.CURRENT]
UNION = {"tool/serverUpdated": "ToolServerUpdatedParams"}
"""The only message that is an alias instead of an interface."""

SCALARS: dict[str, Any] = {
    "string": "é",
    "number": 3,
    "integer": 4,
    "boolean": False,
    "null": None,
    "map": {"some key": [1, None, {"an-other": "x"}]},
    "any": {"type": "object", "properties": {"snake_case": {}}},
}
"""One value of each built-in type; the last two may have any keys."""

EMPTY_IS_ABSENT = {
    "ChatInlinePromptParams.contexts",
    "ChatPromptParams.contexts",
    "MCPServerUpdatedParams.args",
}
"""Optional arrays that are omitted when empty: absent and empty are the same (W-3)."""

ALWAYS_WRITTEN = {"text": "", "required": False, "processId": None, "server": ""}
"""Members that are written in editions that do not require them (W-20, W-30, W-40)."""


class Inventory:
    """The inventory of one edition, and the names in it that samples were made of."""

    def __init__(self, revision: Revision) -> None:
        self.interfaces = interfaces_of(revision)
        self.aliases = aliases_of(revision)
        self.sampled: set[str] = set()

    def values_of(self, type_: str, path: str) -> Iterator[Any]:
        """Yield JSON values of a type as the inventory spells it, at least one per alternative."""
        for spelled in type_.split("|"):
            alternative = spelled.strip("*")
            if alternative.endswith("[]"):
                items = list(self.values_of(alternative.removesuffix("[]"), path))
                yield items
                if path not in EMPTY_IS_ABSENT:
                    yield []
            elif alternative.startswith("'"):
                yield alternative.strip("'")
            elif alternative in self.aliases:
                self.sampled.add(alternative)
                yield from self.values_of("|".join(self.aliases[alternative]), path)
            elif alternative in SCALARS:
                yield SCALARS[alternative]
            else:
                yield from self.samples_of(path if alternative == "object" else alternative)

    def samples_of(self, interface: str) -> Iterator[dict[str, Any]]:
        """Yield a full value, a minimal one, and one per further value of each field."""
        self.sampled.add(interface)
        assert interface in self.interfaces, f"{interface} is in no file interfaces*.txt"
        fields = list(spelled_fields(self.interfaces[interface]))
        choices = {
            name: list(self.values_of(type_, f"{interface}.{name}")) for name, _, type_ in fields
        }
        full = {name: values[0] for name, values in choices.items()}
        yield full
        yield {name: full[name] for name, required, _ in fields if required}
        for name, values in choices.items():
            for value in values[1:]:
                yield {**full, name: value}

    def lacking(self, type_: str, path: str) -> Iterator[tuple[str, Any]]:
        """Yield values of a type that lack one required member, with that member's name."""
        for spelled in type_.split("|"):
            alternative = spelled.strip("*")
            if alternative.endswith("[]"):
                for name, item in self.lacking(alternative.removesuffix("[]"), path):
                    yield name, [item]
            elif alternative in self.aliases:
                yield from self.lacking("|".join(self.aliases[alternative]), path)
            elif alternative == "object" or alternative in self.interfaces:
                interface = path if alternative == "object" else alternative
                full = next(self.samples_of(interface))
                for name, required, field_type in spelled_fields(self.interfaces[interface]):
                    if required:
                        yield name, {key: value for key, value in full.items() if key != name}
                    for inner, value in self.lacking(field_type, f"{interface}.{name}"):
                        yield inner, {**full, name: value}


def messages_of(revision: Revision) -> Iterator[tuple[str, Part, str]]:
    """Yield each method and part with its interface or alias."""
    for row in ECA:
        for part in get_args(Part):
            hint = getattr(row, part)
            if row.window.holds(revision) and hint is not None:
                yield row.name, part, UNION.get(row.name) or hint.__name__


def decode_and_encode(revision: Revision, method: str, part: Part, raw: Any) -> Any:
    codec = Codec(ECA, revision)
    if part == "params":
        return codec.encode_params(method, codec.decode_params(method, raw))
    return codec.encode_result(method, codec.decode_result(method, raw))


def pruned(written: Any, raw: Any) -> Any:
    """Return the written value without members that are always written and not in `raw`."""
    if isinstance(written, dict) and isinstance(raw, dict):
        return {
            key: pruned(value, raw.get(key))
            for key, value in written.items()
            if key in raw or value != ALWAYS_WRITTEN.get(key, ...)
        }
    if isinstance(written, list) and isinstance(raw, list) and len(written) == len(raw):
        return [pruned(*pair) for pair in zip(written, raw, strict=True)]
    return written


@pytest.mark.requirement("CTX-8")
@pytest.mark.parametrize("revision", REVISIONS)
def test_every_field_and_value_is_read_and_written_as_it_came(revision: Revision) -> None:
    inventory = Inventory(revision)
    for method, part, name in messages_of(revision):
        for raw in inventory.values_of(name, name):
            assert pruned(decode_and_encode(revision, method, part, raw), raw) == raw
            assert explain(method, raw, revision, part=part) == ()
    assert inventory.sampled == inventory.interfaces.keys() | inventory.aliases.keys()


def assert_told_but_for_the_marks(method: str, params: Any, revision: Revision) -> None:
    """Check that writing for `revision` and reading loses exactly the members of the metadata."""
    codec = Codec(ECA, revision)
    try:
        expected = left_of(shapes.shape_of(ECA[method].params), params, revision)
    except Lost:
        assert codec.outgoing(method, params) == ()
        return
    ((name, raw),) = codec.outgoing(method, params)
    assert codec.decode_params(name, raw) == expected


class Lost(Exception):
    """A required value that the other revision does not have."""


def left_of(shape: shapes.Shape, value: Any, revision: Revision) -> Any:
    """Return the part of a value that the revision can express."""
    match shape:
        case shapes.Nullable(inner):
            return None if value is None else left_of(inner, value, revision)
        case shapes.Choice(values):
            window = values.get(value)
            return value if window is None or window.holds(revision) else window.fallback
        case shapes.Array(item):
            return tuple(part for each in value for part in left_or_nothing(item, each, revision))
        case shapes.Tagged(_, unknown):
            if not isinstance(value, unknown) and not shapes.window_of_class(type(value)).holds(
                revision
            ):
                raise Lost
            return value if isinstance(value, unknown) else left_of_model(value, revision)
        case shapes.Model():
            return left_of_model(value, revision)
        case _:
            return value


def left_or_nothing(shape: shapes.Shape, value: Any, revision: Revision) -> list[Any]:
    try:
        return [left_of(shape, value, revision)]
    except Lost:
        return []


def left_of_model(value: Any, revision: Revision) -> Any:
    rest: dict[str, Any] = {}
    by_key: dict[str, Any] = {}
    for field in shapes.fields_of(type(value)):
        entry = getattr(value, field.name)
        if field.window.holds(revision) or field.window.ruling:
            optional = isinstance(field.shape, shapes.Nullable)
            present = (left_or_nothing if optional else needed)(field.shape, entry, revision)
            rest[field.name] = present[0] if present else None
        elif field.rules.fallback_key and entry is not None:
            by_key[field.rules.fallback_key] = entry
    return type(value)(**{**rest, **by_key})


def needed(shape: shapes.Shape, value: Any, revision: Revision) -> list[Any]:
    return [left_of(shape, value, revision)]


@pytest.mark.requirement("W-36a", "W-40c")
@pytest.mark.parametrize("source", REVISIONS)
def test_a_different_edition_is_sent_all_but_what_the_marks_name(source: Revision) -> None:
    inventory = Inventory(source)
    for method, part, name in messages_of(source):
        targets = [each for each in REVISIONS if ECA[method].window.written_in(each)]
        for raw in inventory.values_of(name, name) if part == "params" else ():
            params = Codec(ECA, source).decode_params(method, raw)
            for target in targets:
                assert_told_but_for_the_marks(method, params, target)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_required_member_that_is_missing_is_a_departure(revision: Revision) -> None:
    inventory = Inventory(revision)
    for method, part, name in messages_of(revision):
        for missing, raw in inventory.lacking(name, name):
            departures = explain(method, raw, revision, part=part)
            assert any(each.path.endswith(f".{missing}") for each in departures), (missing, raw)

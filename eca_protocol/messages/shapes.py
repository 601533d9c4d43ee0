"""The models as data: the keys of a message, their types and their editions.

Codec, explanation, schema and strategies derive from `shape_of` and `fields_of`, so that a field
is described once, in its class. The wire name of a field is its name in camelCase.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeAlias, Union, get_args, get_origin

import attrs

from eca_protocol.messages.marks import UnknownValue, ValueWindow, WireRules, wire_rules_of
from eca_protocol.revisions import EVER, Revision, Window, window_of

ScalarName: TypeAlias = Literal["string", "integer", "number", "boolean"]
_SCALARS: dict[Any, ScalarName] = {
    str: "string",
    int: "integer",
    float: "number",
    bool: "boolean",
}


ModelClass: TypeAlias = Any
"""An attrs class. mypy considers a `type[...]` unhashable, but functions are cached by it."""


@attrs.frozen
class Scalar:
    """One of these JSON types, usually a single one."""

    names: tuple[ScalarName, ...]


@attrs.frozen
class Anything:
    """Any JSON value, unchanged."""


@attrs.frozen
class JSONObject:
    """Any JSON object, unchanged."""


@attrs.frozen
class Choice:
    """One of these strings with their editions, or an unknown string."""

    values: Mapping[str, ValueWindow | None]

    def known_in(self, revision: Revision) -> list[str]:
        """Return the strings that the text of the edition has."""
        return [value for value in self.values if self.has_in(revision, value)]

    def has_in(self, revision: Revision, value: str) -> bool:
        """Return True if the text of the edition has this string."""
        window = self.values.get(value)
        return value in self.values and (window is None or window.holds(revision))


@attrs.frozen
class Array:
    """A list."""

    item: Shape


@attrs.frozen
class Model:
    """An object with the fields of an attrs class."""

    cls: ModelClass


@attrs.frozen
class Tagged:
    """One of several objects with different tags; any other is read as `unknown`.

    `key` is the member that holds the tag.
    """

    members: Mapping[str, ModelClass]
    unknown: ModelClass
    key: str = "type"


@attrs.frozen
class Nullable:
    """`inner`, or None in Python; on the wire None is an absent key, or null."""

    inner: Shape


Shape: TypeAlias = Scalar | Anything | JSONObject | Choice | Array | Model | Tagged | Nullable


@attrs.frozen(kw_only=True)
class Field:
    """One field of a model, as it is on the wire."""

    name: str
    wire: str
    shape: Shape
    rules: WireRules
    window: Window
    has_default: bool
    default: Any
    default_factory: Callable[[], Any] | None


@functools.cache
def shape_of(hint: Any) -> Shape:
    """Return the shape of the type of a model's field, a method's params or a result.

    Raises:
        TypeError: the models do not use such a type.
    """
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    origin, arguments = get_origin(hint), get_args(hint)
    if hint in _SCALARS:
        return Scalar((_SCALARS[hint],))
    if hint is Any:
        return Anything()
    if attrs.has(hint):
        return Model(hint)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return Array(shape_of(arguments[0]))
    if origin is Mapping or getattr(origin, "__name__", "") == "Mapping":
        return JSONObject()
    if origin in (Union, types.UnionType):
        return _shape_of_union(arguments)
    raise TypeError(f"a model cannot contain a {hint!r}")


def _shape_of_union(arguments: tuple[Any, ...]) -> Shape:
    if types.NoneType in arguments:
        others = tuple(argument for argument in arguments if argument is not types.NoneType)
        return Nullable(shape_of(Union[others]))  # noqa: UP007  # built from a tuple
    if UnknownValue in arguments:
        return Choice(_values_of(arguments))
    if all(argument in _SCALARS for argument in arguments):
        return Scalar(tuple(_SCALARS[each] for each in _SCALARS if each in arguments))
    members = {cls.type: cls for cls in arguments if isinstance(getattr(cls, "type", None), str)}
    (unknown,) = set(arguments) - set(members.values())
    return Tagged(members, unknown, tag_key_of(next(iter(members.values()))))


def _values_of(arguments: tuple[Any, ...]) -> dict[str, ValueWindow | None]:
    values: dict[str, ValueWindow | None] = {}
    for argument in arguments:
        if get_origin(argument) is Annotated:
            literal, window = get_args(argument)
            values.update(dict.fromkeys(get_args(literal), window))
        elif argument is not UnknownValue:
            values.update(dict.fromkeys(get_args(argument)))
    return values


def tag_key_of(cls: ModelClass) -> str:
    """Return the wire key of the tag of a union's member."""
    key = getattr(cls, "tag_key", "type")
    assert isinstance(key, str)
    return key


@functools.cache
def fields_of(cls: ModelClass) -> tuple[Field, ...]:
    """Return the fields of a model, in the order in which they are written."""
    return tuple(_field(attribute) for attribute in attrs.fields(attrs.resolve_types(cls)))


def lacks(shape: Shape, raw: Any) -> bool:
    """Return True if an object of `shape`, or one inside it, lacks a required member."""
    match shape:
        case Nullable(inner):
            return lacks(inner, raw)
        case Model(cls) if isinstance(raw, dict):
            return any(_lacks_field(field, raw.get(field.wire)) for field in fields_of(cls))
        case _:
            return False


def _lacks_field(field: Field, entry: Any) -> bool:
    if entry is None:
        return not field.has_default and not isinstance(field.shape, Nullable | Anything)
    return lacks(field.shape, entry)


def _field(attribute: Any) -> Field:
    factory = getattr(attribute.default, "factory", None)
    rules = wire_rules_of(attribute)
    return Field(
        name=attribute.name,
        wire=rules.wire or _camel_case(attribute.name),
        shape=shape_of(attribute.type),
        rules=rules,
        window=window_of(attribute.metadata),
        has_default=attribute.default is not attrs.NOTHING,
        default=None if factory else attribute.default,
        default_factory=factory,
    )


def window_of_class(cls: ModelClass) -> Window:
    """Return the editions that have a member of a union."""
    window = getattr(cls, "window", EVER)
    assert isinstance(window, Window)
    return window


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(other.capitalize() for other in others)

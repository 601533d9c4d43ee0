"""The typed reading of one source's JSON.

A value of a wrong type is ignored with its key alone, so the value of an earlier source stays.
Unknown keys are ignored. Null unsets.

Each field of a settings class declares its keys and its reader (`setting`). Sources are read with
`Reader.read`, merged as plain mappings, and turned into objects by `Reader.build`.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple, NoReturn

import attrs

from eca_server.config.interpolation import ReferenceResolver, UnresolvedReference
from eca_server.config.problems import kind_of
from eca_server.secret import Secret, parse_key

KeyPath = tuple[str | int, ...]
JSONSchema = Mapping[str, Any]
_SETTING = "eca_setting"
_MISSING = object()
_A_DAY = 86_400
_MOST = 2**53
_WORD = re.compile(r"[A-Za-z_-]{1,32}")  # a key has digits, or is longer


class InvalidValue(Exception):
    """The error of a value that does not fit, at `path`; the message never shows a secret."""

    def __init__(self, path: KeyPath, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


@attrs.frozen(eq=False, repr=False)
class Place:
    """A position in a source that is being read, and the errors so far.

    Attributes:
        resolver: resolves the references of the source.
        errors: error messages by the path of their value.
        path: the path of this position.
    """

    resolver: ReferenceResolver
    errors: dict[KeyPath, str] = attrs.field(factory=dict)
    path: KeyPath = ()

    def at(self, step: str | int) -> Place:
        """Return the place of a member: one key or list item deeper."""
        return attrs.evolve(self, path=(*self.path, step))

    def expect(self, fits: bool, expected: str, value: object) -> None:
        """Reject `value` here unless it fits."""
        if not fits:
            self.refuse(f"expected {expected}, got {kind_of(value)}")

    def refuse(self, message: str) -> NoReturn:
        """Reject the value here."""
        raise InvalidValue(self.path, message)

    def resolve(self, text: str) -> str:
        """Return `text` with its `${..}` references replaced."""
        try:
            return self.resolver.resolve(text)
        except UnresolvedReference as error:
            self.refuse(str(error))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Reader:
    """The reader of one kind of value.

    Attributes:
        read: turns a source's JSON into plain data that merges; raises InvalidValue.
        build: turns the merged data into the object.
        schema: the JSON Schema of the value, unless it is a record.
        record: the settings class of an object with known keys, if it is one.
        members: the reader of each value of an object or list, if they are all of one kind.
    """

    read: Callable[[Any, Place], Any]
    build: Callable[[Any], Any] = lambda value: value
    schema: JSONSchema = attrs.field(factory=dict)
    record: type | None = None
    members: Reader | None = None

    def attempt(self, value: object, place: Place, into: dict[str, Any], name: str) -> None:
        """Put the value into a mapping, or its error into `place.errors`.

        A map is merged into one already there, from another spelling of the key.
        """
        try:
            read = None if value is None else self.read(value, place)
        except InvalidValue as error:
            place.errors[error.path] = error.message
        else:
            into.update(deep_merge({name: into.get(name)}, {name: read}))


class Workspace(enum.Enum):
    """The trust class of a setting: its effect when a workspace folder configures it.

    An untrusted folder may only restrict the user's configuration, or add text.
    """

    NEEDS_TRUST = "the user must trust the folder"
    NEVER = "only the user's own configuration applies, even if the folder is trusted"
    RESTRICTS = "a value that restricts tool calls applies, the others need trust"
    SMALLER = "a smaller value applies, a larger one needs trust"
    ADDS = "items are added to the user's"
    INSIDE = "paths inside the folder are added to the user's, the others need trust"


class Setting(NamedTuple):
    """A field of a settings class, as `setting` declares it.

    Attributes:
        name: the field's name.
        reader: the reader of its values.
        keys: its keys, as paths; the last one wins.
        workspace: its trust class.
    """

    name: str
    reader: Reader
    keys: tuple[tuple[str, ...], ...]
    workspace: Workspace


def setting(
    reader: Reader,
    *keys: str,
    default: Any = None,
    workspace: Workspace = Workspace.NEEDS_TRUST,
    **options: Any,
) -> Any:
    """Return a field of a settings class: the reader, the dotted keys and the trust class.

    Without keys, the key is the field's name in camelCase. The last key wins. A setting without a
    trust class needs trust. `options` are those of `attrs.field`; a `factory` replaces the default.
    The default of a settings class is one without settings.
    """
    if default is None and reader.record is not None:
        default = reader.record()
    if "factory" not in options:
        options["default"] = default
    paths = tuple(tuple(key.split(".")) for key in keys)
    return attrs.field(metadata={_SETTING: (reader, paths, workspace)}, **options)


@cache
def settings_of(cls: type) -> tuple[Setting, ...]:
    """Return the settings of a class, in the order of its fields."""
    settings = []
    for field in attrs.fields(cls):
        if _SETTING in field.metadata:
            reader, keys, workspace = field.metadata[_SETTING]
            keys = keys or ((_camel_case(field.name),),)
            settings.append(Setting(field.name, reader, keys, workspace))
    return tuple(settings)


def _camel_case(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def record(cls: type) -> Reader:
    """Return the reader of an object whose known keys are the settings of an attrs class."""

    def read(value: object, place: Place) -> dict[str, Any]:
        place.expect(isinstance(value, Mapping), "an object", value)
        layer: dict[str, Any] = {}
        for name, reader, keys, _ in settings_of(cls):
            for key in keys:
                member, where = _find(value, key, place)
                if member is not _MISSING:
                    reader.attempt(member, where, layer, name)
        return layer

    def build(merged: Mapping[str, Any]) -> object:
        readers = {each.name: each.reader for each in settings_of(cls)}
        known = {name: value for name, value in merged.items() if value is not None}
        return cls(**{name: readers[name].build(value) for name, value in known.items()})

    return Reader(read=read, build=build, record=cls)


def each(reader: Reader) -> Reader:
    """Return the reader of an object with any keys and values of one kind."""

    def read(value: object, place: Place) -> dict[str, Any]:
        place.expect(isinstance(value, Mapping), "an object", value)
        assert isinstance(value, Mapping)
        layer: dict[str, Any] = {}
        for name, member in value.items():
            reader.attempt(member, place.at(name), layer, name)
        return layer

    def build(merged: Mapping[str, Any]) -> dict[str, Any]:
        return {name: reader.build(value) for name, value in merged.items() if value is not None}

    schema = {"type": "object"}
    return Reader(read=read, build=build, schema=schema, members=reader)


def listing(reader: Reader) -> Reader:
    """Return the reader of a list of values of one kind; an invalid one is left out.

    Lists replace each other when they are merged.
    """

    def read(value: object, place: Place) -> list[Any]:
        place.expect(isinstance(value, list | tuple), "a list", value)
        assert isinstance(value, list | tuple)
        items: dict[str, Any] = {}
        for index, item in enumerate(value):
            reader.attempt(item, place.at(index), items, str(index))
        return [item for item in items.values() if item is not None]

    def build(merged: list[Any]) -> tuple[Any, ...]:
        return tuple(reader.build(item) for item in merged)

    schema = {"type": "array"}
    return Reader(read=read, build=build, schema=schema, members=reader)


def choice(*values: str) -> Reader:
    """Return the reader of one of these words."""

    def read(value: object, place: Place) -> object:
        if not isinstance(value, str) or value not in values:
            place.refuse(f"expected one of {', '.join(values)}, got {_shown(value)}")
        return value

    return Reader(read=read, schema={"enum": list(values)})


def deep_merge(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two mappings: maps merge, everything else of `newer` replaces (lists too)."""
    merged = dict(older)
    for name, value in newer.items():
        before = merged.get(name)
        maps = isinstance(before, Mapping) and isinstance(value, Mapping)
        merged[name] = deep_merge(before or {}, value) if maps else value
    return merged


def value_at(tree: object, path: KeyPath) -> Any:
    """Return the value at a path of nested mappings, or None."""
    for step in path:
        tree = tree.get(step) if isinstance(tree, Mapping) else None
    return tree


def _find(value: Any, key: tuple[str, ...], place: Place) -> tuple[object, Place]:
    for step in key[:-1]:
        value = value.get(step)
        place = place.at(step)
        if value is None:
            return _MISSING, place
        if not isinstance(value, Mapping):
            place.errors[place.path] = f"expected an object, got {kind_of(value)}"
            return _MISSING, place
    return value.get(key[-1], _MISSING), place.at(key[-1])


def _text(value: object, place: Place) -> str:
    place.expect(isinstance(value, str), "a string", value)
    return place.resolve(str(value))


def _name(value: object, place: Place) -> str | None:
    return _text(value, place).strip() or None


def _path(value: object, place: Place) -> str | None:
    return _resolved(place.resolver.named, value, place)


def _script_path(value: object, place: Place) -> str | None:
    return _resolved(place.resolver.named_script, value, place)


def _resolved(resolve: Callable[[str, str], str], value: object, place: Place) -> str | None:
    name = _name(value, place)
    try:
        return name and resolve(name, str(value))
    except UnresolvedReference as error:
        place.refuse(str(error))


def _root_path(value: object, place: Place) -> str | None:
    name = _name(value, place)
    return name and place.resolver.named_below_root(name)


def _key(value: object, place: Place) -> object:
    try:
        return parse_key(_text(value, place))
    except ValueError as error:
        place.refuse(str(error))


def _secret(value: object, place: Place) -> Secret | None:
    text = _text(value, place).strip("\r\n")  # a file ends its last line
    return Secret(text) if text else None


def _flag(value: object, place: Place) -> object:
    place.expect(isinstance(value, bool), "true or false", value)
    return value


def _count(value: object, place: Place) -> object:
    fits = isinstance(value, int) and _is_number(value) and 0 <= value <= _MOST
    _expect_amount(fits, "a whole number from 0 on", value, place)
    return value


def _number(value: Any, place: Place, *, most: float = _MOST, unit: str = "") -> object:
    expected = f"a number{unit} above 0 and up to {most}"
    _expect_amount(_is_number(value) and 0 < value <= most, expected, value, place)
    return value


def _price(value: Any, place: Place) -> object:
    expected = f"a number from 0 up to {_MOST}"
    _expect_amount(_is_number(value) and 0 <= value <= _MOST, expected, value, place)
    return value


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _expect_amount(fits: bool, expected: str, value: Any, place: Place) -> None:
    """Reject `value` unless it fits, and quote a number, unless it is endless."""
    if not fits and _is_number(value) and -_MOST <= value <= _MOST:
        place.refuse(f"expected {expected}, got {value}")
    place.expect(fits, expected, value)


def _data(value: object, place: Place) -> object:
    """Return the user's own JSON with the references in its strings replaced."""
    if isinstance(value, str):
        return place.resolve(value)
    if isinstance(value, Mapping):
        layer: dict[str, Any] = {}
        for name, member in value.items():
            _DATA.attempt(member, place.at(name), layer, name)
        return layer
    if isinstance(value, list | tuple):
        return [_data(item, place.at(index)) for index, item in enumerate(value)]
    return value


def _object(value: object, place: Place) -> object:
    place.expect(isinstance(value, Mapping), "an object", value)
    return _data(value, place)


def _shown(value: object) -> str:
    if not isinstance(value, str):
        return kind_of(value)
    return repr(value) if _WORD.fullmatch(value) else "a different one"


def _above_zero(most: float) -> JSONSchema:
    return {"type": "number", "exclusiveMinimum": 0, "maximum": most}


TEXT = Reader(read=_text, schema={"type": "string"})
NAME = Reader(read=_name, schema={"type": "string"})  # stripped; blank unsets
PATH = Reader(read=_path, schema={"type": "string"})  # relative to the directory of its file
SCRIPT_PATH = Reader(read=_script_path, schema={"type": "string"})  # a root's: relative to the root
ROOT_PATH = Reader(read=_root_path, schema={"type": "string"})  # relative to a workspace root
KEY = Reader(read=_key, schema={"type": "string"})
SECRET = Reader(read=_secret, schema={"type": "string"})  # any text
FLAG = Reader(read=_flag, schema={"type": "boolean"})
COUNT = Reader(read=_count, schema={"type": "integer", "minimum": 0})
NUMBER = Reader(read=_number, schema=_above_zero(_MOST))
SECONDS = Reader(
    read=lambda value, place: _number(value, place, most=_A_DAY, unit=" of seconds"),
    schema=_above_zero(_A_DAY),
)
PERCENT = Reader(
    read=lambda value, place: _number(value, place, most=100, unit=" of percent"),
    schema=_above_zero(100),
)
PRICE = Reader(read=_price, schema={"type": "number", "minimum": 0, "maximum": _MOST})
_DATA = Reader(read=_data)
OBJECT = Reader(read=_object, schema={"type": "object"})  # any JSON, nulls included

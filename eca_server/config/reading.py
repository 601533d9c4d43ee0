"""From the JSON of one source to the keys we know, each of its own type.

The rule it keeps: a value of a wrong type costs its own key and nothing else, so what an earlier
source said of that key stays. Keys we do not know are passed over in silence. Null unsets.

A class says beside each field where its value is written and how it is read (`setting`). The
sources are read with `Reader.read`, merged as plain mappings, and made objects by `Reader.build`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import attrs

from eca_server.config.interpolation import Surroundings, Unresolved
from eca_server.config.problems import kind_of
from eca_server.secret import key_from

__all__ = [
    "COUNT",
    "FLAG",
    "KEY",
    "NAME",
    "NUMBER",
    "OBJECT",
    "SECONDS",
    "TEXT",
    "KeyPath",
    "Place",
    "Reader",
    "Refused",
    "deep_merge",
    "each",
    "record",
    "setting",
]

KeyPath = tuple[str | int, ...]
_SETTING = "eca_setting"
_MISSING = object()
_A_DAY = 86_400
_MOST = 2**53


class Refused(Exception):
    """A value that does not fit; `path` leads to it, the message does not show it."""

    def __init__(self, path: KeyPath, message: str) -> None:
        super().__init__(message)
        self.path = path
        self.message = message


@attrs.frozen(eq=False, repr=False)
class Place:
    """Where in a source the reading stands, and what was refused so far."""

    surroundings: Surroundings
    faults: dict[KeyPath, str] = attrs.field(factory=dict)
    path: KeyPath = ()

    def at(self, step: str | int) -> Place:
        """The place one key or list item deeper."""
        return attrs.evolve(self, path=(*self.path, step))

    def expect(self, fits: bool, expected: str, value: object) -> None:
        """Refuse `value` here unless it fits."""
        if not fits:
            self.refuse(f"expected {expected}, got {kind_of(value)}")

    def refuse(self, message: str) -> NoReturn:
        """Give up the value here."""
        raise Refused(self.path, message)

    def resolve(self, text: str) -> str:
        """`text` with its `${..}` references replaced."""
        try:
            return self.surroundings.resolve(text)
        except Unresolved as fault:
            self.refuse(str(fault))


@attrs.frozen(kw_only=True, eq=False, repr=False)
class Reader:
    """How one kind of value is read from JSON, and made the object the server works with."""

    read: Callable[[Any, Place], Any]
    build: Callable[[Any], Any] = lambda value: value

    def attempt(self, value: object, place: Place, into: dict[str, Any], name: str) -> None:
        """Put the value into the mapping, or its fault into the place's list."""
        try:
            into[name] = None if value is None else self.read(value, place)
        except Refused as fault:
            place.faults[fault.path] = fault.message


def setting(reader: Reader, *keys: str) -> dict[str, Any]:
    """Metadata for `attrs.field`: the dotted keys it is written under, the last of them first."""
    return {_SETTING: (reader, tuple(tuple(key.split(".")) for key in keys))}


def record(cls: type) -> Reader:
    """An object whose known keys are the settings of an attrs class."""

    def read(value: object, place: Place) -> dict[str, Any]:
        place.expect(isinstance(value, Mapping), "an object", value)
        layer: dict[str, Any] = {}
        for field in attrs.fields(cls):
            reader, keys = field.metadata[_SETTING]
            for key in keys:
                found, where = _find(value, key, place)
                if found is not _MISSING:
                    reader.attempt(found, where, layer, field.name)
        return layer

    def build(merged: Mapping[str, Any]) -> object:
        readers = {field.name: field.metadata[_SETTING][0] for field in attrs.fields(cls)}
        given = {name: value for name, value in merged.items() if value is not None}
        return cls(**{name: readers[name].build(value) for name, value in given.items()})

    return Reader(read=read, build=build)


def each(reader: Reader) -> Reader:
    """An object with keys of the user's own choice and values of one kind."""

    def read(value: object, place: Place) -> dict[str, Any]:
        place.expect(isinstance(value, Mapping), "an object", value)
        assert isinstance(value, Mapping)
        layer: dict[str, Any] = {}
        for name, member in value.items():
            reader.attempt(member, place.at(name), layer, name)
        return layer

    def build(merged: Mapping[str, Any]) -> dict[str, Any]:
        return {name: reader.build(value) for name, value in merged.items() if value is not None}

    return Reader(read=read, build=build)


def deep_merge(older: Mapping[str, Any], newer: Mapping[str, Any]) -> dict[str, Any]:
    """Both mappings in one: maps merge, everything else of `newer` replaces (lists too)."""
    merged = dict(older)
    for name, value in newer.items():
        before = merged.get(name)
        maps = isinstance(before, Mapping) and isinstance(value, Mapping)
        merged[name] = deep_merge(before or {}, value) if maps else value
    return merged


def _find(value: Any, key: tuple[str, ...], place: Place) -> tuple[object, Place]:
    for step in key[:-1]:
        value = value.get(step)
        place = place.at(step)
        if value is None:
            return _MISSING, place
        if not isinstance(value, Mapping):
            place.faults[place.path] = f"expected an object, got {kind_of(value)}"
            return _MISSING, place
    return value.get(key[-1], _MISSING), place.at(key[-1])


def _text(value: object, place: Place) -> str:
    place.expect(isinstance(value, str), "a string", value)
    return place.resolve(str(value))


def _name(value: object, place: Place) -> str | None:
    return _text(value, place).strip() or None


def _key(value: object, place: Place) -> object:
    try:
        return key_from(_text(value, place))
    except ValueError as fault:
        place.refuse(str(fault))


def _flag(value: object, place: Place) -> object:
    place.expect(isinstance(value, bool), "true or false", value)
    return value


def _count(value: object, place: Place) -> object:
    fits = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST
    place.expect(fits, "a whole number from 0 on", value)
    return value


def _number(value: Any, place: Place, *, most: float = _MOST, unit: str = "") -> object:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    expected = f"a number{unit} above 0 and up to {most}"
    place.expect(is_number and 0 < value <= most, expected, value)
    return value


def _data(value: object, place: Place) -> object:
    """The user's own JSON: nothing is changed but the references inside its strings."""
    if isinstance(value, str):
        return place.resolve(value)
    if isinstance(value, Mapping):
        read: dict[str, Any] = {}
        for name, member in value.items():
            _DATA.attempt(member, place.at(name), read, name)
        return read
    if isinstance(value, list | tuple):
        return [_data(item, place.at(index)) for index, item in enumerate(value)]
    return value


def _object(value: object, place: Place) -> object:
    place.expect(isinstance(value, Mapping), "an object", value)
    return _data(value, place)


TEXT = Reader(read=_text)
NAME = Reader(read=_name)  # white space around it means nothing, a blank one unsets
KEY = Reader(read=_key)
FLAG = Reader(read=_flag)
COUNT = Reader(read=_count)
NUMBER = Reader(read=_number)
SECONDS = Reader(read=lambda value, place: _number(value, place, most=_A_DAY, unit=" of seconds"))
_DATA = Reader(read=_data)
OBJECT = Reader(read=_object)  # of the user's own making, its nulls included

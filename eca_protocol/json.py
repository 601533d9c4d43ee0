"""Strict JSON with two engines that accept and write the same.

The standard library's `json` is the reference. orjson (the extra `speed`) is used if it is
installed, for input on which both are known to agree; all other input goes to the reference.
The rules of both (ruling W-5):

* Bytes are UTF-8 without a BOM. A lone surrogate, escaped or in a `str`, becomes U+FFFD.
* Integers are exact up to 4,300 digits, independent of PYTHONINTMAXSTRDIGITS; longer ones are
  refused.
* NaN, the infinities and numbers that overflow to infinity are refused.
* Arrays and objects nest at most 128 deep.
* A text to read holds at most a million values, counted as commas and opening brackets outside
  strings: 16 MiB of `[[],[],...]` would take half a gigabyte.
* Of duplicate keys the last wins, unless the reader refuses duplicates.
* Tuples are written as arrays, enum members as their value, UUIDs as their text, keys that are
  numbers, booleans or None as their JSON text. Any other Python value is refused with its path.
"""

from __future__ import annotations

import contextlib
import enum
import json
import math
import re
import sys
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Literal, NoReturn

from eca_protocol.errors import InvalidJSON, LocalProtocolError

try:
    import orjson
except ImportError:
    orjson = None  # type: ignore[assignment]  # the extra `speed` is not installed

__all__ = [
    "ENGINE",
    "MAX_DEPTH",
    "MAX_DIGITS",
    "MAX_VALUES",
    "DuplicateKeys",
    "dumps",
    "holds_too_many_values",
    "loads",
    "loads_each",
]

DuplicateKeys = Literal["last", "refuse"]

MAX_DEPTH: Final = 128
MAX_DIGITS: Final = 4300
MAX_VALUES: Final = 1_000_000

_SHORT = 2 * MAX_DEPTH  # bytes; such a text neither nests too deep nor holds too many values
_SCALARS = frozenset({str, int, float, bool, type(None)})
_BLANKS = " \t\r\n"
_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(rb"\\u[dD][89a-fA-F]")
_DIGIT_TO_ZERO = bytes.maketrans(b"123456789", b"0" * 9)
_PIECE = 600  # digits; the interpreter converts at least 640 at once, whatever its setting
_EXCERPT = 16  # characters of a refused text that an error shows
_MARKS = (b",", b"[", b"{")
_MARKS_AT_ONCE = 1000
_UP_TO_A_MARK = rb'(?:[^",\[{]++|"(?:[^"\\]++|\\.)*+")*+[,\[{]'
_ONE_MARK = re.compile(_UP_TO_A_MARK, re.DOTALL)
_MANY_MARKS = re.compile(rb"(?:%b){%d}+" % (_UP_TO_A_MARK, _MARKS_AT_ONCE), re.DOTALL)


def _read_integer(literal: str) -> int:
    """Read an integer with our limit of digits in place of the interpreter's."""
    digits = literal.removeprefix("-")
    if len(digits) > MAX_DIGITS:
        raise _too_long()
    value = 0
    for start in range(0, len(digits), _PIECE):
        piece = digits[start : start + _PIECE]
        value = value * 10 ** len(piece) + int(piece)
    return -value if literal.startswith("-") else value


def _read_float(literal: str) -> float:
    value = float(literal)
    if math.isinf(value):
        raise InvalidJSON(f"expected a number within a double's range, got {literal[:_EXCERPT]}")
    return value


def _refuse_constant(literal: str) -> NoReturn:
    raise InvalidJSON(f"expected a finite number, got {literal}")


def _object_of_distinct_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    read: dict[str, Any] = {}
    for key, value in pairs:
        clean = _SURROGATE.sub("\ufffd", key)
        if clean in read:
            raise InvalidJSON(f"expected distinct keys, got {clean[:_EXCERPT]!r} twice")
        read[clean] = value
    return read


_HOOKS: Final[dict[str, Any]] = {"parse_float": _read_float, "parse_constant": _refuse_constant}
_DECODERS: Final[dict[tuple[DuplicateKeys, bool], json.JSONDecoder]] = {
    ("last", True): json.JSONDecoder(**_HOOKS),
    ("last", False): json.JSONDecoder(**_HOOKS, parse_int=_read_integer),
    ("refuse", True): json.JSONDecoder(**_HOOKS, object_pairs_hook=_object_of_distinct_keys),
    ("refuse", False): json.JSONDecoder(
        **_HOOKS, object_pairs_hook=_object_of_distinct_keys, parse_int=_read_integer
    ),
}


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _SURROGATE.sub("\ufffd", text).encode()


def _too_long() -> InvalidJSON:
    return InvalidJSON(f"expected integers of at most {MAX_DIGITS} digits, got a longer one")


def _too_deep() -> InvalidJSON:
    return InvalidJSON(f"expected at most {MAX_DEPTH} levels of nesting, got more")


def _too_many() -> InvalidJSON:
    return InvalidJSON(f"expected at most {MAX_VALUES:,} values, got more")


def _refusal(data: bytes | bytearray, error: ValueError | RecursionError) -> InvalidJSON:
    match error:
        case InvalidJSON():
            return error
        case RecursionError():
            return _too_deep()
        case json.JSONDecodeError(pos=position, doc=text):
            got = repr(text[position : position + _EXCERPT]) if text[position:] else "its end"
            return InvalidJSON(
                f"expected JSON, got {got} at position {position} ({error.msg})", position=position
            )
        case UnicodeDecodeError(start=start):
            position = len(data[:start].decode())
            return InvalidJSON(
                f"expected UTF-8, got byte 0x{data[start]:02x} at position {position}",
                position=position,
            )
    return _too_long()


def holds_too_many_values(data: bytes | bytearray) -> bool:
    """Return True if a text holds more than MAX_VALUES values, without building them.

    A text of at most MAX_VALUES bytes is not scanned. In a longer one the commas and brackets are
    counted first, with those in strings; the slower count without strings is rarely needed.
    """
    if len(data) <= MAX_VALUES or sum(map(data.count, _MARKS)) <= MAX_VALUES:
        return False
    place = 0
    for _ in range(MAX_VALUES // _MARKS_AT_ONCE):
        match = _MANY_MARKS.match(data, place)
        if match is None:
            return False
        place = match.end()
    return _ONE_MARK.match(data, place) is not None


def _may_nest_too_deep(data: bytes | bytearray) -> bool:
    """Return False if there are too few brackets to nest that deep, as in most texts."""
    if len(data) <= _SHORT:
        return False
    levels = MAX_DEPTH
    for bracket in (b"[", b"{"):
        place = data.find(bracket)
        while place >= 0:
            if not levels:
                return True
            levels -= 1
            place = data.find(bracket, place + 1)
    return False


def _nests_too_deep(value: Any) -> bool:
    """Return True if a value nests too deep.

    The result is exact for a value that was read. In a value to write, an instance of a subclass
    of a scalar type counts as one level more.
    """
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        parts = [part for part in level if type(part) not in _SCALARS]
        if not parts:
            return False
        level = []
        for part in parts:
            bare = part.value if isinstance(part, enum.Enum) else part
            if isinstance(bare, dict):
                level += bare.values()
            elif isinstance(bare, (list, tuple)):
                level += bare
    return True


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return _SURROGATE.sub("\ufffd", value)
    if isinstance(value, list):
        return [_without_surrogates(item) for item in value]
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(val) for key, val in value.items()}
    return value


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, uuid.UUID):
        return str(value)
    raise TypeError


_ENCODER: Final = json.JSONEncoder(
    ensure_ascii=False,
    check_circular=False,
    allow_nan=False,
    separators=(",", ":"),
    default=_plain,
)


def _make_encode() -> Callable[[Any], str]:
    """Return `_ENCODER.encode`; it makes an encoder in C for each call, this makes one for all."""
    make: Any = getattr(json.encoder, "c_make_encoder", None)
    quote = json.encoder.encode_basestring
    try:
        pieces = make(None, _plain, quote, None, ":", ",", False, False, False)
    except TypeError:  # an interpreter without it, or with another signature
        return _ENCODER.encode
    return lambda value: "".join(pieces(value, 0))


_encode: Final = _make_encode()


def _has_run_of_digits(data: bytes | bytearray, length: int) -> bool:
    return b"0" * length in data.translate(_DIGIT_TO_ZERO)


def _write_slowly(value: Any) -> str:
    """Write a value like the encoder, but raise an error that names the invalid part."""
    try:
        return "".join(_pieces(value, []))
    except RecursionError:
        raise LocalProtocolError("expected a value that nests less, got no stack left") from None


def _pieces(value: Any, path: list[str | int]) -> Iterator[str]:
    if isinstance(value, enum.Enum | uuid.UUID):
        value = _plain(value)
    if value is None or isinstance(value, bool | str):
        yield _ENCODER.encode(value)
    elif isinstance(value, int):
        yield _written_integer(value, path)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise _unwritable(path, "a finite number", repr(float(value)))
        yield float.__repr__(value)
    elif isinstance(value, dict | list | tuple):
        if len(path) >= MAX_DEPTH:
            raise _unwritable(path[:4], f"at most {MAX_DEPTH} levels of nesting", "more")
        yield from _object(value, path) if isinstance(value, dict) else _array(value, path)
    else:
        raise _unwritable(path, "a JSON value", type(value).__qualname__)


def _object(value: dict[Any, Any], path: list[str | int]) -> Iterator[str]:
    lead = "{"
    for key, item in value.items():
        if key is not None and not isinstance(key, str | int | float):
            raise _unwritable(path, "a string as key", type(key).__qualname__)
        text = key if isinstance(key, str) else "".join(_pieces(key, path))
        yield f"{lead}{_ENCODER.encode(text)}:"
        yield from _pieces(item, [*path, text])
        lead = ","
    yield "}" if value else "{}"


def _array(value: list[Any] | tuple[Any, ...], path: list[str | int]) -> Iterator[str]:
    lead = "["
    for index, item in enumerate(value):
        yield lead
        yield from _pieces(item, [*path, index])
        lead = ","
    yield "]" if value else "[]"


def _written_integer(value: int, path: list[str | int]) -> str:
    pieces = []
    rest = abs(value)
    if rest >= 10**MAX_DIGITS:
        raise _unwritable(path, f"an integer of at most {MAX_DIGITS} digits", "a longer one")
    while rest >= 10**_PIECE:
        rest, piece = divmod(rest, 10**_PIECE)
        pieces.append(f"{piece:0{_PIECE}d}")
    pieces.append(f"{'-' if value < 0 else ''}{rest:d}")
    return "".join(reversed(pieces))


def _unwritable(path: list[str | int], expected: str, got: str) -> LocalProtocolError:
    where = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)
    return LocalProtocolError(
        f"{where.removeprefix('.') or 'the value'}: expected {expected}, got {got}"
    )


class _Stdlib:
    """The reference: the standard library with additional strictness."""

    @staticmethod
    def loads(data: bytes | bytearray | str, *, duplicate_keys: DuplicateKeys = "last") -> Any:
        """Read one JSON text.

        Args:
            data: the whole text; bytes are UTF-8.
            duplicate_keys: `last`: the last of equal keys in an object counts; `refuse`: they are
                an error.

        Raises:
            InvalidJSON: the text is not accepted; the message names the expected and the received
                text and, where known, the position.
        """
        if isinstance(data, str):
            data = _utf8(data)
        is_short = len(data) <= _SHORT
        if not is_short and holds_too_many_values(data):
            raise _too_many()
        decoder = _DECODERS[duplicate_keys, sys.get_int_max_str_digits() == MAX_DIGITS]
        try:
            text = data.decode()
            if text[:1] in _BLANKS:
                value = decoder.decode(text)
            else:
                value, end = decoder.raw_decode(text)
                if end != len(text) and text[end:].strip(_BLANKS):
                    decoder.decode(text)
            if b"\\" in data and _SURROGATE_ESCAPE.search(data):
                value = _without_surrogates(value)
        except (ValueError, RecursionError) as error:
            raise _refusal(data, error) from None
        if not is_short and _may_nest_too_deep(data) and _nests_too_deep(value):
            raise _too_deep()
        return value

    @classmethod
    def loads_each(
        cls, texts: Sequence[bytes], *, duplicate_keys: DuplicateKeys = "last"
    ) -> list[Any]:
        """Read several JSON texts; in place of an invalid one comes its `InvalidJSON`."""
        values: list[Any] = []
        for text in texts:
            try:
                values.append(cls.loads(text, duplicate_keys=duplicate_keys))
            except InvalidJSON as error:
                values.append(error)
        return values

    @staticmethod
    def dumps(value: Any) -> bytes:
        """Write one JSON text as compact UTF-8.

        Raises:
            LocalProtocolError: a part of the value is not JSON; the message names its path.
        """
        try:
            text = _encode(value)
        except (TypeError, ValueError, RecursionError):
            text = _write_slowly(value)
        body = _utf8(text)
        if _may_nest_too_deep(body) and _nests_too_deep(value):
            _write_slowly(value)
        if (
            len(body) > MAX_DIGITS
            and sys.get_int_max_str_digits() != MAX_DIGITS
            and _has_run_of_digits(body, MAX_DIGITS + 1)
        ):
            _write_slowly(value)
        return body


class _Orjson(_Stdlib):
    """orjson for input on which it agrees with the reference; otherwise the reference."""

    # An integer of 19 digits or more may exceed 64 bits; orjson would read it as a float.
    _LONG_INTEGER = 19

    @staticmethod
    def loads(data: bytes | bytearray | str, *, duplicate_keys: DuplicateKeys = "last") -> Any:
        if isinstance(data, str):
            data = _utf8(data)
        is_short = len(data) <= _SHORT
        if not is_short and holds_too_many_values(data):
            raise _too_many()
        if duplicate_keys == "refuse" or _has_run_of_digits(data, _Orjson._LONG_INTEGER):
            return _Stdlib.loads(data, duplicate_keys=duplicate_keys)
        try:
            value = orjson.loads(data)
        except ValueError:
            return _Stdlib.loads(data)
        if not is_short and _may_nest_too_deep(data) and _nests_too_deep(value):
            raise _too_deep()
        return value

    @classmethod
    def loads_each(
        cls, texts: Sequence[bytes], *, duplicate_keys: DuplicateKeys = "last"
    ) -> list[Any]:
        """Read several texts; the checks of short ones are made once for all."""
        if (
            duplicate_keys == "last"
            and max(map(len, texts), default=0) <= _SHORT
            and not _has_run_of_digits(b" ".join(texts), cls._LONG_INTEGER)
        ):
            with contextlib.suppress(ValueError):
                return list(map(orjson.loads, texts))
        return super().loads_each(texts, duplicate_keys=duplicate_keys)

    @staticmethod
    def dumps(value: Any) -> bytes:
        try:
            body = orjson.dumps(value, option=_OPTIONS)
        except TypeError:
            return _Stdlib.dumps(value)
        if b"null" in body and _may_be_non_finite(value):
            return _Stdlib.dumps(value)
        if len(body) > _SHORT and _may_nest_too_deep(body) and _nests_too_deep(value):
            _write_slowly(value)
        return body


def _may_be_non_finite(value: Any) -> bool:
    """Return True if the value may contain a float that orjson wrote as null.

    A value of any other type, such as an enum member, may contain one.
    """
    parts = [value]
    for part in parts:  # the loop appends to `parts`
        kind = type(part)
        if kind is dict:
            parts += part.values()
        elif kind is list or kind is tuple:
            parts += part
        elif kind is float:
            if not math.isfinite(part):
                return True
        elif kind not in _SCALARS:
            return True
    return False


if orjson is None:
    _Engine: type[_Stdlib] = _Stdlib
else:
    _OPTIONS: Final = (
        orjson.OPT_PASSTHROUGH_SUBCLASS
        | orjson.OPT_PASSTHROUGH_DATACLASS
        | orjson.OPT_PASSTHROUGH_DATETIME
    )
    _Engine = _Orjson

ENGINE: Final[Literal["orjson", "json"]] = "orjson" if _Engine is _Orjson else "json"
loads = _Engine.loads
loads_each = _Engine.loads_each
dumps = _Engine.dumps

"""The two JSON engines: their input and output, and their equality for a caller (W-5)."""

import enum
import inspect
import json as stdlib_json
import math
import re
import sys
import tracemalloc
import uuid
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from eca_protocol import json
from eca_protocol.errors import PARSE_ERROR, InvalidJSON, LocalProtocolError
from tests.lazy import module_of

ENGINES = (json._Stdlib, json._Orjson)
engines = pytest.mark.parametrize("engine", ENGINES, ids=["stdlib", "orjson"])

LONGEST = "7" * 4300
DEEPEST = "[" * 128 + "]" * 128
DEEPEST_AND_WIDE = "[[],{}," + DEEPEST[1:-1] + "]"


class Text(str):
    __slots__ = ()


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


@pytest.fixture(params=[0, 640, 4300, 100_000])
def digit_limit(request: pytest.FixtureRequest) -> Iterator[None]:
    before = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(request.param)
    yield
    sys.set_int_max_str_digits(before)


@pytest.mark.requirement("W-5a")
@engines
@pytest.mark.parametrize(
    ("text", "value"),
    [
        (b" \t\r\n{} \t\r\n", {}),
        (b"-0", 0),
        (b"-0.0", -0.0),
        (b"1E2", 100.0),
        (b"1e-999", 0.0),
        (b"18446744073709551615", 2**64 - 1),
        (b"18446744073709551616", 2**64),
        (b"-9223372036854775809", -(2**63) - 1),
        (b"[1234567890123456789.5]", [1234567890123456789.5]),
        (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b'"\\ud83d"', "\ufffd"),
        (b'"\\uDE00\\uD83D."', "\ufffd\ufffd."),
        (b'"\\\\ud83d"', "\\ud83d"),
        (b'{"\\ud83d": ["\\ude00"]}', {"\ufffd": ["\ufffd"]}),
        (b'{"\\ud83d": 1, "\\ude00": 2}', {"\ufffd": 2}),
        (b'{"a": 1, "b": 2, "a": 3}', {"a": 3, "b": 2}),
        ('"\u2028\x7f\u00e9"'.encode(), "\u2028\x7f\u00e9"),
        (b'"\\u0000"', "\x00"),
        (DEEPEST.encode(), stdlib_json.loads(DEEPEST)),
        (DEEPEST_AND_WIDE.encode(), stdlib_json.loads(DEEPEST_AND_WIDE)),
        (bytearray(b"[true, false, null]"), [True, False, None]),
        ("[1]", [1]),
        ('"\ud83d"', "\ufffd"),
    ],
)
def test_what_is_read(engine, text, value):
    assert repr(engine.loads(text)) == repr(value)


@engines
@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (b"", "expected JSON, got its end at position 0"),
        (b"  ", "expected JSON, got its end at position 2"),
        (b"{}{}", "expected JSON, got '{}' at position 2"),
        (b"[1,]", "expected JSON, got"),
        (b"01", "expected JSON, got '1' at position 1"),
        (b"'a'", "expected JSON, got \"'a'\" at position 0"),
        (b'"\n"', "expected JSON, got"),
        (b"{1: 2}", "expected JSON, got"),
        (b"\x0c1", "expected JSON, got"),
        (b"NaN", "expected a finite number, got NaN"),
        (b"[Infinity]", "expected a finite number, got Infinity"),
        (b"-Infinity", "expected a finite number, got -Infinity"),
        (b"1e999", "expected a number within a double's range, got 1e999"),
        (b"-" + b"9" * 400 + b".0", "expected a number within a double's range, got -999"),
        (b"8" * 4301, "expected integers of at most 4300 digits"),
        (b"[-" + b"8" * 5000 + b"]", "expected integers of at most 4300 digits"),
        (b"\xef\xbb\xbf{}", "expected JSON, got '\\ufeff{}' at position 0"),
        ("\ufeff{}", "expected JSON, got '\\ufeff{}' at position 0"),
        ("{}".encode("utf-16"), "expected UTF-8, got byte 0xff at position 0"),
        ("{}".encode("utf-16-le"), "expected JSON, got"),
        ('["é'.encode() + b"\xff", "expected UTF-8, got byte 0xff at position 3"),
        (b'"\xed\xa0\xbd"', "expected UTF-8, got byte 0xed at position 1"),
        (b"[" + DEEPEST.encode() + b"]", "expected at most 128 levels of nesting"),
        (b'{"a":' * 129 + b"1" + b"}" * 129, "expected at most 128 levels of nesting"),
        (b"[" * 1100 + b"]" * 1100, "expected at most 128 levels of nesting"),
        (b"[" * 100_000, "expected at most 128 levels of nesting"),
    ],
)
def test_what_is_refused(engine, text, complaint):
    with pytest.raises(InvalidJSON) as caught:
        engine.loads(text)
    assert str(caught.value).startswith(complaint)
    assert caught.value.code == PARSE_ERROR
    assert not caught.value.fatal


@pytest.mark.requirement("W-5b")
@engines
@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({"a": [1, 2.5, None, True, "é\u2028"]}, '{"a":[1,2.5,null,true,"é\u2028"]}'),
        ('"\\\x00\x1f\x7f\b\n', '"\\"\\\\\\u0000\\u001f\x7f\\b\\n"'),
        (-(2**70), str(-(2**70))),
        ("\ud83d", '"\ufffd"'),
        ({"\ud83d": "\ude00."}, '{"\ufffd":"\ufffd."}'),
        ((1, (2,)), "[1,[2]]"),
        (Text("text"), '"text"'),
        ({Text("key"): Text("text")}, '{"key":"text"}'),
        (OrderedDict(b=1, a=2), '{"b":1,"a":2}'),
        ([Colour.RED, Level.HIGH], '["red",3]'),
        ({Level.HIGH: 1}, '{"3":1}'),
        ({1: 1, False: 1, None: 2, 2.5: 3}, '{"1":1,"false":1,"null":2,"2.5":3}'),
        (uuid.UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
        (stdlib_json.loads(DEEPEST), DEEPEST),
        (stdlib_json.loads(DEEPEST_AND_WIDE), DEEPEST_AND_WIDE),
        ([[]] * 200, str([[]] * 200).replace(" ", "")),
        (int(LONGEST), LONGEST),
    ],
)
def test_what_is_written(engine, value, text):
    assert engine.dumps(value) == text.encode()


CYCLE: list[Any] = []
CYCLE.append(CYCLE)


@pytest.mark.requirement("W-5d")
@engines
@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        (math.nan, "the value: expected a finite number, got nan"),
        ({"a": [None, math.inf]}, "a[1]: expected a finite number, got inf"),
        ({"a": None, "b": -math.inf}, "b: expected a finite number, got -inf"),
        ({math.nan: 1}, "the value: expected a finite number, got nan"),
        ({"params": {"tags": {1}}}, "params.tags: expected a JSON value, got set"),
        ([1, {"a": b"x"}], "[1].a: expected a JSON value, got bytes"),
        (object(), "the value: expected a JSON value, got object"),
        ({"a": {(1, 2): 3}}, "a: expected a string as key, got tuple"),
        ([10**4300], "[0]: expected an integer of at most 4300 digits, got a longer one"),
        ([stdlib_json.loads(DEEPEST)], "[0][0][0][0]: expected at most 128 levels of nesting"),
        (tuple(stdlib_json.loads(DEEPEST) for _ in "ab"), "[0][0][0][0]: expected at most 128"),
        (CYCLE, "[0][0][0][0]: expected at most 128 levels of nesting, got more"),
    ],
)
def test_what_cannot_be_written_is_named_by_its_path(engine, value, complaint):
    with pytest.raises(LocalProtocolError) as caught:
        engine.dumps(value)
    assert str(caught.value).startswith(complaint)


@pytest.mark.requirement("W-5c")
@pytest.mark.usefixtures("digit_limit")
@engines
def test_integers_are_exact_for_any_setting_of_the_interpreter(engine):
    for digits in (1, 18, 19, 20, 600, 601, 640, 641, 4299, 4300):
        value = -(10**digits) // 7 - 10 ** (digits - 1)
        assert engine.loads(engine.dumps([value, 1.5])) == [value, 1.5]
    assert engine.loads(LONGEST) == 7 * (10**4300 - 1) // 9
    with pytest.raises(InvalidJSON, match="at most 4300 digits"):
        engine.loads("1" + LONGEST)
    with pytest.raises(LocalProtocolError, match="at most 4300 digits"):
        engine.dumps({"a": 10**4300})
    assert engine.loads(engine.dumps(["1" * 9000])) == ["1" * 9000]


@engines
def test_an_error_names_the_place_in_characters_and_shows_little_of_the_text(engine):
    with pytest.raises(InvalidJSON) as caught:
        engine.loads(('["ééé" xsecret' + "s" * 1000).encode())
    assert caught.value.position == 7
    assert len(str(caught.value)) < 100


@pytest.mark.requirement("W-5e")
@engines
def test_duplicate_keys_can_be_refused(engine):
    text = '{"a": {"k": 1, "k": 2}}'
    assert engine.loads(text) == {"a": {"k": 2}}
    assert engine.loads('{"a": {"k": 1}, "k": 2}', duplicate_keys="refuse")
    with pytest.raises(InvalidJSON, match="expected distinct keys, got 'k' twice"):
        engine.loads(text, duplicate_keys="refuse")
    with pytest.raises(InvalidJSON, match="distinct keys"):
        engine.loads('{"\\ud800": 1, "\\ud801": 2}', duplicate_keys="refuse")


@pytest.mark.requirement("W-5g")
@engines
@pytest.mark.parametrize("room", [60, 200, 300])
def test_a_caller_deep_in_its_stack_meets_no_recursion_error(engine, room):
    deep = stdlib_json.loads(DEEPEST)
    half_pair = DEEPEST.replace("[]", '["\\ud800"]')
    refused = []
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + room)
    try:
        for act, argument in (
            (engine.loads, DEEPEST),
            (engine.loads, half_pair),
            (engine.dumps, deep),
        ):
            try:
                act(argument)
            except (InvalidJSON, LocalProtocolError):
                refused.append(argument)
    finally:
        sys.setrecursionlimit(before)
    if engine is json._Orjson:
        assert refused in ([], [half_pair])


def test_without_orjson_the_standard_library_does_it(monkeypatch):
    assert json.ENGINE == "orjson"
    assert json.loads is json._Orjson.loads
    monkeypatch.setitem(sys.modules, "orjson", None)
    bare = module_of(Path(json.__file__))
    assert bare.ENGINE == "json"
    assert bare.loads(bare.dumps({"a": 2**64})) == {"a": 2**64}


def outcome(act: Any, given_value: Any) -> str:
    """Return a text of the result or error, in which 1, 1.0 and True differ."""
    try:
        return repr(act(given_value))
    except (InvalidJSON, LocalProtocolError) as fault:
        return f"{type(fault).__name__}: {fault}"


texts = st.text(st.characters(codec=None)) | st.text(st.sampled_from("a\ud83d\ude00é\u2028\\"))
floats = st.floats() | st.sampled_from([-0.0, 1e308, 5e-324, 1e16, 123456789012345680.0])
edges = st.sampled_from([2**63, 2**64 - 1, 2**64, -(2**63), -(2**63) - 1, 10**30])
scalars = st.none() | st.booleans() | st.integers() | edges | floats | texts
json_values = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(texts, inner), max_leaves=15
)
odd_values = st.sampled_from([b"x", {1}, Colour.RED, Level.HIGH, Text("t"), uuid.UUID(int=1), 2j])
python_values = st.recursive(
    scalars | odd_values,
    lambda inner: st.one_of(
        st.lists(inner),
        st.tuples(inner),
        st.dictionaries(texts | st.integers() | st.none() | st.floats(), inner),
        inner.map(lambda value: OrderedDict(key=value)),
    ),
    max_leaves=15,
)
TOKENS = re.split(
    " ",
    r'{ } [ ] , : " 0 -0 1 -1 1.5 1e5 1E+400 . e - 00 true false null NaN -Infinity a é \ \u \n'
    r' \ud83d \ude00 \uD800 \u0000 "\ud83d\ude00" "\ude00" "a" "b" "a":1, \U0001f600'
    r" 18446744073709551616 99999999999999999999.5",
)
tokens = st.lists(
    st.sampled_from(TOKENS) | st.sampled_from(list(" \n\ufeff\x00\x7f\u2028\U0001f600")),
    max_size=12,
).map("".join)


@pytest.mark.requirement("W-5h")
@given(tokens)
@example('{"a":1,"a":1.0}')
@example('"\\ud83d\\ud83d\\ude00"')
def test_both_engines_read_the_same_texts(text):
    stdlib, orjson = (outcome(engine.loads, text.encode()) for engine in ENGINES)
    assert stdlib == orjson


@given(json_values, st.data())
def test_both_engines_read_the_same_broken_texts(value, data):
    text = bytearray(
        stdlib_json.dumps(value, ensure_ascii=data.draw(st.booleans())).encode(errors="replace")
    )
    place = data.draw(st.integers(0, len(text)))
    drop = data.draw(st.integers(0, 3))
    text[place : place + drop] = data.draw(st.binary(max_size=3))
    for keys in ("last", "refuse"):
        stdlib, orjson = (
            outcome(lambda t, e=engine, k=keys: e.loads(t, duplicate_keys=k), bytes(text))
            for engine in ENGINES
        )
        assert stdlib == orjson


@given(st.lists(tokens | st.just("9" * 30) | st.just("[" * 129 + "]" * 129)))
@example(["1", "[2", "2]"])
@example(["9" * 18, "9" * 18])
def test_several_texts_are_read_as_each_of_them_alone(texts):
    bodies = [text.encode() for text in texts]
    for engine in ENGINES:
        for keys in ("last", "refuse"):
            values = engine.loads_each(bodies, duplicate_keys=keys)
            assert len(values) == len(bodies)
            for body, value in zip(bodies, values, strict=True):
                is_refused = isinstance(value, InvalidJSON)
                got = f"InvalidJSON: {value}" if is_refused else repr(value)
                assert got == outcome(
                    lambda t, e=engine, k=keys: e.loads(t, duplicate_keys=k), body
                )


@given(python_values)
def test_both_engines_write_the_same_values(value):
    stdlib, orjson = (
        outcome(lambda v, e=engine: json._Stdlib.loads(e.dumps(v)), value) for engine in ENGINES
    )
    assert stdlib == orjson


@engines
@given(value=json_values)
def test_what_is_written_is_read_back(engine, value):
    try:
        body = engine.dumps(value)
    except LocalProtocolError:
        assume(False)
    body.decode()
    if "\\ud" not in repr(value):
        assert repr(engine.loads(body)) == repr(value)
    assert engine.loads(engine.dumps(engine.loads(body))) == engine.loads(body)


def too_many(engine: Any, text: bytes, **options: Any) -> bool:
    """Read a text; return True if it was refused for the number of its values."""
    got = outcome(lambda value: engine.loads(value, **options), text)
    is_refused = got == "InvalidJSON: expected at most 1,000,000 values, got more"
    assert is_refused or not got.startswith("InvalidJSON")
    return is_refused


@pytest.mark.long(but=2)
@engines
@pytest.mark.parametrize("keys", ["last", "refuse"])
def test_a_text_of_very_many_values_is_refused_before_any_is_built(engine, keys):
    text = b"[" + b"[]," * (16 * 2**20 // 3) + b"1]"
    tracemalloc.start()
    try:
        assert too_many(engine, text, duplicate_keys=keys)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2**20


@pytest.mark.long(but=2)
@engines
@pytest.mark.parametrize(
    ("lead", "item", "end", "marks"),
    [
        (b"[", b"1,", b"1]", 1),
        (b"[", b"[],", b"1]", 2),
        (b"[", b'"\\"[{",', b"1]", 1),
        (b"[", b'"\\\\",', b"1]", 1),
        (b"[", b'{"a,":"{"},', b"1]", 2),
        (b'["' + b",[{" * 10**6 + b'",', b"1 ,\n", b"1]", 1),
    ],
)
def test_the_most_values_are_read_and_one_more_is_refused(engine, lead, item, end, marks):
    room = json.MAX_VALUES - 1 - (lead != b"[")
    assert not too_many(engine, lead + item * (room // marks) + end)
    assert too_many(engine, lead + item * (room // marks + 1) + end)


@engines
def test_a_long_text_of_few_values_is_read_whatever_is_in_its_strings(engine):
    for text in (",[{" * 2**20, '\\"' * 2**20, "," * 2**20 + '",["' * 2**18):
        assert engine.loads(stdlib_json.dumps([text])) == [text]


_LIMIT = 2000


@given(st.lists(st.sampled_from([*TOKENS, "[]", "1,", '",[{"', '"\\\\"', '"\\""']), min_size=1))
def test_the_count_agrees_with_a_scanner_of_the_text(parts):
    text = "".join(parts).encode()
    text *= _LIMIT // len(text) + 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json, "MAX_VALUES", _LIMIT)
        assert json.holds_too_many_values(text) == (scanned_marks(text) > _LIMIT)


def scanned_marks(text: bytes) -> int:
    """Count the commas and opening brackets before the first string without an end."""
    count, place = 0, 0
    while place < len(text):
        byte = text[place : place + 1]
        count += byte in {b",", b"[", b"{"}
        place += 1
        if byte == b'"':
            while text[place : place + 1] not in {b'"', b""}:
                place += 2 if text[place : place + 1] == b"\\" else 1
            if place >= len(text):
                break
            place += 1
    return count

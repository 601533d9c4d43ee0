import contextlib
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.config.jsonc import (
    InvalidText,
    Position,
    Positions,
    duplicate_keys,
    parse,
    plain_json,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=12,
)
comments = st.text(max_size=12).map(lambda text: "/*" + text.replace("*/", "") + "*/") | st.text(
    max_size=12
).map(lambda text: "//" + text.replace("\n", "") + "\n")


@st.composite
def commented(draw: st.DrawFn) -> tuple[object, str]:
    """Draw a value, and its JSON with white space, comments and trailing commas."""
    value = draw(json_values)
    tokens = re.findall(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^{}\[\],:"]+', json.dumps(value))
    for index in range(len(tokens) - 1, 0, -1):
        if (
            tokens[index] in ("}", "]")
            and tokens[index - 1] not in ("{", "[")
            and draw(st.booleans())
        ):
            tokens.insert(index, ",")
    gap = st.just("") | st.sampled_from([" ", "\n", "\r\n"]) | comments
    return value, "".join(draw(gap) + token for token in tokens) + draw(gap)


@given(commented())
def test_comments_white_space_and_trailing_commas_change_no_value_and_no_place(case):
    value, text = case
    assert parse(text) == value
    plain = plain_json(text)
    assert len(plain) == len(text)
    assert all(new in (old, " ") for old, new in zip(text, plain, strict=True))
    assert plain.count("\n") == text.count("\n")
    assert plain_json(plain) == plain


@given(st.text())
def test_any_text_is_read_or_refused(text):
    with contextlib.suppress(InvalidText):
        parse(text)


def test_slashes_inside_strings_are_text_and_a_text_without_json_is_an_empty_object():
    for text in ('{"url": "https://host/*no*/x"}', r'{"a\"//": "/* \\"}', r'["\\", "//", "/*"]'):
        assert parse(text) == json.loads(text)
    for text in ("", " \n", "// only this", "/* and\nthis */"):
        assert parse(text) == {}


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("[ ,]", Position(1, 3)),
        ('{"a": 1,\n, "b": 2}', Position(2, 1)),
        ('{"a": 1', Position(1, 8)),
        ('{"a" 1}', Position(1, 6)),
        ("{'a': 1}", Position(1, 2)),
        ('{\n  "a": tru\n}', Position(2, 8)),
        ('{"a": 1\n "b": 2}', Position(2, 2)),
        ('/* x */ {"a": "b}', Position(1, 15)),
        ('{"a": "b\nc"}', Position(1, 9)),
        ("{}\n/* never\nended", Position(2, 1)),
        ("{} {}", Position(1, 4)),
        ("{}\n# c", Position(2, 1)),
    ],
)
def test_an_error_is_found_by_line_and_column(text, position):
    with pytest.raises(InvalidText) as caught:
        parse(text)
    assert caught.value.position == position
    assert ("begin with `//`" in caught.value.message) is ("#" in text)
    assert ("in double quotes" in caught.value.message) is ("'" in text)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 200 + "1" + "}" * 200, "[NaN]", "1" * 5000]
)
def test_what_is_beyond_the_reader_is_refused(text):
    with pytest.raises(InvalidText):
        parse(text)


@given(commented())
def test_every_key_of_a_text_is_found_where_it_is(case):
    value, text = case
    assert not [*duplicate_keys(text)]
    places = Positions(text)
    lines = text.split("\n")
    for path, child in _paths(value):
        position = places.position(path)
        written = json.dumps(path[-1] if isinstance(path[-1], str) else child)[:1]
        assert lines[position.line - 1][position.column - 1] == written


def test_a_key_written_twice_is_found_where_it_counts_and_a_missing_one_at_its_parent():
    assert Positions('{"a": 1,\n"a": 2}').position(["a"]) == Position(2, 1)
    places = Positions('{\n "a": {"b": []}}')
    assert places.position(["a", "b", 3]) == Position(2, 8)
    assert places.position(["a", "nowhere"]) == Position(2, 2)
    assert places.position(["nowhere"]) is None
    twice = '{"a": {"b": 1, "b": 2, "c": 3}, "d": [{"e": 1, "e": 2}], "a": {"c": 4}}'
    assert [*duplicate_keys(twice)] == [("a", "b"), ("d", 0, "e"), ("a",)]


def _paths(value: object, path: tuple[str | int, ...] = ()) -> Iterator[tuple[Any, object]]:
    members: Iterable[tuple[str | int, object]] = ()
    if isinstance(value, dict):
        members = value.items()
    elif isinstance(value, list):
        members = enumerate(value)
    for step, child in members:
        yield (*path, step), child
        yield from _paths(child, (*path, step))

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.mcp.names import MAX_LENGTH, tool_names

LEGAL = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
PARTS = st.text(max_size=90) | st.from_regex(r"[a-b_.]{1,4}", fullmatch=True)


@pytest.mark.requirement("W-37")
@given(st.lists(st.tuples(PARTS, PARTS), unique=True, max_size=20), st.sets(PARTS, max_size=3))
def test_every_name_is_legal_and_there_once(keys, taken):
    names = tool_names(keys, taken)
    assert list(names) == keys
    assert len(set(names.values())) == len(keys)
    assert taken.isdisjoint(names.values())
    assert all(LEGAL.fullmatch(name) for name in names.values())


@given(st.lists(st.tuples(PARTS, PARTS), unique=True, min_size=1, max_size=9))
def test_a_changed_name_does_not_depend_on_other_tools(keys):
    names = tool_names(keys)
    for key in keys:
        alone = tool_names([key])[key]
        if alone != f"{key[0]}__{key[1]}":
            assert names[key] == alone
        assert tool_names(reversed(keys))[key] == names[key]


@pytest.mark.parametrize(
    ("server", "tool", "holds"),
    [
        ("my server", "read/file", ["my_server", "read_file"]),
        ("s" * 80, "read_file", ["ssss", "read_file"]),
        ("github", "t" * 100, ["github", "tttt"]),
        ("s" * 80, "t" * 80, ["s" * 23, "t" * 30]),
        ("1st", "x", ["1st", "x"]),
        ("-", "é", ["__"]),
    ],
)
def test_an_illegal_name_keeps_its_legal_characters(server, tool, holds):
    (name,) = tool_names([(server, tool)]).values()
    assert len(name) <= MAX_LENGTH
    assert all(part in name for part in holds)
    assert re.search(r"_[0-9a-f]{8}$", name)


def test_two_that_would_have_one_name_get_two_and_a_taken_name_is_not_given():
    names = tool_names([("a", "b__c"), ("a__b", "c"), ("a", "d"), ("a", "e")], {"a__e"})
    assert names["a", "d"] == "a__d"
    assert names["a", "e"] != "a__e"
    assert names["a", "b__c"] != names["a__b", "c"]
    assert all(name.startswith("a__b__c_") for name in list(names.values())[:2])

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eca_server.workspace.gitignore import Rules


def ignored(patterns: str, path: str) -> bool | None:
    return Rules.parse(patterns.encode()).verdict(path.encode())


TABLE = [
    ("node_modules", "node_modules/ a/b/node_modules/", ""),
    ("node_modules/", "", "node_modules"),
    ("/build", "build", "a/build"),
    ("doc/*.txt", "doc/a.txt", "doc/b/a.txt"),
    ("doc/**/*.txt", "doc/a.txt doc/b/c/a.txt", ""),
    ("**/doc", "doc/ a/b/doc/", ""),
    ("doc/**", "doc/a/", "doc/"),
    ("doc/**/", "", "doc/a"),
    ("/**", "a", ""),
    ("***/x", "a/b/x", ""),
    ("a/*", "a/b/", "a/"),
    ("a**/b", "axx/b", ""),
    ("a*b*c", "abc axbxc", "ab/xc"),
    ("*.py[co]", "a.pyc", ""),
    ("*.py[!co]", "a.pyi", "a.pyc"),
    ("[]a]", "]", ""),
    ("[a-c]x", "bx", ""),
    ("[[:digit:]_-]", "7", ""),
    ("[[:nonsense:]]", "", "7"),
    ("[a", "", "[a"),
    ("a\\", "", "a\\"),
    ("\\*", "*", "x"),
    ("\\!x", "!x", ""),
    ("\\#x", "#x", ""),
    ("#x", "", "#x"),
    ("x  ", "x", ""),
    ("x\r\ny\r\n", "x", ""),
    ("\ufeffx", "x", ""),
    ("*\n!*/\n!*.py", "a/b.txt", ""),
    ("!", "", "x"),
    ("/", "", "x"),
    ("", "", "x"),
]
"""Patterns, the paths that they match, and others."""


def test_a_pattern_means_what_it_means_to_git():
    for patterns, matched, others in TABLE:
        assert all(ignored(patterns, path) for path in matched.split()), patterns
        assert all(ignored(patterns, path) is None for path in others.split()), patterns


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("*a" * 60 + "b", "a" * 255),
        ("**/a/" * 40 + "b", "a/" * 1000 + "c"),
        ("**/*a*a*a/" * 20 + "*b", ("a" * 200 + "/") * 20),
        ("?*" * 50 + "b", "a" * 255),
        ("[ab]*" * 50 + "c", "ab" * 120),
    ],
    ids=range(5),
)
def test_no_pattern_makes_the_matching_explode(pattern, path):
    began = time.process_time()
    assert ignored(pattern, path) is None
    assert time.process_time() - began < 2  # backtracking would take years


@settings(max_examples=max(100, settings.default.max_examples))
@given(st.binary(max_size=60))
def test_any_bytes_are_rules(data):
    assert Rules.parse(data).verdict(b"a/b") in {True, False, None}


def test_a_later_pattern_takes_a_path_back_and_only_so_many_are_read():
    for path in ("a/", "a/b.py"):
        assert ignored("*\n!*/\n!*.py", path) is False
    assert ignored("x\\ ", "x ") is True
    huge = "x\n" * 10_000 + "y\n"
    assert (ignored(huge, "x"), ignored(huge, "y")) == (True, None)

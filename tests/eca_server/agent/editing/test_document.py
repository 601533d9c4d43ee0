"""The cursor in a document, and a model's answer as a completion or a replacement."""

import pytest

from eca_server.agent.editing.completing import (
    MOST_BEFORE,
    InvalidPosition,
    extract_completion,
    split_at,
    trim_completion,
)
from eca_server.agent.editing.replacement import Replacement
from eca_server.agent.editing.rewriting import Surroundings, around

TEXT = "def f(a):\n    return \n\nprint(f(1))\n"


@pytest.mark.parametrize(
    ("line", "character", "before", "after"),
    [
        (1, 1, "", TEXT),
        (2, 12, "def f(a):\n    return ", "\n\nprint(f(1))\n"),
        (2, 99, "def f(a):\n    return ", "\n\nprint(f(1))\n"),
        (5, 1, TEXT, ""),
    ],
)
def test_a_document_is_split_at_the_cursor(line, character, before, after):
    for text in (TEXT, TEXT.replace("\n", "\r\n")):
        document = split_at(text, line=line, character=character)
        assert (document.before, document.after) == (before, after)
        assert (document.length, document.rest) == (len(before), len(after))


def test_a_place_that_is_not_there_is_refused_and_of_a_long_document_the_nearest_counts():
    for line, character in ((0, 1), (1, 0), (6, 1), (-1, 1)):
        with pytest.raises(InvalidPosition, match="expected"):
            split_at(TEXT, line=line, character=character)
    document = split_at("x" * 50_000 + "\n" + "y" * 50_000, line=2, character=1)
    assert len(document.before) == MOST_BEFORE
    assert (document.length, document.rest) == (50_001, 50_000)
    assert set(document.after) == {"y"}


AT_RETURN = split_at(TEXT, line=2, character=12)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("a + 1", "a + 1"),
        ("a + 1\n", "a + 1"),
        ("```python\na + 1\n```", "a + 1"),
        ("```\na\n    + 1\n```\n", "a\n    + 1"),
        ("    return a + 1", "a + 1"),
        ("return a + 1", "a + 1"),
        (" \n", ""),
        ("print(f(1))", ""),
        ("a\n" * 90, ("a\n" * 40).rstrip()),
    ],
)
def test_an_answer_is_cut_to_what_belongs_at_the_cursor(answer, expected):
    assert extract_completion(answer, AT_RETURN) == expected


def test_text_behind_the_cursor_is_not_repeated_and_an_opened_bracket_is_closed():
    in_call = split_at("print(f(1))\n", line=1, character=9)
    for answer, expected in {"2, 1))": "2,", "1))": "", "3 + ": "3 +", "len(x)": "len(x)"}.items():
        assert trim_completion(answer, in_call) == expected
    in_pair = split_at("print()\n", line=1, character=7)
    for answer, expected in {"len(x)": "len(x)", "len(x))": "len(x)", "x)": "x"}.items():
        assert trim_completion(answer, in_pair) == expected


CONTENT = "".join(f"{number}\nx\n" for number in range(10))


@pytest.mark.parametrize(
    ("content", "line", "most_lines", "expected"),
    [
        (CONTENT, 6, 4, Surroundings("x\n2\n", "3\nx\n")),
        (CONTENT, 99, 2, Surroundings("0\n", "1\n")),
        ("a\nb\nc\nx\n", 4, 3, Surroundings("a\nb\nc\n", "")),
        ("x\na\nb\n", 1, 2, Surroundings("", "a\nb\n")),
        ("changed since", 1, 9, Surroundings()),
    ],
)
def test_a_selection_is_found_where_it_begins(content, line, most_lines, expected):
    assert around(content, "x\n", line=line, most_lines=most_lines) == expected


WHOLE = "def f():\n    return 1\n"
INNER = "    return 1\n"
CASES = [
    # selected, answered, the text in its place
    (WHOLE, "def g():\n    return 2\n", "def g():\n    return 2\n"),
    (WHOLE, "```python\ndef g():\n    return 2\n```", "def g():\n    return 2\n"),
    (WHOLE, "\n```\ndef g(): ...\n```\n\nThis one is shorter.\n", "def g(): ...\n"),
    (WHOLE, "~~~py\ndef g(): ...\n~~~", "def g(): ...\n"),
    (WHOLE, "````\na\n```\nb\n````", "a\n```\nb\n"),
    (WHOLE, "```python\ndef g(): ...", "def g(): ...\n"),
    (WHOLE, "a = `b`\n``c``\n\n\n", "a = `b`\n``c``\n"),
    (INNER, "return 2", "    return 2\n"),
    (INNER, "    return 2", "    return 2\n"),
    (INNER, "x = 2\nreturn x", "    x = 2\n    return x\n"),
    (INNER, "x = 2\n    return x", "    x = 2\n    return x\n"),
    (INNER, "if x:\n\n    return 2", "    if x:\n\n        return 2\n"),
    ("\tif a:\n\t\tb\n", "if c:\n\td", "\tif c:\n\t\td\n"),
    ("f(a)", "    f(b)\n", "f(b)"),
    ("f(a)", "```\nf(b)\n```\n", "f(b)"),
    ("\n\n  a\n\n", "b", "\n\n  b\n\n"),
    ("a\r\nb\r\n", "c\nd\r\ne", "c\r\nd\r\ne\r\n"),
    ("", "x = 1\n", "x = 1"),
    ("\n", "x = 1", "x = 1\n"),
    ("# A\n```sh\nls\n```\n", "# B\n```sh\npwd\n```\n", "# B\n```sh\npwd\n```\n"),
    ("# A\n```sh\nls\n```\n", "```md\n# B\n```sh\npwd\n```\nZ\n```", "# B\n```sh\npwd\n```\nZ\n"),
    ("```sh\nls\n```\n", "```sh\npwd\n```", "```sh\npwd\n```\n"),
    (WHOLE, "", ""),
    (WHOLE, "```\n```", ""),
    (WHOLE, " \n\n", ""),
]  # fmt: skip


@pytest.mark.parametrize(("selected", "answered", "expected"), CASES)
def test_an_answer_becomes_the_text_of_the_selection(selected, answered, expected):
    for size in (1, 2, 3, 5, 1000):
        replacement = Replacement(selected)
        given_out = [
            replacement.feed(answered[at : at + size]) for at in range(0, len(answered), size)
        ]
        given_out.append(replacement.close())
        assert "".join(given_out) == replacement.text == expected, size


BEFORE, AFTER = "import the_zen\n\ndef f():\n", "\nprint(f(), the_zen)\n"


@pytest.mark.parametrize(
    ("answered", "expected"),
    [
        ("return 2", "    return 2\n"),
        ("Here it is:\n\n```python\nreturn 2\n```\nIt is better.", "    return 2\n"),
        (f"{BEFORE}    return 2\n{AFTER}", "    return 2\n"),
        (f"{BEFORE}    return 2\n", "    return 2\n"),
        (f"    return 2\n{AFTER}\n", "    return 2\n"),
        (f"Here:\n```\n{BEFORE}    return 2\n{AFTER}```", "    return 2\n"),
        ("return 2  # print(f(), the_zen)", "    return 2  # print(f(), the_zen)\n"),
    ],
)
def test_what_is_around_the_new_text_is_reported_at_the_end(answered, expected):
    assert corrected(INNER, answered, BEFORE, AFTER) == expected


def corrected(selected, answered, *around):
    replacement = Replacement(selected)
    replacement.feed(answered)
    replacement.close()
    return replacement.corrected(*around)


def test_common_text_stays_and_a_block_is_not_sought_for_ever():
    before = "x = compute(1)\n"
    assert corrected(f"{before}y\n", f"{before}z", before, "}\n") == f"{before}z\n"
    assert corrected(INNER, "Here:\n" + "```py\n" * 20_000).count("```py") == 20_000

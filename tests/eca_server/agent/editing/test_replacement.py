"""A model's answer becomes the same replacement, however it is split into pieces."""

import pytest

from eca_server.agent.editing.replacement import Replacement

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

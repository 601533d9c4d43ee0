"""Plain English, as far as a program can tell: see `tests/language.py` and CONTRIBUTING.md."""

from pathlib import Path

import pytest

from tests.language import ROOT, checks_of, findings


def test_what_is_not_plain_is_found(tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(
        '"""What it is."""\n'
        "kept = 1  # nobody reads this\n"
        '"""How much there is."""\n'
        "def told(found: int) -> str:\n"
        '    """Return what stands in a file, as `told` says."""\n'
        '    return "It goes on."\n'
        "def test_nobody_is_told() -> None: ...\n",
        encoding="utf-8",
    )
    problems = [
        (each.line, each.text.partition(":")[0])
        for each in findings(module, names=True, texts=True)
    ]
    assert problems == [
        (1, "a docstring begins with 'What'"),
        (3, "a docstring begins with 'How'"),
        (5, "'stands in'"),
        (2, "'nobody'"),
        (6, "'goes on'"),
        (7, "'nobody' in the name of a test"),
        (7, "'told' in the name of a test"),
        (2, "the name 'kept' hides what it holds"),
        (4, "the name 'found' hides what it holds"),
        (4, "the name 'told' hides what it holds"),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "found = 1",
        "def asked(): ...",
        "def load(*, _said): ...",
        "lambda told: told",
        "self.SEEN = 1",
        "[wanted for wanted in range(3)]",
        "async def read():\n    async with open_it() as heard: ...",
        "try: ...\nexcept ValueError as kept: ...",
        "match 1:\n    case int() as given: ...",
        "match 1:\n    case [1, *left]: ...",
        "match 1:\n    case {1: 2, **left}: ...",
        "from names import name as unheard",
    ],
)
def test_a_bare_participle_is_no_name_wherever_it_is_bound(source: str, tmp_path: Path) -> None:
    module = tmp_path / "module.py"
    module.write_text(source, encoding="utf-8")
    [problem] = findings(module, names=True, texts=False)
    assert problem.text.endswith("hides what it holds")
    assert list(findings(module, names=False, texts=False)) == []


@pytest.mark.parametrize(
    "source",
    [
        "left, right = 1, 2",
        "LEFT = 1\nRIGHT = 2",
        "from hypothesis import given",
        "answer.found",
        "read(found=True)",
        "found_paths = 1",
    ],
)
def test_sides_names_of_others_and_longer_names_are_no_bare_participles(
    source: str, tmp_path: Path
) -> None:
    module = tmp_path / "module.py"
    module.write_text(source, encoding="utf-8")
    assert list(findings(module, names=True, texts=True)) == []


@pytest.mark.parametrize(
    ("path", "names", "texts"),
    [
        ("eca_server/models/cost.py", True, True),
        ("eca_protocol/messages/chat.py", False, True),  # its attributes have the wire's names
        ("tests/conftest.py", True, False),
        ("fuzz/runner.py", True, False),
        ("docs/build.py", True, False),
    ],
)
def test_names_are_checked_everywhere_but_where_the_wire_names_things(
    path: str, names: bool, texts: bool
) -> None:
    assert checks_of(ROOT / path) == {"names": names, "texts": texts}

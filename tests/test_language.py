"""Plain English, as far as a program can tell: see `tests/language.py` and CONTRIBUTING.md."""

from pathlib import Path

from tests.language import findings


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

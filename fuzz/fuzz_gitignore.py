"""The verdict of a file of rules on a path is that of its last matching line."""

from __future__ import annotations

from runner import instrumented, main

with instrumented():
    from eca_server.workspace.gitignore import Rules

BOM = b"\xef\xbb\xbf"


def check(data: bytes) -> None:
    """Check `data`: a path in the first line, then rules."""
    path, _, text = data.partition(b"\n")
    lines = text.removeprefix(BOM).split(b"\n")
    rules = Rules.parse(text)
    alone = [verdict(line, path) for line in lines]
    verdicts = [each for each in alone if each is not None]
    assert rules.verdict(path) == (verdicts[-1] if verdicts else None)
    for line, expected in zip(lines, alone, strict=True):
        if not line.endswith(b"\r"):
            assert verdict(line + b"\r", path) == expected
        if not line.startswith((b"!", b"#", b"\\", b" ")):
            assert expected is not False
            assert verdict(b"!" + line, path) == (None if expected is None else False)
    if path and not set(path) & set(b"/\\*?[]!#\r ") and len(path) <= 4096:
        assert verdict(path, path) is verdict(path + b"/", path + b"/") is True


def verdict(line: bytes, path: bytes) -> bool | None:
    """Return the verdict of a single line."""
    return Rules.parse(b"\n" + line).verdict(path)


if __name__ == "__main__":
    main("gitignore", check)

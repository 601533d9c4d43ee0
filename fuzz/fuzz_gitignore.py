"""What a file of rules says of a path is what its last line that speaks of it says alone."""

from __future__ import annotations

from runner import instrumented, main

with instrumented():
    from eca_server.workspace.gitignore import Rules

BOM = b"\xef\xbb\xbf"


def check(data: bytes) -> None:
    """`data` is a path in its first line, and rules."""
    path, _, text = data.partition(b"\n")
    lines = text.removeprefix(BOM).split(b"\n")
    rules = Rules.parse(text)
    alone = [verdict(line, path) for line in lines]
    said = [each for each in alone if each is not None]
    assert rules.verdict(path) == (said[-1] if said else None)
    for line, told in zip(lines, alone, strict=True):
        if not line.endswith(b"\r"):
            assert verdict(line + b"\r", path) == told
        if not line.startswith((b"!", b"#", b"\\", b" ")):
            assert told is not False
            assert verdict(b"!" + line, path) == (None if told is None else False)
    if path and not set(path) & set(b"/\\*?[]!#\r ") and len(path) <= 4096:
        assert verdict(path, path) is verdict(path + b"/", path + b"/") is True


def verdict(line: bytes, path: bytes) -> bool | None:
    """What a line says, wherever it stands."""
    return Rules.parse(b"\n" + line).verdict(path)


if __name__ == "__main__":
    main("gitignore", check)

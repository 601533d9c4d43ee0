"""An edit changes its passage and no byte beside it, or is refused; a file decoded encodes back."""

from __future__ import annotations

import contextlib

from runner import instrumented, main

with instrumented():
    from eca_server.tools.diff import split_lines
    from eca_server.tools.editing import EditResult, edit, with_newline
    from eca_server.tools.tool import ToolError
    from eca_server.workspace import NotText, Text, decode

SEPARATOR = b"\x00\xff"


def check(data: bytes) -> None:
    """`data` is a file, the passage and what is to stand there; a `*` in front: everywhere."""
    with contextlib.suppress(NotText):
        assert decode(data).encode() == data
    is_everywhere = data.startswith(b"*")
    file, original, new = ([*data.removeprefix(b"*").split(SEPARATOR), b"", b""])[:3]
    try:
        content = decode(file)
        passage, replacement = original.decode(), new.decode()
    except (NotText, UnicodeDecodeError):
        return
    assert content.encode() == file
    wanted = with_newline(passage, content.newline)
    try:
        edited = edit(content, passage, replacement, all_occurrences=is_everywhere)
    except ToolError as fault:
        found = content.text.count(wanted) if wanted else 0
        assert (
            not found
            or (found > 1 and not is_everywhere)
            or overlaps(content, wanted)
            or (wanted == with_newline(replacement, content.newline))
        ), fault
        return
    if edited.exact:
        assert edited.text == content.text.replace(
            wanted, with_newline(replacement, content.newline)
        )
        assert edited.count == content.text.count(wanted)
        assert is_everywhere or (edited.count == 1 and not overlaps(content, wanted))
    else:
        assert wanted not in content.text
        assert edited.count == 1 or is_everywhere
        if edited.count == 1:
            assert is_beside_the_same(content, wanted, edited)


def overlaps(content: Text, wanted: str) -> bool:
    first = content.text.find(wanted)
    return content.text.find(wanted, first + 1) >= 0


def is_beside_the_same(content: Text, wanted: str, edited: EditResult) -> bool:
    """Whether lines that are the passage's but for blanks were replaced, and nothing else."""
    lines = split_lines(content.text)
    passage = wanted.removesuffix(content.newline).split(content.newline)
    for start in range(len(lines) - len(passage) + 1):
        end = start + len(passage)
        if [line.strip() for line in lines[start:end]] == [line.strip() for line in passage]:
            head, tail = "".join(lines[:start]), "".join(lines[end:])
            if edited.text.startswith(head) and edited.text[len(head) :].endswith(tail):
                return True
    return False


if __name__ == "__main__":
    main("edit", check)

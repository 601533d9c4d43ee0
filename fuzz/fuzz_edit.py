"""An edit changes only its passage, or is refused; a decoded file encodes to the same bytes."""

from __future__ import annotations

import contextlib

from runner import instrumented, main

with instrumented():
    from eca_server.agent.tools.diff import split_lines
    from eca_server.agent.tools.editing import EditResult, edit, with_newline
    from eca_server.agent.tools.tool import ToolError
    from eca_server.workspace.errors import NotText
    from eca_server.workspace.reading import Text, decode

SEPARATOR = b"\x00\xff"


def check(data: bytes) -> None:
    """Check `data`: a file, a passage and its replacement; a `*` in front: all occurrences."""
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
    searched = with_newline(passage, content.newline)
    try:
        edited = edit(content, passage, replacement, all_occurrences=is_everywhere)
    except ToolError as fault:
        count = content.text.count(searched) if searched else 0
        assert (
            not count
            or (count > 1 and not is_everywhere)
            or overlaps(content, searched)
            or (searched == with_newline(replacement, content.newline))
        ), fault
        return
    if edited.exact:
        assert edited.text == content.text.replace(
            searched, with_newline(replacement, content.newline)
        )
        assert edited.count == content.text.count(searched)
        assert is_everywhere or (edited.count == 1 and not overlaps(content, searched))
    else:
        assert searched not in content.text
        assert edited.count == 1 or is_everywhere
        if edited.count == 1:
            assert is_beside_the_same(content, searched, edited)


def overlaps(content: Text, searched: str) -> bool:
    first = content.text.find(searched)
    return content.text.find(searched, first + 1) >= 0


def is_beside_the_same(content: Text, searched: str, edited: EditResult) -> bool:
    """Return True if only lines were replaced that equal the passage except for blanks."""
    lines = split_lines(content.text)
    passage = searched.removesuffix(content.newline).split(content.newline)
    for start in range(len(lines) - len(passage) + 1):
        end = start + len(passage)
        if [line.strip() for line in lines[start:end]] == [line.strip() for line in passage]:
            head, tail = "".join(lines[:start]), "".join(lines[end:])
            if edited.text.startswith(head) and edited.text[len(head) :].endswith(tail):
                return True
    return False


if __name__ == "__main__":
    main("edit", check)

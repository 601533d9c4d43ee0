"""Diffs of whole changes (W-35), and caps on outputs that report the omitted bytes (W-38)."""

import random
import re
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.tools.diff import file_change, split_lines
from eca_server.agent.tools.output import Cap, OutputBuffer, cut_end, cut_mark, cut_middle

LARGE = Cap(lines=10**9, size=10**9)
HUNK = re.compile(r"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")

lines = st.sampled_from(["a\n", "b\n", "c\n", "unique 1\n", "unique 2\n", "unique 3\n", "\n"])
texts = st.builds(
    lambda body, end: "".join(body) + end, st.lists(lines, max_size=14), st.sampled_from(["", "x"])
)


def diff(before: str, after: str, *, cap: Cap = LARGE) -> str:
    return file_change("f", before, after, cap=cap).diff


def applied(patch: str, before: str) -> str:
    """Return a text after a patch, which is parsed strictly."""
    old, new = split_lines(before), list[str]()
    at = 0
    body = patch.split("\n") if patch else []
    while body:
        head = HUNK.fullmatch(body.pop(0))
        assert head
        old_size, new_size = (1 if head[n] is None else int(head[n]) for n in (2, 4))
        start = int(head[1]) - (old_size > 0)
        new += old[at:start]
        at = start
        assert int(head[3]) == len(new) + (new_size > 0)
        while old_size or new_size:
            line = body.pop(0)
            bare = bool(body) and body[0].startswith("\\")
            text = line[1:] + "\n" * (not bare)
            if line[0] in " -":
                assert old[at] == text
                at += 1
                old_size -= 1
            if line[0] in " +":
                new.append(text)
                new_size -= 1
            if bare:
                body.pop(0)
    return "".join(new + old[at:])


@given(texts, texts)
def test_a_diff_applied_gives_the_new_text_and_counts_its_lines(before: str, after: str) -> None:
    change = file_change("f", before, after, cap=LARGE)
    assert applied(change.diff, before) == after
    marks = [line[0] for line in change.diff.split("\n") if line]
    assert (change.lines_added, change.lines_removed) == (marks.count("+"), marks.count("-"))
    assert diff(before, before) == ""


def test_a_hunk_has_three_lines_of_context_and_no_file_names() -> None:
    before = "".join(f"{n}\n" for n in range(1, 41))
    assert diff(before, before.replace("10\n", "ten\n")) == (
        "@@ -7,7 +7,7 @@\n 7\n 8\n 9\n-10\n+ten\n 11\n 12\n 13"
    )
    for other, hunks in (("17\n", 1), ("18\n", 2)):
        after = before.replace("10\n", "ten\n").replace(other, "other\n")
        assert diff(before, after).count("@@ -") == hunks
    assert diff("a\n", "a") == "@@ -1 +1 @@\n-a\n+a\n\\ No newline at end of file"
    assert "\r" not in diff("a\r\nb\r\n", "a\r\nc\rd\r\n")


def test_small_changes_of_a_huge_file_are_small_and_costly_ones_are_reported_whole() -> None:
    before = [f"line {n}\n" for n in range(10_000)]
    after = ["new\n", *before[1:5_000], "middle\n", *before[5_000:-1], "last\n"]
    change = file_change("f", "".join(before), "".join(after), cap=LARGE)
    assert (change.lines_added, change.lines_removed) == (3, 2)
    assert len(change.diff) < 500
    choose = random.Random(1).choice
    one, other = ("".join(choose("ab") + "\n" for _ in range(2_000)) for _ in range(2))
    assert applied(diff(one, other), one) == other


def test_a_long_diff_is_cut_and_its_counts_are_not() -> None:
    change = file_change("f", "", "some line\n" * 9_000, cap=Cap(lines=2_000, size=1_000))
    *lines, mark = change.diff.split("\n")
    assert change.lines_added == 9_000
    assert len("\n".join(lines)) <= 1_000
    assert re.match(r"\.\.\. cut, \d+ bytes left out \.\.\.", mark)


def test_a_stop_is_noticed_between_pieces() -> None:
    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        file_change("f", "a\nb\n", "b\na\n", cap=LARGE, checkpoint=stop)


MARK = re.compile(r"\.\.\. cut, (\d+) bytes left out \.\.\.")

written = st.text(st.sampled_from("ab\n\né€😀"), max_size=80)
caps = st.builds(Cap, lines=st.integers(1, 12), size=st.integers(4, 60))


def buffered(data: bytes, cap: Cap, *, piece: int = 7) -> OutputBuffer:
    buffer = OutputBuffer(cap)
    for start in range(0, len(data), piece):
        buffer.write(data[start : start + piece])
    return buffer


def fits(text: str, cap: Cap) -> bool:
    return len(text.encode()) <= cap.size and len(text.splitlines()) <= cap.lines


def cuts(text: str, cap: Cap) -> tuple[str, str, str]:
    return cut_end(text, cap), cut_middle(text, cap), buffered(text.encode(), cap).text()


@given(written, caps)
def test_what_fits_stays_as_it_is_and_the_mark_counts_every_byte_that_is_missing(text, cap):
    for cut in cuts(text, cap):
        assert (cut == text) is fits(text, cap)
        mark = MARK.search(cut)
        if mark is None:
            continue
        tail = cut[mark.end() + 1 :]
        assert text.endswith(tail)
        before = cut[: mark.start()]  # with a line's end of its own, if the text had none there
        assert any(
            text.startswith(head)
            and fits(head + tail, cap)
            and len((head + tail).encode()) + int(mark[1]) == len(text.encode())
            for head in (before, before.removesuffix("\n"))
        )


@given(st.binary(max_size=200) | written.map(str.encode), caps, caps, st.integers(1, 90))
def test_a_buffer_keeps_the_same_however_its_bytes_come(data, cap, smaller, piece):
    buffer = buffered(data, cap, piece=piece)
    text = data.decode(errors="replace")
    assert text.encode() != data or buffer.text() == cut_middle(text, cap)
    smaller = Cap(lines=min(cap.lines, smaller.lines), size=min(cap.size, smaller.size))
    assert buffer.text(smaller) == buffered(data, smaller).text()


def test_a_cut_falls_on_the_ends_of_lines_or_between_characters() -> None:
    text = "".join(f"line {number}\n" for number in range(100))
    marks = [f"... cut, {size} bytes left out ..." for size in (762, 760, 768, 24)]
    assert cut_end(text, Cap(size=30)) == f"line 0\nline 1\nline 2\nline 3\n{marks[0]}"
    middle = f"line 0\nline 1\n{marks[1]}\nline 98\nline 99\n"
    assert cut_middle(text, Cap(size=40)) == middle
    assert cut_middle(text, Cap(lines=3)) == f"line 0\nline 1\n{marks[2]}\nline 99\n"
    assert cut_end("€" * 10, Cap(size=8)) == f"€€\n{marks[3]}"
    assert cut_middle("€" * 10, Cap(size=8)) == f"€\n{marks[3]}\n€"
    assert cut_mark(5, "go on at line 3") == "... cut, 5 bytes left out ... (go on at line 3)"
    assert cut_end("a\nb\nc\n", Cap(lines=2), hint="more").endswith("left out ... (more)")


def test_half_a_surrogate_pair_survives_and_bytes_that_are_no_text_are_replaced() -> None:
    text = "\ud800" * 6
    assert cut_end(text, Cap(size=9)).startswith("\ud800" * 3 + "\n...")
    assert cut_middle(text, Cap(size=6)).endswith("\n\ud800")
    assert buffered(b"caf\xe9 \xff\n", Cap()).text() == "caf\ufffd \ufffd\n"
    assert buffered(b"\x80" * 100, Cap(size=10)).text().count("\ufffd") == 10


def test_a_flood_is_buffered_in_bounded_memory() -> None:
    buffer = OutputBuffer(Cap(lines=100, size=1000))
    buffer.write(b"first\n")
    for _ in range(100):
        buffer.write(b"x" * 9_999 + b"\n")
    buffer.write(b"last\n")
    buffers = [value for value in vars(buffer).values() if isinstance(value, bytearray)]
    assert sum(sys.getsizeof(value) for value in buffers) < 10_000
    assert buffer.size == 1_000_011
    assert buffer.lines == 102
    assert buffer.text().startswith("first\n")
    assert buffer.text().endswith("x\nlast\n")
    buffer = buffered(b"x" * 9_999, Cap(lines=100, size=0))
    assert not any(value for value in vars(buffer).values() if isinstance(value, bytearray))
    assert buffer.text().strip() == cut_mark(9_999)

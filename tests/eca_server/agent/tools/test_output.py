"""Caps on outputs: the stored part is limited, and the omitted bytes are reported (W-38)."""

from __future__ import annotations

import re
import sys

from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.tools.output import Cap, OutputBuffer, cut_end, cut_mark, cut_middle

MARK = re.compile(r"\.\.\. cut, (\d+) bytes left out \.\.\.")

texts = st.text(st.sampled_from("ab\n\né€😀"), max_size=80)
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


@given(texts, caps)
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


@given(texts, caps, st.integers(1, 90))
def test_a_buffer_keeps_the_same_however_its_bytes_come(text, cap, piece):
    assert buffered(text.encode(), cap, piece=piece).text() == cut_middle(text, cap)


@given(st.binary(max_size=200), caps, caps)
def test_a_buffer_can_be_read_within_a_smaller_cap(data: bytes, cap: Cap, smaller: Cap) -> None:
    smaller = Cap(lines=min(cap.lines, smaller.lines), size=min(cap.size, smaller.size))
    read = buffered(data, cap).text(smaller)
    assert read == buffered(data, smaller).text()


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


def test_half_a_surrogate_pair_survives() -> None:
    text = "\ud800" * 6
    assert cut_end(text, Cap(size=9)).startswith("\ud800" * 3 + "\n...")
    assert cut_middle(text, Cap(size=6)).endswith("\n\ud800")


def test_bytes_that_are_no_text_are_shown_as_replaced() -> None:
    buffer = buffered(b"caf\xe9 \xff\n", Cap())
    assert buffer.text() == "caf\ufffd \ufffd\n"
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

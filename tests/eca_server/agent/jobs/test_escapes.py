"""Escape sequences of terminals do not reach an editor or a model."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.jobs.escapes import EscapeFilter

SEQUENCES = [
    b"\x1b[31;1m",
    b"\x1b[0m",
    b"\x1b[2K",
    b"\x1b[?25l",
    b"\x1b]0;title\x07",
    b"\x1b]8;;https://e.test\x1b\\",
    b"\x1bP1$r\x1b\\",
    b"\x1b(B",
    b"\x1b=",
    b"\x1b7",
]


def filtered(*pieces: bytes) -> bytes:
    escapes = EscapeFilter()
    return b"".join(escapes.feed(each) for each in pieces)


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_a_sequence_is_removed_and_the_text_around_it_stays(sequence: bytes) -> None:
    assert filtered(b"[1] a" + sequence + b"b\n") == b"[1] ab\n"


@given(
    st.lists(st.sampled_from([*SEQUENCES, b"text", b"\n", b"[0m", b"m", "é".encode(), b"\x1b"])),
    st.lists(st.integers(0, 200)),
)
def test_the_text_does_not_depend_on_the_chunks(parts: list[bytes], cuts: list[int]) -> None:
    data = b"".join(parts)
    places = sorted({0, len(data), *(each for each in cuts if each < len(data))})
    pieces = [data[start:end] for start, end in itertools.pairwise(places)]
    assert filtered(*pieces) == filtered(data)
    assert b"\x1b" not in filtered(data)


def test_an_incomplete_sequence_removes_no_more_than_its_line_or_the_limit() -> None:
    assert filtered(b"a\x1b]0;never ended\nnext\n") == b"a\nnext\n"
    flood = filtered(b"\x1b]0;", *[b"x" * 1000] * 100)
    assert 90_000 < len(flood) < 100_000

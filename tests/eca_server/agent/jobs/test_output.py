"""The stored output of a job: bounded, in order, counted, without escape sequences."""

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eca_server.agent.jobs import output as output_module
from eca_server.agent.jobs.output import MAX_LINE_BYTES, MAX_LINES, JobOutput, Page, Stream
from eca_server.agent.jobs.shell import EscapeFilter

STREAMS: list[Stream] = ["stdout", "stderr"]
PIECES = st.lists(
    st.tuples(
        st.sampled_from(STREAMS),
        st.one_of(
            st.binary(max_size=8),
            st.sampled_from([b"\n", b"a\nb", b"x" * 19, b"y\n" * 14, "é".encode() * 33 + b"\n"]),
        ),
        st.booleans(),
    ),
    max_size=12,
)


@settings(max_examples=100)
@given(PIECES)
def test_read_and_missed_bytes_are_all_that_was_written(pieces):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"MAX_LINES": 10, "MAX_BYTES": 100, "MAX_LINE_BYTES": 20}.items():
            patch.setattr(output_module, name, value)
        output = JobOutput()
        offset = 0
        for stream, data, reads in pieces:
            output.write(stream, data)
            stored = output.last(99)
            assert len(stored) <= 10 + 2
            assert sum(len(line.data) for line in stored) <= 100 + 2 * 20
            if reads:
                page = output.page(offset, lines=3, size=30)
                assert counted(page) == page.end - offset
                offset = page.end
        output.finish()
        rest = output.page(offset, lines=99, size=999)
        assert rest.is_last
        assert counted(rest) == rest.end - offset
        assert rest.end == sum(len(data) for _, data, _ in pieces)


def counted(page: Page) -> int:
    return page.missed_bytes + sum(line.end - line.offset for line in page.lines)


def test_lines_of_both_streams_are_in_the_order_in_which_they_ended():
    output = JobOutput()
    output.write("stdout", b"be")
    output.write("stderr", b"oops\r\n")
    output.write("stdout", b"gun\nmore")
    shown = [(line.stream, line.text) for line in output.last(9)]
    assert shown == [("stderr", "oops"), ("stdout", "begun"), ("stdout", "more")]
    assert [line.text for line in output.page(0, lines=9, size=99).lines] == ["oops", "begun"]
    output.finish()
    assert output.page(12, lines=9, size=99).lines[0].text == "more"


def test_a_character_is_not_split_and_invalid_bytes_are_shown():
    output = JobOutput()
    output.write("stdout", b"x" + "é".encode() * MAX_LINE_BYTES + b"\n\xff\n")
    texts = [line.text for line in output.last(9)]
    assert "".join(texts) == "x" + "é" * MAX_LINE_BYTES + "\ufffd"


@pytest.mark.parametrize("data", [b"y\n" * 32_768, b"y" * 65_536])
def test_a_flood_costs_little_time(data):
    output = JobOutput()
    begun = time.process_time()
    for _ in range(20):
        output.write("stdout", data)
    assert time.process_time() - begun < 1
    assert len(output.last(10**9)) <= MAX_LINES + 1


SEQUENCES = [
    *(b"\x1b[31;1m", b"\x1b[0m", b"\x1b[2K", b"\x1b[?25l", b"\x1b]0;title\x07"),
    *(b"\x1b]8;;https://e.test\x1b\\", b"\x1bP1$r\x1b\\", b"\x1b(B", b"\x1b=", b"\x1b7"),
]


def filtered(*pieces: bytes) -> bytes:
    escapes = EscapeFilter()
    return b"".join(escapes.feed(each) for each in pieces)


@given(
    st.lists(st.sampled_from([*SEQUENCES, b"text", b"\n", b"[0m", b"m", "é".encode(), b"\x1b"])),
    st.lists(st.integers(0, 200)),
)
def test_the_text_does_not_depend_on_the_chunks(parts, cuts):
    data = b"".join(parts)
    places = sorted({0, len(data), *(each for each in cuts if each < len(data))})
    pieces = [data[start:end] for start, end in itertools.pairwise(places)]
    assert filtered(*pieces) == filtered(data)
    assert b"\x1b" not in filtered(data)


def test_a_sequence_is_removed_and_an_incomplete_one_takes_no_more_than_its_line():
    for sequence in SEQUENCES:
        assert filtered(b"[1] a" + sequence + b"b\n") == b"[1] ab\n"
    assert filtered(b"a\x1b]0;never ended\nnext\n") == b"a\nnext\n"
    flood = filtered(b"\x1b]0;", *[b"x" * 1000] * 100)
    assert 90_000 < len(flood) < 100_000

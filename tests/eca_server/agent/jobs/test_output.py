"""The stored output of a job: bounded, in order, with the number of missing bytes."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eca_server.agent.jobs import output as output_module
from eca_server.agent.jobs.output import MAX_LINE_BYTES, MAX_LINES, JobOutput, Page, Stream

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

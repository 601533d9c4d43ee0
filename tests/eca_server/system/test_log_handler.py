"""The log handler for stderr, which never blocks."""

import io
import logging
import os
from collections.abc import Iterator

import pytest

from eca_server.system.log_handler import log_handler
from tests.promises import within


@pytest.fixture
def pipe() -> Iterator[tuple[int, io.TextIOWrapper]]:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        yield reader, stream
        os.close(reader)


def entry(text: str) -> logging.LogRecord:
    return logging.LogRecord("x", logging.ERROR, "", 0, text, None, None)


def test_entries_come_whole_and_at_once_and_do_nothing_to_a_terminal(pipe):
    reader, stream = pipe
    texts = ("a\n\tand", "\N{SNOWMAN} \ud800", "\x1b]0;title\x07\r\u202e", "b" * 20_000)
    written = ("a\n\tand", "\N{SNOWMAN} \\ud800", "\\x1b]0;title\\x07\\r\\u202e", "b" * 20_000)
    for text in texts:
        log_handler(stream).handle(entry(text))
    assert os.read(reader, 2**20).decode() == "".join(f"{line}\n" for line in written)
    without_descriptor = io.StringIO()
    log_handler(without_descriptor).handle(entry("heard\x1b[2J"))
    assert without_descriptor.getvalue() == "heard\\x1b[2J\n"


@pytest.mark.long
def test_what_exceeds_the_limit_is_dropped_and_counted(pipe: tuple[int, io.TextIOWrapper]) -> None:
    reader, stream = pipe
    handler = log_handler(stream)
    with within(8):  # 10 s if each waited
        for _ in range(50):
            handler.handle(entry("x" * 70_000))
    os.read(reader, 2**20)
    for text in ("again", "and again"):
        handler.handle(entry(text))
    output = os.read(reader, 2**20).decode()
    note = "... 50 log entries were dropped: stderr was not read ..."
    assert output == f"\n{note}\nagain\nand again\n"


def test_a_closed_other_end_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        log_handler(stream).handle(entry("unheard"))

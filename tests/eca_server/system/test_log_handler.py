"""The log handler for stderr, which never blocks."""

from __future__ import annotations

import io
import logging
import os
import time
from collections.abc import Iterator

import pytest

from eca_server.system.log_handler import log_handler


@pytest.fixture
def pipe() -> Iterator[tuple[int, io.TextIOWrapper]]:
    reader, writer = os.pipe()
    with os.fdopen(writer, "w") as stream:
        yield reader, stream
        os.close(reader)


def entry(text: str) -> logging.LogRecord:
    return logging.LogRecord("x", logging.ERROR, "", 0, text, None, None)


def test_entries_come_whole_and_at_once(pipe: tuple[int, io.TextIOWrapper]) -> None:
    reader, stream = pipe
    handler = log_handler(stream)
    for text in ("a", "\N{SNOWMAN} \ud800", "b" * 20_000):
        handler.handle(entry(text))
    expected = "a\n\N{SNOWMAN} \\ud800\n" + "b" * 20_000 + "\n"
    assert os.read(reader, 2**20).decode() == expected


def test_what_exceeds_the_limit_is_dropped_and_counted(pipe: tuple[int, io.TextIOWrapper]) -> None:
    reader, stream = pipe
    handler = log_handler(stream)
    begun = time.monotonic()
    for _ in range(50):
        handler.handle(entry("x" * 100_000))
    assert time.monotonic() - begun < 3
    os.read(reader, 2**20)
    for text in ("again", "and again"):
        handler.handle(entry(text))
    output = os.read(reader, 2**20).decode()
    assert (
        output == "\n... 50 log entries were dropped: stderr was not read ...\nagain\nand again\n"
    )


def test_a_closed_other_end_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        log_handler(stream).handle(entry("unheard"))


def test_a_stream_without_a_descriptor_is_written_to() -> None:
    stream = io.StringIO()
    log_handler(stream).handle(entry("heard\x1b[2J"))
    assert stream.getvalue() == "heard\\x1b[2J\n"


def test_an_entry_does_nothing_to_a_terminal(pipe: tuple[int, io.TextIOWrapper]) -> None:
    reader, stream = pipe
    log_handler(stream).handle(entry("a server said: \x1b]0;title\x07\r\u202e\n\tand more"))
    output = os.read(reader, 2**20).decode()
    assert output == "a server said: \\x1b]0;title\\x07\\r\\u202e\n\tand more\n"

"""The log of a server's other output: its last lines are stored, a flood is not."""

from __future__ import annotations

import logging
import time

from hypothesis import given
from hypothesis import strategies as st

from eca_server.agent.mcp.server_log import TAIL, ServerLog


def test_the_last_lines_are_stored_with_the_end_of_an_incomplete_one():
    log = ServerLog("s")
    log.feed(b"one\r\ntwo\n\nthr")
    log.feed(b"ee\nfour")
    assert log.last_lines(3) == "two\nthree\nfour"
    assert log.last_lines(3, length=6) == "...\nfour"
    for _ in range(10):
        log.feed(b"x" * TAIL)
    log.feed(b"the end")
    assert log.last_lines().endswith("the end")
    assert len(log._rest) <= TAIL


@given(st.lists(st.binary(max_size=200), max_size=30))
def test_for_any_output_the_memory_is_bounded_and_the_last_lines_are_a_text(pieces):
    log = ServerLog("s")
    for piece in pieces:
        log.feed(piece * 500)
    assert log._size + len(log._rest) <= 2 * TAIL
    assert isinstance(log.last_lines(), str)


def test_a_flood_is_counted_and_left_out(caplog, monkeypatch):
    now = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    caplog.set_level(logging.DEBUG, "eca_server.agent.mcp")
    log = ServerLog("s")
    log.feed(b"line\n" * 1000)
    assert len(caplog.records) == 100
    now = 101.0
    log.feed(b"after\n")
    messages = [record.getMessage() for record in caplog.records[-2:]]
    assert messages == ["s: 900 lines were not logged", "s: after"]


def test_a_cut_text_has_no_half_of_a_word_at_the_cut(caplog):
    caplog.set_level(logging.DEBUG, "eca_server.agent.mcp")
    log = ServerLog("s")
    log.feed(b"words " * 160 + b"my key is sk-" + b"0123456789" * 10 + b" of it\n")
    assert "0123" not in caplog.records[-1].getMessage()
    assert "0123" not in log.last_lines(length=60)
    assert log.last_lines(length=60).endswith("... of it")


def test_a_note_names_the_server_and_a_warning_is_given_once(caplog):
    caplog.set_level(logging.DEBUG, "eca_server.agent.mcp")
    log = ServerLog("s")
    for _ in range(3):
        log.warn_once("it prints")
    log.note("a note", level=logging.DEBUG)
    log.note("a note", level=logging.INFO)
    records = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert records == [
        (logging.WARNING, "s: it prints"),
        (logging.DEBUG, "s: a note"),
        (logging.INFO, "s: a note"),
    ]

"""The reader of an agent's output, where a flood of it must cost little."""

from __future__ import annotations

import pytest

from eca_protocol.ecp.excerpts import first_words
from eca_protocol.ecp.lines import AgentLineReader, envelope_fault

KEY = "correct-horse-battery"


def test_second_answers_are_warned_of_a_few_times_and_then_break_the_protocol() -> None:
    warnings: list[str] = []
    violations: list[str] = []
    reader = AgentLineReader(
        pending=lambda: {1},
        on_violation=violations.append,
        on_warning=warnings.append,
        max_noise=10_000,
    )
    answer = b'{"jsonrpc": "2.0", "id": 1, "result": true}'
    assert len(reader.read([answer] * 100)) == 1
    assert (len(warnings), violations) == (5, [])
    reader.read([answer] * 1000)
    assert (len(warnings), len(violations)) == (5, 1)
    assert "noise" in violations[0]


@pytest.mark.parametrize(
    ("text", "excerpt"),
    [
        (b"one two", "one two"),
        (b"one two3", "one ..."),
        (b"one two three", "one ..."),
        (b"onetwothree", "..."),
        ("ééé ééé".encode(), "ééé ééé"),
        ("é\U0001f600é ééééé".encode(), "é\U0001f600é ..."),
        ("one two3", "one ..."),
    ],
)
def test_an_excerpt_ends_with_a_whole_word(text: str | bytes, excerpt: str) -> None:
    assert first_words(text, 7) == excerpt


def test_a_cut_line_or_value_shows_no_half_of_a_key() -> None:
    violations: list[str] = []
    reader = AgentLineReader(
        pending=lambda: {1}, on_violation=violations.append, on_warning=violations.append
    )
    reader.read([b"x" * 180 + KEY.encode(), b"x " * 95 + KEY.encode()])
    reader.read([f'{{"jsonrpc": "2.0", "id": "{"x" * 50}{KEY}", "result": 1}}'.encode()])
    assert (reader.noise_excerpts, len(violations)) == (["...", "x " * 95 + "..."], 1)
    faults = [
        envelope_fault({"jsonrpc": "x" * 50 + KEY}),
        envelope_fault({"jsonrpc": "2.0", "error": "x" * 50 + KEY}),
    ]
    assert "corr" not in f"{violations} {faults}"

"""The reader of an agent's output, where a flood of it must cost little."""

from __future__ import annotations

from eca_protocol.ecp.lines import AgentLineReader


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

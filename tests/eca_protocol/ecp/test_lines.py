"""What an agent's output is made of, where floods of it are to cost little."""

from __future__ import annotations

import pytest

from eca_protocol.ecp import lines
from eca_protocol.ecp.lines import AgentLines


def test_second_answers_are_told_a_few_times_and_not_borne_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "NOISE_BUDGET", 10_000)
    warnings: list[str] = []
    violations: list[str] = []
    heard = AgentLines(
        pending=lambda: {1}, on_violation=violations.append, on_warning=warnings.append
    )
    answer = b'{"jsonrpc": "2.0", "id": 1, "result": true}\n'
    assert len(heard.feed(answer * 100)) == 1
    assert (len(warnings), violations) == (5, [])
    heard.feed(answer * 1000)
    assert (len(warnings), len(violations)) == (5, 1)
    assert "noise" in violations[0]

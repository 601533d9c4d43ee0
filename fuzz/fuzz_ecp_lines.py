"""The messages and violations of an agent's output are the same for any size of chunks."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from runner import bytewise, cut, instrumented, main

with instrumented():
    from eca_protocol.ecp.lines import AgentLineReader, envelope_fault
    from eca_protocol.framing import LineDecoder

Outcome = tuple[list[Any], list[str], list[str], int]


def outcome(pieces: Iterable[bytes]) -> Outcome:
    """Return the messages, the violations, the warnings, and the amount of noise."""
    pending = {1, 2, 7}
    violations: list[str] = []
    warnings: list[str] = []
    decoder = LineDecoder(max_line=2000)
    reader = AgentLineReader(
        pending=lambda: pending,
        on_violation=violations.append,
        on_warning=warnings.append,
        max_message=2000,
    )
    passed: list[Any] = []
    for piece in pieces:
        passed += reader.read(decoder.feed(piece))
    passed += reader.read(decoder.feed_eof())
    assert len(violations) <= 1
    assert len(reader.noise_excerpts) == min(reader.noise_count, 5)
    return passed, violations, warnings, reader.noise_count


def check(data: bytes) -> None:
    passed, violations, _, _ = whole = outcome([data])
    assert outcome(cut(data)) == whole
    if len(data) < 500:
        assert outcome(bytewise(data)) == whole
    answered = []
    for value in passed:
        assert "id" in value
        if "method" not in value:
            assert envelope_fault(value) is None
            answered.append(value["id"])
    assert answered == sorted({*answered})
    assert {*answered} <= {1, 2, 7}
    behind, behind_violations, _, _ = outcome([b"not JSON\n" + data])
    if b"\xef\xbb\xbf" not in data:  # the mark that may precede the first line
        assert (behind, behind_violations) == (passed, violations)


if __name__ == "__main__":
    main("ecp_lines", check)

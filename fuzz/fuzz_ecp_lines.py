"""The messages and violations of an agent's output are the same for any size of chunks."""

from __future__ import annotations

from collections.abc import Iterable

from runner import bytewise, cut, instrumented, main

with instrumented():
    from eca_protocol import json
    from eca_protocol.ecp.lines import AgentLineDecoder, envelope_fault

Outcome = tuple[list[bytes], list[str], list[str], int]


def outcome(pieces: Iterable[bytes]) -> Outcome:
    """Return the messages, the violations, the warnings, and the amount of noise."""
    pending = {1, 2, 7}
    violations: list[str] = []
    warnings: list[str] = []
    lines = AgentLineDecoder(
        pending=lambda: pending,
        on_violation=violations.append,
        on_warning=warnings.append,
        max_message=2000,
    )
    passed: list[bytes] = []
    for piece in pieces:
        passed += [each for each in lines.feed(piece) if isinstance(each, bytes)]
    passed += [each for each in lines.feed_eof() if isinstance(each, bytes)]
    assert lines.closed
    assert len(violations) <= 1
    assert len(lines.noise_excerpts) == min(lines.noise_count, 5)
    return passed, violations, warnings, lines.noise_count


def check(data: bytes) -> None:
    passed, violations, _, _ = whole = outcome([data])
    assert outcome(cut(data)) == whole
    if len(data) < 500:
        assert outcome(bytewise(data)) == whole
    answered = []
    for message in passed:
        value = json.loads(message, duplicate_keys="refuse")
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

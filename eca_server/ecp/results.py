"""What a run found, as the report's JSON says it: the contract between runner, graders, reports.

All of it are attrs models that `to_json` turns into plain values and `from_json` reads back, so
that a scenario's result can come from another process or another machine. Counts are derived, never
kept beside what they count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

__all__ = [
    "REPORT_VERSION",
    "Check",
    "ExitReason",
    "RunReport",
    "ScenarioReport",
    "StepReport",
]

REPORT_VERSION: Final = "1"

ExitReason: TypeAlias = Literal[
    "ok",
    "timeout",
    "transport_error",
    "protocol_error",
    "agent_error",
    "judge_error",
    "max_duration_exceeded",
    "interrupted",
    "error",
    "skipped",
]
"""Why a step, a scenario or a run ended as it did. `skipped` is a step's only."""


@attrs.frozen(kw_only=True)
class Check:
    """One grader's verdict.

    Attributes:
        type: the grader's.
        field: what it looked at.
        passed: its verdict.
        score: 1.0 or 0.0, or what an installed grader gives in between.
        reasoning: why, in words: what it wanted and what it saw.
        error: the check itself could not be made; it counts as not passed.
        wanted: the expectation, shortened.
        saw: what was there, shortened.
        details: of a judge: the model asked and the one that answered, temperature, hash of the
            prompt, its raw reply (shortened), seconds, usage.
    """

    type: str
    field: str
    passed: bool
    score: float
    reasoning: str
    error: bool = False
    wanted: str | None = None
    saw: str | None = None
    details: Mapping[str, Any] | None = None


@attrs.frozen(kw_only=True)
class StepReport:
    """One input, what came of it, and its checks. `output` is the public output."""

    input: str
    output: str | None = None
    evaluation_context: str | None = None
    tool_calls: tuple[Mapping[str, Any], ...] = ()
    logs: str | None = None
    checks: tuple[Check, ...] = ()
    status: Literal["ok", "failed", "skipped"] = "ok"
    exit_reason: ExitReason = "ok"
    duration_ms: float = 0.0
    usage: Mapping[str, Any] | None = None
    error: str | None = None
    agent_status: Literal["done", "paused"] | None = None
    constraints: Mapping[str, Any] = attrs.field(factory=dict)

    @property
    def passed(self) -> int:
        """How many of its checks passed."""
        return sum(check.passed for check in self.checks)


@attrs.frozen(kw_only=True)
class ScenarioReport:
    """A conversation. `status` tells whether it ran to its end, `passed` whether all checks passed.

    Attributes:
        index: its place in the manifest, from 0.
        repeat: which of its repetitions this is, from 0.
        agent: what the agent said of itself; None if it did not come so far.
        log: the end of the agent's error output, where it is worth showing.
        warnings: what was odd and allowed.
    """

    name: str
    index: int = 0
    repeat: int = 0
    status: Literal["ok", "failed"] = "ok"
    exit_reason: ExitReason = "ok"
    steps: tuple[StepReport, ...] = ()
    duration_ms: float = 0.0
    agent: Mapping[str, Any] | None = None
    log: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def checks(self) -> tuple[Check, ...]:
        """All checks of its steps."""
        return tuple(check for step in self.steps for check in step.checks)

    @property
    def passed(self) -> bool:
        """Whether it ran to its end and every check passed."""
        return self.status == "ok" and all(check.passed for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """As plain values, with the derived counts."""
        values = attrs.asdict(self, value_serializer=_plain)
        checks = self.checks
        counts = {
            "passed": self.passed,
            "checks_passed": sum(check.passed for check in checks),
            "checks_total": len(checks),
        }
        return values | counts

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ScenarioReport:
        """Read back what `to_json` gave.

        Raises:
            TypeError: it is none; says what was expected.
        """
        given = _known(cls, values)
        given["steps"] = tuple(map(_step, _list(values, "steps")))
        given["warnings"] = tuple(map(str, _list(values, "warnings")))
        return cls(**given)


@attrs.frozen(kw_only=True)
class RunReport:
    """A whole run.

    Attributes:
        manifest: its path, relative to the caller where it lies below.
        name: the manifest's.
        exit_reason: the first scenario's that did not run well; the run's own budget, a signal
            and a judge that failed come before.
        audit: who ran what, when, with which limits; see `audit.py`.
        warnings: of the manifest and of the run.
    """

    manifest: str
    name: str
    exit_reason: ExitReason
    scenarios: tuple[ScenarioReport, ...]
    audit: Mapping[str, Any] = attrs.field(factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """How many checks there were; a step without a result has one, which failed."""
        return sum(len(scenario.checks) for scenario in self.scenarios)

    @property
    def passed(self) -> int:
        """How many checks passed."""
        return sum(check.passed for scenario in self.scenarios for check in scenario.checks)

    @property
    def failed(self) -> int:
        """How many did not."""
        return self.total - self.passed

    def to_json(self) -> dict[str, Any]:
        """The JSON report; `report.schema.json` describes it."""
        return {
            "report_version": REPORT_VERSION,
            "manifest": self.manifest,
            "name": self.name,
            "passed": self.passed,
            "total": self.total,
            "failed": self.failed,
            "exit_reason": self.exit_reason,
            "scenarios": [scenario.to_json() for scenario in self.scenarios],
            "audit": dict(self.audit),
            "warnings": list(self.warnings),
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> RunReport:
        """Read a JSON report, also one of the upstream runtime's.

        Raises:
            ValueError, TypeError: it is none; says what is missing.
        """
        if not isinstance(values, Mapping):
            raise TypeError("expected an object")
        missing = [key for key in ("manifest", "scenarios", "exit_reason") if key not in values]
        if missing:
            raise ValueError(f"not a report: it has no {' and no '.join(missing)}")
        given = _known(cls, {"name": values["manifest"]} | dict(values))
        given["scenarios"] = tuple(
            ScenarioReport.from_json({"index": index} | _object(scenario))
            for index, scenario in enumerate(_list(values, "scenarios"))
        )
        given["audit"] = _object(values.get("audit") or {})
        given["warnings"] = tuple(map(str, _list(values, "warnings")))
        return cls(**given)


def _plain(_: Any, __: Any, value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


_TEXT: Final = (str,)
_MAYBE_TEXT: Final = (str, type(None))
_NUMBER: Final = (int, float)
_MAYBE_OBJECT: Final = (Mapping, type(None))
_KINDS: Final[Mapping[str, tuple[type, ...]]] = {
    **dict.fromkeys(("manifest", "name", "input", "type", "field", "reasoning"), _TEXT),
    **dict.fromkeys(("status", "exit_reason"), _TEXT),
    **dict.fromkeys(("output", "evaluation_context", "logs", "log", "error"), _MAYBE_TEXT),
    **dict.fromkeys(("wanted", "saw", "agent_status"), _MAYBE_TEXT),
    **dict.fromkeys(("score", "duration_ms", "index", "repeat"), _NUMBER),
    **dict.fromkeys(("usage", "details", "agent"), _MAYBE_OBJECT),
    "constraints": (Mapping,),
    "passed": (bool,),
}


def _known(cls: Any, values: Any) -> dict[str, Any]:
    """What `values` has of a model's fields, each of the kind it is to be."""
    names = {attribute.name for attribute in attrs.fields(cls)}
    given = {name: value for name, value in _object(values).items() if name in names}
    for name, value in given.items():
        kinds = (bool,) if cls is Check and name == "error" else _KINDS.get(name, (object,))
        if not isinstance(value, kinds):
            raise TypeError(f"{name}: a report does not have {value!r:.60} here")
    return given


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise TypeError(f"expected an object, got {value!r:.60}")
    return dict(value)


def _list(values: Mapping[str, Any], name: str) -> list[Any]:
    value = values.get(name)
    if not isinstance(value, list | tuple | None):
        raise TypeError(f"{name}: expected a list, got {value!r:.60}")
    return list(value or ())


def _step(values: Any) -> StepReport:
    given = _known(StepReport, values)
    given["checks"] = tuple(Check(**_known(Check, check)) for check in _list(given, "checks"))
    given["tool_calls"] = tuple(map(_object, _list(given, "tool_calls")))
    return StepReport(**given)

"""The results of a run: the models of the JSON report, shared by runner, graders and reports.

`to_json` turns the models into plain values and `from_json` reads them back, so that a scenario's
result can come from another process or machine. Counts are derived, never stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import attrs

REPORT_VERSION: Final = "1"
NOTHING_CHECKED: Final = "nothing was checked: no step has a grader"

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
"""The reason of the end of a step, a scenario or a run; `skipped` is for steps only."""


@attrs.frozen(kw_only=True)
class Check:
    """One grader's verdict.

    Attributes:
        score: 1.0 or 0.0; installed graders may give a score in between.
        reasoning: the reason, with the expected and the actual value.
        error: the check could not be made; it counts as not passed.
        expected: the expectation, shortened; `wanted` in JSON.
        actual: the checked value, shortened; `saw` in JSON.
        details: for a judge: the requested and the answering model, temperature, hash of the
            prompt, raw reply (shortened), seconds, usage.
    """

    type: str
    field: str
    passed: bool
    score: float = attrs.Factory(lambda check: float(check.passed), takes_self=True)
    reasoning: str
    error: bool = False
    expected: str | None = None
    actual: str | None = None
    details: Mapping[str, Any] | None = None


@attrs.frozen(kw_only=True)
class StepReport:
    """One input with the agent's result and its checks. `output` is the public output."""

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
        """The number of passed checks."""
        return sum(check.passed for check in self.checks)


@attrs.frozen(kw_only=True)
class ScenarioReport:
    """One conversation. `status` is ok if it ran to its end, even if checks failed.

    Attributes:
        index: the scenario's index in the manifest, from 0.
        repeat: the number of the repetition, from 0.
        agent: the agent's result of initialize; None without one.
        log: the end of the agent's error output, if the scenario failed.
        warnings: unusual but allowed behaviour of the agent.
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
        """The checks of all steps."""
        return tuple(check for step in self.steps for check in step.checks)

    @property
    def passed(self) -> bool:
        """True if the scenario ran to its end and every check passed."""
        return self.status == "ok" and all(check.passed for check in self.checks)

    def to_json(self) -> dict[str, Any]:
        """Return plain values, with the derived counts."""
        values = attrs.asdict(self, value_serializer=_plain)
        for step in values["steps"]:
            step["checks"] = [_renamed(check, _JSON_NAMES) for check in step["checks"]]
        checks = self.checks
        counts = {
            "passed": self.passed,
            "checks_passed": sum(check.passed for check in checks),
            "checks_total": len(checks),
        }
        return values | counts

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ScenarioReport:
        """Read the values that `to_json` returned.

        Raises:
            TypeError: a value has a wrong type; the text says what was expected.
        """
        fields = _read_fields(cls, values)
        fields["steps"] = tuple(map(_step, _list(values, "steps")))
        fields["warnings"] = tuple(map(str, _list(values, "warnings")))
        return cls(**fields)


@attrs.frozen(kw_only=True)
class RunReport:
    """The report of a run.

    Attributes:
        manifest: the manifest's path, relative to the working directory if it is below.
        exit_reason: the reason of the first scenario that did not run to its end; the run's time
            limit, a signal and a failed judge take precedence.
        audit: the audit record; see `audit.py`.
    """

    manifest: str
    name: str
    exit_reason: ExitReason
    scenarios: tuple[ScenarioReport, ...]
    audit: Mapping[str, Any] = attrs.field(factory=dict)
    warnings: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """The number of checks; a step without a result counts as one failed check."""
        return sum(len(scenario.checks) for scenario in self.scenarios)

    @property
    def passed(self) -> int:
        """The number of passed checks."""
        return sum(check.passed for scenario in self.scenarios for check in scenario.checks)

    @property
    def failed(self) -> int:
        """The number of failed checks."""
        return self.total - self.passed

    def to_json(self) -> dict[str, Any]:
        """Return the JSON report, as in `report.schema.json`."""
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
        """Read a JSON report of this or the upstream runtime.

        Raises:
            ValueError, TypeError: the value is not a report; the text says what is missing.
        """
        if not isinstance(values, Mapping):
            raise TypeError("expected an object")
        missing = [key for key in ("manifest", "scenarios", "exit_reason") if key not in values]
        if missing:
            raise ValueError(f"not a report: it has no {' and no '.join(missing)}")
        fields = _read_fields(cls, {"name": values["manifest"]} | dict(values))
        fields["scenarios"] = tuple(
            ScenarioReport.from_json({"index": index} | _object(scenario))
            for index, scenario in enumerate(_list(values, "scenarios"))
        )
        fields["audit"] = _object(values.get("audit") or {})
        fields["warnings"] = tuple(map(str, _list(values, "warnings")))
        return cls(**fields)


_JSON_NAMES: Final = {"expected": "wanted", "actual": "saw"}
_ATTRIBUTE_NAMES: Final = {name: attribute for attribute, name in _JSON_NAMES.items()}
"""The upstream runtime's names of a check's fields."""


def _renamed(values: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    return {names.get(name, name): value for name, value in values.items()}


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
    **dict.fromkeys(("expected", "actual", "agent_status"), _MAYBE_TEXT),
    **dict.fromkeys(("score", "duration_ms", "index", "repeat"), _NUMBER),
    **dict.fromkeys(("usage", "details", "agent"), _MAYBE_OBJECT),
    "constraints": (Mapping,),
    "passed": (bool,),
}


def _read_fields(cls: Any, values: Any) -> dict[str, Any]:
    names = {attribute.name for attribute in attrs.fields(cls)}
    fields = {name: value for name, value in _object(values).items() if name in names}
    for name, value in fields.items():
        kinds = (bool,) if cls is Check and name == "error" else _KINDS.get(name, (object,))
        if not isinstance(value, kinds):
            raise TypeError(f"{name}: unexpected value {value!r:.60}")
    return fields


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
    fields = _read_fields(StepReport, values)
    fields["checks"] = tuple(map(_check, _list(fields, "checks")))
    fields["tool_calls"] = tuple(map(_object, _list(fields, "tool_calls")))
    return StepReport(**fields)


def _check(values: Any) -> Check:
    return Check(**_read_fields(Check, _renamed(_object(values), _ATTRIBUTE_NAMES)))

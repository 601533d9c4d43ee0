"""Sample reports of a run, with one of everything and text that is harmful unless escaped."""

from typing import Any

from eca_server.ecp.results import Check, RunReport, ScenarioReport, StepReport

HOSTILE = (
    '</pre></details></title></style><script>document.title="owned"</script>'
    "<img src=x onerror=\"document.title='owned'\"><svg onload=alert(1)>"
    '"><a href="javascript:alert(1)">]]>&lt;--> \x00\x1b[31m\u202eevil\u202c\u200b\ufffe\ud800'
)


def check(*, passed: bool, **fields: Any) -> Check:
    """Make a check of a text, with some fields changed."""
    why = f"contains: the text {'contains' if passed else 'does not contain'} the value"
    usual: dict[str, Any] = {"type": "text_match", "field": "public_output", "reasoning": why}
    return Check(passed=passed, score=float(passed), **(usual | fields))


def no_result(text: str, status: Any, why: str, **fields: Any) -> StepReport:
    """Make a step without a result."""
    failed = check(passed=False, type="execution", field="agent", reasoning=why)
    reason = "skipped" if status == "skipped" else "transport_error"
    return StepReport(
        input=text, status=status, exit_reason=reason, error=why, checks=(failed,), **fields
    )


POLITE = StepReport(
    input="Please renew B-17",
    output="Renewed until 2026-12-24",
    evaluation_context="It may be renewed twice more.",
    tool_calls=({"name": "renew", "arguments": {"book": "B-17"}, "id": "c1"},),
    logs="looked it up",
    usage={"input_tokens": 120, "output_tokens": 30, "cost": 0.0012, "cached": True},
    checks=(
        check(passed=True, expected="Renewed", actual="Renewed until 2026-12-24"),
        check(
            passed=True,
            type="llm_judge",
            reasoning="It is polite.\nRESULT: PASS",
            details={"model": "m", "seconds": 1.5, "reply": "RESULT: PASS"},
        ),
    ),
    duration_ms=812.5,
    agent_status="paused",
    constraints={"tokens": 3},
)
CRASHED = ScenarioReport(
    name="it crashes",
    index=1,
    status="failed",
    exit_reason="transport_error",
    duration_ms=95.0,
    log="KeyError: 'B-1'",
    steps=(
        no_result("crash", "failed", "it ended with exit code 1"),
        no_result("and then?", "skipped", "the scenario ended before"),
    ),
)
ATTACKED = ScenarioReport(
    name=HOSTILE,
    index=2,
    exit_reason="judge_error",
    duration_ms=4.0,
    warnings=(HOSTILE,),
    steps=(
        StepReport(
            input=HOSTILE,
            output=HOSTILE,
            evaluation_context=HOSTILE,
            logs=HOSTILE,
            tool_calls=({"name": HOSTILE, "arguments": {HOSTILE: [HOSTILE]}},),
            usage={
                HOSTILE: HOSTILE,
                "cost": float("inf"),
                "total_tokens": 10**400,
                "odd": 10**4000,
            },
            checks=(
                check(passed=False, type=HOSTILE, field=HOSTILE, reasoning=HOSTILE, actual=HOSTILE),
                check(passed=False, error=True, reasoning="no verdict came", type="llm_judge"),
            ),
        ),
    ),
)


def hours(repeat: int, *, passed: bool, index: int = 3) -> ScenarioReport:
    """Make a repetition of a scenario with one check."""
    verdict = check(passed=passed, expected="nine", actual="At nine" if passed else "At ten")
    step = StepReport(input="When do you open?", output="At nine", checks=(verdict,))
    return ScenarioReport(
        name="opening hours", index=index, repeat=repeat, steps=(step,), duration_ms=300.0
    )


def a_report(*scenarios: ScenarioReport, **fields: Any) -> RunReport:
    """Make a report of these scenarios, or of one of everything."""
    everything = (
        ScenarioReport(name="renewal", steps=(POLITE,), duration_ms=820.0, agent={"name": "desk"}),
        CRASHED,
        ATTACKED,
        *(hours(repeat, passed=repeat != 1) for repeat in range(3)),
    )
    usual: dict[str, Any] = {
        "manifest": "desk.yaml",
        "name": "Library desk",
        "exit_reason": "ok" if scenarios else "transport_error",
        "scenarios": scenarios or everything,
    }
    return RunReport(**(usual | fields))

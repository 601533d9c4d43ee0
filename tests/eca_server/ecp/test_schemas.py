"""The shipped JSON Schemas accept and reject the same values as the code."""

import functools
import json
from collections.abc import Callable, Iterable, Iterator
from copy import copy
from datetime import date
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml

from eca_protocol.ecp.messages import read_step_result
from eca_protocol.ecp.schema import SCHEMAS, schema_text
from eca_protocol.errors import DecodeError
from eca_server.ecp.manifest.model import ManifestInvalid
from eca_server.ecp.manifest.reading import read_manifest
from eca_server.ecp.results import Check, RunReport, ScenarioReport, StepReport
from tests.eca_server.ecp.sample_reports import CRASHED, POLITE, a_report, hours
from tests.eca_server.ecp.test_manifest import GOOD, INVALID, WARNINGS
from tests.eca_server.ecp.test_reports import audit_of
from tests.lazy import LazyModule

jsonschema = LazyModule("jsonschema", without="rfc3987_syntax")

BEYOND_SCHEMA = {
    *(
        "a key twice",
        "a merge key",
        "two documents",
        "no YAML",
        "a tab",
        "half a pair",
        "a tag",
    ),  # the text
    *("yes", "a date as an argument", "infinity", "a key that is no text"),  # what YAML makes of it
    *("an unknown grader", "no regular expression", "no limits"),  # beyond a schema
    *(name for name in INVALID if name.startswith("a regular expression")),
}


@functools.cache
def validator(name: str) -> Any:
    return jsonschema.Draft202012Validator(json.loads(schema_text(name)))


def is_valid(name: str, value: Any) -> bool:
    return bool(validator(name).is_valid(value))


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_valid_and_has_a_title(name: str) -> None:
    schema = json.loads(schema_text(name))
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"].startswith("ECP ")
    with pytest.raises(KeyError, match="expected one of manifest, agent-result"):
        schema_text("../manifest")


def test_the_manifest_schema_accepts_valid_manifests_and_rejects_invalid_ones() -> None:
    for text in (GOOD, *WARNINGS.values()):
        validator("manifest").validate(yaml.safe_load(text))
    assert set(INVALID) > BEYOND_SCHEMA
    passed = [
        n for n in INVALID if n not in BEYOND_SCHEMA and is_valid("manifest", loaded(INVALID[n][0]))
    ]
    assert passed == []


def loaded(text: str) -> Any:
    """Return a manifest as JSON."""
    value = yaml.safe_load(text)
    return json.loads(json.dumps(value, default=lambda v: {} if isinstance(v, date) else None))


def with_scenarios(*scenarios: Any) -> Any:
    return {"manifest_version": "v1", "name": "n", "target": "t", "scenarios": [*scenarios]}


def with_step(step: Any) -> Any:
    return with_scenarios({"name": "s", "steps": [step]})


def with_grader(grader: Any) -> Any:
    return with_step({"input": "i", "graders": [grader]})


WHOLE_MANIFEST = with_scenarios() | {"require_capabilities": True}
WHOLE_SCENARIOS = (
    {"name": "s", "dataset": {"type": "csv", "source": "r", "input_column": "i"}},
    {"name": "s", "steps": [], "dataset": {"type": "jsonl", "source": "r", "output_column": "o"}},
    {"name": "s", "steps": [{"input": "i"}], "dataset": None},
)
WHOLE_STEP = {"input": "i", "constraints": {"a": 1}, "graders": []}
WHOLE_GRADERS = (
    {"type": "text_match", "condition": "equals", "value": "v"},
    {"type": "text_match", "condition": "regex", "pattern": "p"},
    {"type": "llm_judge", "field": "evaluation_context", "prompt": "p"},
    {"type": "tool_usage", "nested": "exact", "arguments": {"a": 1}},
    {"type": "tool_usage", "tool_name": "t", "min_calls": 0, "value": "v"},
    {"type": "tool_usage", "max_calls": 5, "assertion": "a", "prompt": "p"},
    {"type": "tool_usage", "options": {"a": 1}, "pattern": "p"},
)
RESULT = {
    "status": "done",
    **dict.fromkeys(("public_output", "evaluation_context", "private_thought", "logs"), "o"),
    "tool_calls": [{"name": "n", "arguments": {"a": 1}, "id": 1}],
    "usage": {"input_tokens": 0, "output_tokens": 1, "total_tokens": 2, "cost": 0.1},
}


def changed(whole: Any) -> Iterator[Any]:
    """Yield a value, other values, and the value with each single change."""
    yield from (None, True, 3, -1, "", "x", [], {}, whole)
    if not isinstance(whole, list | dict):
        return
    for key in range(len(whole)) if isinstance(whole, list) else tuple(whole):
        other = copy(whole)
        del other[key]
        yield other
        for inner in changed(whole[key]):
            other = copy(whole)
            other[key] = inner
            yield other
    if isinstance(whole, dict):
        yield whole | {"nmae": 1}


def assert_same_verdicts(name: str, read: Callable[[Any], bool], values: Iterable[Any]) -> None:
    verdicts = [(value, read(value)) for value in values]
    assert [value for value, was_read in verdicts if is_valid(name, value) != was_read] == []
    assert 5 < sum(was_read for _, was_read in verdicts) < len(verdicts) * 2 / 3


def test_each_single_change_of_a_manifest_is_judged_alike() -> None:
    manifests = [*changed(WHOLE_MANIFEST)]
    manifests += [with_scenarios(each) for whole in WHOLE_SCENARIOS for each in changed(whole)]
    manifests += [with_step(each) for each in changed(WHOLE_STEP)]
    manifests += [with_grader(each) for whole in WHOLE_GRADERS for each in changed(whole)]
    assert_same_verdicts("manifest", is_read, manifests)


def test_each_single_change_of_a_result_or_a_call_is_judged_alike() -> None:
    assert_same_verdicts("agent-result", is_result, changed(RESULT))
    assert_same_verdicts("tool-call", is_call, changed(RESULT["tool_calls"][0]))


def is_read(manifest: Any) -> bool:
    try:
        read_manifest(json.dumps(manifest).encode(), Path("m.yaml"))
    except ManifestInvalid as fault:
        # A type with a name may be an installed grader, which a schema cannot know.
        messages = [problem.message for problem in fault.problems]
        unknown = [text for text in messages if text.startswith("expected one of text_match")]
        return messages == unknown and not any(text.endswith("got ''") for text in messages)
    return True


def is_call(call: Any) -> bool:
    return is_result({"status": "done", "tool_calls": [call]})


def is_result(result: Any) -> bool:
    try:
        read_step_result(result)
    except DecodeError:
        return False
    return True


def test_written_reports_are_valid_by_their_schemas() -> None:
    polite = attrs.evolve(POLITE, usage={"input_tokens": 3})
    report = a_report(ScenarioReport(name="a", steps=(polite,)), CRASHED, hours(0, passed=False))
    report = attrs.evolve(report, audit=audit_of(report), warnings=("odd",))
    validator("report").validate(report.to_json())
    validator("audit").validate(report.audit)


def test_the_reports_schema_names_every_field_and_says_which_are_ours() -> None:
    schema = json.loads(schema_text("report"))
    derived = {"report_version", "passed", "total", "failed", "checks_passed", "checks_total"}
    names = {"expected": "wanted", "actual": "saw"}  # of a check, in JSON
    for model, key in (
        (RunReport, ""),
        (ScenarioReport, "scenarios"),
        (StepReport, "steps"),
        (Check, "checks"),
    ):
        schema = schema["properties"][key]["items"] if key else schema
        fields = {names.get(each.name, each.name) for each in attrs.fields(model)}
        assert fields <= set(schema["properties"]) <= fields | derived
        ours = {name for name, value in schema["properties"].items() if value.get("x-eca")}
        assert not ours & set(schema["required"])

"""The shipped JSON Schemas say what the code says, of what is right and of what is wrong."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import attrs
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from eca_protocol.ecp.messages import read_step_result
from eca_protocol.ecp.schema import SCHEMAS, schema_text
from eca_protocol.errors import DecodeError
from eca_server.ecp.audit import audit
from eca_server.ecp.manifest import ManifestInvalid, read_manifest
from eca_server.ecp.results import Check, RunReport, ScenarioReport, StepReport
from tests.eca_server.ecp.found import CRASHED, POLITE, a_report, hours
from tests.eca_server.ecp.test_manifest import FAULTS, GOOD, WARNINGS
from tests.eca_server.ecp.test_reports import facts_of_a_run

VALID = {name: Draft202012Validator(json.loads(schema_text(name))) for name in SCHEMAS}

UNSEEN = {
    *("a key twice", "a merge key", "two documents", "no YAML", "half a pair", "a tag"),  # the text
    *("yes", "a date as an argument", "infinity", "a key that is no text"),  # what YAML makes of it
    *("an unknown grader", "no regular expression", "no limits"),  # beyond a schema
}


def is_valid(name: str, value: Any) -> bool:
    return VALID[name].is_valid(value)


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_schema_is_one_and_says_what_it_describes(name: str) -> None:
    schema = json.loads(schema_text(name))
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert schema["title"].startswith("ECP ")
    with pytest.raises(KeyError, match="expected one of manifest, agent-result"):
        schema_text("../manifest")


def test_a_manifests_schema_takes_what_is_read_and_refuses_the_faults_it_can_see() -> None:
    for text in (GOOD, *WARNINGS.values()):
        VALID["manifest"].validate(yaml.safe_load(text))
    assert set(FAULTS) > UNSEEN
    passed = [n for n in FAULTS if n not in UNSEEN and is_valid("manifest", loaded(FAULTS[n][0]))]
    assert passed == []


def loaded(text: str) -> Any:
    """A manifest as JSON would have it."""
    value = yaml.safe_load(text)
    return json.loads(json.dumps(value, default=lambda v: {} if isinstance(v, date) else None))


TEXTS = st.sampled_from(["", " ", "a", "v1", "regex", "equals", "csv", "public_output"])
JUNK = st.none() | st.booleans() | st.integers(-1, 2) | TEXTS | st.just([]) | st.just({})


def mostly(*usual: Any) -> st.SearchStrategy[Any]:
    """One of these, and now and then anything."""
    return st.integers(0, 7).flatmap(lambda n: st.sampled_from(usual) if n else JUNK)


GRADERS = st.fixed_dictionaries(
    {"type": mostly("text_match", "llm_judge", "tool_usage")},
    optional={
        "field": mostly("public_output", "evaluation_context", None),
        "condition": mostly("contains", "regex", "equals", "does_not_contain", None),
        "value": mostly("", "v", None),
        "pattern": mostly("p", None),
        "prompt": mostly("is it", None),
        "assertion": mostly("a", None),
        "tool_name": mostly("t", None),
        "arguments": mostly({"a": [1, None, {"b": True}]}, {}, None),
        "nested": mostly("exact", "subset", None),
        "max_calls": mostly(2, None),
        "options": mostly({"a": 1}, None),
        "patern": JUNK,
    },
)
STEPS = st.fixed_dictionaries(
    {"input": mostly("i", "")},
    optional={
        "graders": st.lists(GRADERS, max_size=2) | JUNK,
        "constraints": mostly({"a": 1}, None),
    },
)
DATASETS = st.fixed_dictionaries(
    {"type": mostly("csv", "jsonl"), "source": mostly("rows.csv")},
    optional={"input_column": mostly("q"), "output_column": mostly("a"), "colum": JUNK},
)
SCENARIOS = st.fixed_dictionaries(
    {"name": mostly("s")},
    optional={"steps": st.lists(STEPS, max_size=2) | JUNK, "dataset": DATASETS | JUNK},
)
MANIFESTS = st.fixed_dictionaries(
    {
        "manifest_version": mostly("v1"),
        "name": mostly("n"),
        "target": mostly("t"),
        "scenarios": st.lists(SCENARIOS, max_size=2) | JUNK,
    },
    optional={"require_capabilities": mostly(True, False)},
)


def is_read(manifest: Any) -> bool:
    try:
        read_manifest(json.dumps(manifest).encode(), Path("m.yaml"))
    except ManifestInvalid as fault:
        # A type that is not built in may be installed, if it has a name; a schema cannot know.
        told = [problem.message for problem in fault.problems]
        unknown = [text for text in told if text.startswith("expected one of text_match")]
        return told == unknown and not any(text.endswith("got ''") for text in told)
    return True


@given(MANIFESTS | GRADERS.map(lambda g: minimal({"input": "i", "graders": [g]})))
def test_a_manifest_is_valid_by_its_schema_where_it_is_read(manifest: Any) -> None:
    assert is_valid("manifest", manifest) == is_read(manifest)


def minimal(step: Any) -> Any:
    scenarios = [{"name": "s", "steps": [step]}]
    return {"manifest_version": "v1", "name": "n", "target": "t", "scenarios": scenarios}


CALLS = st.fixed_dictionaries(
    {}, optional={"name": mostly("renew"), "arguments": mostly({"a": 1}), "id": JUNK}
)
RESULTS = st.fixed_dictionaries(
    {"status": mostly("done", "paused")},
    optional={
        "public_output": mostly("o", None),
        "evaluation_context": mostly("c", None),
        "private_thought": mostly("c", None),
        "logs": mostly("l", None),
        "tool_calls": st.lists(CALLS | JUNK, max_size=2) | st.none() | JUNK,
        "usage": st.none()
        | JUNK
        | st.dictionaries(st.sampled_from(["input_tokens", "total_tokens", "cost"]), mostly(3)),
        "other": JUNK,
    },
)


@given(RESULTS | JUNK)
def test_a_steps_result_is_valid_by_its_schema_where_it_is_read(result: Any) -> None:
    try:
        read_step_result(result)
    except DecodeError:
        assert not is_valid("agent-result", result)
    else:
        VALID["agent-result"].validate(result)
        for call in (result.get("tool_calls") or ()) if isinstance(result, dict) else ():
            VALID["tool-call"].validate(call)


def test_what_is_written_is_valid_by_its_schema() -> None:
    polite = attrs.evolve(POLITE, usage={"input_tokens": 3})
    report = a_report(ScenarioReport(name="a", steps=(polite,)), CRASHED, hours(0, passed=False))
    report = attrs.evolve(report, audit=audit(report, facts_of_a_run()), warnings=("odd",))
    VALID["report"].validate(report.to_json())
    VALID["audit"].validate(report.audit)


@pytest.mark.parametrize(
    ("model", "path"),
    [
        (RunReport, ()),
        (ScenarioReport, ("scenarios",)),
        (StepReport, ("scenarios", "steps")),
        (Check, ("scenarios", "steps", "checks")),
    ],
)
def test_the_reports_schema_names_every_field_and_says_which_are_ours(
    model: Any, path: tuple[str, ...]
) -> None:
    schema = json.loads(schema_text("report"))
    for name in path:
        schema = schema["properties"][name]["items"]
    derived = {"report_version", "passed", "total", "failed", "checks_passed", "checks_total"}
    fields = {attribute.name for attribute in attrs.fields(model)}
    assert fields <= set(schema["properties"]) <= fields | derived
    ours = {name for name, value in schema["properties"].items() if value.get("x-eca")}
    assert not ours & set(schema["required"])

"""Reports: their content, that they are complete, and that no text in them is harmful."""

import errno
import json
import os
import stat
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eca_server.ecp.audit import make_audit, sum_usage
from eca_server.ecp.batch import RunLimits
from eca_server.ecp.reports.html import render_html
from eca_server.ecp.reports.junit import render_junit
from eca_server.ecp.reports.masking import make_masker, mask_report
from eca_server.ecp.results import NOTHING_CHECKED, RunReport, ScenarioReport, StepReport
from eca_server.workbench.report_files import Outputs, OutputsInvalid
from tests.eca_server.ecp.runs import manifest
from tests.eca_server.ecp.sample_reports import CRASHED, HOSTILE, POLITE, a_report, hours, no_result
from tests.eca_server.workbench.page_reader import Page


def test_a_report_is_read_back_as_it_was():
    report = a_report(audit={"started_at": "now"}, warnings=("odd",))
    report = attrs.evolve(report, scenarios=(*report.scenarios[:2], *report.scenarios[3:]))
    values = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert RunReport.from_json(values) == report
    assert (values["passed"], values["total"], values["failed"]) == (4, 7, 3)
    step = {"input": "i", "output": "o", "tool_calls": [], "checks": [], "new": 1}
    scenario = {"name": "a", "status": "ok", "exit_reason": "ok", "steps": [step]}
    upstream = {"manifest": "m.yaml", "passed": 0, "exit_reason": "ok", "scenarios": [scenario]}
    read = RunReport.from_json(upstream)
    assert (read.name, read.scenarios[0].steps[0].output) == ("m.yaml", "o")
    verdicts = [scenario["passed"] for scenario in values["scenarios"]]
    assert verdicts == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("path", "value", "text"),
    [
        ((), [], "expected an object"),
        ((), {"manifest": "m"}, "it has no scenarios and no exit_reason"),
        (("scenarios",), {}, "scenarios: expected a list"),
        (("scenarios", 0), 3, "expected an object, got 3"),
        (("scenarios", 0, "steps", 0), "s", "expected an object, got 's'"),
        (("scenarios", 0, "steps", 0, "checks", 0, "passed"), 1, "passed: "),
        (("scenarios", 0, "steps", 0, "duration_ms"), "1", "duration_ms: "),
        (("scenarios", 0, "steps", 0, "tool_calls", 0), None, "expected an object"),
        (("audit",), [1], "expected an object"),
    ],
)
def test_an_invalid_report_is_refused(path, value, text):
    report: Any = a_report().to_json()
    if path:
        inner = report
        for key in path[:-1]:
            inner = inner[key]
        inner[path[-1]] = value
    with pytest.raises((ValueError, TypeError), match=text):
        RunReport.from_json(report if path else value)


def test_the_page_has_everything_and_no_markup_of_an_agent():
    facts = {
        "agent": {"name": HOSTILE, "capabilities": {HOSTILE: {}}},
        "limits": {"rpc_timeout_s": 30, "max_duration_s": None},
        "runtime": {"name": "eca-protocol", "version": HOSTILE},
        "duration_ms": 125_000.0,
        "started_at": HOSTILE,
    }
    page = Page(render_html(a_report(name=HOSTILE, audit=facts, warnings=(HOSTILE,))))
    unsafe = {"img", "iframe", "object", "embed", "form", "base", "foreignobject"}
    assert not unsafe & {*page.tags}
    names = {name for name, _ in page.attributes}
    assert not {name for name in names if name.startswith("on") or name in {"style", "src"}}
    assert {str(link)[:2] for name, link in page.attributes if name == "href"} == {"#s"}
    assert page.tags.count("script") == 1
    for part in (
        *("4 of 9", "request 30 s", "2 min 5 s", "1 transport_error, 1 judge_error"),
        *("It may be renewed twice more.", '"book": "B-17"', '"id": "c1"', "looked it up"),
        *("paused", "120 input tokens", "true cached", "KeyError: 'B-1'", "with exit code 1"),
        *("skipped: the scenario ended before", "2 of 3 repetitions passed", "no verdict came"),
        *("failed 3", "error 2", "flaky 1", "passed 1", "\\u{202e}evil", "0.0012"),
    ):
        assert part in page.text, part


def test_very_many_scenarios_share_columns_and_long_texts_are_cut_with_a_mark():
    step = attrs.evolve(POLITE, output="x" * 60_000, usage=None)
    many = [ScenarioReport(name=str(place), index=place) for place in range(120)]
    text = render_html(a_report(ScenarioReport(name="long", index=999, steps=(step,)), *many))
    assert "10,000 more characters are in the JSON report" in text
    assert "x" * 50_001 not in text
    assert text.count('class="back"') == 2 * 41
    assert "each column 3 scenarios" in text
    assert "nothing checked" in render_html(a_report(scenarios=()))


def test_build_servers_read_the_same_verdicts():
    root = ET.fromstring(render_junit(a_report()))
    cases = root.findall("testsuite/testcase")
    verdicts = [[child.tag for child in case if child.tag != "system-out"] for case in cases]
    assert verdicts == [[], ["error"], ["skipped"], ["error"], [], ["failure"], []]
    counts = {name: root.get(name) for name in ("tests", "failures", "errors", "skipped")}
    assert counts == {"tests": "7", "failures": "1", "errors": "2", "skipped": "1"}
    names = [suite.get("name") for suite in root]
    assert names[-2:] == ["opening hours (repetition 2)", "opening hours (repetition 3)"]
    assert len({(case.get("classname"), case.get("name")) for case in cases}) == len(cases)
    failure = root.find("testsuite/testcase/failure")
    assert failure.get("message") == (
        "text_match of public_output: contains: the text does not contain the value"
    )
    output = cases[3].findtext("system-out") or ""
    assert "\\u0000\\u001b[31m" in output
    assert "\\ud800" in output
    assert root.findtext("testsuite/system-err") == "KeyError: 'B-1'"


UNTRIED = no_result("i", "skipped", "no version in common")
UNABLE = {"name": "a", "status": "failed", "exit_reason": "protocol_error", "steps": (UNTRIED,) * 2}


@pytest.mark.parametrize(
    ("report", "message"),
    [
        (a_report(ScenarioReport(**UNABLE)), "protocol_error"),
        (a_report(hours(0, passed=True), exit_reason="interrupted"), "interrupted"),
        (a_report(scenarios=(), exit_reason="max_duration_exceeded"), "max_duration_exceeded"),
        (a_report(ScenarioReport(name="a", steps=(StepReport(input="i"),))), NOTHING_CHECKED),
    ],
)
def test_an_incomplete_run_is_an_error_for_a_build_server(report, message):
    root = ET.fromstring(render_junit(report))
    assert root.get("errors") == "1"
    assert [error.get("message") for error in root.iter("error")] == [message]


@given(st.text())
def test_every_report_is_written_for_any_text(text):
    step = attrs.evolve(POLITE, input=text, output=text, error=text, usage={text: text})
    report = a_report(ScenarioReport(name=text, steps=(step,), log=text), name=text)
    ET.fromstring(render_junit(report).encode("utf-8"))
    render_html(report).encode("utf-8")


ENVIRONMENT = {
    "SERVICE_TOKEN": "Kj83-hush",
    "DB_PASSWORD": "failed",
    "PASSWORD": "status",
    "SHORT_KEY": "abc",
    "HOME": "renew",
}


@pytest.mark.parametrize(
    ("name", "value", "is_masked"),
    [
        ("SHOP_API_KEY_TEST", "Zq7v/Kj83+hush0042", True),
        ("API_KEY_2", "Zq7vKj83hush0042", True),
        ("TOKEN2", "Zq7vKj83hush0042", True),
        ("DB_PASS", "hushhush", True),
        ("GITHUB_PAT", "hushhush", True),
        ("KEY_PATH", "/home/me/keys/number-1", False),
        ("SECRET_NAME", "production", False),
        ("TOKEN_LIMIT", "1000000000000000", False),
        ("TOKEN_URL", "https://example.org/v1/token", False),
        ("KEYBOARD_2", "Zq7vKj83hush0042", False),
        ("COMPASS", "hushhush", False),
    ],
)
def test_a_variable_s_name_and_value_decide_whether_it_is_masked(name, value, is_masked):
    text = f"it is {value}"
    assert make_masker({name: value})(text) == ("it is ***" if is_masked else text)


def test_keys_of_the_environment_and_texts_like_keys_are_masked_everywhere():
    leak = "Kj83-hush, sk-abcdefgh12345, abc, renew; it failed"
    step = attrs.evolve(
        POLITE, output=leak, tool_calls=({"name": "a", "arguments": {leak: [leak]}},)
    )
    scenario = ScenarioReport(name="a", status="failed", steps=(step,), log=leak, agent={"x": leak})
    facts = {"manifest": {"target": leak}, "agent": {leak: leak}, "exit_reason": "failed"}
    report = mask_report(
        a_report(scenario, audit=facts, warnings=(leak,)), ENVIRONMENT, redact=False
    )
    masked = "***, ***, abc, renew; it ***"
    values = report.scenarios[0]
    assert values.steps[0].output == values.log == masked
    assert values.steps[0].tool_calls[0]["arguments"] == {masked: [masked]}
    assert (values.agent, report.warnings) == ({"x": masked}, (masked,))
    assert report.audit["manifest"] == {"target": masked}
    assert report.audit["agent"] == {masked: masked}
    assert (values.status, report.audit["exit_reason"]) == ("failed", "failed")
    assert RunReport.from_json(report.to_json()) == report


def test_a_redacted_report_has_verdicts_and_no_inputs_or_answers():
    facts = {"scenarios": [{"steps": [{"input": "Please renew B-17", "error": None}]}]}
    warnings = ("a reset failed: agent/reset: B-17\n: B-17", "a second answer was ignored")
    warned = ScenarioReport(name="warned", steps=(POLITE,), warnings=warnings)
    whole = a_report(*a_report().scenarios, warned, audit=facts, warnings=("m.yaml:1:2: a: b",))
    report = mask_report(whole, {}, redact=True)
    values = json.dumps(report.to_json())
    for text in ("B-17", "renewed twice", "It is polite", "looked it up", "At ten"):
        assert text not in values, text
    assert report.scenarios[-1].warnings == ("a reset failed", "a second answer was ignored")
    assert report.warnings == ("m.yaml:1:2: a: b",)
    assert report.scenarios[0].steps[0].tool_calls == ({"name": "renew", "arguments": {}},)
    assert report.scenarios[0].steps[0].constraints == {}
    assert (report.passed, report.total) == (whole.passed, whole.total)


def test_output_files_are_checked_before_anything_runs(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    faults = {
        "folder": "expected a regular file or none",
        "link": "expected a regular file or none",
        "none/r.json": "does not exist",
        "loop/r.json": "does not exist",
        "x" * 300: "File name too long",
    }
    for name, text in faults.items():
        with pytest.raises(OutputsInvalid, match=text):
            Outputs({"json": tmp_path / name}).check()
    with pytest.raises(OutputsInvalid, match=r"given for both json and html"):
        Outputs({"json": tmp_path / "a", "html": tmp_path / "folder" / ".." / "a"}).check()
    Outputs({"json": tmp_path / "a", "html": tmp_path / "b"}).check()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["folder", "link", "loop"]


def test_a_pipe_or_a_device_is_written_in_place(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    devices = {"html": Path("/dev/full"), "junit": Path("/dev/null"), "audit": Path("/dev/null")}
    outputs = Outputs({"json": pipe, **devices})
    outputs.check()
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    renderers = dict.fromkeys(outputs.files, lambda _: "values")
    assert outputs.write(a_report(), renderers) == ["/dev/full: No space left on device"]
    assert os.read(reader, 100) == b"values"
    os.close(reader)
    assert [file.name for file in tmp_path.iterdir()] == ["pipe"]


def test_standard_streams_keep_their_earlier_content(tmp_path, capfd):
    file = tmp_path / "redirected"
    with file.open("w") as opened:
        opened.write("before, ")
        opened.flush()
        numbered = Path(f"/dev/fd/{opened.fileno()}")
        outputs = Outputs({"json": numbered, "html": numbered, "junit": Path("/dev/stdout")})
        outputs.check()
        print("first, ", end="")
        assert outputs.write(a_report(), dict.fromkeys(outputs.files, lambda _: "values, ")) == []
        opened.write("behind")
    print("last", end="")
    assert file.read_text() == "before, values, values, behind"
    assert capfd.readouterr().out == "first, values, last"
    with pytest.raises(OutputsInvalid, match="Bad file descriptor"):
        Outputs({"json": numbered}).check()


def test_a_file_that_cannot_be_replaced_is_written_in_place(tmp_path, monkeypatch):
    linked, closed, mounted = tmp_path / "linked", tmp_path / "closed" / "r", tmp_path / "mounted"
    closed.parent.mkdir()
    for file in (linked, closed, mounted):
        file.write_text("a longer text than the report's")
    (tmp_path / "link").symlink_to("linked")
    access, replace = os.access, os.replace

    def is_open(path: Path, mode: int) -> bool:
        return path != closed.parent and access(path, mode)

    def replaces(source: Path, target: Path) -> None:
        if target == mounted:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        replace(source, target)

    monkeypatch.setattr(os, "access", is_open)
    monkeypatch.setattr(os, "replace", replaces)
    outputs = Outputs({"json": tmp_path / "link", "html": closed, "junit": mounted})
    outputs.check()
    assert outputs.write(a_report(), dict.fromkeys(outputs.files, lambda _: "new")) == []
    assert [file.read_text() for file in (linked, closed, mounted)] == ["new"] * 3
    names = {file.name for file in tmp_path.iterdir()}
    assert names == {"closed", "link", "linked", "mounted"}
    with pytest.raises(OutputsInvalid, match="given for both json and html"):
        Outputs({"json": linked, "html": tmp_path / "link"}).check()
    with pytest.raises(OutputsInvalid, match="closed is not writable"):
        Outputs({"json": closed.with_name("none")}).check()


def test_a_file_is_written_whole_or_not_at_all_and_the_others_anyway(tmp_path):
    old = tmp_path / "r.json"
    old.write_text("old")
    old.chmod(0o600)

    def fails(report: RunReport) -> str:
        raise ValueError("no way")

    def leaves_no_folder(report: RunReport) -> str:
        (tmp_path / "gone").rmdir()
        return "never"

    (tmp_path / "gone").mkdir()
    names = {"json": "r.json", "audit": "gone/a.json", "junit": "j.xml", "html": "x" * 250}
    outputs = Outputs({kind: tmp_path / name for kind, name in names.items()})
    outputs.check()
    renderers = {"json": fails, "audit": leaves_no_folder, "html": render_html}
    faults = outputs.write(a_report(), {**renderers, "junit": lambda _: "half \ud800"})
    assert [fault.removeprefix(f"{tmp_path}/") for fault in faults] == [
        "r.json: ValueError: no way",
        "gone/a.json: No such file or directory",
    ]
    assert old.read_text() == "old"
    assert (tmp_path / "j.xml").read_text() == "half ?"
    assert len(list(tmp_path.iterdir())) == 3

    assert outputs.write(a_report(), dict.fromkeys(outputs.files, lambda _: "new"))
    assert old.read_text() == "new"
    assert stat.S_IMODE(old.stat().st_mode) == 0o600


def audit_of(report: RunReport) -> dict[str, Any]:
    started = datetime(2026, 11, 22, 8, 0, 0, 1500, tzinfo=UTC)
    times = {"started": started, "finished": started.replace(minute=1), "seconds": 60.0000004}
    return make_audit(report, manifest(), RunLimits(run=60.0), **times)


def test_the_audit_names_the_agent_the_times_the_limits_and_the_sums():
    times = [float(n) for n in range(1, 21)]
    usage = {"input_tokens": 3, "output_tokens": 4}
    steps = tuple(StepReport(input="i", duration_ms=time, usage=usage) for time in times)
    report = a_report(ScenarioReport(name="a", steps=steps, agent={"name": "desk"}), CRASHED)
    record = audit_of(report)
    times = [record["started_at"], record["finished_at"]]
    assert times == ["2026-11-22T08:00:00.001Z", "2026-11-22T08:01:00.001Z"]
    assert record["duration_ms"] == 60_000.0
    assert record["agent"] == {"name": "desk"}
    assert record["limits"]["max_duration_s"] == 60.0
    steps = {"planned": 22, "executed": 21, "failed": 1, "skipped": 1}
    checks = {"checks_passed": 0, "checks_total": 2, "checks_failed": 2}
    counts = {f"steps_{name}": count for name, count in steps.items()}
    assert record["totals"] == {"scenarios": 2, **counts, **checks}
    assert record["latency"] == {"total_ms": 210.0, "mean_ms": 10.0, "max_ms": 20.0, "p95_ms": 19.0}
    assert record["usage"] == {"input_tokens": 60, "output_tokens": 80, "total_tokens": 140}
    assert record["scenarios"][1]["steps"][1]["status"] == "skipped"


@pytest.mark.parametrize(
    ("usages", "total"),
    [
        ([], None),
        ([None, {}], None),
        ([{"cost": 3}], None),
        ([{"input_tokens": True, "output_tokens": "4"}], None),
        ([{"total_tokens": 5}, None], 5),
        ([{"total_tokens": 5}, {"input_tokens": 1, "output_tokens": 2}], 8),
        ([{"input_tokens": 1, "output_tokens": 2, "total_tokens": 9}], 9),
    ],
)
def test_an_unknown_count_is_not_zero(usages, total):
    sums = sum_usage(usages)
    assert (None if sums is None else sums["total_tokens"]) == total

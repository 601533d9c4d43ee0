"""The suite's reports, for users and build servers."""

from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import attrs
import pytest

from eca_protocol import json
from eca_protocol.framing import encode_frame
from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import server_cases
from eca_protocol.testing.conformance.run import Incident, Run, SuiteError, known_failures
from eca_protocol.testing.conformance.verdicts import Finding, Transmission, Verdict
from eca_server.workbench.conformance import cli
from eca_server.workbench.conformance.badge import render_badge
from eca_server.workbench.conformance.compare import compare, describe_changes
from eca_server.workbench.conformance.exchange import message_label
from eca_server.workbench.conformance.html import render_html
from eca_server.workbench.conformance.junit import render_junit
from eca_server.workbench.conformance.table import render_table

HOSTILE = "</script><script>alert(1)</script>\u2028\x00]]>&\u202e"


def passed(message: object, source: str = "server", target: str = "client") -> Transmission:
    return Transmission.of(1.0, source, target, encode_frame(json.dumps(message)))  # type: ignore[arg-type]


FINISHED = {"type": "progress", "state": "finished"}
PARAMS = {"chatId": "c", "role": "system", "content": FINISHED}
PROGRESS = {"jsonrpc": "2.0", "method": "chat/contentReceived", "params": PARAMS}
RUN = Run(
    target=f"python server.py {HOSTILE}",
    edition=Revision.R2025_10.value,
    started=datetime(2025, 10, 1, tzinfo=UTC),
    seconds=1.5,
    findings=(
        Finding(id="BASE-2", verdict="pass", case="framing.a_case"),
        Finding(
            id="W-22e",
            verdict="fail",
            case=next(iter(server_cases())),
            expected="one finished",
            got=HOSTILE,
            exchange=[
                passed({"jsonrpc": "2.0", "id": 7, "result": HOSTILE}),
                passed(PROGRESS),
                Transmission.of(1.1, "model", "server", b"HTTP 200\n" + HOSTILE.encode()),
                Transmission.of(1.2, "client", "server", b"\xff" * 9000),
            ],
            breach=1,
        ),
        Finding(id="LIFE-16", verdict="warn", expected="soon", got="late"),
        Finding(id="W-5h", verdict="untestable", got="one engine only"),
        Finding(id="W-33d", verdict="not-applicable", got="another edition"),
    ),
    incidents=(Incident(case="framing.a_case", what="its end with exit code 1"),),
)


def with_verdict(id_: str, verdict: Verdict) -> Run:
    findings = [attrs.evolve(f, verdict=verdict) if f.id == id_ else f for f in RUN.findings]
    return attrs.evolve(RUN, findings=tuple(findings))


def test_the_page_has_each_requirement_and_runs_no_script_of_the_target() -> None:
    page = render_html(RUN, server_cases(), changes=compare(with_verdict("W-22e", "pass"), RUN))
    assert page.count("<script>") == 1
    assert "alert(1)</script>" not in page
    assert all(f'id="{finding.id}"' in page for finding in RUN.findings)
    assert "not conformant" in page
    assert '<a href="#W-22e">' in page
    assert page.index('id="W-22e"') < page.index('id="BASE-2"')
    assert 'class="arrow left from0 broken"' in page
    assert "bytes left out" in page
    row = page[page.index('id="W-22e"') :].partition("</summary>")[0]
    assert '<span class="why faint">expected one finished</span>' in row
    assert '<span class="why">got ' in row
    known = render_html(attrs.evolve(RUN, known=KNOWN), {})
    assert ">known<" in known
    badge = render_badge(RUN)
    assert "1 of 3" in badge
    ET.fromstring(badge)


SECTIONS = "[...document.querySelectorAll('.sections tr')]"
BOXES = "['th', 'svg'].map(each => row.querySelector(each).getBoundingClientRect())"


@pytest.mark.long
def test_the_bar_of_a_section_is_beside_its_label_on_any_screen(browser, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    page.write_text(render_html(RUN, {}), "utf-8")
    browser.open(page.as_uri())
    for width in (420, 1200):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        browser.call("Emulation.setDeviceMetricsOverride", **metrics)
        boxes = browser.value(f"{SECTIONS}.map(row => {BOXES}.map(box => box.toJSON()))")
        assert boxes
        for label, bar in boxes:
            assert bar["width"] > width / 4
            assert label["top"] < bar["top"] < bar["bottom"] < label["bottom"]
            assert bar["left"] >= label["right"]


CONFORMANT = "Conformant: no judged requirement of level must is broken."
KNOWN = {"W-22e", "framing.a_case"}
CONCLUSIONS = [
    (RUN.findings, {"framing.a_case"}, "not conformant", "Not conformant: W-22e", "#b3261a"),
    (RUN.findings[2:], (), "not conformant", "Not conformant: framing.a_case", "#b3261a"),
    (RUN.findings, KNOWN, "only known failures", "Only known failures.", "#855600"),
    (RUN.findings[3:], None, "nothing judged", "No requirement could be judged.", "#855600"),
    (RUN.findings[2:], None, "conformant", CONFORMANT, "#17744a"),
]


@pytest.mark.parametrize(("findings", "known", "word", "text", "colour"), CONCLUSIONS)
def test_the_terminal_the_page_and_the_badge_have_the_same_conclusion(
    findings, known, word, text, colour
):
    incidents = () if known is None else RUN.incidents
    run = attrs.evolve(RUN, findings=findings, incidents=incidents, known=known or ())
    page = render_html(run, {})
    verdict = page[page.index('<div class="verdict">') :].partition("</div>")[0]
    kind = {"#b3261a": "bad", "#855600": "odd", "#17744a": "good"}[colour]
    assert verdict.endswith(f'<span class="badge {kind}">{word}</span>')
    assert render_table(run).endswith(f"\n{text}\n")
    assert colour in render_badge(run)
    assert "0 of 0" not in page + render_badge(run)


def test_an_error_of_the_suite_is_neither_a_pass_nor_the_targets_error(capsys, monkeypatch) -> None:
    fault = SuiteError(case="here.c", what="KeyError(1)", place="here.py:7, in c", traceback="Tr!")
    run = attrs.evolve(with_verdict("W-22e", "pass"), incidents=(), suite_errors=(fault,))
    text = render_table(run)
    assert "The suite itself failed in a case\n    case      here.c\n" in text
    assert "KeyError(1) at here.py:7, in c" in text
    assert text.endswith("No judged requirement is broken, but not all requirements were judged.\n")
    assert "Tr!" not in text
    assert "Tr!" in render_table(run, verbose=True)
    assert "#855600" in render_badge(run)
    page = render_html(run, {})
    assert "not judged whole" in page
    assert "in here.c the suite itself failed here" in page
    errors = list(ET.fromstring(render_junit(run)).iter("error"))
    assert [error.text for error in errors] == ["Tr!"]
    assert attrs.evolve(RUN, suite_errors=(fault,)).conclusion == "not conformant"
    known = known_failures(run.known_text())
    assert known == {"here.c"}
    assert render_table(attrs.evolve(run, known=known)).endswith("Only known failures.\n")
    assert not list(ET.fromstring(render_junit(attrs.evolve(run, known=known))).iter("error"))

    def code_of(outcome: Run | None, *arguments: str) -> int:
        async def judged(*_: object, **__: object) -> Run | None:
            return outcome

        monkeypatch.setattr(cli, "run_suite", judged)
        return cli.run([*arguments, "--only", "W-22e", "--", "x"])

    assert code_of(run) == 4
    assert code_of(attrs.evolve(RUN, suite_errors=(fault,))) == 1
    monkeypatch.setattr(cli, "render_table", None)
    assert code_of(run) == 4
    assert "this is not a verdict on the target" in capsys.readouterr().err


@pytest.mark.parametrize(("verdict", "code"), [("fail", 1), ("pass", 4)])
def test_an_unwritable_report_prevents_neither_the_others_nor_the_verdict(
    verdict, code, tmp_path, monkeypatch, capsys
):
    gone = tmp_path / "gone"
    gone.mkdir()

    async def judged(*_: object, **__: object) -> Run:
        gone.rmdir()
        return attrs.evolve(with_verdict("W-22e", verdict), incidents=())

    monkeypatch.setattr(cli, "run_suite", judged)
    monkeypatch.setattr(cli, "render_junit", None)
    names = {"--json-out": gone / "r.json", "--junit": tmp_path / "r.xml"}
    names |= {"--html": tmp_path / "r.html", "--badge": tmp_path / "r.svg"}
    arguments = [str(word) for pair in names.items() for word in pair]
    assert cli.run([*arguments, "--", "x"]) == code
    assert sorted(path.name for path in tmp_path.iterdir()) == ["r.html", "r.svg"]
    output = capsys.readouterr()
    assert f"{CONFORMANT}\n" in output.out or "Not conformant: W-22e\n" in output.out
    assert f"{gone}/r.json: No such file or directory" in output.err
    assert "r.xml: TypeError" in output.err


@pytest.mark.parametrize(
    ("message", "label"),
    [
        (PROGRESS, "chat/contentReceived: progress finished"),
        ({"jsonrpc": "2.0", "id": 1, "method": "shutdown"}, "shutdown (id 1)"),
        ({"jsonrpc": "2.0", "id": "a", "error": {"code": -32601}}, "error -32601 for id 'a'"),
        ({"jsonrpc": "2.0", "id": 2, "result": None}, "result for id 2"),
    ],
)
def test_a_label_distinguishes_messages(message: object, label: str) -> None:
    assert message_label(passed(message)) == label


def test_the_junit_report_has_failures_errors_and_skipped_cases() -> None:
    root = ET.fromstring(render_junit(RUN))
    cases = {case.get("name", "").partition(":")[0]: case for case in root.iter("testcase")}
    kinds = {name: [child.tag for child in case] for name, case in cases.items()}
    assert kinds == {
        "BASE-2": [],
        "W-22e": ["failure"],
        "LIFE-16": ["system-out"],
        "W-5h": ["skipped"],
        "W-33d": ["skipped"],
        "framing.a_case": ["error"],
    }
    known = ET.fromstring(render_junit(attrs.evolve(RUN, known=KNOWN)))
    assert not list(known.iter("failure")) + list(known.iter("error"))


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        ("pass", "fail", "1 broken now: W-22e"),
        ("untestable", "fail", "1 judged now, and broken: W-22e"),
        ("not-applicable", "warn", "1 judged now, and broken: W-22e"),
        ("fail", "pass", "1 fixed now: W-22e"),
        ("untestable", "pass", "1 judged now: W-22e"),
        ("pass", "untestable", "1 no longer judged: W-22e"),
        ("fail", "warn", "Nothing has changed since the earlier run."),
        ("pass", "pass", "Nothing has changed since the earlier run."),
    ],
)
def test_two_runs_are_compared(before: Verdict, after: Verdict, text: str) -> None:
    changes = compare(with_verdict("W-22e", before), with_verdict("W-22e", after))
    assert list(describe_changes(changes)) == [text]
    fewer, others = attrs.evolve(RUN, findings=RUN.findings[:2]), "LIFE-16 W-5h W-33d"
    assert [*describe_changes(compare(RUN, fewer))] == [f"3 only in the earlier run: {others}"]
    assert [*describe_changes(compare(fewer, RUN))] == [f"3 only in this run: {others}"]


def test_the_records_of_a_run_are_read_again() -> None:
    read = Run.from_json(json.dumps(RUN.to_json()))
    assert read == attrs.evolve(RUN, incidents=())

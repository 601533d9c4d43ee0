"""`eca-server conformance` as a user runs it: its output, its files, its exit codes."""

import io
import json
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import attrs
import pytest
import trio

from eca_protocol.revisions import Revision
from eca_protocol.testing.conformance.cases import server_cases
from eca_protocol.testing.conformance.run import Incident, Run
from eca_protocol.testing.conformance.verdicts import Finding
from eca_server.system import live_line
from eca_server.workbench.conformance.cli import run
from eca_server.workbench.conformance.table import Progress, render_table
from tests.eca_server import fork_server
from tests.eca_server.processes import assert_gone, assert_some, children

REPOSITORY = Path(__file__).resolve().parents[4]
REFERENCE = [sys.executable, "-m", "tests.eca_protocol.testing.conformance.reference"]
HERE = ["--cwd", str(REPOSITORY), "--env", f"PYTHONPATH={REPOSITORY}"]
ONLY = ["--only", "turns.a_turn_has_its_parts_in_order"]
CONFORMANT = "Conformant: no judged requirement of level must is broken.\n"


def test_a_conformant_server_passes(capsys, tmp_path):
    file = tmp_path / "findings.json"
    server = ["--json-out", str(file), "--", *fork_server.command(REFERENCE[-1])]
    assert run([*HERE, *ONLY, "--verbose", *server]) == 0
    output = capsys.readouterr().out
    assert "edition 2025-10" in output
    assert output.endswith(CONFORMANT)
    assert {"W-20a", "CHAT-13"} <= set(output.split())  # which is judged with it
    records = json.loads(file.read_bytes())
    assert {"W-20a", "W-20b"} <= {record["id"] for record in records}
    assert all(record["verdict"] == "pass" for record in records)


@pytest.mark.long
def test_a_selected_case_reports_each_requirement_that_its_messages_break(capsys, tmp_path):
    file = tmp_path / "findings.json"
    server = ["--", *REFERENCE, "--mutant", "W-2b: as text"]
    assert run([*HERE, *ONLY, "--json-out", str(file), *server]) == 1
    assert "FAIL       W-2b" in capsys.readouterr().out
    conformant = [*HERE, *ONLY, "--compare", str(file), "--", *REFERENCE]
    assert run(conformant) == 0
    assert "broken" not in capsys.readouterr().out.partition(CONFORMANT)[2]
    assert run([*HERE, "--only", "W-20a", *server]) == 0  # a requirement is judged alone


def test_a_failure_fails_the_run_until_it_is_known(capsys, tmp_path):
    known = tmp_path / "known.txt"
    server = ["--", *fork_server.command(REFERENCE[-1]), "--mutant", "FinishesTwice"]
    clients = ["--only", "CLIENT-14"]  # which is judged by the same cases
    assert run([*HERE, *clients, "--write-known-failures", str(known), *server]) == 1
    output = capsys.readouterr().out
    assert "FAIL       W-22e" in output
    assert "warn       CLIENT-14" in output
    assert "Each started turn ends with exactly one `finished`." in output
    assert run([*HERE, *clients, "--known-failures", str(known), *server]) == 0
    output = capsys.readouterr().out
    assert "known failure W-22e" in output
    assert output.endswith("Only known failures.\n")


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ([], "expected `-- COMMAND`"),
        (["my-server", "--stdio"], "expected `--` before the command: `-- my-server --stdio`"),
        (["--jsonout", "x", "--", "x"], "unknown option '--jsonout'; did you mean `--json-out`?"),
        (["--compare", "README.md", "--", "x"], "README.md: expected the records of a run"),
        (
            ["--compare", "docs/pictures/inspector.png", "--", "x"],
            "a run: expected UTF-8, got byte",
        ),
        (["--compare", "/no/such/file", "--", "x"], "could not read /no/such/file: No such file"),
        (["--known-failures", "README.md", "--", "x"], "README.md: line 3: expected the id"),
        (["--only", "W-9999", "--", "x"], "no case or requirement is called W-9999"),
        (["--only", "W-9999", "--list"], "no case or requirement is called W-9999"),
        (["--html", "/no/such/x.html", "--", "x"], "the folder /no/such does not exist"),
        (["--html", "HERE", "--", "x"], "HERE: expected a regular file or none"),
        (["--html", "x", "--json-out", "x", "--", "x"], "given for both --json-out and --html"),
        (["--config-arg={{file}}", "--", "x"], "{{file}} needs --config-template FILE"),
        (["--edition", "2024", "--", "x"], "unknown protocol revision '2024'"),
        (["--as", "nobody", "--", "x"], "invalid choice: 'nobody'"),
        (["--client", "--protocol", "acp", "--", "x"], "no server of --protocol acp"),
        (["--client", "--as", "emacs", "--", "x"], "--as has no meaning with --client"),
        (["--protocol", "acp", "--as", "emacs", "--", "x"], "--as has no meaning with --protocol"),
        (["--protocol", "acp", "--edition", "current", "--", "x"], "--edition has no meaning"),
        (["--env", "NAME", "--", "x"], "expected NAME=VALUE"),
        (["--jobs", "0", "--", "x"], "expected a number above 0"),
        (["--seconds", "-1", "--", "x"], "expected seconds"),
        (["--known-failures", "/no/such/file", "--", "x"], "No such file"),
        (["--config-template", "/no/such/file", "--", "x"], "No such file"),
    ],
)
def test_wrong_usage_is_refused(arguments, why, tmp_path, capsys):
    try:
        code = run([each.replace("HERE", str(tmp_path)) for each in arguments])
    except SystemExit as end:
        code = end.code
    assert code == 2
    assert why.replace("HERE", str(tmp_path)) in capsys.readouterr().err


def test_a_server_that_cannot_be_started_is_an_error(capsys):
    dies = "import sys; sys.exit('\\x1b[31mno key')"
    assert run(["--", sys.executable, "-S", "-c", dies]) == 3
    output = capsys.readouterr()
    assert "cannot be started" in output.err
    assert run(["--client", "--", "/no/such/client"]) == 3
    assert "cannot be started: cannot start '/no/such/client'" in capsys.readouterr().err
    assert "\\x1b[31mno key" in output.err
    assert output.out == ""


def test_the_cases_are_listed_with_descriptions_and_requirements(capsys):
    assert run(["--list", "--only", "turns"]) == 0
    assert "turns.a_turn_has_its_parts_in_order\n" in capsys.readouterr().out
    assert run(["--list", *ONLY]) == 0
    name, summary, rows = capsys.readouterr().out.splitlines()
    assert name == "turns.a_turn_has_its_parts_in_order"
    assert summary.strip()
    assert "W-20a" in rows.split()


def test_the_table_details_broken_requirements_and_groups_unjudged_ones():
    outcome = Run(
        target="my server",
        edition=Revision.R2025_10.value,
        started=datetime(2026, 1, 1, tzinfo=UTC),
        seconds=2.0,
        findings=(
            Finding(id="W-20a", verdict="fail", case="c.d", expected="a", got="\x1b[2J"),
            Finding(id="CLIENT-2", verdict="warn", case="c.d", expected="b", got="none"),
            Finding(id="W-20b", verdict="pass", case="c.e"),
            Finding(id="W-22a", verdict="untestable", got="no time"),
            Finding(id="W-22b", verdict="untestable", got="no time"),
            Finding(id="W-22c", verdict="untestable", got="no time in 150 s"),
            Finding(id="W-30a", verdict="not-applicable", got="no tools"),
        ),
        incidents=(Incident(case="c.f", what="its end"),),
    )
    brief = render_table(attrs.evolve(outcome, known={"W-20b"}))
    assert "FAIL       W-20a  Rulings: chat\n" in brief
    assert "expected  a" in brief
    assert "\\x1b[2J" in brief
    assert "warn       CLIENT-2  Clients in the field (observed)\n" in brief
    assert "untestable W-22a W-22b\n    reason    no time\n" in brief
    assert "The target ended during a case\n    case      c.f\n" in brief
    assert (
        "1 failed, 1 warning, 1 passed, 3 untestable, 1 not applicable\n"
        "The time limit left 1 requirements unjudged:" in brief
    )
    assert "to remove from the list: W-20b\n" in brief
    assert brief.endswith("Not conformant: W-20a c.f\n")
    assert "pass       W-20b" not in brief
    full = render_table(outcome, verbose=True)
    assert "pass       W-20b" in full
    assert "untestable W-22b  Rulings: chat\n" in full
    good = attrs.evolve(outcome, findings=outcome.findings[2:], incidents=())
    assert render_table(good).endswith(CONFORMANT)
    unjudged = attrs.evolve(outcome, findings=outcome.findings[3:], incidents=())
    assert render_table(unjudged).endswith("No requirement could be judged.\n")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_the_time_advances_on_a_terminal_while_no_case_ends(autojump_clock, monkeypatch):
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(live_line.time, "monotonic", trio.current_time)
    out = _Terminal()
    with trio.move_on_after(2.5):
        await Progress(out, 7).line.keep_current()
    lines = [f"0 of 7 cases, {seconds} s, starting the target" for seconds in range(3)]
    assert out.getvalue().split("\r\x1b[K") == ["", *lines, ""]
    file = io.StringIO()
    silent = Progress(file, 7)
    await silent.line.keep_current()
    silent.add(next(iter(server_cases().values())), [])
    assert file.getvalue() == ""


@pytest.mark.long
def test_an_interrupt_ends_the_started_servers():
    command = [sys.executable, "-m", "eca_server", "conformance", *HERE, "--", *REFERENCE]
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert_some(running.pid, within=20)
        servers = children(running.pid)
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=20)
    assert running.returncode == 130
    assert_gone(servers)

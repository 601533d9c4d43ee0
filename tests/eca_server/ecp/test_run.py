"""`ecp` as a user runs it: the real process, its modules, its files, its exit codes."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from eca_server.ecp.cli import run
from tests.eca_protocol.ecp.agents import SCRIPT
from tests.eca_server import fork_server
from tests.eca_server.ecp.runs import OBEDIENT
from tests.eca_server.processes import processes_in, run_to_end, wait_until
from tests.promises import within

REPOSITORY = Path(__file__).resolve().parents[3]
DEMO = "tests/examples/customer_support_demo/manifest.yaml"
ENVIRONMENT = {name: text for name, text in os.environ.items() if "PYTHON" not in name} | {
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "PYTHONPATH": str(REPOSITORY),
}
"""The environment of an activated virtual environment, with the tree under test."""

SLEEPS = "hang = lambda: time.sleep(600)"
"""A change for `OBEDIENT`: a hanging agent does not notice the end of its input."""

DEAF = """
import os, signal, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
evaluator = os.getppid()
if not os.fork():
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.pause()
os.wait()
os.kill(evaluator, signal.SIGTERM)
signal.pause()
"""
"""An agent that ends its evaluator, ignores SIGTERM, and leaves a detached process."""


def ecp(*arguments: str | Path, cwd: Path = REPOSITORY) -> subprocess.CompletedProcess[str]:
    command = (*fork_server.ECA, "ecp", *map(str, arguments))
    done = fork_server.run(command, cwd=cwd, env=ENVIRONMENT, timeout=60)
    assert "Traceback" not in done.stderr
    return done


def started(*arguments: str | Path, cwd: Path, **streams: Any) -> subprocess.Popen[str]:
    """Start a command with streams of its own."""
    command = [*fork_server.command(), "ecp", *map(str, arguments)]
    return subprocess.Popen(command, cwd=cwd, text=True, **{"env": ENVIRONMENT, **streams})


def manifest(
    folder: Path, *inputs: str, agent: str = "", change: str = "", value: str = "good"
) -> Path:
    """Write an agent, by default a changed obedient one, and a scenario for each input."""
    (folder / "agent.py").write_text(agent or SCRIPT + OBEDIENT % change, "utf-8")
    graders = f"graders: [{{type: text_match, condition: contains, value: '{value}'}}]"
    scenarios = "".join(
        f"- name: s{number}\n  steps: [{{input: {text}, {graders}}}]\n"
        for number, text in enumerate(inputs)
    )
    flags = "" if agent else "-S -E "
    head = f"manifest_version: v1\nname: n\ntarget: {sys.executable} {flags}agent.py\nscenarios:\n"
    (folder / "m.yaml").write_text(f"{head}{scenarios}", "utf-8")
    return folder / "m.yaml"


def test_the_example_passes_and_writes_every_report(tmp_path):
    outputs = [tmp_path / name for name in ("r.html", "r.json", "r.xml", "a.json")]
    flags = ("--report", "--json-out", "--junit", "--audit-out")
    files = [word for pair in zip(flags, outputs, strict=True) for word in pair]
    done = ecp("run", "--manifest", DEMO, "--json", *files)
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert printed == json.loads(outputs[1].read_text("utf-8"))
    assert (printed["passed"], printed["failed"], printed["exit_reason"]) == (15, 0, "ok")
    assert printed["audit"] == json.loads(outputs[3].read_text("utf-8"))
    assert printed["audit"]["agent"]["name"] == "customer-support"
    suites = ET.parse(outputs[2]).getroot()
    assert suites.attrib["failures"] == suites.attrib["errors"] == "0"
    assert "Customer support" in outputs[0].read_text("utf-8")
    assert "6 of 6 scenarios and 15 of 15 checks passed" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("-m", "m.yaml"), 2, "1 of 2 scenarios"),
        (("-m", "m.yaml", "--no-fail-on-error"), 0, ""),
        (("-m", "m.yaml", "--scenario", "s0"), 0, ""),
        (("m.yaml", "--scenario", "no*"), 2, "nothing to check"),
        (("vain.yaml",), 2, "nothing was checked"),
        (("m.yaml", "--scenario", "s0", "--scenario", "s3"), 0, "no scenario is called 's3'"),
        (("m.yaml", "--scenario", "s0", "--exclude", "s3"), 0, "no scenario is called 's3'"),
        (("-m", "m.yaml", "--json-out", "none/r.json"), 1, "does not exist"),
        (("-m", "none.yaml"), 2, "there is no file"),
        (("-m", "bad.yaml"), 1, "bad.yaml:1:1: target: this key is missing"),
    ],
)
def test_exit_codes_distinguish_the_outcomes(tmp_path, arguments, code, words):
    manifest(tmp_path, "good", "wrong")
    (tmp_path / "bad.yaml").write_text("name: x", "utf-8")
    vain = re.sub(r"graders: .*?\]", "graders: []", (tmp_path / "m.yaml").read_text("utf-8"))
    (tmp_path / "vain.yaml").write_text(vain, "utf-8")
    done = ecp("run", *arguments, cwd=tmp_path)
    assert (done.returncode, words in done.stdout + done.stderr) == (code, True)


@pytest.mark.long
def test_no_locale_changes_a_report(tmp_path):
    manifest(tmp_path, "straße 日本 good")
    plain = ENVIRONMENT | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    command = [*fork_server.ECA, "ecp", "run", "m.yaml", "--json"]
    done = run_to_end(command, cwd=tmp_path, env=plain, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    (scenario,) = json.loads(done.stdout)["scenarios"]
    assert scenario["steps"][0]["output"] == "straße 日本 good"


@pytest.mark.long(but=1)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_leaves_the_report_of_what_ran_and_no_process(tmp_path, number, code):
    manifest(tmp_path, "good", "hang", "good", change=SLEEPS)
    os.mkfifo(tmp_path / "page")
    arguments = ("run", "m.yaml", "--json-out", "r.json", "--report", "page", "--verbose")
    with started(*arguments, cwd=tmp_path, stdout=subprocess.PIPE) as running:
        assert "passed s0" in running.stdout.readline()
        while not processes_in(tmp_path, b"agent.py"):
            time.sleep(0.01)
        running.send_signal(number)
        with within(5):
            while not (tmp_path / "r.json").exists():
                time.sleep(0.01)
        running.send_signal(signal.SIGINT)  # a second one while it writes the page
        with pytest.raises(subprocess.TimeoutExpired):
            running.wait(0.3)
        assert (tmp_path / "page").read_text("utf-8").endswith("</html>\n")
        assert running.wait(20) == code
    values = json.loads((tmp_path / "r.json").read_text("utf-8"))
    assert values["exit_reason"] == "interrupted"
    assert [scenario["name"] for scenario in values["scenarios"]] == ["s0"]
    assert not processes_in(tmp_path, b"agent.py")


@pytest.mark.long
def test_workers_end_with_a_killed_run(tmp_path):
    manifest(tmp_path, "hang", "hang", "hang", change=SLEEPS)
    command = [*fork_server.ECA, "ecp", "run", "m.yaml", "--jobs", "2"]
    with subprocess.Popen(command, cwd=tmp_path, env=ENVIRONMENT) as running:
        while not processes_in(tmp_path, b"agent.py"):
            assert running.poll() is None
            time.sleep(0.01)
        running.kill()
    wait_until(lambda: not processes_in(tmp_path), lambda: processes_in(tmp_path))


def test_a_starter_is_written_once_and_passes_or_leaves_nothing(tmp_path):
    done = ecp("init", tmp_path / "x\udcff")  # a name that is not UTF-8
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "it is not UTF-8" in done.stderr
    assert not list(tmp_path.iterdir())
    written = ecp("init", tmp_path / "my eval").stdout
    assert written.endswith(f"Next: ecp run '{tmp_path}/my eval/manifest.yaml'\n")
    assert ecp("run", "-m", tmp_path / "my eval" / "manifest.yaml").returncode == 0
    again = ecp("init", tmp_path / "my eval")
    assert (again.returncode, "--force" in again.stderr) == (1, True)


def test_a_starter_that_finds_no_space_replaces_nothing(tmp_path):
    (tmp_path / "agent.py").write_text("mine")
    command = 'ulimit -f 0; exec "$0" -P -m eca_server ecp init --force "$1"'
    done = run_to_end(["sh", "-c", command, sys.executable, tmp_path], env=ENVIRONMENT)
    assert done.returncode == 1, done.stderr
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("agent.py", "mine")]


@pytest.mark.long
def test_an_agent_is_checked_for_conformance(tmp_path):
    manifest(tmp_path, "good")
    target = f"{sys.executable} -S -E {tmp_path / 'agent.py'}"
    not_utf8 = "\udcff"  # an argument that is not UTF-8
    done = ecp("conformance", "-t", f"{target} {not_utf8}", "--json", "--timeout", "5")
    findings = {check["name"]: check for check in json.loads(done.stdout)["checks"]}
    assert findings["reset"]["passed"]
    assert not findings["unknown method"]["passed"]
    warned = {name for name, check in findings.items() if check["warning"]}
    assert warned == {"step without input", "another major version"}
    assert done.returncode == 1
    done = ecp("conformance", "-t", target, "--json-out", tmp_path / "none" / "f.json")
    assert (done.returncode, "does not exist" in done.stderr) == (1, True)
    demo = "tests/examples/customer_support_demo/support_agent.py"
    assert ecp("conformance", "-t", f"{sys.executable} {demo}").returncode == 0
    (tmp_path / "agent.py").write_text(DEAF, "utf-8")
    done = ecp("conformance", "-t", f"{sys.executable} -S -E agent.py", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (143, "")
    assert not processes_in(tmp_path, b"agent.py")


def test_the_small_commands_answer(tmp_path):
    assert "6 scenarios, 9 steps, 15 graders" in ecp("validate", DEMO).stdout
    assert json.loads(ecp("schema", "report").stdout)["title"] == "ECP report"
    assert "OPENAI_API_KEY" in ecp("doctor").stdout
    done = ecp("runn", "m.yaml")
    assert (done.returncode, "did you mean `run`?" in done.stderr) == (2, True)
    for words, count in (((), "none"), (("a", "-m", "b"), "two")):
        done = ecp("run", *words)
        assert (done.returncode, f"expected one manifest, got {count}" in done.stderr) == (2, True)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = ecp("agent", "--http", str(taken.getsockname()[1]), cwd=tmp_path)
    assert (done.returncode, "in use" in done.stderr) == (1, True)


def test_the_served_chat_reports_a_bad_configuration_and_ends_on_a_signal(tmp_path):
    (tmp_path / "config.json").write_text("{", "utf-8")
    arguments = ("agent", "--http", "0", "--config-file", "config.json")
    home = ENVIRONMENT | {"HOME": str(tmp_path)}
    with started(*arguments, cwd=tmp_path, env=home, stderr=subprocess.PIPE) as running:
        errors = running.stderr.readline() + running.stderr.readline()
        running.send_signal(signal.SIGINT)
        assert "/ecp\n" in errors
        assert "error: config.json:1:2: expected" in errors
        assert (running.wait(20), running.stderr.read()) == (130, "")


def test_a_full_stream_ends_nothing_and_keys_are_masked(tmp_path):
    manifest(tmp_path, "good", "wrong")
    report = tmp_path / "r.json"
    line = ("run", "m.yaml", "--json-out", report, "--verbose")
    with Path("/dev/full").open("w") as full:
        for streams in ({"stdout": full}, {"stdout": subprocess.DEVNULL, "stderr": full}):
            assert started(*line, cwd=tmp_path, **streams).wait(60) == 2
            assert json.loads(report.read_text("utf-8"))["passed"] == 1
        schema = started("schema", "report", cwd=tmp_path, stdout=full, stderr=subprocess.PIPE)
        assert schema.communicate(timeout=60)[1] == "ecp: No space left on device\n"
        assert schema.returncode == 1
    last = "import sys; sys.exit(' my-own-password' * 600 + '12345')"  # cut within a word
    (tmp_path / "agent.py").write_text(last, "utf-8")
    secret = ENVIRONMENT | {"DESK_PASSWORD": "my-own-password"}
    running = started(*line, "--fail-fast", cwd=tmp_path, env=secret, stdout=subprocess.PIPE)
    printed, _ = running.communicate(timeout=60)
    assert printed.count("exit code 1; the end of its error output") == 1
    assert printed.endswith("checks passed (transport_error); 1 scenario was not run\n")
    assert "password" not in printed + report.read_text("utf-8")


@pytest.mark.long(but=1)
@pytest.mark.parametrize("jobs", ["2", "1"])
def test_a_printing_grader_of_an_installed_package_leaves_the_report_readable(jobs, tmp_path):
    file = manifest(tmp_path, "good", "good")
    text = file.read_text("utf-8").replace("{type: text_match", "{type: noisy}, {type: text_match")
    file.write_text(text, "utf-8")
    packaged = tmp_path / "site/noisy-1.dist-info"
    packaged.mkdir(parents=True)
    (tmp_path / "site/noisy.py").write_text("def grade(*_):\n    print('noise')\n    return True\n")
    (packaged / "METADATA").write_text("Metadata-Version: 2.1\nName: noisy\nVersion: 1\n")
    (packaged / "entry_points.txt").write_text("[ecp.graders]\nnoisy = noisy:grade\n")
    path = os.pathsep.join((ENVIRONMENT["PYTHONPATH"], str(tmp_path / "site")))
    command = [*fork_server.ECA, "ecp", "run", "m.yaml", "--json", "--jobs", jobs]
    done = run_to_end(command, cwd=tmp_path, env=ENVIRONMENT | {"PYTHONPATH": path})
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["passed"] == 4
    assert done.stderr.count("noise") == 2


ERRING = """
from eca_protocol.ecp import Result, agent, on_step, serve_stdio

@agent(name="erring")
class Erring:
    @on_step
    def answer(self, text: str) -> Result:
        if text == "raise":
            raise LookupError("no such\\x1b book")
        open("count", "a").write("x")
        return Result(public_output="good" if len(open("count").read()) % 2 else "bad")

serve_stdio(Erring)
"""


def test_a_redacted_run_prints_no_answers(tmp_path, capsys, monkeypatch):
    manifest(tmp_path, "secret-input", "exit")
    monkeypatch.chdir(tmp_path)
    assert run(["run", "m.yaml", "--redact", "--verbose"]) == 2
    printed = "".join(capsys.readouterr())
    assert "secret-input" not in printed
    assert "out of books" not in printed
    assert "not ok: step 1, text_match of public_output: [redacted]" in printed


def test_expected_and_actual_texts_are_printed_as_they_are_written(tmp_path, capsys, monkeypatch):
    manifest(tmp_path, r'"a\nb\x1b\u202e\\"', value="'")
    text = (tmp_path / "m.yaml").read_text("utf-8").replace("'" * 3, r'"c\n"')
    (tmp_path / "m.yaml").write_text(text, "utf-8")
    monkeypatch.chdir(tmp_path)
    assert run(["run", "m.yaml"]) == 2
    lines = capsys.readouterr().out.splitlines()
    assert lines[2:4] == [r"      expected 'c\n'", r"      got 'a\nb\x1b\u202e\\'"]


@pytest.mark.long
def test_a_traceback_stays_readable_and_a_flaky_scenario_is_named(tmp_path, capsys, monkeypatch):
    manifest(tmp_path, "raise", "other", agent=ERRING)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(REPOSITORY))
    assert run(["run", "m.yaml", "--repeat", "3", "--reuse-agent"]) == 2
    printed = capsys.readouterr()
    assert printed.err == ""
    lines = printed.out.splitlines()
    assert '        File "' in printed.out
    assert lines.count("      LookupError: no such\\x1b book") == 1  # once, not per repetition
    assert lines[-2:-1] == ["flaky 2 of 3 passed: s1"]
    assert {"      expected 'good'", "      got 'bad'"} <= set(lines)


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        (f"{sys.executable} -X dev -S none.py", "the script 'none.py' does not exist in"),
        (f"{sys.executable} /none/none.py", "the script '/none/none.py' does not exist\n"),
        (f"{sys.executable} -m none", ""),
        (f"{sys.executable} -c pass none.py", ""),
        ("no-such-command", "is not on PATH"),
        ("http://${env:NO_SUCH_HOST}/ecp", "the variable NO_SUCH_HOST is not set"),
        ("http://127.0.0.1:1/ecp", ""),
        ("a | b", "pass --shell"),
    ],
)
def test_validate_finds_a_target_that_cannot_start(target, problem, tmp_path, capsys):
    file = manifest(tmp_path, "good")
    lines = file.read_text("utf-8").splitlines()
    lines[2] = f"target: {json.dumps(target)}"
    file.write_text("\n".join(lines), "utf-8")
    assert run(["validate", str(file)]) == bool(problem)
    printed = capsys.readouterr().err
    assert problem in printed
    assert printed.startswith(f"{file}:3:1: target: " if problem else "")


def test_a_terminal_shows_the_progress_beside_the_results(tmp_path, capsys, monkeypatch):
    manifest(tmp_path, "good", "wrong")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert run(["run", "m.yaml"]) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("\r\x1b[K0 of 2 scenarios, 0 failed, 0 s")
    assert printed.err.endswith("\r\x1b[K")
    assert "\x1b" not in printed.out
    heads = [line.partition(":")[0] for line in printed.out.splitlines()]
    assert heads[:2] == ["passed s0", "FAILED s1"]


@pytest.mark.parametrize("verbose", [False, True])
def test_scenarios_without_time_to_start_share_a_line(verbose, tmp_path, capsys, monkeypatch):
    manifest(tmp_path, *["good"] * 40)
    monkeypatch.chdir(tmp_path)
    options = ["--max-duration", "0.0001", "--json-out", "r.json", *["--verbose"] * verbose]
    assert run(["run", "m.yaml", *options]) == 2
    lines = capsys.readouterr().out.splitlines()
    late = "scenarios: not started within the run's time limit, max_duration_exceeded"
    assert ([line for line in lines if line.endswith(late)] == []) == verbose
    assert (len(lines) >= 40) == verbose
    assert len(json.loads((tmp_path / "r.json").read_text())["scenarios"]) == 40


LOADED = """
import json, sys
from eca_server.ecp.cli import run
try:
    code = run(sys.argv[1:])
except SystemExit as end:
    code = end.code
print(json.dumps([code, *sys.modules]))
"""

NEVER = {"httpx", "jinja2", "eca_server.config.loading", "eca_server.connection.server"}
CHECKED = NEVER | {"trio", "anyio", "ssl", "importlib.metadata", "regex"}
RAN = NEVER | {"regex", "multiprocessing", "eca_server.ecp.reports.html", "eca_server.models"}


@pytest.mark.long(but=1)
@pytest.mark.parametrize(
    ("command", "spared"),
    [
        (["--help"], CHECKED | {"attrs", "yaml", "importlib.resources"}),
        (["validate", "m.yaml"], CHECKED),
        (["run", "--manifest", "m.yaml"], RAN),
    ],
    ids=["--help", "validate", "run"],
)
def test_a_command_loads_no_more_than_it_needs(command, spared, tmp_path):
    manifest(tmp_path, "good")
    program = [sys.executable, "-c", LOADED, *command]
    done = run_to_end(program, cwd=tmp_path, env={"PYTHONPATH": str(REPOSITORY)}, check=True)
    code, *loaded = json.loads(done.stdout.splitlines()[-1])
    assert code == 0, done.stderr
    assert not spared & set(loaded)

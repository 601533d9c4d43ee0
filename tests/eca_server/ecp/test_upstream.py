"""Our runtime and agents with upstream's, in both directions, over both transports.

The same agent runs with upstream's SDK and with ours: only the import differs. A manifest has the
expected verdict of each check, which holds for every pair of runtime and agent.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.eca_server.processes import run_to_end
from tests.environments import programs

pytestmark = pytest.mark.long

REPOSITORY = Path(__file__).resolve().parents[3]
VERSIONS = ("0.3.1", "0.10.0")

Step = tuple[str, list[tuple[dict[str, Any], bool]]]
"""An input, and its graders with their expected verdicts."""

AGENT = '''
"""The desk of a library; it counts the inputs of a conversation."""

import sys

from PACKAGE import SERVE, Result, agent, on_reset, on_step, serve_http
from tests.eca_server.processes import run_to_end


@agent(name="library-desk")
class Desk:
    def __init__(self):
        self.count = 0

    @on_reset
    def reset(self):
        self.count = 0

    @on_step
    def step(self, text):
        self.count += 1
        if text == "say nothing":
            return Result(public_output="")
        if text == "fail":
            raise LookupError("no such book")
        output = f"{self.count}. Grüße 📚 {text}!\\nRenewed until 2026-12-24"
        thought = "the due date was looked up, no exception was made"
        loan = {"book": "B-17", "days": 28, "notes": {"by": "desk"}, "copies": [1, 2]}
        calls = [{"name": "look_up", "arguments": {}}, {"name": "renew", "arguments": loan}]
        return Result(public_output=output, evaluation_context=thought, tool_calls=calls)


if sys.argv[1:]:
    serve_http(Desk(), port=0)
else:
    SERVE(Desk())
'''


def match(condition: str, expected: str, field: str | None = None) -> dict[str, Any]:
    chosen = {} if field is None else {"field": field}
    key = "pattern" if condition == "regex" else "value"
    return {"type": "text_match", "condition": condition, key: expected, **chosen}


def usage(name: str | None, **arguments: Any) -> dict[str, Any]:
    named = {} if name is None else {"tool_name": name}
    return {"type": "tool_usage", "arguments": arguments, **named}


OUTPUT = "1. Grüße 📚 B-17!\nRenewed until 2026-12-24"
FIRST: Step = (
    "B-17",
    [
        (match("contains", "Grüße 📚 B-17"), True),
        (match("contains", "grüße"), False),
        (match("equals", OUTPUT), True),
        (match("equals", f"{OUTPUT}\n"), False),
        (match("does_not_contain", "sorry"), True),
        (match("does_not_contain", "Renewed"), False),
        (match("regex", r"(?i)renewed UNTIL \d{4}-\d{2}-\d{2}$"), True),
        (match("regex", r"^Renewed"), False),
        (match("contains", "due date", "evaluation_context"), True),
        (match("contains", "due date", "private_thought"), True),
        (match("does_not_contain", "exception", "evaluation_context"), False),
    ],
)
SILENT: Step = (
    "say nothing",
    [
        (match("does_not_contain", "anything"), False),
        (match("contains", ""), False),
        (match("equals", "", "evaluation_context"), False),
        (usage(None), False),
    ],
)
TOOLS: Step = (
    "B-17",
    [
        (match("regex", r"\A1\. "), True),  # the state of the scenario before is gone
        *((usage(name), True) for name in (None, "look_up")),
        (usage("renew", book="B-17"), True),
        (usage("renew", book="B-18"), False),
        (usage("renew", book="B-17", days=28, notes={"by": "desk"}), True),
        (usage("renew", notes={}), False),
        (usage("renew", copies=[2, 1]), False),
        (usage("look_up", book="B-17"), False),
        (usage(None, days=28), True),
        (usage("lend"), False),
    ],
)
AGAIN: Step = ("again", [(match("regex", r"\A3\. "), True)])
CHECKS = {"texts": [FIRST, SILENT, AGAIN], "tools": [TOOLS]}


def manifest(target: str, scenarios: Mapping[str, list[Step]] = CHECKS) -> dict[str, Any]:
    def listed(steps: list[Step]) -> list[Any]:
        return [{"input": text, "graders": [each for each, _ in checks]} for text, checks in steps]

    named = [{"name": name, "steps": listed(steps)} for name, steps in scenarios.items()]
    head = {"manifest_version": "v1", "name": "Library desk", "target": target}
    return {**head, "scenarios": named}


EXPECTED = [
    [[passes for _, passes in graders] for _, graders in steps] for steps in CHECKS.values()
]


def verdicts(report: dict[str, Any]) -> list[list[list[bool]]]:
    return [
        [[check["passed"] for check in step["checks"]] for step in scenario["steps"]]
        for scenario in report["scenarios"]
    ]


class Desk:
    """The agent with one SDK: ours, or one of upstream's."""

    def __init__(self, sdk: str, folder: Path) -> None:
        ours = sdk == "ours"
        self.file = folder / "agent.py"
        package, serve = ("eca_protocol.ecp", "serve_stdio") if ours else ("ecp", "serve")
        self.file.write_text(AGENT.replace("PACKAGE", package).replace("SERVE", serve), "utf-8")
        self.python = sys.executable if ours else str(programs(f"ecp-{sdk}") / "python")

    @property
    def command(self) -> str:
        return f"'{self.python}' '{self.file}'"

    @contextmanager
    def url(self) -> Iterator[str]:
        """Serve the agent over HTTP, and provide its URL."""
        arguments = [self.python, str(self.file), "http"]
        served = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment())
        with served:
            try:
                line = served.stderr.readline()
                match_ = re.search(r"http://\S+", line)
                assert match_, line + served.stderr.read()
                yield match_[0]
            finally:
                served.kill()

    @contextmanager
    def target(self, transport: str) -> Iterator[str]:
        if transport == "http":
            with self.url() as url:
                yield url
        else:
            yield self.command


def environment() -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(REPOSITORY), "PYTHONUTF8": "1", "COLUMNS": "200"}


def ecp(runtime: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    ours = [sys.executable, "-m", "eca_server", "ecp"]
    command = ours if runtime == "ours" else [str(programs(f"ecp-{runtime}") / "ecp")]
    return run_to_end([*command, *map(str, arguments)], env=environment(), encoding="utf-8")


def ran(runtime: str, manifest: dict[str, Any], folder: Path, *flags: str) -> dict[str, Any]:
    """Run a manifest some of whose checks fail, and return the report."""
    file, report = folder / "manifest.yaml", folder / "report.json"
    file.write_text(json.dumps(manifest, ensure_ascii=False), "utf-8")  # it is YAML, too
    done = ecp(runtime, "run", "--manifest", file, "--json-out", report, *flags)
    assert report.exists(), done.stderr
    read: dict[str, Any] = json.loads(report.read_text("utf-8"))
    assert done.returncode == 2, done.stderr
    return read


@pytest.mark.parametrize("way", ["stdio", "stdio, reused", "http"])
@pytest.mark.parametrize("sdk", [*VERSIONS, "ours"])
def test_our_runtime_runs_agents_of_every_sdk(sdk: str, way: str, tmp_path: Path) -> None:
    transport, _, reused = way.partition(", ")
    with Desk(sdk, tmp_path).target(transport) as target:
        flags = ["--reuse-agent"] if reused else []
        report = ran("ours", manifest(target), tmp_path, *flags)
    assert verdicts(report) == EXPECTED
    assert report["exit_reason"] == "ok"
    for scenario in report["scenarios"]:
        assert scenario["agent"]["name"] == "library-desk"
        assert scenario["agent"]["protocol_version"] == (None if sdk == "0.3.1" else "1.0")


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("runtime", VERSIONS)
def test_upstreams_runtimes_run_our_agents(runtime: str, transport: str, tmp_path: Path) -> None:
    with Desk("ours", tmp_path).target(transport) as target:
        report = ran(runtime, manifest(target), tmp_path)
    assert verdicts(report) == EXPECTED
    step = report["scenarios"][0]["steps"][0]
    assert step["output"] == OUTPUT
    assert [call["name"] for call in step["tool_calls"]] == ["look_up", "renew"]
    if runtime == "0.10.0":
        agent = report["audit"]["agent"]
        assert (agent["name"], agent["protocol_version"]) == ("library-desk", "1.0")


def test_a_step_that_fails_and_a_dataset_are_the_same_to_both_runtimes(tmp_path: Path) -> None:
    rows = [
        {"input": "B-17", "output": OUTPUT},
        {"input": "B-17", "output": OUTPUT},
        {"input": "x"},
    ]
    data = "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    (tmp_path / "rows.jsonl").write_text(data, "utf-8")
    failing = ("fail", [(match("contains", "x"), False)])
    skipped = ("B-17", [(match("contains", "B-17"), False)])
    fine = ("B-17", [(match("contains", "B-17"), True)])
    plain = manifest(Desk("0.10.0", tmp_path).command, {"a": [failing, skipped], "b": [fine]})
    dataset = {"name": "rows", "dataset": {"type": "jsonl", "source": "rows.jsonl"}}
    plain["scenarios"].append(dataset)
    theirs, ours = (ran(runtime, plain, tmp_path) for runtime in ("0.10.0", "ours"))
    expected = [[[False], [False]], [[True]], [[True], [False], []]]
    assert (verdicts(ours), verdicts(theirs)) == (expected, expected)
    for key in ("passed", "total", "failed", "exit_reason"):
        assert ours[key] == theirs[key]
    assert endings(ours) == endings(theirs)
    failed = ("failed", "agent_error")
    assert endings(ours)[0] == [failed, failed, ("skipped", "skipped")]


def endings(report: dict[str, Any]) -> list[list[tuple[str, str]]]:
    """Return the status and exit reason of each scenario, and of each of its steps."""
    return [
        [(part["status"], part["exit_reason"]) for part in (scenario, *scenario["steps"])]
        for scenario in report["scenarios"]
    ]


@pytest.mark.parametrize("transport", ["stdio", "http", "chat"])
def test_upstreams_conformance_finds_nothing_in_our_agents(transport: str, tmp_path: Path) -> None:
    chat = f"ecp agent --model simulator/echo --workspace '{tmp_path}'"
    if transport == "chat":
        assert_conforms(f"'{sys.executable}' -m eca_server {chat}")
        return
    with Desk("ours", tmp_path).target(transport) as target:
        done = ecp("0.3.1", "conformance", "--target", target)
        assert (done.returncode, "passed" in done.stdout) == (0, True), done
        assert_conforms(target)


def assert_conforms(target: str) -> None:
    report = json.loads(ecp("0.10.0", "conformance", "--target", target, "--json").stdout)
    assert (report["conformant"], report["passed"], report["failed"]) == (True, 3, 0), report

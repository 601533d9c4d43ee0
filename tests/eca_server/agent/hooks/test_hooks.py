"""Outcomes of hook actions, matching of hooks with events, and runs of actions."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from eca_server.agent.hooks.action import ActionResult, run_action
from eca_server.agent.hooks.hooks import HookResults, Hooks
from eca_server.agent.hooks.matching import ToolCallEvent, matches_event
from eca_server.agent.hooks.outcome import EVENTS, Outcome, parse_outcome
from eca_server.config.hook_settings import Hook, HookAction
from eca_server.config.tool_settings import ApprovalRule
from tests.eca_server.processes import assert_gone

HERE = {"PATH": os.environ["PATH"]}


@pytest.mark.parametrize(
    ("event", "result", "expected"),
    [
        ("preRequest", ActionResult(status=0, stdout="plain words"), Outcome()),
        (
            "preRequest",
            ActionResult(status=2, stdout='{"continue": false}', stderr=" no\n"),
            (True, "no"),
        ),
        ("chatStart", ActionResult(status=2, stderr="no"), "no"),
        ("preRequest", ActionResult(status=1, stdout='{"continue": false}'), "exit code 1"),
        ("preRequest", ActionResult(status=-9, stderr="x"), "x"),
        ("preRequest", ActionResult(status=-11), "ended by signal 11"),
        (
            "chatStart",
            ActionResult(status=0, stdout='{"additionalContext": "c"}'),
            {"additionalContext": "c"},
        ),
        (
            "preToolCall",
            ActionResult(status=0, stdout=' {"approval": "deny"}'),
            {"approval": "deny"},
        ),
        (
            "preToolCall",
            ActionResult(status=0, stdout='{"approval": "yes"}'),
            ["approval: expected allow"],
        ),
        (
            "preToolCall",
            ActionResult(status=0, stdout='{"updatedInput": []}'),
            ["updatedInput: expected an"],
        ),
        (
            "preToolCall",
            ActionResult(status=0, stdout='{"updatedInput": {"a": %s}}' % ("[" * 100 + "]" * 100)),
            ["updatedInput: expected at most 100 levels"],
        ),
        (
            "preToolCall",
            ActionResult(status=0, stdout='{"followUp": "x"}'),
            ["followUp: ignored, preToolCall does not support"],
        ),
        ("preToolCall", ActionResult(status=0, stdout='{"mine": 1}'), Outcome()),
        (
            "preToolCall",
            ActionResult(status=0, stdout='{"approval": '),
            ["its output is ignored: expected a JSON object"],
        ),
        (
            "postToolCall",
            ActionResult(status=0, stdout='{"a', is_cut=True),
            ["its output is ignored: it wrote more than"],
        ),
        ("preCompact", ActionResult(status=2, stderr="no"), (True, "no")),
        ("postCompact", ActionResult(status=2, stderr="no"), "no"),
        ("subagentStart", ActionResult(status=2, stderr="no"), "no"),
        ("sessionEnd", ActionResult(status=2, stderr="no"), "no"),
        (
            "chatStatusChanged",
            ActionResult(status=0, stdout='{"systemMessage": "x"}'),
            ["systemMessage: ignored, chatStatusChanged does not"],
        ),
    ],
)
def test_an_exit_code_and_output_have_one_outcome(event, result, expected):
    outcome = parse_outcome(event, result)
    match expected:
        case Outcome():
            assert outcome == expected
        case (True, why):
            assert outcome == Outcome(blocks=True, why=why)
            assert (outcome.approval, outcome.stops) == ("deny", False)
        case str():
            assert outcome == Outcome(fails=True, why=expected)
        case dict():
            assert (outcome.output, outcome.problems) == (expected, ())
        case [begins]:
            assert outcome.output == {}
            assert outcome.problems[0].startswith(begins)


_VALUES = st.none() | st.booleans() | st.text(max_size=3) | st.dictionaries(st.text(), st.none())
_MEMBERS = sorted({member for members in EVENTS.values() for member in members})


@settings(max_examples=50)
@given(
    st.sampled_from(sorted(EVENTS)),
    st.sampled_from([0, 0, 0, 1, 2, -15]),
    st.dictionaries(st.sampled_from(_MEMBERS), _VALUES | st.sampled_from(["allow", "ask", "deny"])),
)
def test_whatever_a_hook_writes_gives_a_legal_decision(event, status, written):
    outcome = parse_outcome(event, ActionResult(status=status, stdout=json.dumps(written)))
    results = HookResults(payload={"prompt": "p", "tool_input": {}})
    results.add("a", Outcome(output={"approval": "ask"}))
    results.add("b", outcome)
    assert results.approval is not None
    assert results.approval[0] in {"ask", "deny"}
    assert set(outcome.output) <= EVENTS[event]
    assert isinstance(results.payload["prompt"], str)
    assert isinstance(results.payload["tool_input"], dict)
    assert status == 0 or (outcome.output == {} and results.stopped_by is None)
    assert not (outcome.blocks and outcome.fails)


def rule(**matchers: tuple[str, ...]) -> ApprovalRule:
    return ApprovalRule(args_matchers=matchers)


@pytest.mark.parametrize(
    ("matcher", "matches"),
    [
        (None, True),
        ("eca__write_.*", True),
        ("eca__write", False),
        ("server__.*", False),
        ({"write_file": rule()}, True),
        ({"eca__write_file": rule()}, True),
        ({"eca": rule()}, True),
        ({"read_file": rule()}, False),
        ({"write_file": rule(path=(".*[.]py", ".*[.]clj"))}, True),
        ({"write_file": rule(path=(".*[.]clj",))}, False),
        ({"write_file": rule(path=(".*",), content=(".*",))}, False),
        ({"write_file": ApprovalRule(args_matchers={"path": ()}, is_damaged=True)}, True),
        ("(.*)*(.*)*x", False),
    ],
)
def test_a_matcher_selects_the_calls_that_run_a_hook(matcher, matches):
    call = ToolCallEvent(server="eca", tool="write_file", arguments={"path": "src/a.py"})
    hook = Hook(type="preToolCall", matcher=matcher)
    assert matches_event(hook, "preToolCall", call) is matches
    assert not matches_event(hook, "postToolCall", call)


@pytest.mark.parametrize(
    ("matcher", "matches"),
    [(None, True), ("auto", True), ("manual", False), ("a.*", False), ({"auto": rule()}, True)],
)
def test_a_matcher_selects_the_compactions_that_run_a_hook(matcher, matches):
    hook = Hook(type="preCompact", matcher=matcher)
    assert matches_event(hook, "preCompact", triggered="auto") is matches


def test_a_failed_call_runs_only_hooks_with_run_on_error():
    call = ToolCallEvent(server="eca", tool="grep", arguments={}, failed=True)
    assert not matches_event(Hook(type="postToolCall"), "postToolCall", call)
    assert matches_event(Hook(type="postToolCall", run_on_error=True), "postToolCall", call)


async def run_shell(
    shell: str, payload: bytes = b"{}", timeout: float = 5, **more: Any
) -> ActionResult:
    action = HookAction(shell=shell, **more)
    where = Path("/")
    return await run_action(action, payload, directory=where, environment=HERE, timeout=timeout)


async def test_an_action_reads_its_stdin_and_returns_its_result(tmp_path):
    assert await run_shell("cat; echo why >&2; exit 2", b'{"a": 1}') == ActionResult(
        status=2, stdout='{"a": 1}', stderr="why\n"
    )
    assert (await run_shell("exit 3", b"x" * 1_000_000)).status == 3
    file = tmp_path / "hook.sh"
    file.write_text("#!/bin/sh\necho $0")
    for mode in (0o600, 0o700):
        file.chmod(mode)
        result = await run_action(
            HookAction(file=str(file)), b"{}", directory=tmp_path, environment=HERE, timeout=5
        )
        assert result == ActionResult(status=0, stdout=f"{file}\n")
    assert "expected either" in (await run_shell("true", file="x")).stderr
    missing = await run_action(
        HookAction(shell="true"), b"", directory=tmp_path / "no", environment=HERE, timeout=5
    )
    assert "cannot start" in missing.stderr
    no_name = await run_action(
        HookAction(file="a\0"), b"", directory=tmp_path, environment=HERE, timeout=5
    )
    assert "embedded null" in no_name.stderr


async def test_a_hanging_action_is_killed_in_time_with_its_children(tmp_path, mock_clock):
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    result: list[ActionResult] = []

    async def run() -> None:
        result.append(await run_shell(f"sleep 60 & echo $! > {ready}; wait", timeout=5))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        pid = int(await trio.to_thread.run_sync(ready.read_text, abandon_on_cancel=True))
        mock_clock.jump(5)
    assert result == [ActionResult(status=1, stderr="timed out after 5 s and was killed")]
    assert_gone({pid})


@pytest.mark.requirement("W-38")
async def test_a_bounded_part_of_an_actions_output_is_stored():
    result = await run_shell("yes | head -c 200000; yes | head -c 70000 >&2", timeout=60)
    assert (result.status, result.is_cut) == (0, True)
    assert result.stdout == "y\n" * 32 * 1024 + "\n... cut, 134464 bytes left out ..."
    assert result.stderr == "y\n" * 32 * 1024 + "\n... cut, 4464 bytes left out ..."


class Reporter:
    """Records what the user sees."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, ...]] = []

    def started(self, _: str, name: str) -> None:
        self.shown.append(("started", name))

    def finished(self, _: str, name: str, result: ActionResult, __: Outcome) -> None:
        self.shown.append(("finished", name, str(result.status)))

    def failed(self, name: str, why: str) -> None:
        self.shown.append(("failed", name, why))

    def say(self, text: str) -> None:
        self.shown.append(("said", text))


async def test_a_hook_matches_the_arguments_that_another_hook_wrote():
    def hook(shell: str, matcher: Any = None) -> Hook:
        return Hook(type="preToolCall", actions=(HookAction(shell=shell),), matcher=matcher)

    selectors = {"read_file": rule(path=("secrets/.*",))}
    moves = """echo '{"updatedInput": {"path": "secrets/a"}}'"""
    hooks = Hooks(
        hooks={"moves": hook(moves), "none": hook("exit 2", selectors)},
        directory=Path("/"),
        environment=HERE,
        common_payload={},
    )
    arguments = {"path": "a"}
    call = ToolCallEvent(server="eca", tool="read_file", arguments=arguments)
    with trio.fail_after(20):
        results = await hooks.fire("preToolCall", {"tool_input": arguments}, Reporter(), call)
    assert results.approval == ("deny", "none")


async def test_hooks_run_by_name_rewrite_for_the_next_and_one_stops_the_rest():
    def hook(*shells: str, **more: Any) -> Hook:
        actions = tuple(HookAction(shell=each) for each in shells)
        return Hook(type="preRequest", actions=actions, **more)

    reporter = Reporter()
    hooks = Hooks(
        hooks={
            "d": hook("echo never"),
            "c": hook("""cat >&2; echo '{"continue": false, "stopReason": "r"}'""", visible=False),
            "b": hook("exit 7", visible=False),
            "a": hook("""echo '{"replacedPrompt": "new", "systemMessage": "hi"}'""", "echo plain"),
        },
        directory=Path("/"),
        environment=HERE,
        common_payload={"cwd": "/"},
    )
    with trio.fail_after(20):
        results = await hooks.fire("preRequest", {"prompt": "old"}, reporter)
    assert results.payload == {"prompt": "new"}
    assert results.stopped_by == ("c", "r")
    assert reporter.shown == [
        ("started", "a-1"),
        ("finished", "a-1", "0"),
        ("said", "Hook 'a-1': hi"),
        ("started", "a-2"),
        ("finished", "a-2", "0"),
        ("failed", "b", "exit code 7"),
    ]

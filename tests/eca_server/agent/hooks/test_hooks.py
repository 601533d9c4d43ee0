"""Outcomes of hook actions, matching of hooks with events, and runs of actions."""

import json
import os
import re
from functools import partial
from pathlib import Path
from typing import Any, get_args

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from eca_protocol import platforms
from eca_server.agent.hooks.action import EVENTS, ActionResult, Outcome, parse_outcome, run_action
from eca_server.agent.hooks.hooks import HookResults, Hooks, ToolCallEvent, matches_event
from eca_server.config.hook_settings import Hook, HookAction, HookEvent
from eca_server.config.tool_settings import ApprovalRule
from tests.check_requirements import REPOSITORY
from tests.eca_server.processes import assert_gone
from tests.tasks import run_in

HERE = {"PATH": os.environ["PATH"]}


DEEP = '{"updatedInput": {"a": %s}}' % ("[" * 100 + "]" * 100)
IGNORED = "its output is ignored: "


def wrote(text: str, **more: Any) -> ActionResult:
    return ActionResult(status=0, stdout=text, **more)


@pytest.mark.parametrize(
    ("event", "result", "output", "problem"),
    [
        ("preRequest", wrote("plain words"), {}, None),
        ("chatStart", wrote('{"additionalContext": "c"}'), {"additionalContext": "c"}, None),
        ("preToolCall", wrote(' {"approval": "deny"}'), {"approval": "deny"}, None),
        ("preToolCall", wrote('{"mine": 1}'), {}, None),
        ("preToolCall", wrote('{"approval": "yes"}'), {}, "approval: expected allow"),
        ("preToolCall", wrote('{"aproval": "deny"}'), {}, "aproval: unknown key; did you mean app"),
        ("preToolCall", wrote('{"decision": "block"}'), {}, "decision: ignored, no member of this"),
        ("preToolCall", wrote('{"hookSpecificOutput": {}}'), {}, "hookSpecificOutput: ignored, no"),
        ("preToolCall", wrote('{"updatedInput": []}'), {}, "updatedInput: expected an"),
        ("preToolCall", wrote(DEEP), {}, "updatedInput: expected at most 100 levels"),
        ("preToolCall", wrote('{"followUp": "x"}'), {}, "followUp: ignored, preToolCall does not"),
        ("preToolCall", wrote('{"approval": '), {}, f"{IGNORED}expected a JSON object"),
        ("postToolCall", wrote('{"a', is_cut=True), {}, f"{IGNORED}it wrote more than"),
        ("chatStatusChanged", wrote('{"systemMessage": "x"}'), {}, "systemMessage: ignored, chatS"),
    ],
)
def test_an_output_has_one_outcome(event, result, output, problem):
    outcome = parse_outcome(event, result)
    assert outcome == Outcome(output=output, problems=outcome.problems)
    assert bool(outcome.problems) is (problem is not None)
    assert all(each.startswith(problem) for each in outcome.problems)


@pytest.mark.parametrize(
    ("event", "status", "stderr", "why", "blocks"),
    [
        ("preRequest", 2, " no\n", "no", True),
        ("preCompact", 2, "no", "no", True),
        ("chatStart", 2, "no", "no", False),
        ("sessionEnd", 2, "no", "no", False),
        ("preRequest", 1, "", "exit code 1", False),
        ("preRequest", -9, "x", "x", False),
        ("preRequest", -11, "", "ended by SIGSEGV", False),
    ],
)
def test_an_exit_code_blocks_or_fails(event, status, stderr, why, blocks):
    result = ActionResult(status=status, stdout='{"continue": false}', stderr=stderr)
    outcome = parse_outcome(event, result)
    assert outcome == Outcome(blocks=blocks, fails=not blocks, why=why)
    assert not outcome.stops
    assert outcome.approval == ("deny" if blocks else None)


def test_every_event_has_its_members_and_its_row_in_the_guide():
    guide = (REPOSITORY / "docs/guides/hooks.md").read_text()
    table = guide.partition("| `type` | input |")[2].partition("\n\n")[0]
    names = [row.split("|")[1] for row in table.splitlines()[2:]]
    listed = re.findall(r"`(\w+)`", " ".join(names))
    assert sorted(listed) == sorted(get_args(HookEvent)) == sorted(EVENTS)


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
        ({"ECA": rule()}, True),
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


def test_compactions_and_failed_calls_run_only_the_hooks_for_them():
    for matcher, matches in (
        *((None, True), ("auto", True), ("manual", False), ("a.*", False)),
        ({"auto": rule()}, True),
    ):
        hook = Hook(type="preCompact", matcher=matcher)
        assert matches_event(hook, "preCompact", triggered="auto") is matches
    call = ToolCallEvent(server="eca", tool="grep", arguments={}, failed=True)
    assert not matches_event(Hook(type="postToolCall"), "postToolCall", call)
    assert matches_event(Hook(type="postToolCall", run_on_error=True), "postToolCall", call)


async def run(
    payload: bytes = b"{}", timeout: float = 5, directory: Path = Path("/"), **members: Any
) -> ActionResult:
    action = HookAction(**members)
    return await run_action(action, payload, directory=directory, environment=HERE, timeout=timeout)


async def test_an_action_reads_its_stdin_and_returns_its_result(tmp_path, monkeypatch):
    assert await run(b'{"a": 1}', shell="cat; echo why >&2; exit 2") == ActionResult(
        status=2, stdout='{"a": 1}', stderr="why\n"
    )
    assert (await run(b"x" * 1_000_000, shell="exit 3")).status == 3
    file = tmp_path / "hook.sh"
    file.write_text("#!/bin/sh\necho $0")
    for mode in (0o600, 0o700):
        file.chmod(mode)
        assert await run(file=str(file)) == ActionResult(status=0, stdout=f"{file}\n")
    file.write_text("[[ a == a* ]] && echo $0")  # executable, but no program without `#!`
    assert await run(file=str(file)) == ActionResult(status=0, stdout=f"{file}\n")
    with monkeypatch.context() as patch:  # Windows cannot start such a file
        patch.setattr(platforms, "program_files", lambda path: [f"{path}.exe"])
        file.write_text("#!/bin/sh\necho $0")
        assert await run(file=str(file)) == ActionResult(status=0, stdout=f"{file}\n")
    assert await run(file="/bin/true") == ActionResult(status=0)
    assert "expected either" in (await run(shell="true", file="x")).stderr
    assert "cannot start" in (await run(shell="true", directory=tmp_path / "no")).stderr
    assert "embedded null" in (await run(file="a\0")).stderr


async def test_a_hanging_action_is_killed_in_time_with_its_children(tmp_path, mock_clock):
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    async with trio.open_nursery() as nursery:
        result = run_in(nursery, partial(run, shell=f"sleep 60 & echo $! > {ready}; wait"))
        pid = int(await trio.to_thread.run_sync(ready.read_text, abandon_on_cancel=True))
        mock_clock.jump(5)
    assert result == [ActionResult(status=1, stderr="timed out after 5 s and was killed")]
    assert_gone({pid})


@pytest.mark.requirement("W-38")
async def test_a_bounded_part_of_an_actions_output_is_stored():
    result = await run(shell="yes | head -c 200000; yes | head -c 70000 >&2", timeout=60)
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


def hooks_of(**hooks: Hook) -> Hooks:
    return Hooks(hooks=hooks, directory=Path("/"), environment=HERE, common_payload={"cwd": "/"})


def hook(event: str, *shells: str, **more: Any) -> Hook:
    return Hook(type=event, actions=tuple(HookAction(shell=each) for each in shells), **more)


async def test_a_hook_matches_the_arguments_that_another_hook_wrote():
    moves = """echo '{"updatedInput": {"path": "secrets/a"}}'"""
    selectors = {"read_file": rule(path=("secrets/.*",))}
    hooks = hooks_of(
        moves=hook("preToolCall", moves), none=hook("preToolCall", "exit 2", matcher=selectors)
    )
    arguments = {"path": "a"}
    call = ToolCallEvent(server="eca", tool="read_file", arguments=arguments)
    with trio.fail_after(20):
        results = await hooks.fire("preToolCall", {"tool_input": arguments}, Reporter(), call)
    assert results.approval == ("deny", "none")


async def test_hooks_run_by_name_rewrite_for_the_next_and_one_stops_the_rest():
    stops = """cat >&2; echo '{"continue": false, "stopReason": "r"}'"""
    replaces = """echo '{"replacedPrompt": "new", "systemMessage": "hi"}'"""
    reporter = Reporter()
    hooks = hooks_of(
        d=hook("preRequest", "echo never"),
        c=hook("preRequest", stops, visible=False),
        b=hook("preRequest", "exit 7", "false && notify", "echo no >&2; false", visible=False),
        a=hook("preRequest", replaces, "echo plain"),
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
        ("failed", "b-1", "exit code 7"),
        ("failed", "b-3", "no"),
    ]

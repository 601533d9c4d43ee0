"""What one action's end means, which hooks an event is for, how an action is run and ended."""

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

from eca_server.config import ApprovalRule
from eca_server.config.hook_settings import Hook, HookAction
from eca_server.hooks import (
    EVENTS,
    Heard,
    Hooks,
    Outcome,
    Ran,
    ToolCalled,
    concerns,
    outcome_of,
    run_action,
)
from tests.eca_server.processes import assert_gone

HERE = {"PATH": os.environ["PATH"]}


@pytest.mark.parametrize(
    ("event", "ran", "expected"),
    [
        ("preRequest", Ran(status=0, stdout="plain words"), Outcome()),
        ("preRequest", Ran(status=2, stdout='{"continue": false}', stderr=" no\n"), (True, "no")),
        ("chatStart", Ran(status=2, stderr="no"), "no"),
        ("preRequest", Ran(status=1, stdout='{"continue": false}'), "exit code 1"),
        ("preRequest", Ran(status=-9, stderr="x"), "x"),
        ("preRequest", Ran(status=-11), "ended by signal 11"),
        (
            "chatStart",
            Ran(status=0, stdout='{"additionalContext": "c"}'),
            {"additionalContext": "c"},
        ),
        ("preToolCall", Ran(status=0, stdout=' {"approval": "deny"}'), {"approval": "deny"}),
        ("preToolCall", Ran(status=0, stdout='{"approval": "yes"}'), ["approval: expected allow"]),
        (
            "preToolCall",
            Ran(status=0, stdout='{"updatedInput": []}'),
            ["updatedInput: expected an"],
        ),
        (
            "preToolCall",
            Ran(status=0, stdout='{"updatedInput": {"a": %s}}' % ("[" * 100 + "]" * 100)),
            ["updatedInput: expected at most 100 levels"],
        ),
        (
            "preToolCall",
            Ran(status=0, stdout='{"followUp": "x"}'),
            ["followUp: preToolCall does not know"],
        ),
        ("preToolCall", Ran(status=0, stdout='{"mine": 1}'), Outcome()),
        ("preToolCall", Ran(status=0, stdout='{"approval": '), ["expected a JSON object"]),
        ("postToolCall", Ran(status=0, stdout='{"a', is_cut=True), ["it wrote more than"]),
        ("preCompact", Ran(status=2, stderr="no"), (True, "no")),
        ("postCompact", Ran(status=2, stderr="no"), "no"),
        ("subagentStart", Ran(status=2, stderr="no"), "no"),
        ("sessionEnd", Ran(status=2, stderr="no"), "no"),
        (
            "chatStatusChanged",
            Ran(status=0, stdout='{"systemMessage": "x"}'),
            ["systemMessage: chatStatusChanged does not know"],
        ),
    ],
)
def test_an_exit_code_and_what_was_written_mean_one_thing(
    event: Any, ran: Ran, expected: Any
) -> None:
    found = outcome_of(event, ran)
    match expected:
        case Outcome():
            assert found == expected
        case (True, why):
            assert found == Outcome(blocks=True, why=why)
            assert (found.approval, found.stops) == ("deny", False)
        case str():
            assert found == Outcome(fails=True, why=expected)
        case dict():
            assert (found.says, found.problems) == (expected, ())
        case [begins]:
            assert found.says == {}
            assert found.problems[0].startswith(begins)


_VALUES = st.none() | st.booleans() | st.text(max_size=3) | st.dictionaries(st.text(), st.none())
_MEMBERS = sorted({member for members in EVENTS.values() for member in members})


@settings(max_examples=50)
@given(
    st.sampled_from(sorted(EVENTS)),
    st.sampled_from([0, 0, 0, 1, 2, -15]),
    st.dictionaries(st.sampled_from(_MEMBERS), _VALUES | st.sampled_from(["allow", "ask", "deny"])),
)
def test_whatever_a_hook_writes_gives_a_legal_decision(
    event: Any, status: int, said: dict[str, Any]
) -> None:
    found = outcome_of(event, Ran(status=status, stdout=json.dumps(said)))
    heard = Heard(told={"prompt": "p", "tool_input": {}})
    heard.add("a", Outcome(says={"approval": "ask"}))
    heard.add("b", found)
    assert heard.approval is not None
    assert heard.approval[0] in {"ask", "deny"}
    assert set(found.says) <= EVENTS[event]
    assert isinstance(heard.told["prompt"], str)
    assert isinstance(heard.told["tool_input"], dict)
    assert status == 0 or (found.says == {} and heard.stopped_by is None)
    assert not (found.blocks and found.fails)


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
def test_a_matcher_says_for_which_calls_a_hook_runs(matcher: Any, matches: bool) -> None:
    call = ToolCalled(server="eca", tool="write_file", arguments={"path": "src/a.py"})
    hook = Hook(type="preToolCall", matcher=matcher)
    assert concerns(hook, "preToolCall", call) is matches
    assert not concerns(hook, "postToolCall", call)


@pytest.mark.parametrize(
    ("matcher", "matches"),
    [(None, True), ("auto", True), ("manual", False), ("a.*", False), ({"auto": rule()}, True)],
)
def test_a_matcher_says_for_which_compactions_a_hook_runs(matcher: Any, matches: bool) -> None:
    hook = Hook(type="preCompact", matcher=matcher)
    assert concerns(hook, "preCompact", triggered="auto") is matches


def test_a_call_that_failed_concerns_only_who_asked_for_those() -> None:
    call = ToolCalled(server="eca", tool="grep", arguments={}, failed=True)
    assert not concerns(Hook(type="postToolCall"), "postToolCall", call)
    assert concerns(Hook(type="postToolCall", run_on_error=True), "postToolCall", call)


async def ran(shell: str, told: bytes = b"{}", timeout: float = 5, **more: Any) -> Ran:
    action = HookAction(shell=shell, **more)
    where = Path("/")
    return await run_action(action, told, directory=where, environment=HERE, timeout=timeout)


@pytest.mark.trio
async def test_an_action_reads_what_it_is_told_and_says_how_it_ended(tmp_path: Path) -> None:
    assert await ran("cat; echo why >&2; exit 2", b'{"a": 1}') == Ran(
        status=2, stdout='{"a": 1}', stderr="why\n"
    )
    assert (await ran("exit 3", b"x" * 1_000_000)).status == 3
    file = tmp_path / "hook.sh"
    file.write_text("#!/bin/sh\necho $0")
    for mode in (0o600, 0o700):
        file.chmod(mode)
        found = await run_action(
            HookAction(file=str(file)), b"{}", directory=tmp_path, environment=HERE, timeout=5
        )
        assert found == Ran(status=0, stdout=f"{file}\n")
    assert "expected either" in (await ran("true", file="x")).stderr
    missing = await run_action(
        HookAction(shell="true"), b"", directory=tmp_path / "no", environment=HERE, timeout=5
    )
    assert "cannot start" in missing.stderr
    no_name = await run_action(
        HookAction(file="a\0"), b"", directory=tmp_path, environment=HERE, timeout=5
    )
    assert "null byte" in no_name.stderr


@pytest.mark.trio
async def test_one_that_hangs_is_over_in_time_and_nothing_of_it_is_left(
    tmp_path: Path, mock_clock: trio.testing.MockClock
) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    found: list[Ran] = []

    async def run() -> None:
        found.append(await ran(f"sleep 60 & echo $! > {ready}; wait", timeout=5))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        pid = int(await trio.to_thread.run_sync(ready.read_text, abandon_on_cancel=True))
        mock_clock.jump(5)
    assert found == [Ran(status=1, stderr="timed out after 5 s and was ended")]
    assert_gone({pid})


@pytest.mark.trio
@pytest.mark.requirement("W-38")
async def test_of_what_one_writes_a_bounded_part_is_held() -> None:
    found = await ran("yes | head -c 200000; yes | head -c 70000 >&2", timeout=60)
    assert (found.status, found.is_cut) == (0, True)
    assert found.stdout == "y\n" * 32 * 1024 + "\n... cut, 134464 bytes left out ..."
    assert found.stderr == "y\n" * 32 * 1024 + "\n... cut, 4464 bytes left out ..."


class Stage:
    """What the user sees."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, ...]] = []

    def started(self, _: str, name: str) -> None:
        self.seen.append(("started", name))

    def finished(self, _: str, name: str, ran: Ran, __: Outcome) -> None:
        self.seen.append(("finished", name, str(ran.status)))

    def failed(self, name: str, why: str) -> None:
        self.seen.append(("failed", name, why))

    def say(self, text: str) -> None:
        self.seen.append(("said", text))


@pytest.mark.trio
async def test_a_hook_for_certain_arguments_runs_for_those_that_another_puts_in() -> None:
    def hook(shell: str, matcher: Any = None) -> Hook:
        return Hook(type="preToolCall", actions=(HookAction(shell=shell),), matcher=matcher)

    selectors = {"read_file": rule(path=("secrets/.*",))}
    moves = """echo '{"updatedInput": {"path": "secrets/a"}}'"""
    hooks = Hooks(
        hooks={"moves": hook(moves), "none": hook("exit 2", selectors)},
        directory=Path("/"),
        environment=HERE,
        told={},
    )
    given = {"path": "a"}
    call = ToolCalled(server="eca", tool="read_file", arguments=given)
    with trio.fail_after(20):
        heard = await hooks.fire("preToolCall", {"tool_input": given}, Stage(), call)
    assert heard.approval == ("deny", "none")


@pytest.mark.trio
async def test_hooks_run_by_name_rewrite_for_the_next_and_one_stops_the_row() -> None:
    def hook(*shells: str, **more: Any) -> Hook:
        actions = tuple(HookAction(shell=each) for each in shells)
        return Hook(type="preRequest", actions=actions, **more)

    stage = Stage()
    hooks = Hooks(
        hooks={
            "d": hook("echo never"),
            "c": hook("""cat >&2; echo '{"continue": false, "stopReason": "r"}'""", visible=False),
            "b": hook("exit 7", visible=False),
            "a": hook("""echo '{"replacedPrompt": "new", "systemMessage": "hi"}'""", "echo plain"),
        },
        directory=Path("/"),
        environment=HERE,
        told={"cwd": "/"},
    )
    with trio.fail_after(20):
        heard = await hooks.fire("preRequest", {"prompt": "old"}, stage)
    assert heard.told == {"prompt": "new"}
    assert heard.stopped_by == ("c", "r")
    assert stage.seen == [
        ("started", "a-1"),
        ("finished", "a-1", "0"),
        ("said", "Hook 'a-1': hi"),
        ("started", "a-2"),
        ("finished", "a-2", "0"),
        ("failed", "b", "exit code 7"),
    ]

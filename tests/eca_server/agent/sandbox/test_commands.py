"""`shell_command`, jobs and custom tools with a sandbox configured, and where there is none."""

from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from eca_server.agent.jobs.jobs import Jobs
from eca_server.agent.sandbox import detect as detection
from eca_server.agent.sandbox import sandbox as module
from eca_server.agent.sandbox.active import release, reserve
from eca_server.agent.sandbox.detect import Capability, capability
from eca_server.agent.sandbox.sandbox import Sandbox
from eca_server.agent.tools.approval import Memo, policy_of
from eca_server.agent.tools.background import Background
from eca_server.agent.tools.custom import CustomCommand, custom_commands
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.shell_command import ShellCommand
from eca_server.agent.tools.tool import ToolError
from eca_server.config.settings import Config
from eca_server.config.tool_settings import (
    Approval,
    ApprovalRule,
    CustomTool,
    SandboxSettings,
    ToolCall,
)
from tests.eca_server.agent.chat.agent_session import calls, of_calls, older, order, results
from tests.eca_server.agent.sandbox.conftest import World, needs_bubblewrap
from tests.eca_server.agent.tools.file_tools import (
    permissions_in,
    text_of,
    texts,
    until,
    workspace_of,
)

BROKEN = Capability(why_not="the kernel forbids it")
RULE = {"shell_command": ApprovalRule()}
OUTSIDE = {"command": "echo done", "outside_sandbox": True}


def broken() -> Capability:
    return BROKEN


def works() -> Capability:
    return Capability(kind="bubblewrap", program="/usr/bin/bwrap")


@pytest.fixture
def tool(world: World) -> ShellCommand:
    """Return a tool whose sandbox is only said to work."""
    return world.tool(world.sandbox(detect=works))


async def verdict(
    tool: ShellCommand,
    config: Config | None = None,
    *,
    behavior: str = "agent",
    memos: frozenset[Memo] = frozenset(),
    **arguments: Any,
) -> str:
    arguments = arguments or {"command": "make >/etc/x; echo y >.git/config"}
    about: Any = {"memos": set(memos), "variables": tool.environment}
    permissions = permissions_in(tool.workspace, policy_of(config or Config(), behavior), **about)
    prepared = await tool.prepare(arguments)
    return (await permissions.decide(tool, prepared, arguments)).verdict


def approval(**rules: Any) -> Config:
    return Config(tool_call=ToolCall(approval=Approval(**rules)))


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (Config(), "allow"),
        (approval(deny=RULE), "deny"),
        (approval(ask=RULE), "ask"),
        (approval(by_default="ask"), "ask"),
        (approval(by_default="deny"), "deny"),
        (Config(tool_call=ToolCall(manual_approval=True)), "ask"),
        (Config(tool_call=ToolCall(manual_approval=("shell_command",))), "ask"),
    ],
)
async def test_a_command_in_the_sandbox_runs_unless_a_rule_forbids_it(tool, config, expected):
    assert await verdict(tool, config) == expected


async def test_a_command_outside_needs_an_approval_that_was_given_for_outside(tool):
    assert await verdict(tool, **OUTSIDE) == "ask"
    assert await verdict(tool, approval(allow=RULE), **OUTSIDE) == "allow"
    (part,) = (await tool.prepare(OUTSIDE)).parts
    inside = Memo(
        server="eca", tool="shell_command", command="echo", folder=part.folder, is_sandboxed=True
    )
    assert await verdict(tool, memos=frozenset([inside]), **OUTSIDE) == "ask"
    outside = attrs.evolve(inside, is_sandboxed=False)
    assert await verdict(tool, memos=frozenset([outside]), **OUTSIDE) == "allow"


async def test_plan_is_as_strict_with_a_sandbox(tool):
    without = attrs.evolve(tool, sandbox=None)
    for command in ("make", "ls", "git status", "cat /etc/hosts"):
        expected = await verdict(without, behavior="plan", command=command)
        assert await verdict(tool, behavior="plan", command=command) == expected


async def test_without_a_sandbox_auto_asks_and_says_why_and_require_refuses(world):
    warnings: list[str] = []
    tool = world.tool(world.sandbox(detect=broken), warn=warnings.append)
    assert await verdict(tool) == "ask"
    call = await tool.prepare({"command": "true"})
    assert call.summary == "Running 'true' outside of the sandbox"
    assert len(set(warnings)) == 1
    assert "the kernel forbids it" in warnings[0]
    assert text_of(await call.run()) == "The command succeeded without output."
    tool = world.tool(world.sandbox(mode="require", detect=broken))
    for arguments in ({"command": "true"}, OUTSIDE):
        with pytest.raises(ToolError, match="the kernel forbids it"):
            await tool.prepare(arguments)


async def test_a_workspace_that_is_too_large_asks(world):
    for number in range(401):
        world.write(f"work/project/{number}/AGENTS.md")
    warnings: list[str] = []
    tool = world.tool(world.sandbox(detect=works), warn=warnings.append)
    assert await verdict(tool) == "ask"
    assert "400 guarded paths" in warnings[0]


def probed(folder: Path, script: str) -> tuple[Capability, str]:
    """Return what is found out about a bubblewrap, and its path."""
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    capability = detection.probe_sandbox(platform="linux", find_program=lambda _: str(program))
    return capability, str(program)


async def test_a_failing_bubblewrap_is_not_used_and_an_older_one_is(tmp_path):
    capability, _ = probed(tmp_path, "echo 'bwrap: No permissions to create namespace' >&2; exit 1")
    assert capability.kind is None
    assert "No permissions to create namespace" in capability.why_not
    assert "user namespaces" in capability.state
    for platform, text in [("linux", "install the package"), ("win32", "Linux and macOS only")]:
        capability = detection.probe_sandbox(platform=platform, find_program=lambda _: None)
        assert text in capability.why_not
    capability, program = probed(tmp_path, 'case "$*" in *--disable-userns*) exit 1;; esac')
    assert capability == Capability(kind="bubblewrap", program=program, can_disable_userns=False)


async def test_the_probe_runs_once_and_only_if_a_sandbox_is_wanted(monkeypatch):
    trials: list[Capability] = []

    def probe_command() -> Capability:
        trials.append(BROKEN)
        return BROKEN

    monkeypatch.setattr(detection, "_known", [])
    monkeypatch.setattr(detection, "probe_sandbox", probe_command)
    Sandbox(settings=SandboxSettings(mode="auto"), roots=(), environ={})
    assert trials == []
    assert [capability(), capability()] == [BROKEN, BROKEN]
    assert len(trials) == 1


async def test_descriptions_and_summaries_name_the_sandbox(world, tool):
    auto = world.tool()
    assert "no network" in auto.description
    strict = world.tool(world.sandbox(mode="require", network=True))
    assert "sandbox" in strict.description
    assert "no network" not in strict.description
    off = attrs.evolve(auto, sandbox=None)
    assert "sandbox" not in off.description
    for each, may_leave in ((auto, True), (strict, False), (off, False)):
        assert ("outside_sandbox" in each.description) is may_leave
        assert ("outside_sandbox" in each.parameters["properties"]) is may_leave
    inside = await tool.prepare({"command": "make"})
    assert inside.summary == "Running 'make' in the sandbox"
    outside = await tool.prepare(OUTSIDE)
    assert outside.summary == "Running 'echo done' outside of the sandbox"
    assert not outside.is_sandboxed


@needs_bubblewrap
async def test_a_failure_in_the_sandbox_has_a_hint_to_leave_it(world):
    for command, is_error in (("touch ~/x", True), ("touch ~/x 2>&1 | sort", False)):
        output = await world.run(command)
        assert output.is_error is is_error
        assert "outside_sandbox: true" in "\n".join(texts(output))
    await world.run("touch ~/x", outside_sandbox=True)
    assert (world.home / "x").exists()
    assert "outside_sandbox" not in await world.output_of("touch ~/y", mode="require")


@needs_bubblewrap
async def test_a_sandbox_is_created_again_if_a_hidden_socket_vanishes(world, monkeypatch):
    gone = world.write("a.sock")
    tables = iter([[gone], []])
    original = module._prefix

    def prefix(*arguments: Any) -> tuple[str, ...]:
        gone.unlink(missing_ok=True)
        return original(*arguments)

    monkeypatch.setattr(module, "_sockets", tables.__next__)
    monkeypatch.setattr(module, "_prefix", prefix)
    assert text_of(await world.run("echo fine")) == "fine\n"


@needs_bubblewrap
async def test_a_job_runs_in_the_sandbox_and_reports_new_guarded_paths(world):
    command = "touch ~/x; echo $ECA_SANDBOX; mkdir -p a/.vscode .vscode/x; echo 1 >a/.vscode/t"
    async with trio.open_nursery() as nursery:
        jobs = Jobs(nursery, lambda: None)
        background = Background(jobs=jobs, chat_id="c", reader="c")
        output = await world.run(command, world.tool(background=background), background="job")
        (job,) = jobs
        with trio.fail_after(20):
            await job.ended.wait()
        text = "\n".join([*texts(output), background.read(job, Cap())[0]])
        await jobs.close()
    assert "bubblewrap" in text
    assert "Read-only file system" in text
    assert str(world.root / "a/.vscode") in text
    assert (world.root / "a/.vscode/t").exists()
    assert not (world.home / "x").exists()
    assert not (world.root / ".vscode").exists()


@needs_bubblewrap
async def test_a_job_that_is_stopped_before_its_start_leaves_the_sandbox(world):
    with trio.CancelScope() as scope:
        prepares = True

        def detect() -> Capability:
            if not prepares:
                trio.from_thread.run_sync(scope.cancel)
            return capability()

        async with trio.open_nursery() as nursery:
            jobs = Jobs(nursery, lambda: None)
            background = Background(jobs=jobs, chat_id="c", reader="c")
            tool = world.tool(world.sandbox(detect=detect), background=background)
            prepared = await tool.prepare({"command": "touch x", "background": "job"})
            prepares = False
            await prepared.run()
    assert scope.cancelled_caught
    assert not any(jobs)
    assert list(world.root.iterdir()) == []


def custom(world: World, **options: Any) -> CustomCommand:
    """Return a custom tool; without options there is no sandbox for it."""
    (tool,), problems = custom_commands(
        {"mine": CustomTool(command="touch ~/x; echo sandbox=$ECA_SANDBOX")},
        workspace=workspace_of(world.root),
        environment=world.environ,
        cap=Cap(),
        taken=(),
        sandbox=world.sandbox(mode="require", **options) if options else None,
    )
    assert not problems
    return tool


@needs_bubblewrap
async def test_a_custom_tool_runs_in_the_sandbox_only_if_it_is_required(world):
    for options, shown in (({"network": False}, "sandbox=bubblewrap"), ({}, "sandbox=\n")):
        assert not (world.home / "x").exists()
        prepared = await custom(world, **options).prepare({})
        assert not prepared.is_sandboxed
        assert shown in "\n".join(texts(await prepared.run()))
    assert (world.home / "x").exists()
    with pytest.raises(ToolError, match="the kernel forbids it"):
        await custom(world, detect=broken).prepare({})


async def test_a_name_is_reserved_until_its_last_command_has_ended(tmp_path):
    name = tmp_path / ".vscode"
    first, second = reserve([name]), reserve([name])
    assert first == second == (name,)
    release(first)
    assert name.is_dir()
    release(second)
    assert not name.exists()
    name.mkdir()
    (name / "settings.json").touch()
    assert reserve([name]) == ()  # an existing path is not reserved
    leftover = tmp_path / ".envrc"
    leftover.mkdir()
    reserved = reserve([leftover])
    assert reserved == (leftover,)  # an empty one was left by a crash, and is used again
    release(reserved)
    assert not leftover.exists()
    reserved = reserve([tmp_path / ".idea"])
    (tmp_path / ".idea/x").touch()
    release(reserved)
    assert (tmp_path / ".idea/x").exists()


@needs_bubblewrap
async def test_concurrent_commands_do_not_release_each_others_names(world):
    """The second command cannot create a `.vscode` after the first has ended."""
    root, ended = world.root, trio.Event()

    async def first() -> None:
        await world.run("touch first; until [ -e end ]; do sleep .01; done")
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        await until((root / "first").exists)
        command = (
            "touch second; until [ -e go ]; do sleep .01; done; mkdir -p .vscode/x; touch done"
        )
        nursery.start_soon(world.run, command)
        await until((root / "second").exists)
        (root / "end").touch()
        await until(ended.is_set)
        (root / "go").touch()
    assert (root / "done").exists()
    assert not list(root.glob(".vscode*"))


AUTO = {"toolCall": {"sandbox": "auto"}}


@needs_bubblewrap
async def test_in_a_turn_only_a_command_that_leaves_the_sandbox_needs_approval(world):
    command = {"command": "echo sandbox=$ECA_SANDBOX", "outside_sandbox": True}
    inside = calls(("eca_shell_command", {"command": "echo $ECA_SANDBOX; touch made ../no"}))
    outside = calls(("eca_shell_command", command))
    async with older(inside, outside, folder=world.root, **AUTO) as (ours, provider):
        await ours.prompt("go")
        call = await ours.content("toolCallRun", manualApproval=True)
        first = [each for each in of_calls(ours) if each["id"] != call["id"]]
        assert order(first) == ["Prepare", "Run", "Running", "ed"]
        assert first[-1]["summary"] == "Running 'echo $ECA_SANDBOX; touch ...' in the sandbox"
        assert call["summary"] == "Running 'echo sandbox=$ECA_SANDBOX' outside of the sandbox"
        assert call["arguments"]["outside_sandbox"] is True
        await ours.approve(call)
        await ours.expect_finished()
        refusal, then = results(provider)
        assert "bubblewrap" in refusal
        assert "outside_sandbox: true" in refusal
        assert then == "sandbox=\n"
    assert (world.root / "made").exists()
    assert not (world.root.parent / "no").exists()


@pytest.mark.parametrize("config", [AUTO, {}], ids=["auto", "off"])
async def test_without_a_sandbox_the_user_is_asked_and_warned_once(world, monkeypatch, config):
    known = [Capability(why_not="it is forbidden")] if config else []
    monkeypatch.setattr(detection, "_known", known)
    monkeypatch.setattr(detection, "probe_sandbox", lambda: pytest.fail("it was tried"))
    script = [calls(("eca_shell_command", {"command": f"touch {n}"})) for n in "ab"]
    async with older(*script, folder=world.root, **config) as (ours, provider):
        await ours.prompt("go")
        for name in "ab":
            arguments = {"command": f"touch {name}"}
            call = await ours.content("toolCallRun", manualApproval=True, arguments=arguments)
            where = " outside of the sandbox" if config else ""
            assert call["summary"] == f"Running 'touch {name}'{where}"
            await ours.approve(call)
        await ours.expect_finished()
        assert results(provider)[-1] == "The command succeeded without output."
        shown = ours.notified("$/showMessage")
        assert [each["type"] for each in shown] == ["warning"] * len(known)
        assert "it is forbidden" in str(shown) or not config
    assert (world.root / "b").exists()

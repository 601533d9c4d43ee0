"""`shell_command`, jobs and custom tools with a sandbox configured, and where there is none."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from eca_server.agent.jobs.jobs import Jobs
from eca_server.agent.sandbox import detect as detection
from eca_server.agent.sandbox.detect import Capability, capability
from eca_server.agent.sandbox.reserved import release, reserve
from eca_server.agent.sandbox.sandbox import sandbox_for
from eca_server.agent.tools.approval import Memo, policy_of
from eca_server.agent.tools.background import Background
from eca_server.agent.tools.custom import custom_commands
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.permissions import Permissions
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
from eca_server.workspace.boundary import Workspace
from tests.eca_server.agent.sandbox.driver import World, needs_bubblewrap, run, texts

BROKEN = Capability(why_not="the kernel forbids it")


def broken() -> Capability:
    return BROKEN


def works() -> Capability:
    return Capability(kind="bubblewrap", program="/usr/bin/bwrap")


async def verdict(
    tool: ShellCommand, config: Config | None = None, *, behavior: str = "agent", **options: Any
) -> str:
    arguments = options.pop("arguments", {"command": "make >/etc/x; echo y >.git/config"})
    permissions = Permissions(
        policy=policy_of(config or Config(), behavior),
        workspace=tool.workspace,
        memos=options.pop("memos", set()),
        variables=tool.environment,
    )
    prepared = await tool.prepare(arguments)
    return (await permissions.decide(tool, prepared, arguments)).verdict


def approval(**rules: Any) -> Config:
    return Config(tool_call=ToolCall(approval=Approval(**rules)))


RULE = {"shell_command": ApprovalRule()}


# ---- approval


async def test_a_command_in_the_sandbox_runs_without_a_question(world):
    tool = world.tool(world.sandbox(detect=works))
    assert await verdict(tool) == "allow"


async def test_a_command_outside_needs_the_usual_approval(world):
    tool = world.tool(world.sandbox(detect=works))
    arguments = {"command": "make", "outside_sandbox": True}
    assert await verdict(tool, arguments=arguments) == "ask"
    assert await verdict(tool, approval(allow=RULE), arguments=arguments) == "allow"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        (approval(deny=RULE), "deny"),
        (approval(ask=RULE), "ask"),
        (approval(by_default="ask"), "ask"),
        (approval(by_default="deny"), "deny"),
        (Config(tool_call=ToolCall(manual_approval=True)), "ask"),
        (Config(tool_call=ToolCall(manual_approval=("shell_command",))), "ask"),
    ],
)
async def test_configured_approval_rules_apply_in_the_sandbox(world, config, expected):
    assert await verdict(world.tool(world.sandbox(detect=works)), config) == expected


async def test_plan_is_as_strict_with_a_sandbox(world):
    with_sandbox = world.tool(world.sandbox(detect=works))
    without = attrs.evolve(with_sandbox, sandbox=None)
    for command in ("make", "ls", "git status", "cat /etc/hosts"):
        arguments = {"command": command}
        assert await verdict(with_sandbox, behavior="plan", arguments=arguments) == await verdict(
            without, behavior="plan", arguments=arguments
        )


async def test_an_approval_for_the_session_does_not_let_a_command_out(world):
    tool = world.tool(world.sandbox(detect=works))
    arguments = {"command": "echo done", "outside_sandbox": True}
    (part,) = (await tool.prepare(arguments)).parts
    inside = Memo(
        server="eca", tool="shell_command", command="echo", folder=part.folder, is_sandboxed=True
    )
    assert await verdict(tool, memos={inside}, arguments=arguments) == "ask"
    outside = attrs.evolve(inside, is_sandboxed=False)
    assert await verdict(tool, memos={outside}, arguments=arguments) == "allow"


# ---- without a sandbox


async def test_without_a_sandbox_auto_asks_and_says_why(world):
    warnings: list[str] = []
    tool = world.tool(world.sandbox(detect=broken), warn=warnings.append)
    assert await verdict(tool) == "ask"
    call = await tool.prepare({"command": "true"})
    assert call.summary == "Running 'true' outside of the sandbox"
    assert len(set(warnings)) == 1
    assert "the kernel forbids it" in warnings[0]
    assert texts(await call.run()) == "The command succeeded without output."


async def test_without_a_sandbox_require_refuses(world):
    tool = world.tool(world.sandbox(mode="require", detect=broken))
    for arguments in ({"command": "true"}, {"command": "true", "outside_sandbox": True}):
        with pytest.raises(ToolError, match="the kernel forbids it"):
            await tool.prepare(arguments)


async def test_a_workspace_that_is_too_large_asks(world, monkeypatch):
    for number in range(401):
        world.write(f"work/project/{number}/AGENTS.md")
    warnings: list[str] = []
    tool = world.tool(world.sandbox(detect=works), warn=warnings.append)
    assert await verdict(tool) == "ask"
    assert "400 guarded paths" in warnings[0]


def fake_bubblewrap(folder: Path, script: str) -> str:
    program = folder / "bwrap"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


async def test_a_failing_bubblewrap_is_not_used(tmp_path):
    program = fake_bubblewrap(
        tmp_path, "echo 'bwrap: No permissions to create namespace' >&2; exit 1"
    )
    found = detection.probe_sandbox(platform="linux", find_program=lambda _: program)
    assert found.kind is None
    assert "No permissions to create namespace" in found.why_not
    assert "user namespaces" in found.state


async def test_an_older_bubblewrap_is_used_without_its_missing_option(tmp_path):
    refuses = 'case "$*" in *--disable-userns*) exit 1;; esac'
    program = fake_bubblewrap(tmp_path, refuses)
    found = detection.probe_sandbox(platform="linux", find_program=lambda _: program)
    assert found == Capability(kind="bubblewrap", program=program, can_disable_userns=False)


@pytest.mark.parametrize(
    ("platform", "text"), [("linux", "install the package"), ("win32", "Linux and macOS only")]
)
async def test_a_missing_program_is_the_reason(platform, text):
    assert text in detection.probe_sandbox(platform=platform, find_program=lambda _: None).why_not


async def test_the_probe_runs_once(monkeypatch):
    trials: list[None] = []

    def probe_command() -> Capability:
        trials.append(None)
        return BROKEN

    monkeypatch.setattr(detection, "_known", [])
    monkeypatch.setattr(detection, "probe_sandbox", probe_command)
    assert [capability(), capability()] == [BROKEN, BROKEN]
    assert len(trials) == 1


async def test_off_makes_no_sandbox_and_no_probe(monkeypatch):
    monkeypatch.setattr(detection, "probe_sandbox", lambda: pytest.fail("it was tried"))
    assert sandbox_for(SandboxSettings(), (), {}) is None
    made = sandbox_for(SandboxSettings(mode="auto", writable=("/x",)), (), {})
    assert made is not None
    assert made.writable == (Path("/x"),)


# ---- texts for the model and the user


async def test_the_tool_description_names_the_sandbox(world):
    auto = world.tool()
    assert "no network" in auto.description
    assert "outside_sandbox" in auto.description
    assert "outside_sandbox" in auto.parameters["properties"]
    strict = world.tool(world.sandbox(mode="require", network=True))
    assert "sandbox" in strict.description
    assert "no network" not in strict.description
    assert "outside_sandbox" not in strict.description
    assert "outside_sandbox" not in strict.parameters["properties"]
    off = attrs.evolve(auto, sandbox=None)
    assert "sandbox" not in off.description
    assert "outside_sandbox" not in off.parameters["properties"]


async def test_the_summary_says_where_a_command_runs(world):
    tool = world.tool(world.sandbox(detect=works))
    inside = await tool.prepare({"command": "make"})
    assert inside.summary == "Running 'make' in the sandbox"
    outside = await tool.prepare({"command": "make", "outside_sandbox": True})
    assert outside.summary == "Running 'make' outside of the sandbox"
    assert not outside.is_sandboxed


@needs_bubblewrap
async def test_a_failure_in_the_sandbox_has_a_hint_to_leave_it(world):
    output = await world.run("touch ~/x")
    assert output.is_error
    assert "outside_sandbox: true" in texts(output)
    await world.run("touch ~/x", outside_sandbox=True)
    assert (world.home / "x").exists()
    assert "outside_sandbox" not in await world.output_of("touch ~/y", mode="require")


@needs_bubblewrap
async def test_a_failure_hidden_by_a_pipeline_has_a_hint(world):
    output = await world.run("touch ~/x 2>&1 | sort")
    assert not output.is_error
    assert "outside_sandbox: true" in texts(output)


@needs_bubblewrap
async def test_a_sandbox_is_created_again_if_a_hidden_socket_vanishes(world, monkeypatch):
    from eca_server.agent.sandbox import sandbox as module  # noqa: PLC0415

    gone = world.write("a.sock")
    tables = iter([[gone], []])

    def sockets() -> list[Path]:
        return next(tables)

    original = module._prefix

    def prefix(*arguments: Any) -> tuple[str, ...]:
        gone.unlink(missing_ok=True)
        return original(*arguments)

    monkeypatch.setattr(module, "_sockets", sockets)
    monkeypatch.setattr(module, "_prefix", prefix)
    assert texts(await world.run("echo fine")) == "fine\n"


# ---- jobs and custom tools


@needs_bubblewrap
async def test_a_job_runs_in_the_sandbox_and_reports_new_guarded_paths(world):
    async with trio.open_nursery() as nursery:
        jobs = Jobs(nursery, lambda: None)
        background = Background(jobs=jobs, chat_id="c", reader="c")
        tool = world.tool(background=background)
        text = texts(
            await run(
                tool,
                "touch ~/x; echo $ECA_SANDBOX; mkdir -p a/.vscode .vscode/x; echo 1 >a/.vscode/t",
                background="job",
            )
        )
        (job,) = jobs
        with trio.fail_after(20):
            await job.ended.wait()
        text += background.read(job, Cap())[0]
        await jobs.close()
    assert "bubblewrap" in text
    assert "Read-only file system" in text
    assert str(world.root / "a/.vscode") in text
    assert (world.root / "a/.vscode/t").exists()
    assert not (world.home / "x").exists()
    assert not (world.root / ".vscode").exists()


async def custom(world: World, mode: str) -> str:
    sandbox = world.sandbox(mode=mode)
    (tool,), problems = custom_commands(
        {"mine": CustomTool(command="touch ~/x; echo sandbox=$ECA_SANDBOX")},
        workspace=Workspace(world.tool().workspace.roots),
        environment=world.environ,
        cap=Cap(),
        taken=(),
        sandbox=sandbox if mode == "require" else None,
    )
    assert not problems
    prepared = await tool.prepare({})
    assert not prepared.is_sandboxed
    return texts(await prepared.run())


@needs_bubblewrap
async def test_a_custom_tool_runs_in_the_sandbox_only_if_it_is_required(world):
    assert "sandbox=bubblewrap" in await custom(world, "require")
    assert not (world.home / "x").exists()
    assert await custom(world, "auto") == "sandbox=\n"
    assert (world.home / "x").exists()


async def test_a_custom_tool_is_refused_if_the_required_sandbox_is_missing(world):
    (tool,), _ = custom_commands(
        {"mine": CustomTool(command="true")},
        workspace=world.tool().workspace,
        environment=world.environ,
        cap=Cap(),
        taken=(),
        sandbox=world.sandbox(mode="require", detect=broken),
    )
    with pytest.raises(ToolError, match="the kernel forbids it"):
        await tool.prepare({})


# ---- reserved names


async def test_a_name_is_reserved_until_its_last_command_has_ended(tmp_path):
    name = tmp_path / ".vscode"
    first, second = reserve([name]), reserve([name])
    assert first == second == (name,)
    release(first)
    assert name.is_dir()
    release(second)
    assert not name.exists()


async def test_existing_paths_are_not_reserved_and_new_content_stays(tmp_path):
    there = tmp_path / ".vscode"
    there.mkdir()
    assert reserve([there]) == ()
    reserved = reserve([tmp_path / ".idea"])
    (tmp_path / ".idea/x").touch()
    release(reserved)
    assert (tmp_path / ".idea/x").exists()


async def test_a_directory_that_a_crash_left_behind_is_reused(tmp_path):
    left = tmp_path / ".envrc"
    left.mkdir()
    reserved = reserve([left])
    assert reserved == (left,)
    release(reserved)
    assert not left.exists()


@needs_bubblewrap
async def test_concurrent_commands_do_not_release_each_others_names(world):
    """The second command cannot create a `.vscode` after the first has ended."""
    ended = trio.Event()

    async def first() -> None:
        await world.run("touch first; until [ -e end ]; do sleep .01; done")
        ended.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(first)
        await until_there(world.root / "first")
        command = (
            "touch second; until [ -e go ]; do sleep .01; done; mkdir -p .vscode/x; touch done"
        )
        nursery.start_soon(world.run, command)
        await until_there(world.root / "second")
        (world.root / "end").touch()
        with trio.fail_after(20):
            await ended.wait()
        (world.root / "go").touch()
    assert (world.root / "done").exists()
    assert not list(world.root.glob(".vscode*"))


async def until_there(path: Path) -> None:
    with trio.fail_after(20):
        while not path.exists():
            await trio.sleep(0.005)

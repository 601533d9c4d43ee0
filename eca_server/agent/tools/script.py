"""A shell script run to its end, its deadline or a stop, for the tools that run commands.

The rule of this module: no process of the script's session is left when `run_script` returns or is
cancelled; see `RunningShell`. A process with a session of its own (`setsid`, a daemon) outlives it.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import attrs
import trio

from eca_protocol.errors import StartFailed
from eca_protocol.process import Child, signal_name
from eca_server.agent.jobs.output import Stream
from eca_server.agent.jobs.shell import RunningShell, start_shell
from eca_server.agent.sandbox.hints import is_setup_failure, sandbox_hint
from eca_server.agent.sandbox.sandbox import Sandbox
from eca_server.agent.sandbox.survey import TooLarge
from eca_server.agent.tools.files import in_thread
from eca_server.agent.tools.output import Cap, OutputBuffer
from eca_server.agent.tools.tool import ToolError, ToolOutput
from eca_server.models.history import TextPart
from eca_server.system.child_process import find_shell
from eca_server.workspace.opening import Directory, open_directory

Leave: TypeAlias = Callable[..., Awaitable[str]]
"""`SandboxedCommand.leave`, or a function that does nothing."""

_HINT = "request less output, or write it to a file and read that in parts"


@attrs.frozen(kw_only=True)
class Script:
    """A script and its limits.

    Attributes:
        environment: the whole environment.
        timeout: in seconds.
        may_leave: whether the model may request a run outside the sandbox.
    """

    text: str
    directory: Path
    environment: Mapping[str, str] = attrs.field(repr=False)
    timeout: float
    cap: Cap
    sandbox: Sandbox | None = None
    may_leave: bool = False


@asynccontextmanager
async def ready_to_start(script: Script) -> AsyncIterator[tuple[Callable[[], Child], Leave]]:
    """Prepare the sandbox of a script, if it has one, and open its checked directory.

    Yields:
        A function that starts the script there at once, and `SandboxedCommand.leave`, which the
        caller calls when the script has ended; after an error in the block it was called.

    Raises:
        ToolError: the sandbox cannot be prepared; the path leads to a different directory now, or
            cannot be opened; or the script cannot be started.
    """
    prefix, environment, leave = await _enter_sandbox(script)
    try:
        with ExitStack() as stack:
            opened, shell = await in_thread(_look, stack, script)
            start = partial(
                start_shell,
                shell,
                script.text,
                directory=opened.path if opened.fd is None else opened.fd,
                environment=environment,
                prefix=prefix,
            )
            yield start, leave
    except BaseException as error:
        await leave()
        if isinstance(error, StartFailed):
            raise ToolError(str(error)) from error
        raise


def _look(stack: ExitStack, script: Script) -> tuple[Directory, str]:
    """Open the directory, and find the shell."""
    try:
        opened = stack.enter_context(open_directory(script.directory))
        opened.stat(os.curdir)  # may it be entered? The shell's error would name a descriptor.
    except OSError as error:
        error.filename = str(script.directory)  # in place of one step of the walk
        raise
    return opened, find_shell(script.environment)


async def _enter_sandbox(script: Script) -> tuple[Sequence[str], Mapping[str, str], Leave]:
    """Return the command before the shell, the environment, and what ends the sandbox."""
    if script.sandbox is None:
        return (), script.environment, _leave_nothing
    try:
        visit = await script.sandbox.enter(script.directory)
    except (TooLarge, OSError) as error:
        raise ToolError(f"The command cannot run in the sandbox: {error}.") from error
    return visit.prefix, visit.environment(script.environment), visit.leave


async def _leave_nothing(**_: bool) -> str:
    return ""


async def run_script(script: Script) -> ToolOutput:
    """Run a script and return its stdout and stderr, and its failure if it failed.

    Raises:
        ToolError: it cannot be started.
    """
    output = await _run_in_sandbox(script)
    if script.sandbox is None or not is_setup_failure(output.texts):
        return output
    # A socket or file to be hidden was removed: the sandbox has to be prepared again.
    return await _run_in_sandbox(script)


async def _run_in_sandbox(script: Script) -> ToolOutput:
    async with ready_to_start(script) as (start, leave):
        child = start()
    try:
        output = await _run(script, child)
    except BaseException:
        await leave()
        raise
    note = await leave()
    return attrs.evolve(output, parts=(*output.parts, TextPart(note))) if note else output


async def _run(script: Script, child: Child) -> ToolOutput:
    """Return the output of a started script, read to its end."""
    outputs: dict[Stream, OutputBuffer] = {
        "stdout": OutputBuffer(script.cap),
        "stderr": OutputBuffer(script.cap),
    }

    async def take(stream: Stream, data: bytes) -> None:
        outputs[stream].write(data)

    shell = RunningShell(child, take)
    try:
        with trio.move_on_after(script.timeout) as deadline:
            await shell.read_to_end()
    finally:
        await shell.end()
    failure = _failure(child.returncode)
    if deadline.cancelled_caught:
        failure = f"Timed out after {script.timeout:g} s and was stopped."
    return _output(script, outputs["stdout"], outputs["stderr"], failure)


def _output(
    script: Script, stdout: OutputBuffer, stderr: OutputBuffer, failure: str | None
) -> ToolOutput:
    """Return the output, after `failure` if there is one, with a hint at the end."""
    to_stdout, to_stderr = _shares(script.cap, stdout, stderr)
    out = stdout.text(to_stdout, hint=_HINT)
    err = stderr.text(to_stderr, hint=_HINT)
    if failure is None:
        texts = [out, err and f"Stderr:\n{err}"]
    else:
        texts = [failure, err and f"Stderr:\n{err}", out and f"Stdout:\n{out}"]
    if script.sandbox is not None:
        network, may_leave = script.sandbox.settings.network, script.may_leave
        texts.append(sandbox_hint(err, out, network=network, may_leave=may_leave))
    parts = tuple(TextPart(text) for text in texts if text)
    return ToolOutput(
        parts=parts or (TextPart("The command succeeded without output."),),
        is_error=failure is not None,
    )


def _failure(returncode: int | None) -> str | None:
    if returncode == 0:
        return None
    if returncode is None:
        return "The command could not be killed."
    if returncode > 0:
        return f"Exit code {returncode}"
    return f"Ended by {signal_name(returncode)}"


def _shares(cap: Cap, stdout: OutputBuffer, stderr: OutputBuffer) -> tuple[Cap, Cap]:
    """Divide the cap: stderr gets half of it, or more if stdout needs less."""
    size = min(stderr.size, max(cap.size // 2, cap.size - stdout.size))
    lines = min(stderr.lines + 1, max(cap.lines // 2, cap.lines - stdout.lines - 1))
    return (
        Cap(lines=cap.lines - lines * bool(stderr.size), size=cap.size - size),
        Cap(lines=lines, size=size),
    )

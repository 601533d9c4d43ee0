"""Runs one shell script to its end, its deadline or a stop, for the tools that are commands.

The rule it keeps: nothing of it is left when `run_script` returns or is cancelled; see
`RunningShell` for how it ends.
"""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import attrs
import trio

from eca_protocol.errors import StartFailed
from eca_server.child_process import find_program
from eca_server.jobs import RunningShell, Stream, start_shell
from eca_server.llm.history import TextPart
from eca_server.sandbox import Sandbox, SandboxedCommand, TooLarge, is_setup_failure, sandbox_hint
from eca_server.tools.files import in_thread
from eca_server.tools.output import Cap, OutputBuffer
from eca_server.tools.tool import ToolFault, ToolOutput
from eca_server.workspace.opening import open_directory

__all__ = ["Script", "enter_sandbox", "open_working_directory", "run_script", "shell_in"]

_HINT = "ask for less, or write it to a file and read that in parts"


@attrs.frozen(kw_only=True)
class Script:
    """What to run, and within which bounds.

    Attributes:
        shell: the program that reads the text, as `shell_in` finds it.
        text: the script.
        directory: where it runs, a real path.
        environment: all of it.
        timeout: in seconds.
        cap: how much of its output is kept.
        sandbox: where it runs; None: as it is.
        may_leave: whether the model may ask to run it outside of the sandbox.
        prefix: the command that starts the shell, if it does not start by itself.
    """

    shell: str
    text: str
    directory: Path
    environment: Mapping[str, str] = attrs.field(repr=False)
    timeout: float
    cap: Cap
    sandbox: Sandbox | None = None
    may_leave: bool = False
    prefix: tuple[str, ...] = ()

    def within(self, visit: SandboxedCommand) -> Script:
        """Return the script as it runs in a sandbox that is ready."""
        environment = visit.environment(self.environment)
        return attrs.evolve(self, prefix=visit.prefix, environment=environment)


def shell_in(environment: Mapping[str, str]) -> str:
    """Return the bash on the environment's PATH, or the sh without one; look at the disk."""
    path = environment.get("PATH")
    return find_program("bash", path) or find_program("sh", path) or "/bin/sh"


@asynccontextmanager
async def open_working_directory(directory: Path) -> AsyncIterator[Path | int]:
    """Open the directory of a script as it was judged, and hold it while the script is started.

    Yields:
        What to start it in: a descriptor, or the path where the platform has none.

    Raises:
        ToolFault: the path leads elsewhere now, or cannot be opened.
    """
    with ExitStack() as stack:
        opened = await in_thread(lambda: stack.enter_context(open_directory(directory)))
        yield opened.path if opened.fd is None else opened.fd


async def enter_sandbox(script: Script) -> SandboxedCommand | None:
    """Make the sandbox of a script ready; None if it has none. The caller leaves it.

    Raises:
        ToolFault: the sandbox cannot be made ready.
    """
    if script.sandbox is None:
        return None
    try:
        return await script.sandbox.enter(script.directory)
    except (TooLarge, OSError) as fault:
        raise ToolFault(f"The command cannot run in the sandbox: {fault}.") from fault


async def run_script(script: Script) -> ToolOutput:
    """Return what the script wrote, stdout and stderr apart, and how it ended if not well.

    Raises:
        ToolFault: it cannot be started.
    """
    if script.sandbox is None:
        return await _run(script)
    output = await _run_in_sandbox(script)
    texts = [part.text for part in output.parts if isinstance(part, TextPart)]
    # A socket or file that was to be hidden has gone: what is hidden has to be found again.
    return await _run_in_sandbox(script) if is_setup_failure(texts) else output


async def _run_in_sandbox(script: Script) -> ToolOutput:
    visit = await enter_sandbox(script)
    assert visit is not None
    try:
        output = await _run(script.within(visit))
    except BaseException:
        await visit.leave()
        raise
    note = await visit.leave()
    return attrs.evolve(output, parts=(*output.parts, TextPart(note))) if note else output


async def _run(script: Script) -> ToolOutput:
    """Run a script to its end; the part of `run_script` that knows no sandbox but its hint."""
    try:
        async with open_working_directory(script.directory) as directory:
            child = start_shell(
                script.shell,
                script.text,
                directory=directory,
                environment=script.environment,
                prefix=script.prefix,
            )
    except StartFailed as fault:
        raise ToolFault(str(fault)) from fault
    said: dict[Stream, OutputBuffer] = {
        "stdout": OutputBuffer(script.cap),
        "stderr": OutputBuffer(script.cap),
    }

    async def take(stream: Stream, data: bytes) -> None:
        said[stream].write(data)

    shell = RunningShell(child, take)
    try:
        with trio.move_on_after(script.timeout) as deadline:
            await shell.read_to_end()
    finally:
        await shell.end()
    failure = _failure(child.returncode)
    if deadline.cancelled_caught:
        failure = f"Timed out after {script.timeout:g} s and was stopped."
    return _output(script, said["stdout"], said["stderr"], failure)


def _output(
    script: Script, stdout: OutputBuffer, stderr: OutputBuffer, failure: str | None
) -> ToolOutput:
    """Return what it wrote, with `failure` in front if it went wrong, and a hint at the end."""
    cap = script.cap
    to_stdout, to_stderr = _shares(cap, stdout, stderr)
    said = stdout.text(to_stdout, hint=_HINT)
    complained = stderr.text(to_stderr, hint=_HINT)
    if failure is None:
        texts = [said, complained and f"Stderr:\n{complained}"]
    else:
        texts = [failure, complained and f"Stderr:\n{complained}", said and f"Stdout:\n{said}"]
    if script.sandbox is not None:
        can_network, may_leave = script.sandbox.network, script.may_leave
        texts.append(sandbox_hint(complained, said, network=can_network, may_leave=may_leave))
    parts = tuple(TextPart(text) for text in texts if text)
    return ToolOutput(
        parts=parts or (TextPart("Done; it wrote nothing."),), is_error=failure is not None
    )


def _failure(returncode: int | None) -> str | None:
    if returncode == 0:
        return None
    if returncode is None:
        return "It could not be ended."
    if returncode > 0:
        return f"Exit code {returncode}"
    try:
        return f"Ended by {signal.Signals(-returncode).name}"
    except ValueError:
        return f"Ended by signal {-returncode}"


def _shares(cap: Cap, stdout: OutputBuffer, stderr: OutputBuffer) -> tuple[Cap, Cap]:
    """Both outputs' parts of the cap: stderr may have half of it, and what stdout leaves."""
    size = min(stderr.size, max(cap.size // 2, cap.size - stdout.size))
    lines = min(stderr.lines + 1, max(cap.lines // 2, cap.lines - stdout.lines - 1))
    return (
        Cap(lines=cap.lines - lines * bool(stderr.size), size=cap.size - size),
        Cap(lines=lines, size=size),
    )

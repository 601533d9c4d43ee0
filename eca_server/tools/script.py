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
from eca_server.tools.files import in_thread
from eca_server.tools.output import Cap, OutputBuffer
from eca_server.tools.tool import ToolFault, ToolOutput
from eca_server.workspace.opening import open_directory

__all__ = ["Script", "open_working_directory", "run_script", "shell_in"]

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
    """

    shell: str
    text: str
    directory: Path
    environment: Mapping[str, str] = attrs.field(repr=False)
    timeout: float
    cap: Cap


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


async def run_script(script: Script) -> ToolOutput:
    """What the script said, stdout and stderr apart, and how it ended if it did not end well.

    Raises:
        ToolFault: it cannot be started.
    """
    try:
        async with open_working_directory(script.directory) as directory:
            child = start_shell(
                script.shell, script.text, directory=directory, environment=script.environment
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
            await shell.to_its_end()
    finally:
        await shell.end()
    failure = _failure(child.returncode)
    if deadline.cancelled_caught:
        failure = f"Timed out after {script.timeout:g} s and was stopped."
    return _output(script.cap, said["stdout"], said["stderr"], failure)


def _output(
    cap: Cap, stdout: OutputBuffer, stderr: OutputBuffer, failure: str | None
) -> ToolOutput:
    """What it said, with `failure` in front if it went wrong."""
    to_stdout, to_stderr = _shares(cap, stdout, stderr)
    said = stdout.text(to_stdout, hint=_HINT)
    complained = stderr.text(to_stderr, hint=_HINT)
    if failure is None:
        texts = [said, complained and f"Stderr:\n{complained}"]
    else:
        texts = [failure, complained and f"Stderr:\n{complained}", said and f"Stdout:\n{said}"]
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

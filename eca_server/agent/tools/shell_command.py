"""`shell_command`: run a command in a shell, in the workspace."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol

import attrs

from eca_protocol.messages import ShellCommandBreakdown, ShellCommandDetails
from eca_server.agent.sandbox.sandbox import Sandbox
from eca_server.agent.tools.command_keys import CommandPart, command_parts
from eca_server.agent.tools.files import in_thread
from eca_server.agent.tools.output import Cap
from eca_server.agent.tools.schemas import boolean, integer, object_schema, required, string
from eca_server.agent.tools.script import Script, run_script
from eca_server.agent.tools.tool import Effect, PreparedCall, ToolError, ToolOutput
from eca_server.config.directories import home_directory
from eca_server.workspace.boundary import Place, Workspace
from eca_server.workspace.errors import FileError

SANDBOX_PLACES = (" outside of the sandbox", " in the sandbox")
"""The ends of summaries, if a sandbox is configured."""

_TIMEOUT = 60_000
_LONGEST = 600_000
_SHOWN_DIRECTORY = 100
_DESCRIPTION = (
    "Run a command with `bash -c`. There is no terminal and no input: do not run interactive "
    "commands. Background processes of the command are killed when it ends; those in a session of "
    "their own (daemons) are not. Standard output and standard error are returned separately; the "
    "middle of a long output is cut."
)
_OF_BACKGROUND = (
    "Run a long command, or one that does not end by itself (a server, a watcher), as a job: name "
    "it in `background`, and read or kill it with `eca_bg_job`."
)
_PROPERTIES: Mapping[str, Any] = {
    "command": required(string("The command or script to run.")),
    "working_directory": string("The working directory. Default: the first workspace root."),
    "timeout": integer(
        f"Timeout in milliseconds. Default: {_TIMEOUT}.", minimum=1, maximum=_LONGEST
    ),
}
_BACKGROUND: Mapping[str, Any] = string(
    "Run the command as a background job without a time limit. The value is a short "
    "name of the job (`dev server`)."
)


_IN_SANDBOX = (
    "Commands run in a sandbox if the machine supports one: they can write to the workspace and to "
    "a private /tmp, but not to `.git` and other guarded paths; they cannot read keys{}."
)
_NO_NETWORK = ", and have no network access"
_LEAVING = (
    " Set `outside_sandbox` only for a command that needs more access, preferably after it has "
    "failed in the sandbox: it requires the user's approval."
)
_OUTSIDE: Mapping[str, Any] = boolean("Run outside the sandbox, with the user's approval.")
SHELL_ARGUMENTS = (*_PROPERTIES, "background", "outside_sandbox")
"""The names of all arguments of `shell_command`, offered or not."""


class BackgroundRunner(Protocol):
    """Runs commands in the background."""

    async def start(self, script: Script, name: str) -> ToolOutput:
        """Start a script under a name; return what the model is sent.

        Raises:
            ToolError: it cannot be started.
        """


@attrs.frozen(kw_only=True)
class ShellCommand:
    """The tool `shell_command`.

    Attributes:
        workspace: its first root is the default working directory.
        environment: the whole environment of commands, without the server's keys.
        summary_max_length: characters of a command in a summary.
        cap: the limit of a command's output.
        background: runs commands as jobs; None: no jobs.
        warn: notifies the user that the configured sandbox cannot be used.
    """

    workspace: Workspace
    environment: Mapping[str, str] = attrs.field(repr=False)
    summary_max_length: int = 25
    cap: Cap = attrs.field(factory=Cap)
    background: BackgroundRunner | None = None
    sandbox: Sandbox | None = None
    warn: Callable[[str], None] = lambda _: None

    name: ClassVar = "shell_command"
    effect: ClassVar[Effect] = "run"

    @property
    def description(self) -> str:
        """The description for the model."""
        texts = [_DESCRIPTION]
        if self.background is not None:
            texts.append(_OF_BACKGROUND)
        if self.sandbox is not None:
            text = _IN_SANDBOX.format("" if self.sandbox.settings.network else _NO_NETWORK)
            texts.append(text + _LEAVING * self._may_leave)
        return " ".join(texts)

    @property
    def _may_leave(self) -> bool:
        return self.sandbox is not None and self.sandbox.settings.mode == "auto"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments."""
        background = {} if self.background is None else {"background": _BACKGROUND}
        leaving = {"outside_sandbox": _OUTSIDE} if self._may_leave else {}
        return object_schema(**_PROPERTIES, **background, **leaving)

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `Running 'COMMAND'` and, unless it is the first root, the directory."""
        where = arguments.get("working_directory")
        return self._summary(arguments, where if isinstance(where, str) else None)

    def _summary(self, arguments: Mapping[str, Any], where: str | None) -> str:
        command = arguments.get("command")
        text = " ".join(command.split()) if isinstance(command, str) else ""
        if len(text) > self.summary_max_length:
            text = f"{text[: self.summary_max_length]}..."
        summary = f"Running '{text}'" if text else "Running a command"
        return summary if where is None else f"{summary} in {_printable(where)}"

    def _shown(self, directory: Path) -> str | None:
        """Return a directory for people; None: the first root, which is the default."""
        roots = self.workspace.roots
        if roots and directory in {roots[0].path, roots[0].real_path}:
            return None
        for root in roots:
            if directory.is_relative_to(root.real_path):
                below = directory.relative_to(root.real_path)
                return str(below if root is roots[0] else Path(root.name, below))
        return str(directory)

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Resolve the directory and the sandbox, and parse the command.

        Raises:
            ToolError: the command is blank, the directory is invalid, or the sandbox is required
                and cannot be used.
        """
        command: str = arguments["command"]
        if not command.strip():
            raise ToolError("command: expected a command, got a blank text.")
        where: str | None = arguments.get("working_directory")
        place: Place | None = None
        if where is not None:
            place = await in_thread(requested_directory, self.workspace, where)
            directory = place.real_path
        else:
            directory = await in_thread(default_directory, self.workspace)
        sandbox = await self._sandbox_of(arguments)
        parts = await in_thread(self._parts_of, command, str(directory))
        script = Script(
            text=command,
            directory=directory,
            environment=self.environment,
            timeout=arguments.get("timeout", _TIMEOUT) / 1000,
            cap=self.cap,
            sandbox=sandbox,
            may_leave=self._may_leave,
        )
        background = self.background
        name = (arguments.get("background") or "").strip()

        async def run() -> ToolOutput:
            if background is not None and name:
                return await background.start(script, name)
            return await run_script(script)

        where_shown = "" if self.sandbox is None else SANDBOX_PLACES[sandbox is not None]
        return PreparedCall(
            run=run,
            summary=self._summary(arguments, self._shown(directory)) + where_shown,
            details=_details(parts, is_background=bool(name)),
            places=() if place is None else (place,),
            command=command,
            parts=parts,
            folder=str(directory),
            is_sandboxed=sandbox is not None,
        )

    def _parts_of(self, command: str, folder: str) -> tuple[CommandPart, ...]:
        """Return the parts of a command; read the disk."""
        path = self.environment.get("PATH")
        return command_parts(command, folder=folder, workspace=self.workspace, path=path)

    async def _sandbox_of(self, arguments: Mapping[str, Any]) -> Sandbox | None:
        """Return the sandbox of a call, or None; without one the call needs approval as usual."""
        sandbox = self.sandbox
        if sandbox is None or (self._may_leave and arguments.get("outside_sandbox")):
            return None
        if sandbox.settings.mode == "require":
            await ensure_sandbox_works(sandbox)
            return sandbox
        problem = await sandbox.why_not()
        if problem:
            self.warn(
                f"`toolCall.sandbox` is `auto`, but commands cannot run in a sandbox: {problem}. "
                "They run without a sandbox, and need approval as without the setting."
            )
            return None
        return sandbox


async def ensure_sandbox_works(sandbox: Sandbox) -> None:
    """Check that a required sandbox can be used.

    Raises:
        ToolError: the sandbox cannot be used.
    """
    problem = await sandbox.why_not()
    if problem:
        raise ToolError(f"`toolCall.sandbox` is `require`, but no sandbox can be used: {problem}.")


def _printable(text: str) -> str:
    """Return a directory without control characters; cut the beginning of a long one."""
    shown = "".join(char if char.isprintable() else "?" for char in text)
    return shown if len(shown) <= _SHOWN_DIRECTORY else f"...{shown[-_SHOWN_DIRECTORY:]}"


def _details(parts: Sequence[CommandPart], *, is_background: bool) -> ShellCommandDetails:
    """Return the details of a command, without the approvals that would be stored."""
    return ShellCommandDetails(
        commands=tuple(
            ShellCommandBreakdown(command=part.words[0], args=part.words[1:]) for part in parts
        ),
        background=is_background or None,
    )


def default_directory(workspace: Workspace) -> Path:
    """Return the default directory: the real path of the first root, or of home; read the disk."""
    if workspace.roots:
        return workspace.roots[0].real_path
    return home_directory(os.environ).resolve()


def requested_directory(workspace: Workspace, text: str) -> Place:
    """Resolve a call's directory; read the disk.

    Raises:
        ToolError: it is not a directory.
    """
    try:
        place = workspace.locate(text)
    except FileError as error:
        raise ToolError(f"working_directory: {error}") from error
    try:
        is_directory = place.real_path.is_dir()
    except OSError as error:
        raise ToolError(f"working_directory: {text!r}: {error.strerror}.") from error
    if not is_directory:
        raise ToolError(f"working_directory: expected a directory, got {text!r}.")
    return place

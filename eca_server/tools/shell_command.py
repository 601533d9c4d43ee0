"""`shell_command`: runs what the model wrote in a shell, in the workspace."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import attrs
import trio

from eca_protocol.messages import ShellCommandBreakdown, ShellCommandDetails
from eca_server.config.folders import home_folder
from eca_server.tools.background import Background
from eca_server.tools.output import Cap
from eca_server.tools.script import Script, run_script, shell_in
from eca_server.tools.tool import Effect, PreparedCall, ToolFault, ToolOutput
from eca_server.workspace import FileFault, Place, Workspace

__all__ = ["ShellCommand", "default_directory"]

_TIMEOUT = 60_000
_LONGEST = 600_000
_SHOWN_DIRECTORY = 100
_DESCRIPTION = (
    "Run a command with `bash -c`. There is no terminal and no input: commands that ask for "
    "something fail or see the end of input. When the command ends, whatever it left in the "
    "background is ended too. Standard output and standard error come back apart; long ones "
    "lose their middle."
)
_OF_BACKGROUND = (
    "What does not end by itself (a server, a watcher) or takes long runs as a job: give it a "
    "name in `background`, and read or kill it with `eca_bg_job`."
)
_PROPERTIES: Mapping[str, Any] = {
    "command": {"type": "string", "description": "The command, or a whole script."},
    "working_directory": {
        "type": "string",
        "description": "Where it runs. Default: the first workspace root.",
    },
    "timeout": {
        "type": "integer",
        "minimum": 1,
        "maximum": _LONGEST,
        "description": f"In milliseconds. Default: {_TIMEOUT}.",
    },
}
_BACKGROUND: Mapping[str, Any] = {
    "type": "string",
    "description": "Run it as a job that goes on behind this call, without a time limit: what "
    "the job is called, in a few words (`dev server`).",
}


@attrs.frozen(kw_only=True)
class ShellCommand:
    """The tool `shell_command`.

    Attributes:
        workspace: its first root is where commands run if the call names no directory.
        environment: of the commands, all of it; without our keys.
        summary_max_length: characters of a command in a summary.
        cap: how much of a command's output is kept.
        background: where commands run that outlive their call; None: none may.
    """

    workspace: Workspace
    environment: Mapping[str, str] = attrs.field(repr=False)
    summary_max_length: int = 25
    cap: Cap = attrs.field(factory=Cap)
    background: Background | None = None

    name: ClassVar = "shell_command"
    effect: ClassVar[Effect] = "run"

    @property
    def description(self) -> str:
        """For the model."""
        return _DESCRIPTION if self.background is None else f"{_DESCRIPTION} {_OF_BACKGROUND}"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments."""
        background = {} if self.background is None else {"background": _BACKGROUND}
        return {
            "type": "object",
            "properties": {**_PROPERTIES, **background},
            "required": ["command"],
        }

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return `Running 'cmd'` and, if it is not the first root, the directory."""
        where = arguments.get("working_directory")
        return self._summary(arguments, where if isinstance(where, str) else None)

    def _summary(self, arguments: Mapping[str, Any], where: str | None) -> str:
        command = arguments.get("command")
        words = " ".join(command.split()) if isinstance(command, str) else ""
        if len(words) > self.summary_max_length:
            words = f"{words[: self.summary_max_length]}..."
        summary = f"Running '{words}'" if words else "Running a command"
        return summary if where is None else f"{summary} in {_printable(where)}"

    def _shown(self, directory: Path) -> str | None:
        """Return a directory as people see it; None: the first root, where commands run anyway."""
        roots = self.workspace.roots
        if roots and directory in {roots[0].path, roots[0].real_path}:
            return None
        for root in roots:
            if directory.is_relative_to(root.real_path):
                below = directory.relative_to(root.real_path)
                return str(below if root is roots[0] else Path(root.name, below))
        return str(directory)

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Look whether it can be started, and where.

        Raises:
            ToolFault: the command is blank, or the directory is none.
        """
        command: str = arguments["command"]
        if not command.strip():
            raise ToolFault("command: expected a command, got a blank text.")
        where: str | None = arguments.get("working_directory")
        place: Place | None = None
        if where is not None:
            place = await trio.to_thread.run_sync(named_directory, self.workspace, where)
            directory = place.real_path
        else:
            directory = await trio.to_thread.run_sync(default_directory, self.workspace)
        script = Script(
            shell=await trio.to_thread.run_sync(shell_in, self.environment),
            text=command,
            directory=directory,
            environment=self.environment,
            timeout=arguments.get("timeout", _TIMEOUT) / 1000,
            cap=self.cap,
        )
        background = self.background
        name = (arguments.get("background") or "").strip()

        async def run() -> ToolOutput:
            if background is not None and name:
                return await background.start(script, name)
            return await run_script(script)

        return PreparedCall(
            run=run,
            summary=self._summary(arguments, self._shown(directory)),
            details=_details(command) if name else None,
            places=() if place is None else (place,),
            command=command,
            folder=str(directory),
        )


def _printable(text: str) -> str:
    """Return a directory without what a terminal would obey; a long one loses its beginning."""
    shown = "".join(char if char.isprintable() else "?" for char in text)
    return shown if len(shown) <= _SHOWN_DIRECTORY else f"...{shown[-_SHOWN_DIRECTORY:]}"


def _details(command: str) -> ShellCommandDetails:
    """That it runs in the background; an approval for the session keeps the very command."""
    whole = ShellCommandBreakdown(command=command, approval_key=command)
    return ShellCommandDetails(commands=(whole,), background=True)


def default_directory(workspace: Workspace) -> Path:
    """Return the real path of the first root, or of home: where a command runs by default.

    Looks at the disk.
    """
    if workspace.roots:
        return workspace.roots[0].real_path
    return home_folder(os.environ).resolve()


def named_directory(workspace: Workspace, text: str) -> Place:
    """Return where a call's directory leads. Looks at the disk.

    Raises:
        ToolFault: it is no directory.
    """
    try:
        place = workspace.locate(text)
    except FileFault as fault:
        raise ToolFault(f"working_directory: {fault}") from fault
    try:
        is_directory = place.real_path.is_dir()
    except OSError as fault:
        raise ToolFault(f"working_directory: {text!r}: {fault.strerror}.") from fault
    if not is_directory:
        raise ToolFault(f"working_directory: expected a directory, got {text!r}.")
    return place

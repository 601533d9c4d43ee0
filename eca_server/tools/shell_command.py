"""`shell_command`: runs what the model wrote in a shell, in the workspace."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import attrs
import trio

from eca_protocol.messages import ShellCommandBreakdown, ShellCommandDetails
from eca_server.config.directories import home_directory
from eca_server.sandbox import Sandbox
from eca_server.tools.background import Background
from eca_server.tools.command_keys import CommandPart, command_parts
from eca_server.tools.output import Cap
from eca_server.tools.script import Script, run_script, shell_in
from eca_server.tools.tool import Effect, PreparedCall, ToolFault, ToolOutput
from eca_server.workspace import FileFault, Place, Workspace

__all__ = ["ShellCommand", "default_directory", "must_work"]

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


_IN_SANDBOX = (
    "Commands run in a sandbox where the machine can make one: they can write in the workspace and "
    "in a /tmp of their own, but not to `.git` and other guarded paths; they cannot read keys{}."
)
_NO_NETWORK = ", and have no network"
_LEAVING = (
    " Set `outside_sandbox` only for a command that needs more, best after it has failed: the user "
    "is asked."
)
_OUTSIDE: Mapping[str, Any] = {
    "type": "boolean",
    "description": "Run outside of the sandbox, after the user's approval.",
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
        sandbox: where commands run; None: as they are.
        warn: tells the user why there is no sandbox, though one is configured.
    """

    workspace: Workspace
    environment: Mapping[str, str] = attrs.field(repr=False)
    summary_max_length: int = 25
    cap: Cap = attrs.field(factory=Cap)
    background: Background | None = None
    sandbox: Sandbox | None = None
    warn: Callable[[str], None] = lambda _: None

    name: ClassVar = "shell_command"
    effect: ClassVar[Effect] = "run"

    @property
    def description(self) -> str:
        """For the model."""
        texts = [_DESCRIPTION]
        if self.background is not None:
            texts.append(_OF_BACKGROUND)
        if self.sandbox is not None:
            told = _IN_SANDBOX.format("" if self.sandbox.network else _NO_NETWORK)
            texts.append(told + _LEAVING * self._may_leave)
        return " ".join(texts)

    @property
    def _may_leave(self) -> bool:
        return self.sandbox is not None and self.sandbox.mode == "auto"

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of its arguments."""
        background = {} if self.background is None else {"background": _BACKGROUND}
        leaving = {"outside_sandbox": _OUTSIDE} if self._may_leave else {}
        return {
            "type": "object",
            "properties": {**_PROPERTIES, **background, **leaving},
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
            ToolFault: the command is blank, the directory is none, or the sandbox is required and
                cannot be used.
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
        sandbox = await self._sandbox_of(arguments)
        shell, parts = await trio.to_thread.run_sync(self._look, command, str(directory))
        script = Script(
            shell=shell,
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

        return PreparedCall(
            run=run,
            summary=self._summary(arguments, self._shown(directory)) + self._where(sandbox),
            details=_details(parts, is_background=bool(name)),
            places=() if place is None else (place,),
            command=command,
            parts=parts,
            folder=str(directory),
            is_sandboxed=sandbox is not None,
        )

    def _look(self, command: str, folder: str) -> tuple[str, tuple[CommandPart, ...]]:
        """Return the shell and the parts of a command; look at the disk."""
        path = self.environment.get("PATH")
        parts = command_parts(command, folder=folder, workspace=self.workspace, path=path)
        return shell_in(self.environment), parts

    async def _sandbox_of(self, arguments: Mapping[str, Any]) -> Sandbox | None:
        """Return where a call runs; without a sandbox that works it asks as any other command."""
        sandbox = self.sandbox
        if sandbox is None or (self._may_leave and arguments.get("outside_sandbox")):
            return None
        if sandbox.mode == "require":
            await must_work(sandbox)
            return sandbox
        why_not = await sandbox.why_not()
        if why_not:
            self.warn(
                f"`toolCall.sandbox` is `auto`, but commands cannot run in a sandbox: {why_not}. "
                "They run as they are, and ask as without the setting."
            )
            return None
        return sandbox

    def _where(self, sandbox: Sandbox | None) -> str:
        if self.sandbox is None:
            return ""
        return " outside of the sandbox" if sandbox is None else " in the sandbox"


async def must_work(sandbox: Sandbox) -> None:
    """Refuse a call whose sandbox is required and cannot be used.

    Raises:
        ToolFault: the sandbox cannot be used.
    """
    why_not = await sandbox.why_not()
    if why_not:
        raise ToolFault(f"`toolCall.sandbox` is `require`, but no sandbox can be used: {why_not}.")


def _printable(text: str) -> str:
    """Return a directory without what a terminal would obey; a long one loses its beginning."""
    shown = "".join(char if char.isprintable() else "?" for char in text)
    return shown if len(shown) <= _SHOWN_DIRECTORY else f"...{shown[-_SHOWN_DIRECTORY:]}"


def _details(parts: Sequence[CommandPart], *, is_background: bool) -> ShellCommandDetails:
    """Return the parts of a command, without what an approval would remember of them."""
    return ShellCommandDetails(
        commands=tuple(
            ShellCommandBreakdown(command=part.words[0], args=part.words[1:]) for part in parts
        ),
        background=is_background or None,
    )


def default_directory(workspace: Workspace) -> Path:
    """Return the real path of the first root, or of home: where a command runs by default.

    Looks at the disk.
    """
    if workspace.roots:
        return workspace.roots[0].real_path
    return home_directory(os.environ).resolve()


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

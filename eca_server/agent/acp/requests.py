"""The requests of an agent during a turn: permissions, files and terminals.

Rules: a file or a command is served by the native tool that does the same, under the policy of the
turn and the boundary of the workspace. A call that the policy allows is not shown, because the
agent shows its own; so is one that the user has just approved as a call of the agent. All others
are calls of the turn. What ends the turn ends every request.
"""

from __future__ import annotations

import shlex
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, ClassVar, Final, TypeVar

import attrs
import trio

from eca_protocol import json
from eca_protocol.acp import RESOURCE_NOT_FOUND
from eca_protocol.acp import messages as acp
from eca_protocol.errors import RPCError
from eca_protocol.jsonrpc import ErrorCode
from eca_protocol.server.calls import CallState
from eca_server.agent.acp.calls import AgentTool
from eca_server.agent.acp.terminals import Terminals
from eca_server.agent.acp.writer import TurnWriter
from eca_server.agent.chat.call_runner import CallRunner, wait_for_approval
from eca_server.agent.chat.steps import PendingChanges, Step
from eca_server.agent.chat.turn import Turn
from eca_server.agent.tools.diff import split_lines
from eca_server.agent.tools.files import LARGEST, Ledger, ReadingTool, checkpoint
from eca_server.agent.tools.read_file import ReadFile
from eca_server.agent.tools.schemas import integer, object_schema, required, string
from eca_server.agent.tools.shell_command import ShellCommand
from eca_server.agent.tools.tool import PreparedCall, Tool, ToolError, ToolOutput, running_call
from eca_server.agent.tools.write_file import WriteFile
from eca_server.client.content_formatting import NATIVE, PREFIX
from eca_server.models.events import ToolCallFinished
from eca_server.workspace.boundary import Place
from eca_server.workspace.reading import decode, read_file
from eca_server.workspace.writing import ensure_root

_OUTCOMES: Final[Mapping[bool, tuple[str, str]]] = {
    True: ("allow_once", "allow_always"),
    False: ("reject_once", "reject_always"),
}
_CANCELLED: Final = acp.RequestPermissionResponse(
    outcome=acp.PermissionOutcome(outcome="cancelled")
)

MOST_REQUESTS: Final = 256
"""The number of requests of a turn that are served at once; further ones are refused.

A terminal may have one request that waits for its end.
"""

R = TypeVar("R")


@attrs.frozen(kw_only=True)
class _ReadText(ReadingTool):
    """The tool `read_file` with the exact text of a file as its output.

    Attributes:
        missing_is_empty: whether a file that does not exist is read as empty.
    """

    missing_is_empty: bool

    name: ClassVar = ReadFile.name
    action: ClassVar = ReadFile.action
    description: ClassVar = ""
    parameters: ClassVar[Mapping[str, Any]] = object_schema(
        path=required(string("")), line=integer("", minimum=0), limit=integer("", minimum=0)
    )

    def read(self, place: Place, arguments: Mapping[str, Any]) -> ToolOutput:
        """Return the whole text, or the lines that are asked for."""
        try:
            text = decode(read_file(place, limit=LARGEST, checkpoint=checkpoint).data).text
        except FileNotFoundError:
            ensure_root(place)
            if not self.missing_is_empty:
                raise
            text = ""
        line, limit = arguments.get("line"), arguments.get("limit")
        if line is not None or limit is not None:
            lines = split_lines(text)[max((line or 1) - 1, 0) :]
            text = "".join(lines if limit is None else lines[: max(limit, 0)])
        return ToolOutput.of(text)


@attrs.define(eq=False)
class TurnRequests:
    """The requests of an agent during one turn."""

    turn: Turn
    runner: CallRunner
    writer: TurnWriter
    terminals: Terminals
    directory: str
    _is_over: bool = attrs.field(default=False, init=False)

    def end(self) -> None:
        """End every request: the turn is over."""
        self._is_over = True
        for scope in self.turn.outer_scopes:
            scope.cancel()

    async def _within_turn(self, act: Callable[[], Awaitable[R]]) -> R | None:
        """Return the result of a function; None if the turn ends before.

        Raises:
            RPCError: it failed, or too many requests are being served.
        """
        if self._is_over or self.turn.stopped:
            return None
        scopes = self.turn.outer_scopes
        if len(scopes) >= MOST_REQUESTS:
            raise RPCError(ErrorCode.INVALID_REQUEST, f"{MOST_REQUESTS} requests are being served")
        with trio.CancelScope() as scope:
            scopes.add(scope)
            try:
                return await act()
            finally:
                scopes.discard(scope)
        return None

    async def serve(self, act: Callable[[], Awaitable[R]]) -> R:
        """Return the result of a request.

        Raises:
            RPCError: it failed, or the turn ended.
        """
        result = await self._within_turn(act)
        if result is None:
            raise RPCError(ErrorCode.REQUEST_CANCELLED, "the turn has ended")
        return result

    async def permit(self, params: acp.RequestPermissionRequest) -> acp.RequestPermissionResponse:
        """Decide on a call of the agent: by the policy, or by asking the user."""
        is_allowed = await self._within_turn(lambda: self._decide(params.tool_call))
        if is_allowed is None or self.turn.stopped:
            return _CANCELLED
        for kind in _OUTCOMES[is_allowed]:
            for option in params.options:
                if option.kind == kind:
                    outcome = acp.PermissionOutcome(outcome="selected", option_id=option.option_id)
                    return acp.RequestPermissionResponse(outcome=outcome)
        return _CANCELLED

    async def _decide(self, change: acp.ToolCallChange) -> bool:
        known = original = self.writer.merge(change)
        if original.is_asking or original.call.state is not CallState.PREPARING:  # once more
            known = self.writer.begin_again(original)
        call = known.call
        known.is_asking = True
        snapshot = attrs.evolve(known)
        tool = AgentTool(
            agent_call=snapshot, workspace=self.runner.permissions.workspace, cap=self.writer.cap
        )
        step = Step(call, _finished(call.naming.id, snapshot.arguments))
        self.writer.ensure_written(known)
        await self.runner.look_at_known(step, tool, snapshot.arguments, PendingChanges())
        is_waiting = call.state is CallState.WAITING
        self.turn.show_call_progress("Calling tool", only_waiting=True)
        await wait_for_approval(call, self.turn)
        known.is_asking = False
        if call.state is not CallState.RUN:
            return False
        if step.prepared is not None:
            original.approved = snapshot.shown if is_waiting else step.prepared.places
            original.command = step.prepared.command
            original.approves_changes = snapshot.changes_files
        call.start()
        self.turn.show_call_progress("Calling tool")
        if known is not original:
            call.finish(ToolOutput.of("Approved."))
        self.writer.advance(known)
        return True

    async def read_text(self, params: acp.ReadTextFileRequest) -> acp.ReadTextFileResponse:
        """Read a file.

        One that does not exist is empty, as in editors, unless a call reads it for the model: some
        agents read a file before they create it, and take an error for one they cannot write.
        """
        native = self._native(ReadFile)
        is_read_by_call = any(
            each.call.is_open and each.kind == "read" and params.path in each.paths
            for each in self.writer.calls.values()
        )
        tool = (
            None
            if native is None
            else _ReadText(files=native.files, missing_is_empty=not is_read_by_call)
        )
        arguments = {"path": params.path, "line": params.line, "limit": params.limit}
        named = {name: value for name, value in arguments.items() if value is not None}
        output = await self._run(ReadFile.name, tool, named)
        return acp.ReadTextFileResponse(content="".join(output.texts))

    async def write_text(self, params: acp.WriteTextFileRequest) -> acp.Empty:
        """Write a file."""
        native = self._native(WriteFile)
        if native is not None:  # the agent remembers the contents of files by itself
            native = attrs.evolve(native, files=attrs.evolve(native.files, ledger=Ledger()))
        await self._run(WriteFile.name, native, {"path": params.path, "content": params.content})
        return acp.Empty()

    async def create_terminal(
        self, params: acp.CreateTerminalRequest
    ) -> acp.CreateTerminalResponse:
        """Start a command; its variables are part of its text, which is judged and shown."""
        native = self._native(ShellCommand)
        if native is not None:
            native = attrs.evolve(native, background=self.terminals)
        if any(not each.name.isidentifier() for each in params.env):
            raise RPCError(ErrorCode.INVALID_PARAMS, "env: expected names of variables")
        command = shlex.join([params.command, *params.args]) if params.args else params.command
        if params.env:  # for all of the command, which may be a loop or a list
            variables = [f"{each.name}={shlex.quote(each.value)}" for each in params.env]
            command = f"export {' '.join(variables)}; {command}"
        terminal_id = f"terminal-{uuid.uuid4().hex[:8]}"
        self.terminals.limits[terminal_id] = params.output_byte_limit
        arguments = {
            "command": command,
            "working_directory": params.cwd or self.directory,
            "background": terminal_id,
        }
        await self._run(ShellCommand.name, native, arguments)
        return acp.CreateTerminalResponse(terminal_id=terminal_id)

    def _native(self, kind: type[Any]) -> Any:
        """Return the native tool of a class; None: the configuration withholds it."""
        tool = self.runner.toolbox.find(NATIVE, PREFIX + kind.name)
        return tool if isinstance(tool, kind) else None

    async def _run(self, name: str, tool: Tool | None, arguments: Mapping[str, Any]) -> ToolOutput:
        """Run a native tool for the agent.

        Raises:
            RPCError: it failed, or was refused.
        """
        key = uuid.uuid4().hex
        try:
            silent = await self._run_silently(key, tool, arguments)
        except ToolError as error:
            raise RPCError(RESOURCE_NOT_FOUND, str(error)) from error
        if silent is not None:
            return silent
        naming = self.runner.naming(key, PREFIX + name)
        call = self.turn.calls.begin(naming)
        call.prepare(json.dumps(arguments).decode())
        self.writer.write_call(naming, call, arguments)
        step = Step(call, _finished(key, arguments))
        await self.runner.look_at(step, PendingChanges(), tool)
        self.turn.show_call_progress("Calling tool", only_waiting=True)
        await self.runner.run_step(step, (), self.turn)
        result = call.result
        if result is None or result.is_error:
            text = "\n".join([] if result is None else result.texts)
            raise RPCError(ErrorCode.INVALID_REQUEST, text or "the call was refused")
        return result

    async def _run_silently(
        self, key: str, tool: Tool | None, arguments: Mapping[str, Any]
    ) -> ToolOutput | None:
        """Run an allowed call without showing it; None: it has to be shown."""
        if tool is None or self.runner.hooks is not None:
            return None
        running_call.set(key)
        prepared = await tool.prepare(arguments)
        decision = await self.runner.permissions.decide(tool, prepared, arguments)
        if decision.verdict == "deny":
            return None
        if decision.verdict == "ask" and not self._is_approved(prepared):
            return None
        forget = await self.turn.will_change(prepared.changes)
        try:
            return await prepared.run()
        except BaseException:
            forget()
            raise

    def _is_approved(self, prepared: PreparedCall) -> bool:
        """Return whether the user has approved a running call of the agent for the same thing."""
        if not all(each.is_inside and not each.is_guarded for each in prepared.places):
            return False
        running = [each for each in self.writer.calls.values() if each.call.is_open]
        if prepared.command is not None:
            is_in_shown_directory = prepared.folder == self.directory
            is_approved = any(each.command == prepared.command for each in running)
            return is_in_shown_directory and is_approved
        approved = {
            place.real_path
            for each in running
            if each.approves_changes or not prepared.changes
            for place in each.approved
        }
        return bool(prepared.places) and approved.issuperset(
            place.real_path for place in prepared.places
        )


def _finished(key: str, arguments: Mapping[str, Any]) -> ToolCallFinished:
    return ToolCallFinished(key=key, raw=json.dumps(arguments).decode(), arguments=arguments)

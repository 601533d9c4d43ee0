"""One action of a hook, from its start to its end, its deadline or a stop, and its outcome.

Rules: an action ends by its deadline with its whole process group, and at most `LARGEST` bytes of
each output are stored. A JSON object counts with exit code 0 only; exit code 2 blocks; every other
code is a failure that changes nothing. A member of a wrong type, or one that the event does not
support, is ignored and reported.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, Literal, TypeAlias

import attrs
import trio

from eca_protocol import json, platforms
from eca_protocol.errors import ECAError, StartFailed
from eca_protocol.process import Child, signal_name, spawn
from eca_server.agent.jobs.output import Stream
from eca_server.agent.jobs.shell import RunningShell
from eca_server.agent.tools.output import cut_mark
from eca_server.config.directories import data_directory, make_data_directory, replace_file
from eca_server.config.files import Unreadable
from eca_server.config.hook_settings import HookAction, HookEvent
from eca_server.config.unknown import hint, nearest_key
from eca_server.config.workspace_files import WorkspaceFile
from eca_server.models.calls import MAX_NESTING, is_too_deep
from eca_server.system.child_process import find_shell

LARGEST = 64 * 1024
"""Maximum number of bytes of stdout, and of stderr, that are stored."""

FAILED = 1
"""The status of an action that could not start or did not finish."""

Verdict: TypeAlias = Literal["allow", "ask", "deny"]

BLOCKS: Final = 2
"""The exit code of an action that blocks."""

_BACKGROUND = frozenset({"continue"})
"""The members for events of background hooks: `"continue": false` only skips the hooks behind."""

_COMMON = frozenset({"systemMessage", "suppressOutput", "continue", "stopReason"})

EVENTS: Mapping[HookEvent, frozenset[str]] = MappingProxyType(
    {
        "sessionStart": _BACKGROUND,
        "sessionEnd": _BACKGROUND,
        "chatStart": _COMMON | {"additionalContext"},
        "chatEnd": _BACKGROUND,
        "chatStatusChanged": _BACKGROUND,
        "subagentStart": _COMMON | {"additionalContext"},
        "preRequest": _COMMON | {"additionalContext", "replacedPrompt"},
        "postRequest": _COMMON | {"followUp"},
        "subagentPostRequest": _COMMON | {"followUp"},
        "preToolCall": _COMMON | {"additionalContext", "updatedInput", "approval"},
        "postToolCall": _COMMON | {"additionalContext", "replacedOutput"},
        "preCompact": _COMMON,
        "postCompact": _COMMON | {"additionalContext"},
    }
)
"""The members of an action's JSON object that each event supports."""

_BLOCKABLE: frozenset[HookEvent] = frozenset(
    {
        "preRequest",
        "postRequest",
        "subagentPostRequest",
        "preToolCall",
        "postToolCall",
        "preCompact",
    }
)
"""The events that an action can block."""

_TYPES: Mapping[str, tuple[type, str]] = {
    **dict.fromkeys(("systemMessage", "stopReason", "additionalContext"), (str, "a string")),
    **dict.fromkeys(("replacedPrompt", "followUp", "replacedOutput"), (str, "a string")),
    "approval": (str, "allow, ask or deny"),
    "suppressOutput": (bool, "true or false"),
    "continue": (bool, "true or false"),
    "updatedInput": (dict, "an object"),
}
_FOREIGN = frozenset({"decision", "hookSpecificOutput", "permission", "permissionDecision"})
"""The decisions that hooks of other programs write."""

_LONGEST_NAME = max(map(len, _TYPES)) + 2  # of a mistyped member
_VERDICTS = ("allow", "ask", "deny")
_HEAD = 512  # bytes that tell a program from a script


@attrs.frozen(kw_only=True)
class ActionResult:
    """The result of an action.

    Attributes:
        status: its exit code, negative for a signal; `FAILED` if it did not start or finish.
        stdout: its output up to `LARGEST` bytes, and the number of bytes left out (W-38).
        stderr: the same for stderr, or the reason why it did not start or finish.
    """

    status: int
    stdout: str = ""
    stderr: str = ""
    is_cut: bool = False


async def run_action(
    action: HookAction,
    stdin_data: bytes,
    *,
    directory: Path,
    environment: Mapping[str, str],
    timeout: float,
) -> ActionResult:
    """Run an action for at most `timeout` seconds, and return its result."""
    if (action.shell is None) == (action.file is None):
        return ActionResult(status=FAILED, stderr="expected either `shell` or `file` in the action")
    try:
        command = await trio.to_thread.run_sync(
            _command, action, environment, abandon_on_cancel=True
        )
        child = spawn(command, cwd=directory, env=environment, stderr="pipe", guarded=True)
    except Unreadable as error:
        return ActionResult(
            status=FAILED, stderr=f"{action.file}: {error.message}. The hook was not run."
        )
    except (StartFailed, ValueError) as error:  # ValueError: a `\0` in the file's name
        return ActionResult(status=FAILED, stderr=str(error))
    captured: dict[Stream, bytearray] = {"stdout": bytearray(), "stderr": bytearray()}
    left_out: Counter[Stream] = Counter()

    async def capture(stream: Stream, data: bytes) -> None:
        room = LARGEST - len(captured[stream])
        captured[stream] += data[:room]
        left_out[stream] += max(len(data) - room, 0)

    shell = RunningShell(child, capture)
    try:
        with trio.move_on_after(timeout) as deadline:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_write_stdin, child, stdin_data)
                await shell.read_to_end()
                nursery.cancel_scope.cancel()
    finally:
        await shell.end()
    stdout, stderr = (_text_of(captured[each], left_out[each]) for each in ("stdout", "stderr"))
    if deadline.cancelled_caught:
        limit = f"{timeout:g} s" if timeout >= 1 else f"{timeout * 1000:g} milliseconds (`timeout`)"
        why = f"timed out after {limit} and was killed"
        return ActionResult(status=FAILED, stdout=stdout, stderr=why)
    status = FAILED if child.returncode is None else child.returncode
    return ActionResult(status=status, stdout=stdout, stderr=stderr, is_cut=left_out["stdout"] > 0)


def _command(action: HookAction, environment: Mapping[str, str]) -> list[str]:
    """Return the command of an action; a file that is no program is a script for the shell.

    A file of an opened folder is run as a copy of the accepted content. Uses the disk.

    Raises:
        Unreadable: a file of an opened folder was not accepted, or the copy cannot be written.
    """
    shell = find_shell(environment)
    if action.shell is not None:
        return [shell, "-c", action.shell]
    assert action.file is not None
    file = action.file
    if isinstance(file, WorkspaceFile):
        content = file.accepted()
        copy = file.real_path if content is None else _copy(Path(file).name, content, environment)
        file = str(copy)
    can_start = file in platforms.program_files(file) and _is_program(file)
    return [file] if can_start else [shell, file]


def _is_program(file: str) -> bool:
    """Return whether the system can start a file: an executable with `#!` or with bytes of 0.

    A shell also starts other executable files, as scripts of its own.
    """
    if not os.access(file, os.X_OK):
        return False
    if os.name == "nt" or not Path(file).is_file():
        return True
    try:
        with Path(file).open("rb") as opened:
            head = opened.read(_HEAD)
    except OSError:  # a program may be executable and not readable
        return True
    return head.startswith(b"#!") or b"\0" in head


def _copy(name: str, content: bytes, environment: Mapping[str, str]) -> Path:
    """Store accepted content in the data directory, which no sandboxed command can change.

    Raises:
        Unreadable: the copy cannot be written.
    """
    copy = data_directory(environment) / "hooks" / hashlib.sha256(content).hexdigest() / name
    try:
        if not copy.is_file() or copy.read_bytes() != content:
            make_data_directory(copy.parent.parent.parent)
            copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(copy, content)
        copy.chmod(0o700)
    except OSError as error:
        raise Unreadable(f"{copy} cannot be written: {error.strerror}") from None
    return copy


def _text_of(captured: bytearray, left_out: int) -> str:
    text = captured.decode(errors="replace")
    return f"{text}\n{cut_mark(left_out)}" if left_out else text


async def _write_stdin(child: Child, stdin_data: bytes) -> None:
    with suppress(OSError):  # the action may close its stdin
        await child.transport.send(stdin_data)
    child.close_stdin()


@attrs.frozen(kw_only=True)
class Outcome:
    """The outcome of an action.

    Attributes:
        blocks: exit code 2: the action blocks the event; `why` is the reason.
        fails: the action failed: its output is ignored.
        why: its stderr, or how it ended.
        output: the supported members of its JSON object, each of its type.
    """

    blocks: bool = False
    fails: bool = False
    why: str = ""
    output: Mapping[str, Any] = attrs.field(factory=dict)
    problems: tuple[str, ...] = ()

    @property
    def stops(self) -> bool:
        """True if the remaining hooks are skipped and the turn ends."""
        return self.output.get("continue") is False

    @property
    def approval(self) -> Verdict | None:
        """The decision on the event's tool call; a block is a `deny`."""
        return "deny" if self.blocks else self.output.get("approval")


def parse_outcome(event: HookEvent, result: ActionResult) -> Outcome:
    """Return the outcome of an action from its result."""
    why = result.stderr.strip()
    if result.status == BLOCKS and event in _BLOCKABLE:
        return Outcome(blocks=True, why=why)
    if result.status != 0:
        if result.status > 0:
            ending = f"exit code {result.status}"
        else:
            ending = f"ended by {signal_name(result.status)}"
        return Outcome(fails=True, why=why or ending)
    if not result.stdout.lstrip().startswith("{"):
        return Outcome(why=why)
    if result.is_cut:
        return Outcome(
            why=why, problems=(f"its output is ignored: it wrote more than {LARGEST:,} bytes",)
        )
    try:
        written = json.loads(result.stdout.encode())
    except (ECAError, ValueError):
        return Outcome(why=why, problems=("its output is ignored: expected a JSON object",))
    output: dict[str, Any] = {}
    problems: list[str] = []
    for name in written:
        problem = _problem_with(event, name, written[name])
        if problem is not None:
            problems.append(problem)
        elif name in _TYPES:
            output[name] = written[name]
    return Outcome(why=why, output=output, problems=tuple(problems))


def _members(event: HookEvent) -> str:
    return ", ".join(sorted(EVENTS[event]))


def _problem_with(event: HookEvent, name: str, value: object) -> str | None:
    """Return the problem of a member, or None."""
    if name in _FOREIGN:
        return f"{name}: ignored, no member of this server's; {event} supports {_members(event)}"
    if name not in _TYPES:  # a mistyped one; others are the hook's own
        is_like = len(name) <= _LONGEST_NAME and nearest_key(name, EVENTS[event])
        return f"{name}: {hint(name, EVENTS[event])}" if is_like else None
    if name not in EVENTS[event]:
        return f"{name}: ignored, {event} does not support it"
    kind, expected = _TYPES[name]
    if not isinstance(value, kind) or (name == "approval" and value not in _VERDICTS):
        return f"{name}: expected {expected}"
    if isinstance(value, dict) and is_too_deep(value):
        return f"{name}: expected at most {MAX_NESTING} levels of nesting"
    return None

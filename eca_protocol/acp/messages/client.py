"""The client's requests: permissions, files, terminals and questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs

from eca_protocol.acp.messages.blocks import Extensible
from eca_protocol.acp.messages.sessions import EnvVariable
from eca_protocol.acp.messages.updates import ToolCallChange
from eca_protocol.messages.marks import UnknownValue

PermissionOptionKind: TypeAlias = (
    Literal["allow_once", "allow_always", "reject_once", "reject_always"] | UnknownValue
)


@attrs.frozen(kw_only=True)
class PermissionOption(Extensible):
    """A choice of the user."""

    option_id: str
    name: str
    kind: PermissionOptionKind


@attrs.frozen(kw_only=True)
class RequestPermissionRequest(Extensible):
    """The params of `session/request_permission`."""

    session_id: str
    tool_call: ToolCallChange
    options: tuple[PermissionOption, ...]


@attrs.frozen(kw_only=True)
class PermissionOutcome(Extensible):
    """The selected option, or the cancellation of the turn."""

    outcome: Literal["cancelled", "selected"] | UnknownValue
    option_id: str | None = None


@attrs.frozen(kw_only=True)
class RequestPermissionResponse(Extensible):
    """The user's choice."""

    outcome: PermissionOutcome


@attrs.frozen(kw_only=True)
class ReadTextFileRequest(Extensible):
    """The params of `fs/read_text_file`; the first line is 1."""

    session_id: str
    path: str
    line: int | None = None
    limit: int | None = None


@attrs.frozen(kw_only=True)
class ReadTextFileResponse(Extensible):
    """The text of a file, with the unsaved changes of the editor."""

    content: str


@attrs.frozen(kw_only=True)
class WriteTextFileRequest(Extensible):
    """The params of `fs/write_text_file`."""

    session_id: str
    path: str
    content: str


@attrs.frozen(kw_only=True)
class CreateTerminalRequest(Extensible):
    """The params of `terminal/create`."""

    session_id: str
    command: str
    args: tuple[str, ...] = ()
    env: tuple[EnvVariable, ...] = ()
    cwd: str | None = None
    output_byte_limit: int | None = None


@attrs.frozen(kw_only=True)
class CreateTerminalResponse(Extensible):
    """The new terminal."""

    terminal_id: str


@attrs.frozen(kw_only=True)
class TerminalReference(Extensible):
    """The params of the methods that need only a terminal."""

    session_id: str
    terminal_id: str


@attrs.frozen(kw_only=True)
class TerminalExitStatus(Extensible):
    """The exit code of a command, or the signal that ended it."""

    exit_code: int | None = None
    signal: str | None = None


@attrs.frozen(kw_only=True)
class TerminalOutputResponse(Extensible):
    """The output of a terminal; the exit status is None while its command runs."""

    output: str
    truncated: bool
    exit_status: TerminalExitStatus | None = None


@attrs.frozen(kw_only=True)
class CreateElicitationRequest(Extensible):
    """The params of `elicitation/create`: a question as a form, or a page to open.

    It belongs to a session (`session_id`, `tool_call_id`) or to a request of the client
    (`request_id`). A form has a `requested_schema`, a page an `elicitation_id` and a `url`.
    """

    mode: Literal["form", "url"] | UnknownValue
    message: str
    session_id: str | None = None
    tool_call_id: str | None = None
    request_id: int | str | None = None
    requested_schema: Mapping[str, Any] | None = None
    elicitation_id: str | None = None
    url: str | None = None


@attrs.frozen(kw_only=True)
class CreateElicitationResponse(Extensible):
    """The user's answer; `content` has the values of an accepted form."""

    action: Literal["accept", "decline", "cancel"] | UnknownValue
    content: Mapping[str, Any] | None = None


@attrs.frozen(kw_only=True)
class CompleteElicitation(Extensible):
    """The params of `elicitation/complete`: a page was completed."""

    elicitation_id: str

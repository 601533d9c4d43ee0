"""The interface of a tool: a description for the model, and calls in two steps.

`prepare` validates the arguments and reads the disk. It returns a summary, the paths and the
changes of the call, which decide on its approval (`approval`). `run` executes the call, and fails
if a file has changed since: both steps share each `Place`, so that the path that was judged is the
path that is opened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import attrs

from eca_protocol.errors import ECAError
from eca_protocol.messages import ToolCallDetails
from eca_server.agent.tools.command_keys import CommandPart
from eca_server.models.history import FilePart, ImagePart, TextPart
from eca_server.workspace.boundary import Place
from eca_server.workspace.reading import FileSnapshot, Fingerprint

running_call: ContextVar[str] = ContextVar("running_call")
"""The id of the current call, for a tool that sends it to the client."""

Effect: TypeAlias = Literal["read", "write", "run"]
"""The effect of a tool: it reads, changes files, or may do anything (a command)."""


class ToolError(ECAError):
    """An invalid or failed call; the message tells the model how to correct it."""


@attrs.frozen(kw_only=True)
class ToolOutput:
    """The output of a call, for the model and, as text, for the client.

    Attributes:
        parts: texts, pictures and documents, in order; never empty.
        is_error: whether the call ran and failed.
        details: details that the client may show in place of the text (a diff).
    """

    parts: tuple[TextPart | ImagePart | FilePart, ...]
    is_error: bool = False
    details: ToolCallDetails | None = None

    @classmethod
    def of(
        cls, text: str, *, is_error: bool = False, details: ToolCallDetails | None = None
    ) -> ToolOutput:
        """Return an output of one text."""
        return cls(parts=(TextPart(text),), is_error=is_error, details=details)

    @property
    def texts(self) -> list[str]:
        """The texts among the parts."""
        return [part.text for part in self.parts if isinstance(part, TextPart)]


@attrs.frozen(kw_only=True)
class FileChange:
    """The change of one file by a call, sufficient to undo it.

    Attributes:
        path: the real path of the file, or of the destination of a moved file or directory.
        before: the previous content; None: the file does not exist.
        after: the new content; None for a directory and for a large file that is moved.
        new_directories: the missing parents of `path`, which the call creates, the topmost first.
    """

    path: Path
    before: FileSnapshot | None = None
    after: Fingerprint | None = None
    moved_from: Path | None = None
    new_directories: tuple[Path, ...] = ()


@attrs.frozen(kw_only=True)
class InnerCall:
    """The call that a call wraps; its approval is decided, too."""

    server: str
    tool: Tool
    arguments: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class PreparedCall:
    """A prepared call.

    Attributes:
        run: executes the call; raises ToolError. If cancelled, it ends at once and completely.
        summary: one line for the client.
        places: the resolved paths of the call, which are judged and which `run` opens.
        details: the change, shown before the approval.
        changes: the changes to undo; unknown for a command.
        command: the text of a command, if it runs one.
        parts: its parts, if an approval for the session can cover more than this exact text.
        folder: the working directory of the command.
        is_ordered: whether later calls of the same answer depend on its effect.
        warning: a warning of the tool's own server; the call needs approval unless a rule matches.
        is_sandboxed: whether it runs in the sandbox, which protects guarded and outside paths.
        inner: the wrapped call, if it wraps one.
        activity: the progress that the client shows while it runs.
    """

    run: Callable[[], Awaitable[ToolOutput]]
    summary: str
    places: tuple[Place, ...] = ()
    details: ToolCallDetails | None = None
    changes: tuple[FileChange, ...] = ()
    command: str | None = None
    parts: tuple[CommandPart, ...] = ()
    folder: str = ""
    is_ordered: bool = False
    warning: str | None = None
    is_sandboxed: bool = False
    inner: InnerCall | None = None
    activity: str = "Calling tool"

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of `places`, as the model wrote them."""
        return tuple(place.text for place in self.places)


class Tool(Protocol):
    """A tool for the model."""

    @property
    def name(self) -> str:
        """The name without the server's prefix: `read_file`."""

    @property
    def description(self) -> str:
        """The description for the model."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON Schema of the arguments, an object."""

    @property
    def effect(self) -> Effect:
        """The strongest effect of a call."""

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """Return one line about a call, whose arguments may still be incomplete."""

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Prepare a call; `arguments` match `parameters`.

        Raises:
            ToolError: the call is invalid.
        """

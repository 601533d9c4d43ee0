"""What a tool is: a description for the model, and calls that are looked at before they run.

A call has two halves. `prepare` reads the arguments and looks at the world: it says in one line
what the call does, which paths it touches, what it would change. Whether it may run is decided on
that (`approval`). `run` does it, and refuses if the world is not the one that was looked at: both
halves share each `Place`, so that the path that was judged is the path that is opened.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import attrs

from eca_protocol.errors import ECAError
from eca_protocol.messages import ToolCallDetails
from eca_server.llm.history import FilePart, ImagePart, TextPart
from eca_server.tools.command_keys import CommandPart
from eca_server.workspace import FileSnapshot, Fingerprint, Place

__all__ = [
    "Effect",
    "FileChange",
    "InnerCall",
    "PreparedCall",
    "Tool",
    "ToolFault",
    "ToolOutput",
    "running_call",
]

running_call: ContextVar[str] = ContextVar("running_call")
"""The id of the call that is looked at, or runs, for a tool that tells the client of it."""

Effect: TypeAlias = Literal["read", "write", "run"]
"""What a tool may do: look, change files, or anything (a command)."""


class ToolFault(ECAError):
    """A call that cannot be done; the text is for the model, which then corrects itself."""


@attrs.frozen(kw_only=True)
class ToolOutput:
    """What came of a call, for the model and, as text, for the client.

    Attributes:
        parts: texts, pictures and documents, in order; never empty.
        is_error: the call was done and failed.
        details: what the client may show in place of the text (a diff).
    """

    parts: tuple[TextPart | ImagePart | FilePart, ...]
    is_error: bool = False
    details: ToolCallDetails | None = None


@attrs.frozen(kw_only=True)
class FileChange:
    """What a call would do to one file; enough to undo it.

    Attributes:
        path: the real path of the file, or of the directory that is moved there.
        before: the file as it is; None: there is none.
        after: its content afterwards; None where it is only moved.
        moved_from: the real path it comes from, if it is moved.
    """

    path: Path
    before: FileSnapshot | None = None
    after: Fingerprint | None = None
    moved_from: Path | None = None


@attrs.frozen(kw_only=True)
class InnerCall:
    """A call of another tool that a call consists in: it is judged, too.

    Attributes:
        server: of the other tool.
        tool: the other tool.
        arguments: its arguments.
    """

    server: str
    tool: Tool
    arguments: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class PreparedCall:
    """A call that has been looked at and has not run.

    Attributes:
        run: does it; raises ToolFault. Cancelled, it ends at once and leaves nothing half done.
        summary: one line for the client: what it does to what.
        places: where every path it touches leads: what is judged, and what `run` opens.
        details: what it would change, shown before it is approved.
        changes: the same for whoever undoes it; what a command changes nobody knows.
        command: the text of a command, if it runs one.
        parts: its parts, where an approval for the session covers more than this very text.
        folder: where the command runs.
        is_ordered: later calls of the same answer find what it has done to the chat.
        warning: what the tool's own server warns of, in words; then it asks unless a rule is
            about it.
        is_sandboxed: whether it runs in the sandbox, which holds what would else ask.
        inner: the call of another tool that it consists in, if it does.
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

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths of `places`, as the model wrote them."""
        return tuple(place.text for place in self.places)


class Tool(Protocol):
    """A tool the model can be offered.

    Attributes:
        name: without the server's prefix: `read_file`.
        description: for the model.
        parameters: the JSON Schema of its arguments, an object.
        effect: what it may do at most.
    """

    @property
    def name(self) -> str: ...  # noqa: D102

    @property
    def description(self) -> str: ...  # noqa: D102

    @property
    def parameters(self) -> Mapping[str, Any]: ...  # noqa: D102

    @property
    def effect(self) -> Effect: ...  # noqa: D102

    def summary(self, arguments: Mapping[str, Any]) -> str:
        """One line about a call whose arguments may still be incomplete."""
        ...

    async def prepare(self, arguments: Mapping[str, Any]) -> PreparedCall:
        """Look at a call; `arguments` fit `parameters`.

        Raises:
            ToolFault: it cannot be done.
        """
        ...

"""The draft's messages; each class has the name of its interface in the draft's text.

They exist only in the draft, and the draft has no other messages.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import attrs

from eca_protocol.messages import UnknownContent, UnknownContext, UnknownValue
from eca_protocol.messages.marks import lenient, marked, object_as_true
from eca_protocol.revisions import Revision, Window, mark

IN_DRAFT = Window(since=Revision.DRAFT, until=Revision.DRAFT)


def _in_draft(_: type, fields: list[attrs.Attribute[Any]]) -> list[attrs.Attribute[Any]]:
    """Mark all fields as existing only in the draft (a field transformer)."""
    marked = mark(since=IN_DRAFT.since, until=IN_DRAFT.until)
    return [field.evolve(metadata={**field.metadata, **marked}) for field in fields]


ChatModel: TypeAlias = (
    Literal["gpt-4", "gpt-3.5-turbo", "claude-2", "codellama-34b", "auto"] | UnknownValue
)
ChatPromptStatus: TypeAlias = Literal["success", "connection-error"] | UnknownValue
ChangeKind: TypeAlias = Literal["create", "change", "delete"] | UnknownValue


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class ClientInfo:
    """The name and version of the client."""

    name: str = marked(lenient("W-3"), default="")
    version: str | None = None


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class CodeAssistantCapabilities:
    """The client's features; the draft defines only `chat`."""

    chat: bool | None = marked(object_as_true("W-3"))
    doc: bool | None = marked(object_as_true("W-3"))
    edit: bool | None = marked(object_as_true("W-3"))
    fix: bool | None = marked(object_as_true("W-3"))


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class ClientCapabilities:
    """The client's capabilities."""

    code_assistant: CodeAssistantCapabilities | None = None


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class WorkspaceFolder:
    """A root of the user's project, with the members of LSP's `WorkspaceFolder`."""

    uri: str = marked(lenient("W-3"), default="")
    name: str = marked(lenient("W-3"), default="")


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class InitializeParams:
    """`initialize`; the options may be of any type."""

    process_id: int | None = marked(lenient("W-3", nullable=True))
    client_info: ClientInfo | None = None
    initialization_options: Any = None
    capabilities: ClientCapabilities = marked(lenient("W-3"), factory=ClientCapabilities)
    workspace_folders: tuple[WorkspaceFolder, ...] = marked(lenient("W-3"), default=())


@attrs.frozen(kw_only=True)
class InitializedResult:
    """The answer to `initialize`, without members."""


@attrs.frozen(kw_only=True)
class InitializedParams:
    """`initialized`: the client is ready; without members."""


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class LineRange:
    """Lines of a file, counted from 1, both ends included."""

    start_line: int
    end_line: int


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class Cursor:
    """The position of the cursor in a file."""

    line: int
    character: int


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class FileContext:
    """A file, or its selected lines."""

    type: ClassVar[Literal["file"]] = "file"
    window: ClassVar[Window] = IN_DRAFT
    path: str
    selection: LineRange | None = None
    cursor: Cursor | None = None


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class WebContext:
    """A page on the web."""

    type: ClassVar[Literal["web"]] = "web"
    window: ClassVar[Window] = IN_DRAFT
    url: str


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class CodeContext:
    """A piece of code, independent of a file."""

    type: ClassVar[Literal["code"]] = "code"
    window: ClassVar[Window] = IN_DRAFT
    content: str
    language: str = marked(lenient("W-3"), default="")
    description: str | None = None


ChatContext: TypeAlias = FileContext | WebContext | CodeContext | UnknownContext
"""The draft's union also names a `TerminalContext`, which the draft does not define."""


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class ChatPromptParams:
    """`chat/prompt`: the user's message."""

    chat_id: str | None = None
    message: str
    model: ChatModel | None = None
    context: tuple[ChatContext, ...] = ()


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class ChatPromptResponse:
    """The answer to `chat/prompt`; `result_message` is for people."""

    chat_id: str
    status: ChatPromptStatus
    result_message: str = marked(lenient("W-60"), default="")


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class CodeBlock:
    """A block of code in a text."""

    code: str
    language: str | None = None


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class TextContent:
    """A piece of the model's text, and the blocks of code that end in it."""

    type: ClassVar[Literal["text"]] = "text"
    window: ClassVar[Window] = IN_DRAFT
    text: str
    code_blocks: tuple[CodeBlock, ...] = ()


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class Change:
    """The change of a range of lines of the old file."""

    kind: ChangeKind
    content: str | None = None
    range: LineRange | None = None


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class FileChangeContent:
    """A change of a file, made or waiting for the user's approval."""

    type: ClassVar[Literal["fileChange"]] = "fileChange"
    window: ClassVar[Window] = IN_DRAFT
    description: str
    manual_approval: bool
    file: str | None = None
    changes: tuple[Change, ...] = ()


ChatContent: TypeAlias = TextContent | FileChangeContent | UnknownContent


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class Metadata:
    """Facts about a generation."""

    tokens_used: int | None = None


@attrs.frozen(kw_only=True, field_transformer=_in_draft)
class ChatContentReceivedParams:
    """`chat/contentReceived`; `is_complete` ends the turn."""

    chat_id: str
    content: ChatContent
    is_complete: bool = marked(lenient("W-60"), default=False)
    metadata: Metadata | None = None

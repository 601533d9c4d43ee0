"""The start of a connection (chapter "Lifecycle Messages"); `shutdown`, `exit` have no params."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import attrs

from eca_protocol.messages.marks import (
    UnknownValue,
    by_ruling,
    legacy,
    lenient,
    object_as_true,
    rest,
)
from eca_protocol.revisions import Revision, mark

__all__ = [
    "ChatBehavior",
    "ChatCapabilities",
    "ChatModel",
    "ClientCapabilities",
    "ClientInfo",
    "CodeAssistantCapabilities",
    "EditorCapabilities",
    "InitializationOptions",
    "InitializeParams",
    "InitializeResponse",
    "InitializedParams",
    "WorkspaceFolder",
]

ChatModel: TypeAlias = str
ChatBehavior: TypeAlias = Literal["agent", "plan"] | UnknownValue


@attrs.frozen(kw_only=True)
class ClientInfo:
    """The name and version of the client."""

    name: str = attrs.field(default="", metadata=lenient("W-3"))
    version: str | None = None


@attrs.frozen(kw_only=True)
class InitializationOptions:
    """The user's configuration in the editor.

    The other keys (`extras`) are a layer of the server's configuration; they are not changed.
    """

    chat_behavior: ChatBehavior | None = attrs.field(
        default=None, metadata=mark(until=Revision.R2025_10) | by_ruling("W-28")
    )
    chat_agent: str | None = attrs.field(
        default=None, metadata=mark(since=Revision.CURRENT) | by_ruling("W-28")
    )
    protocol_revision: str | None = attrs.field(
        default=None, metadata=mark(since=Revision.CURRENT, ruling="W-12")
    )
    extras: Mapping[str, Any] = attrs.field(factory=dict, metadata=rest())


@attrs.frozen(kw_only=True)
class EditorCapabilities:
    """The requests about files that the editor answers."""

    diagnostics: bool | None = attrs.field(default=None, metadata=object_as_true("W-3"))
    definition: bool | None = attrs.field(
        default=None, metadata=mark(since=Revision.CURRENT) | object_as_true("W-3")
    )
    references: bool | None = attrs.field(
        default=None, metadata=mark(since=Revision.CURRENT) | object_as_true("W-3")
    )


@attrs.frozen(kw_only=True)
class ChatCapabilities:
    """The requests about a chat that the client answers."""

    ask_question: bool | None = attrs.field(default=None, metadata=object_as_true("W-3"))


@attrs.frozen(kw_only=True)
class CodeAssistantCapabilities:
    """The protocol's features that the client supports."""

    chat: bool | None = attrs.field(default=None, metadata=object_as_true("W-3"))
    rewrite: bool | None = attrs.field(
        default=None, metadata=mark(since=Revision.CURRENT) | object_as_true("W-3")
    )
    editor: EditorCapabilities | None = None
    chat_capabilities: ChatCapabilities | None = attrs.field(
        default=None, metadata=mark(since=Revision.CURRENT)
    )


@attrs.frozen(kw_only=True)
class ClientCapabilities:
    """The client's capabilities."""

    code_assistant: CodeAssistantCapabilities | None = None


@attrs.frozen(kw_only=True)
class WorkspaceFolder:
    """A root of the user's project, as a URI, and the name shown for it."""

    uri: str = attrs.field(default="", metadata=lenient("W-3"))
    name: str = attrs.field(default="", metadata=lenient("W-3"))


@attrs.frozen(kw_only=True)
class InitializeParams:
    """`initialize`: the client, its capabilities, and the user's project.

    `process_id` is the client's process; the server ends after it (W-14).
    """

    process_id: int | None = attrs.field(
        default=None,
        metadata=lenient("W-3", nullable=True, optional_since=Revision.CURRENT),
    )
    client_info: ClientInfo | None = None
    initialization_options: InitializationOptions | None = None
    capabilities: ClientCapabilities = attrs.field(
        factory=ClientCapabilities, metadata=lenient("W-3")
    )
    workspace_folders: tuple[WorkspaceFolder, ...] = attrs.field(
        default=(), metadata=lenient("W-3")
    )


@attrs.frozen(kw_only=True)
class InitializeResponse:
    """The answer to `initialize`, with members that only old servers write (W-60).

    `global_config_path` is the absolute path of the user's configuration file.
    """

    chat_welcome_message: str | None = attrs.field(
        default=None, metadata=mark(since=Revision.CURRENT, ruling="W-10")
    )
    global_config_path: str | None = attrs.field(
        default=None, metadata=mark(since=Revision.CURRENT)
    )
    models: tuple[ChatModel, ...] | None = attrs.field(default=None, metadata=legacy("W-60"))
    chat_behaviors: tuple[ChatBehavior, ...] | None = attrs.field(
        default=None, metadata=legacy("W-60")
    )
    chat_default_model: ChatModel | None = attrs.field(default=None, metadata=legacy("W-60"))
    chat_default_behavior: ChatBehavior | None = attrs.field(default=None, metadata=legacy("W-60"))


@attrs.frozen(kw_only=True)
class InitializedParams:
    """`initialized`: the client is ready for notifications; without members."""

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
    marked,
    object_as_true,
    rest,
)
from eca_protocol.revisions import Revision, mark

ChatModel: TypeAlias = str
ChatBehavior: TypeAlias = Literal["agent", "plan"] | UnknownValue


@attrs.frozen(kw_only=True)
class ClientInfo:
    """The name and version of the client."""

    name: str = marked(lenient("W-3"), default="")
    version: str | None = None


@attrs.frozen(kw_only=True)
class InitializationOptions:
    """The user's configuration in the editor.

    The other keys (`extras`) are a layer of the server's configuration; they are not changed.
    """

    chat_behavior: ChatBehavior | None = marked(mark(until=Revision.R2025_10) | by_ruling("W-28"))
    chat_agent: str | None = marked(mark(since=Revision.CURRENT) | by_ruling("W-28"))
    protocol_revision: str | None = marked(mark(since=Revision.CURRENT, ruling="W-12"))
    extras: Mapping[str, Any] = marked(rest(), factory=dict)


@attrs.frozen(kw_only=True)
class EditorCapabilities:
    """The requests about files that the editor answers."""

    diagnostics: bool | None = marked(object_as_true("W-3"))
    definition: bool | None = marked(mark(since=Revision.CURRENT) | object_as_true("W-3"))
    references: bool | None = marked(mark(since=Revision.CURRENT) | object_as_true("W-3"))


@attrs.frozen(kw_only=True)
class ChatCapabilities:
    """The requests about a chat that the client answers."""

    ask_question: bool | None = marked(object_as_true("W-3"))


@attrs.frozen(kw_only=True)
class CodeAssistantCapabilities:
    """The protocol's features that the client supports."""

    chat: bool | None = marked(object_as_true("W-3"))
    rewrite: bool | None = marked(mark(since=Revision.CURRENT) | object_as_true("W-3"))
    editor: EditorCapabilities | None = None
    chat_capabilities: ChatCapabilities | None = marked(mark(since=Revision.CURRENT))


@attrs.frozen(kw_only=True)
class ClientCapabilities:
    """The client's capabilities."""

    code_assistant: CodeAssistantCapabilities | None = None


@attrs.frozen(kw_only=True)
class WorkspaceFolder:
    """A root of the user's project, as a URI, and the name shown for it."""

    uri: str = marked(lenient("W-3"), default="")
    name: str = marked(lenient("W-3"), default="")


@attrs.frozen(kw_only=True)
class InitializeParams:
    """`initialize`: the client, its capabilities, and the user's project.

    `process_id` is the client's process; the server ends after it (W-14).
    """

    process_id: int | None = marked(lenient("W-3", nullable=True, optional_since=Revision.CURRENT))
    client_info: ClientInfo | None = None
    initialization_options: InitializationOptions | None = None
    capabilities: ClientCapabilities = marked(lenient("W-3"), factory=ClientCapabilities)
    workspace_folders: tuple[WorkspaceFolder, ...] = marked(lenient("W-3"), default=())


@attrs.frozen(kw_only=True)
class InitializeResponse:
    """The answer to `initialize`, with members that only old servers write (W-60).

    `global_config_path` is the absolute path of the user's configuration file.
    """

    chat_welcome_message: str | None = marked(mark(since=Revision.CURRENT, ruling="W-10"))
    global_config_path: str | None = marked(mark(since=Revision.CURRENT))
    models: tuple[ChatModel, ...] | None = marked(legacy("W-60"))
    chat_behaviors: tuple[ChatBehavior, ...] | None = marked(legacy("W-60"))
    chat_default_model: ChatModel | None = marked(legacy("W-60"))
    chat_default_behavior: ChatBehavior | None = marked(legacy("W-60"))


@attrs.frozen(kw_only=True)
class InitializedParams:
    """`initialized`: the client is ready for notifications; without members."""

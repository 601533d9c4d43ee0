"""Changes of the user's project; upstream servers know them, no edition's text does."""

from __future__ import annotations

import attrs

from eca_protocol.messages.lifecycle import WorkspaceFolder
from eca_protocol.messages.marks import lenient

__all__ = ["WorkspaceDidChangeWorkspaceFoldersParams", "WorkspaceFoldersChangeEvent"]


@attrs.frozen(kw_only=True)
class WorkspaceFoldersChangeEvent:
    """Roots that came and roots that went."""

    added: tuple[WorkspaceFolder, ...] = attrs.field(default=(), metadata=lenient("W-3"))
    removed: tuple[WorkspaceFolder, ...] = attrs.field(default=(), metadata=lenient("W-3"))


@attrs.frozen(kw_only=True)
class WorkspaceDidChangeWorkspaceFoldersParams:
    """`workspace/didChangeWorkspaceFolders`: the project has other roots now."""

    event: WorkspaceFoldersChangeEvent = attrs.field(
        factory=WorkspaceFoldersChangeEvent, metadata=lenient("W-3")
    )

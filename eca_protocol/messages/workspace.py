"""Changes of the user's project, which upstream servers support without a specification."""

from __future__ import annotations

import attrs

from eca_protocol.messages.lifecycle import WorkspaceFolder
from eca_protocol.messages.marks import lenient, marked


@attrs.frozen(kw_only=True)
class WorkspaceFoldersChangeEvent:
    """The added and removed roots."""

    added: tuple[WorkspaceFolder, ...] = marked(lenient("W-3"), default=())
    removed: tuple[WorkspaceFolder, ...] = marked(lenient("W-3"), default=())


@attrs.frozen(kw_only=True)
class WorkspaceDidChangeWorkspaceFoldersParams:
    """`workspace/didChangeWorkspaceFolders`: the project's roots have changed."""

    event: WorkspaceFoldersChangeEvent = marked(lenient("W-3"), factory=WorkspaceFoldersChangeEvent)

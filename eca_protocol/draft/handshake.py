"""The conversion of `initialize` between the draft and the canonical types (W-50, W-51).

Reading drops the capabilities to answer the server's requests, since the draft has none.
"""

from __future__ import annotations

from typing import Any

from eca_protocol import messages as m
from eca_protocol.codec import converter
from eca_protocol.codec.read import Mismatch
from eca_protocol.draft import models as d
from eca_protocol.revisions import Revision


def read_initialize(params: d.InitializeParams) -> m.InitializeParams:
    """Convert a draft client's params."""
    info, assistant = params.client_info, params.capabilities.code_assistant
    return m.InitializeParams(
        process_id=params.process_id,
        client_info=None if info is None else m.ClientInfo(name=info.name, version=info.version),
        initialization_options=_read_options(params.initialization_options),
        capabilities=m.ClientCapabilities(
            code_assistant=None
            if assistant is None
            else m.CodeAssistantCapabilities(chat=assistant.chat)
        ),
        workspace_folders=tuple(
            m.WorkspaceFolder(uri=folder.uri, name=folder.name)
            for folder in params.workspace_folders
        ),
    )


def _read_options(raw: Any) -> m.InitializationOptions | None:
    """Read options of any type; an object is read as in the other editions, if it fits."""
    if not isinstance(raw, dict):
        return None
    try:
        return converter(Revision.R2025_10).structure(raw, m.InitializationOptions)
    except Mismatch:
        return m.InitializationOptions(extras=raw)


def write_initialize(params: m.InitializeParams) -> d.InitializeParams:
    """Convert our params for a draft server.

    The only true capability is `chat`; servers recognize a draft client by the presence of `doc`,
    `edit` and `fix` (W-12).
    """
    info, assistant = params.client_info, params.capabilities.code_assistant
    options = params.initialization_options
    return d.InitializeParams(
        process_id=params.process_id,
        client_info=None if info is None else d.ClientInfo(name=info.name, version=info.version),
        initialization_options=None
        if options is None
        else converter(Revision.R2025_10).unstructure(options),
        capabilities=d.ClientCapabilities(
            code_assistant=d.CodeAssistantCapabilities(
                chat=None if assistant is None else assistant.chat, doc=False, edit=False, fix=False
            )
        ),
        workspace_folders=tuple(
            d.WorkspaceFolder(uri=folder.uri, name=folder.name)
            for folder in params.workspace_folders
        ),
    )

"""The conversion of `initialize` between the draft and the canonical types (W-50, W-51).

Reading drops the capabilities to answer the server's requests, since the draft has none.
"""

from __future__ import annotations

from typing import Any

import attrs

from eca_protocol import messages as m
from eca_protocol.codec import converter
from eca_protocol.codec.read import Mismatch
from eca_protocol.draft import models as d
from eca_protocol.revisions import Revision

_DRAFT, _OCTOBER = converter(Revision.DRAFT), converter(Revision.R2025_10)


def read_initialize(params: d.InitializeParams) -> m.InitializeParams:
    """Convert a draft client's params."""
    raw = _DRAFT.unstructure(attrs.evolve(params, initialization_options=None))
    read = _OCTOBER.structure(raw, m.InitializeParams)
    return attrs.evolve(read, initialization_options=_read_options(params.initialization_options))


def _read_options(raw: Any) -> m.InitializationOptions | None:
    """Read options of any type; an object is read as in the other editions, if it fits."""
    if not isinstance(raw, dict):
        return None
    try:
        return _OCTOBER.structure(raw, m.InitializationOptions)
    except Mismatch:
        return m.InitializationOptions(extras=raw)


def write_initialize(params: m.InitializeParams) -> d.InitializeParams:
    """Convert our params for a draft server.

    The only true capability is `chat`; servers recognize a draft client by the presence of `doc`,
    `edit` and `fix` (W-12).
    """
    assistant, options = params.capabilities.code_assistant, params.initialization_options
    capabilities = d.CodeAssistantCapabilities(
        chat=None if assistant is None else assistant.chat, doc=False, edit=False, fix=False
    )
    written = _DRAFT.structure(_OCTOBER.unstructure(params), d.InitializeParams)
    return attrs.evolve(
        written,
        initialization_options=None if options is None else _OCTOBER.unstructure(options),
        capabilities=d.ClientCapabilities(code_assistant=capabilities),
    )

"""The draft of June 2025: its messages, and a codec between them and the canonical types.

The draft's messages differ too much from the other editions' to share their models: `DraftCodec`
converts. `codec_for` returns the codec of any revision. `DRAFT` is the draft's method table, for
`explain` and the strategies, too.

Few connections use the draft, so its modules are imported at the first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from eca_protocol.codec import Codec, MessageCodec
from eca_protocol.endpoint import Table
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision

if TYPE_CHECKING:
    from eca_protocol.draft.codec import DraftCodec
    from eca_protocol.draft.methods import DRAFT

__all__ = ["DRAFT", "DraftCodec", "codec_for"]

_MODULE_OF = {"DraftCodec": "codec", "DRAFT": "methods"}


def codec_for(revision: Revision, table: Table = ECA) -> MessageCodec:
    """Make a connection's codec for a revision; do not share it, since it may have state."""
    if revision is Revision.DRAFT:
        from eca_protocol.draft.codec import DraftCodec  # noqa: PLC0415 - see above

        return DraftCodec()
    return Codec(table, revision)


if not TYPE_CHECKING:  # a type checker would take any name

    def __getattr__(name: str) -> Any:
        module = _MODULE_OF.get(name)
        if module is None:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(f"{__name__}.{module}"), name)

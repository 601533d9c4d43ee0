"""The draft of June 2025: its messages, and a codec that speaks it below the canonical types.

The draft is older than every other edition and shaped otherwise, so it is no window on their
models: `DraftCodec` converts. `codec_for` gives the codec of any revision. `DRAFT` is the draft's
method table; `explain` and the strategies take it like any other. What one edition has and the
other lacks is listed in `counterparts`.

Few connections speak the draft: nothing of it is imported before one does.
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

_ROOM_OF = {"DraftCodec": "codec", "DRAFT": "methods"}


def codec_for(revision: Revision, table: Table = ECA) -> MessageCodec:
    """A connection's codec for a revision; not to be shared, since it may have memory."""
    if revision is Revision.DRAFT:
        from eca_protocol.draft.codec import DraftCodec  # noqa: PLC0415 - see above

        return DraftCodec()
    return Codec(table, revision)


def __getattr__(name: str) -> Any:
    room = _ROOM_OF.get(name)
    if room is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{room}"), name)

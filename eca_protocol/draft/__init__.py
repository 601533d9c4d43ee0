"""The draft of June 2025: its messages, and a codec between them and the canonical types.

The draft's messages differ too much from the other editions' to share their models: `DraftCodec`
converts. `codec_for` returns the codec of any revision. `DRAFT` is the draft's method table, for
`explain` and the strategies, too.

Few connections use the draft, so its modules are imported at the first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from eca_protocol.codec import Codec, MessageCodec
from eca_protocol.endpoint import Table
from eca_protocol.lazy import export
from eca_protocol.methods import ECA
from eca_protocol.revisions import Revision

if TYPE_CHECKING:
    from eca_protocol.draft.codec import DraftCodec as DraftCodec
    from eca_protocol.draft.methods import DRAFT as DRAFT

export(globals(), {"codec": "DraftCodec", "methods": "DRAFT"}, own="codec_for")


def codec_for(revision: Revision, table: Table = ECA) -> MessageCodec:
    """Make a connection's codec for a revision; do not share it, since it may have state."""
    if revision is Revision.DRAFT:
        from eca_protocol.draft.codec import DraftCodec  # noqa: PLC0415 - see above

        return DraftCodec()
    return Codec(table, revision)

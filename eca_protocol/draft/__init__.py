"""The draft of June 2025: its messages, and a codec that speaks it below the canonical types.

The draft is older than every other edition and shaped otherwise, so it is no window on their
models: `DraftCodec` converts. `codec_for` gives the codec of any revision. `DRAFT` is the draft's
method table; `explain`, strategies and schema take it like any other table. What one edition has
and the other lacks is listed in `counterparts`.
"""

from __future__ import annotations

from eca_protocol.draft.codec import DraftCodec, codec_for
from eca_protocol.draft.methods import DRAFT

__all__ = ["DRAFT", "DraftCodec", "codec_for"]

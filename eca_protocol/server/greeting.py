"""The codec of a connection until the client's edition is known (W-12)."""

from __future__ import annotations

from typing import Any

from eca_protocol.draft import codec_for
from eca_protocol.revisions import Revision, detect, forced_revision

__all__ = ["Greeting"]


class Greeting:
    """A codec that detects the client's revision in `initialize`, and then uses that revision.

    Detection of the revision and the client needs keys that no model of all revisions has; it
    works on the raw params.

    Attributes:
        revision: the detected or forced revision.
        problem: the error in a requested revision, or None.
    """

    def __init__(self, forced: Revision | None = None) -> None:
        self._forced = forced
        self.raw_params: Any = None
        self.problem: str | None = None
        self._speak(forced or detect(None))

    def _speak(self, revision: Revision) -> None:
        self.revision = revision
        self.codec = codec = codec_for(revision)
        self.incoming = codec.incoming
        self.outgoing = codec.outgoing
        self.encode_params = codec.encode_params
        self.encode_result = codec.encode_result
        self.decode_result = codec.decode_result

    def decode_params(self, method: str, raw: Any) -> Any:
        """Decode params; those of `initialize` select the codec."""
        if method == "initialize":
            self.raw_params = raw
            self._speak(self._forced or self._asked_for(raw))
        return self.codec.decode_params(method, raw)

    def _asked_for(self, raw: Any) -> Revision:
        try:
            return forced_revision(raw) or detect(raw)
        except ValueError as error:
            self.problem = f"initializationOptions: protocolRevision: {error}"
            return detect(raw)

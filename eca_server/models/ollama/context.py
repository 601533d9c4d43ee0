"""The context size with which Ollama loads a model: as needed, changed as rarely as possible.

Ollama's default is often too small for work on code, and it drops excess input silently. The
largest context of a model needs more memory than most machines have. A new size means that the
model is loaded anew. Therefore all requests share one size, which only grows: it doubles, up to a
limit.
"""

from __future__ import annotations

from eca_server.models.ollama.models import ModelDetails

FIRST = 16_384
"""The initial size: instructions, tools and a few files."""

MOST = 65_536
"""The default limit: Ollama's advice for work on code, and about what the memory of a usual machine
holds."""

ROOM = 4_096
"""The default reserve for the answer."""

_SIGNIFICANT = 1_000
"""A smaller estimate does not show how good estimates are."""
_HIGHEST_RATIO = 4


class ContextSize:
    """The context size of one model, in tokens.

    Args:
        limit: the limit from the user or the provider.
        loaded: the size with which the model is in memory, if it is.

    Attributes:
        size: the size to load it with; None: it is not ours to choose.
    """

    def __init__(self, shown: ModelDetails, *, limit: int | None, loaded: int | None) -> None:
        self.size: int | None = None
        self.limit = limit or shown.most
        self._ratio = 1.0
        if shown.hosted:
            return
        if shown.chosen is not None:
            self.size = self.limit = min(shown.chosen, limit or shown.chosen)
            return
        most = limit or max(MOST, loaded or 0)
        self.limit = min(most, shown.most or most)
        self.size = min(max(FIRST, loaded or 0), self.limit)

    def fit(self, tokens: int, answer: int | None) -> None:
        """Grow until a request fits, up to the limit.

        Args:
            tokens: the estimated size of the request.
            answer: the requested limit of the answer.
        """
        needed = tokens * self._ratio + (answer or ROOM)
        while self.size is not None and needed > self.size and self.grow():
            pass

    def grow(self) -> bool:
        """Double the size; return False if it cannot grow."""
        if self.size is None or self.limit is None or self.size >= self.limit:
            return False
        self.size = min(self.size * 2, self.limit)
        return True

    def record(self, tokens: int, counted: int) -> None:
        """Correct estimates by a request with `tokens` estimated and `counted` actual tokens."""
        if tokens >= _SIGNIFICANT:
            self._ratio = min(max(self._ratio, counted / tokens), _HIGHEST_RATIO)

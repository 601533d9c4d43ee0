"""How much context a model is loaded with: as much as is needed, changed as rarely as possible.

Ollama's own default is often too small for work on code, and what does not fit it is lost without
a word; all that a model can have is more than most machines have memory for. Another size means
that the model is loaded anew. So the rule: a size is that of the model, whoever asks it; it only
ever grows, and then doubles, up to a limit.
"""

from __future__ import annotations

from eca_server.llm.ollama.models import Shown

__all__ = ["ContextSize"]

FIRST = 16_384
"""Instructions, tools and a few files."""

MOST = 65_536
"""Where nobody said how much it may be: what Ollama advises for work on code, and about as much
as a machine has memory for that people run such models on."""

ROOM = 4_096
"""For the answer, where nothing else is asked for."""

_TELLING = 1_000
"""An estimate of less says nothing about estimates."""
_HIGHEST_RATIO = 4


class ContextSize:
    """The size of one model's context, in tokens.

    Args:
        shown: what is known of the model.
        limit: how much it may be at most, if the user or the provider said so.
        loaded: how much it is in memory now, if it is there.

    Attributes:
        size: what to load it with; None: that is not ours to say.
        limit: what it can grow to; None: unknown.
    """

    def __init__(self, shown: Shown, *, limit: int | None, loaded: int | None) -> None:
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
        """Grows until a request fits, as far as it may.

        Args:
            tokens: about how many the request is.
            answer: the most that is asked for.
        """
        needed = tokens * self._ratio + (answer or ROOM)
        while self.size is not None and needed > self.size and self.grow():
            pass

    def grow(self) -> bool:
        """Doubles; False: it can be no larger."""
        if self.size is None or self.limit is None or self.size >= self.limit:
            return False
        self.size = min(self.size * 2, self.limit)
        return True

    def told(self, tokens: int, counted: int) -> None:
        """A request that was taken for so many tokens had in truth so many."""
        if tokens >= _TELLING:
            self._ratio = min(max(self._ratio, counted / tokens), _HIGHEST_RATIO)
